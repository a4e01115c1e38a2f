// Catalog: what each sequence and each pool of a store is, written once, beside its counters. Two
// hosts that disagreed on a definition would mint duplicates; so configuration on a host only says
// where the store is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "idmint/clock.h"
#include "idmint/counter_store.h"
#include "idmint/export.h"
#include "idmint/form.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"

namespace idmint {

// How a sequence turns counters into values.
enum class Strategy : std::uint8_t {
  kCounter,      // one counter, callers combined: linearizable, continuous
  kStriped,      // many counters, each with a block of the values, one picked at random
  kInterleaved,  // K counters; counter k hands out first + k, first + k + K, ...
  kCached,       // one counter; ranges are held in memory and handed out from there
  kRandom,       // no counter: drawn at random, and claimed under a unique key
  kPermuted,     // one counter, its values in an order that a key gives
  kGapless,  // one counter, moved by the transaction that inserts who bears its values (gapless.h)
};

// The name used in commands and documents: "counter", "striped", "interleaved", "cached", "random",
// "permuted", "gapless".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Strategy strategy) noexcept;
// kInvalidArgument, with the names there are.
[[nodiscard]] IDMINT_EXPORT Result<Strategy> strategy_named(std::string_view name);

// What a strategy promises of the values of one sequence.
[[nodiscard]] IDMINT_EXPORT Guarantee guarantee(Strategy strategy) noexcept;
// "all", "per thread" or "none".
[[nodiscard]] IDMINT_EXPORT std::string_view order(Strategy strategy) noexcept;

// A sequence of integers.
struct SequenceDefinition {
  std::string name{};
  Strategy strategy = Strategy::kCounter;
  std::int64_t first = 1;  // the values, both ends included, before they are printed
  std::int64_t last = kLargestValue;
  std::int64_t stripes = 1;  // kStriped, kInterleaved: how many counters, 2 to kMaxStripes
  std::int64_t step = 0;     // kCached: values in a range; 0: adapts to the rate
  std::string key{};  // kPermuted: 32 hexadecimal digits; create_sequence() draws an empty one
  std::int64_t largest_count = 0;  // the most values that one call may take; 0: no limit
  // How the values are printed; in an encoding without a width, create_sequence() gives it that of
  // `last`.
  Form form{};
  bool retired = false;  // a tombstone: nothing comes from it any more
  // kCounter, kCached, kStriped: the document that has the next value, where it is not idmint's
  // own. Of stripes {k} in its id is the number of the stripe, 0 to stripes - 1.
  std::optional<AdoptedRecord> adopted{};

  static constexpr std::int64_t kMaxStripes = 100'000;

  friend bool operator==(const SequenceDefinition&, const SequenceDefinition&) = default;
};

// A pool of worker ids, leased one by one; who has one mints Snowflake ids (worker_pool.h).
struct PoolDefinition {
  std::string name{};
  SnowflakeLayout layout{};  // of the ids
  // The worker ids are 0 to workers - 1. 0: create_pool() sets it.
  std::int64_t workers = 0;
  std::int64_t largest_count = 0;  // the most ids that one call may take; 0: no limit
  Form form{};                     // how the ids are printed
  bool retired = false;            // a tombstone: no worker id of it is leased any more

  // How many worker ids a pool gets unasked, at most; each is a row of the store.
  static constexpr std::int64_t kUsualWorkers = 1024;

  friend bool operator==(const PoolDefinition&, const PoolDefinition&) = default;
};

// What a name of a catalog stands for.
using Definition = std::variant<SequenceDefinition, PoolDefinition>;

// What both have.
[[nodiscard]] IDMINT_EXPORT const std::string& name(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT const Form& form(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT bool is_retired(const Definition& definition) noexcept;
// The name of a sequence's strategy, or "pool"; and what is promised of the ids, as above. A pool's
// are unique, and increase "per process".
[[nodiscard]] IDMINT_EXPORT std::string_view strategy_name(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT Guarantee guarantee(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT std::string_view order(const Definition& definition) noexcept;

// kInvalidArgument, saying what to change, unless the name has 1 to 120 characters out of A-Z a-z
// 0-9 . _ - and begins with a letter or digit, and
//   - of a sequence: 0 <= first <= last <= kLargestValue; each stripe has a value at least; what
//     its strategy does not use is as above; the form goes with integers and has room for `last`;
//   - of a pool: its layout has room for its worker ids, which are at most
//     LeaseTable::kMaxWorkers; the form goes with Snowflake ids.
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const SequenceDefinition& sequence);
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const PoolDefinition& pool);
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const Definition& definition);

// The definition as one line of JSON, the form in which every store keeps it; and back. Reading
// refuses what it does not know (kUnimplemented: written by a newer idmint) and what is damaged
// (kDataLoss).
[[nodiscard]] IDMINT_EXPORT std::string to_json(const Definition& definition);
[[nodiscard]] IDMINT_EXPORT Result<Definition> definition_from_json(std::string_view json);

// "COLLECTION/ID:next=FIELD", or last= where the field holds the last value; then ",max=FIELD" and
// ",validator" where they are wanted; and back. kInvalidArgument: not such a text.
[[nodiscard]] IDMINT_EXPORT std::string to_text(const AdoptedRecord& adopted);
[[nodiscard]] IDMINT_EXPORT Result<AdoptedRecord> adopted_from_text(std::string_view text);

struct CatalogEntry {
  std::string name{};
  Result<Definition> definition{};
};

// Any thread may call any method at any time. Errors as in CounterStore.
// There is no remove: a name, once given, is never given again.
class IDMINT_EXPORT Catalog {
 public:
  // Writes the definition unless its name has one already, in one atomic, durable step; returns the
  // one that is now there, which may be another's. It is for the caller to compare.
  [[nodiscard]] virtual Result<Definition> define(const Definition& definition) = 0;

  // Puts `updated` in the place of `old`, in one atomic, durable step, if that is what is there;
  // returns the definition that is now there. kNotFound: no such name. kInvalidArgument: not the
  // same name.
  [[nodiscard]] virtual Result<Definition> replace(const Definition& old,
                                                   const Definition& updated) = 0;

  // kNotFound: no such name.
  [[nodiscard]] virtual Result<Definition> find(std::string_view name, SteadyTime until) = 0;
  [[nodiscard]] Result<Definition> find(std::string_view name) {
    return find(name, SteadyTime::max());
  }
  // By name. One that is damaged, or of a newer idmint, has its error in its entry.
  [[nodiscard]] virtual Result<std::vector<CatalogEntry>> list() = 0;

 protected:
  ~Catalog() = default;
};

}  // namespace idmint
