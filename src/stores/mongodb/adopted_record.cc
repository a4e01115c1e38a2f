#include "stores/mongodb/adopted_record.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/errors.h"
#include "base/text.h"

namespace idmint::stores::mongodb {
namespace {

constexpr std::string_view kStripeNumber = "{k}";

// The text is copied into commands, messages and files.
Result<void> validate_record(const AdoptedRecord& adopted) {
  constexpr std::size_t kLongestField = 60;
  constexpr std::size_t kLongestPlace = 200;  // for a collection and for an _id
  const auto field = [](std::string_view what, const std::string& name) -> Result<void> {
    constexpr std::string_view kLetters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (!name.empty() && name.size() <= kLongestField && name != "_id" &&
        name.find_first_not_of(kLetters) == std::string::npos)
      return {};
    return refuse("the field " + shown(name) + ", " + std::string(what) +
                  ", cannot be adopted: its name must be 1 to 60 of A-Z a-z 0-9 _ - and not _id");
  };
  const auto place = [](std::string_view what, const std::string& name,
                        std::string_view without) -> Result<void> {
    const auto fits = [&](char c) { return c >= ' ' && c <= '~' && !without.contains(c); };
    if (!name.empty() && name.size() <= kLongestPlace && std::ranges::all_of(name, fits)) return {};
    return refuse("the " + std::string(what) + " " + shown(name) +
                  " cannot be adopted: it must be 1 to 200 ASCII characters without any of " +
                  std::string(without));
  };
  const std::string& collection = adopted.collection;
  if (Result<void> ok = place("collection", collection, "$/\"\\"); !ok) return ok;
  if (collection.starts_with("idmint.") || collection.starts_with("system.") ||
      collection.starts_with('.') || collection.ends_with('.'))
    return refuse("the collection " + shown(collection) +
                  " cannot be adopted from: name one of an application");
  if (Result<void> ok = place("document", adopted.id, "\"\\"); !ok) return ok;
  if (Result<void> ok = field("which counts", adopted.field); !ok) return ok;
  if (!adopted.max.empty()) {
    if (Result<void> ok = field("which has the last value", adopted.max); !ok) return ok;
    if (adopted.max == adopted.field)
      return refuse("the field " + adopted.field + " cannot count and have the last value as well");
  } else if (adopted.validator) {
    return refuse("a validator compares with a field that has the last value: name it (max=FIELD)");
  }
  return {};
}

}  // namespace

std::string to_text(const AdoptedRecord& adopted) {
  return adopted.collection + "/" + adopted.id + (adopted.holds_last ? ":last=" : ":next=") +
         adopted.field + (adopted.max.empty() ? "" : ",max=" + adopted.max) +
         (adopted.validator ? ",validator" : "");
}

// Collections have no slash here, and fields no colon.
Result<AdoptedRecord> adopted_from_text(std::string_view text) {
  const auto none = [&] {
    return refuse("cannot adopt " + shown(text) +
                  ": write COLLECTION/ID:next=FIELD where the field holds the value that comes "
                  "next, or last= where it holds the one that came last; and ,max=FIELD if another "
                  "field has the last value of all");
  };
  const std::size_t slash = text.find('/');
  const std::size_t colon = text.rfind(':');
  if (slash == std::string_view::npos || colon == std::string_view::npos || colon < slash)
    return none();
  AdoptedRecord adopted{.collection = std::string(text.substr(0, slash)),
                        .id = std::string(text.substr(slash + 1, colon - slash - 1))};
  bool holds = false;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, end);
    if (!holds && (part.starts_with("next=") || part.starts_with("last="))) {
      holds = true;
      adopted.holds_last = part.starts_with("last=");
      adopted.field = part.substr(5);
    } else if (holds && adopted.max.empty() && part.size() > 4 && part.starts_with("max=")) {
      adopted.max = part.substr(4);
    } else if (holds && !adopted.validator && part == "validator") {
      adopted.validator = true;
    } else {
      return none();
    }
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  if (Result<void> ok = validate_record(adopted); !ok) return std::unexpected(ok.error());
  return adopted;
}

bool has_stripes(const AdoptedRecord& adopted) { return adopted.id.contains(kStripeNumber); }

AdoptedRecord of_stripe(AdoptedRecord adopted, std::int64_t stripe) {
  if (const std::size_t at = adopted.id.find(kStripeNumber); at != std::string::npos)
    adopted.id.replace(at, kStripeNumber.size(), std::to_string(stripe));
  return adopted;
}

}  // namespace idmint::stores::mongodb
