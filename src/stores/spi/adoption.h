// Adoption: counters that other programs made and go on with, in records of their own.
//
// A text says which record it is and how it counts. Only the store that has the record reads the
// text: the rest of idmint keeps it in the definition, compares it and prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

// A record that a person named, and what the definition has unless the person said otherwise.
struct Adoptable {
  std::string record{};  // for SequenceDefinition::adopted
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;  // where neither digits nor a width are given
  std::optional<Strategy> strategy{};
  // Only with that strategy.
  std::optional<std::int64_t> stripes{};
  std::optional<std::int64_t> step{};
  // Where neither a width, an encoding nor the last value is given.
  std::optional<std::int64_t> digits{};
};

// What a kind of store says of the records that it can adopt. Stateless: any thread may call it,
// and no store need be open.
class Adoption {
 public:
  // The record that a person names. `guarded`: the database is to refuse what would pass the last
  // value, whoever writes it. kInvalidArgument, saying what can be written. The record is still to
  // be checked.
  [[nodiscard]] virtual Result<Adoptable> read(std::string_view text, bool guarded) const = 0;
  // kInvalidArgument, saying what to change, unless the sequence can count in definition.adopted.
  // There is one text for each record. REQUIRES: the definition is valid but for that.
  [[nodiscard]] virtual Result<void> check(const SequenceDefinition& definition) const = 0;
  // Where the records are, for people, such as the name of a table. REQUIRES: check() accepts it.
  [[nodiscard]] virtual std::string place_of(std::string_view record) const = 0;

 protected:
  ~Adoption() = default;
};

}  // namespace idmint
