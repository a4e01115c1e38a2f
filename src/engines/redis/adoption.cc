#include "engines/redis/adoption.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/errors.h"
#include "store/backend.h"

namespace idmint::stores::redis {
namespace {

constexpr std::string_view kKind = "key:";
constexpr std::string_view kOwnKeys = "{idmint}:";

}  // namespace

constinit const KeyAdoption kAdoption;

Result<std::string> key_from_text(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  if (!text.starts_with(kKind))
    return refuse("cannot adopt " + shown(text) +
                  ": write key:NAME, with the name of the key that programs count in with INCR");
  const std::string_view key = text.substr(kKind.size());
  const auto fits = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (key.empty() || key.size() > kLongest || !std::ranges::all_of(key, fits))
    return refuse("the key " + shown(key) +
                  R"( cannot be adopted: it must be 1 to 200 ASCII characters without " or \)");
  if (key.starts_with(kOwnKeys))
    return refuse("the key " + shown(key) + " is idmint's own: name one of an application");
  return std::string(key);
}

std::string place_of(std::string_view record) {
  return "the key " + shown(record.substr(kKind.size()));
}

Result<Adoptable> KeyAdoption::read(std::string_view text, bool guarded) const {
  if (guarded) return refuse("a validator is for documents of MongoDB: leave it out");
  const Result<std::string> key = key_from_text(text);
  if (!key) return std::unexpected(key.error());
  return Adoptable{.record = std::string(text), .first = 1};
}

Result<void> KeyAdoption::check(const SequenceDefinition& definition) const {
  const std::string sequence = "sequence " + definition.name;
  if (const Result<std::string> key = key_from_text(definition.adopted); !key)
    return refused(sequence, key.error());
  const std::string place = redis::place_of(definition.adopted);
  if (definition.strategy == Strategy::kStriped)
    return refuse(
        sequence + " has stripes, and " + place + " counts for one: adopt it as counter or cached",
        {.remedy = Remedy::kSetOption, .values = {"strategy"}});
  if (auto ok = must_begin_above_0(definition.first, sequence, place); !ok) return ok;
  return must_count_by_one(definition, place);
}

std::string KeyAdoption::place_of(std::string_view record) const {
  return key_from_text(record).value_or("");
}

}  // namespace idmint::stores::redis
