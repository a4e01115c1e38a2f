#include <algorithm>

#include "idmint/encoding.h"
#include "idmint/uuid.h"
#include "ids/format.h"
#include "ids/readings.h"

namespace idmint {

Result<void> validate_type_prefix(std::string_view prefix) {
  const auto refuse = [](const char* why) {
    return std::unexpected(
        Error{Code::kInvalidArgument, std::string("not the prefix of a TypeID: ") + why});
  };
  if (prefix.size() > TypeId::kMaxPrefix) return refuse("it is longer than 63 characters");
  if (prefix.starts_with('_') || prefix.ends_with('_')) {
    return refuse("it may not begin or end with _");
  }
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  if (!std::ranges::all_of(prefix, allowed)) return refuse("only a-z and _ may stand in it");
  return {};
}

Result<TypeId> TypeId::make(std::string_view prefix, const Uuid& uuid) {
  if (Result<void> valid = validate_type_prefix(prefix); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  return TypeId(prefix, uuid);
}

Result<TypeId> TypeId::parse(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return std::unexpected(Error{Code::kInvalidArgument, "not a TypeID: " + why});
  };
  const std::size_t underscore = text.rfind('_');
  if (underscore == 0) return refuse("without a prefix there is no _ either");
  const bool prefixed = underscore != std::string_view::npos;
  const std::string_view prefix = prefixed ? text.substr(0, underscore) : std::string_view{};
  if (const Result<void> valid = validate_type_prefix(prefix); !valid) {
    return refuse(valid.error().message());
  }
  Uuid::Bytes bytes;
  const Result<void> decoded =
      decode(Encoding::kBase32Lower, prefixed ? text.substr(underscore + 1) : text, bytes);
  if (!decoded) return refuse("after the prefix, " + decoded.error().message());
  return TypeId(prefix, Uuid{bytes});
}

std::string TypeId::to_string() const {
  char text[kMaxChars];
  char* end = std::ranges::copy(prefix_, text).out;
  if (!prefix_.empty()) *end++ = '_';
  return {text, encode(Encoding::kBase32Lower, uuid_.bytes(), end)};
}

namespace detail {
namespace {

// A TypeID without a prefix is also a ULID in lower case; the bits decide.
void read_type_id(Reader& reader, std::string_view text, Alphabets) {
  const std::size_t underscore = text.rfind('_');
  const bool bare = underscore == std::string_view::npos;
  if (bare ? text.size() != TypeId::kSuffixChars
           : text.size() - underscore - 1 != TypeId::kSuffixChars) {
    return;
  }
  if (text[bare ? 0 : underscore + 1] > '7') return;
  const Result<TypeId> id = TypeId::parse(text);
  if (!id) return;
  const bool version_7 = id->uuid().has_rfc_variant() && id->uuid().version() == 7;
  const FoundTime time =
      version_7 ? from_milliseconds(load(id->uuid().bytes().data()) >> 16) : std::nullopt;
  const bool sound = version_7 && reader.plausible(time);
  reader.add("typeid", text, sound ? kLikely + 20 : bare ? kUnlikely : kLikely - 50);
  if (!bare) reader.add_field("prefix", text.substr(0, underscore));
  if (version_7) reader.add_time(time);
  reader.add_field("uuid", id->uuid());
}

}  // namespace
}  // namespace detail

namespace {
constexpr std::array kTypeIdShapes = {detail::Shape{detail::kTypeIdChars, TypeId::kSuffixChars,
                                                    TypeId::kMaxChars, detail::read_type_id}};
}

extern const Format kTypeIdFormat = {
    .name = "typeid",
    .kind = "uuid",
    .shapes = kTypeIdShapes,
    .unbounded = "its prefix comes first; ask for uuid7, and convert both to typeid",
    .order = Order::kPerProcess,
    .notes =
        "a uuid7 with its type before it: the prefix user gives "
        "user_01h455vb4pex5vsknk084sn02q"};

}  // namespace idmint
