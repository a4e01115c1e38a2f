// Adoption: counters that other programs made and continue to use, in records of their own.
//
// A text names the record and its way of counting. Only the store of the record parses the text;
// the rest of idmint keeps it in the definition, compares it and prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/definition.h"
#include "idmint/result.h"

namespace idmint {

// A record that a user named, and the defaults for its definition.
struct Adoptable {
  std::string record{};  // for SequenceDefinition::adopted
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;  // if neither digits nor a width is given
  std::optional<Strategy> strategy{};
  // Only with that strategy:
  std::optional<std::int64_t> stripes{};
  std::optional<std::int64_t> step{};
  // If no width, encoding or last value is given.
  std::optional<std::int64_t> digits{};
};

// The adoption rules of one kind of store. Stateless: any thread may call it, and no store need be
// open.
class Adoption {
 public:
  // Parses the record that a user names, without checking that it exists. `guarded`: the database
  // must reject a value beyond the last one from any writer. kInvalidArgument; the message says
  // what is accepted.
  [[nodiscard]] virtual Result<Adoptable> read(std::string_view text, bool guarded) const = 0;
  // Whether the sequence can count in definition.adopted. Each record has one text only.
  // kInvalidArgument: it cannot; the message says what to change. REQUIRES: the rest of the
  // definition is valid.
  [[nodiscard]] virtual Result<void> check(const SequenceDefinition& definition) const = 0;
  // The place of the records for messages, such as the name of a table. REQUIRES: check() accepts
  // it.
  [[nodiscard]] virtual std::string place_of(std::string_view record) const = 0;
  // The record's text with a query in place of the name, for the one record that it finds.
  // kInvalidArgument: the store has no such queries, or the text names a record already.
  [[nodiscard]] virtual Result<std::string> with_query(std::string_view text,
                                                       std::string_view query) const;
  // Whether creating the sequence can make a record that is missing, if asked to.
  [[nodiscard]] virtual bool makes_missing() const noexcept { return false; }
  // Whether sequences that adopt the same record know of each other's values. Otherwise one at most
  // may adopt it at a time.
  [[nodiscard]] virtual bool shares_floors() const noexcept { return false; }

 protected:
  ~Adoption() = default;
};

// kInvalidArgument: a counter of the sequence leaves values out, and the programs that use
// `place` count by one.
[[nodiscard]] Result<void> must_count_by_one(const SequenceDefinition& definition,
                                             std::string_view place);

// The check of a record that holds the value before the next one, in `holder`: its field, column or
// key. kInvalidArgument: `first` is 0, and no value is before that. `subject` begins the message,
// such as "sequence orders".
[[nodiscard]] Result<void> must_begin_above_0(std::int64_t first, const std::string& subject,
                                              std::string_view holder);

}  // namespace idmint
