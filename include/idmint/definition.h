// Definition: what a sequence or a pool is. It stands in the store, written once, beside its
// counters. Two hosts that disagreed on it would mint duplicates; so configuration on a host only
// says where the store is.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "idmint/form.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"

namespace idmint {

// Values taken from a counter and owned by whoever took them: first, first + stride, ...
struct Range {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;

  [[nodiscard]] constexpr std::int64_t at(std::int64_t index) const noexcept {
    return first + index * stride;
  }
  // REQUIRES: count >= 1.
  [[nodiscard]] constexpr std::int64_t last() const noexcept { return at(count - 1); }

  friend bool operator==(const Range&, const Range&) = default;
};

// A record holds its next value, so it cannot express that 2^63-1 was taken: 2^63-2 is the last.
inline constexpr std::int64_t kLargestValue = std::numeric_limits<std::int64_t>::max() - 1;

// The most worker ids that a pool can have.
inline constexpr std::int64_t kMaxWorkers = 65'536;

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

// What a source promises of its ids; each includes those before it, kUniqueIfConfigured and kUnique
// as one.
enum class Guarantee : std::uint8_t {
  kPractical,           // nothing is coordinated: the odds of a repeat are small, and stated
  kUniqueIfConfigured,  // no value twice, as long as no other generator was given the same worker
                        // id
  kUnique,              // no value twice, ever
  kLinearizable,        // and a call that begins after another ended gets a larger value
  kGapless,             // and no value is missing: it and the record that bears it are one commit
};

// "practical", "unique if configured so", "unique", "linearizable", "gapless".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Guarantee guarantee) noexcept;

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
  // kCounter, kCached, kStriped: the record of other programs that has the next value, in words
  // that the store of the sequence reads (docs/mongodb-adopt.md has MongoDB's). Empty: idmint's
  // own.
  std::string adopted{};

  static constexpr std::int64_t kMaxStripes = 100'000;

  friend bool operator==(const SequenceDefinition&, const SequenceDefinition&) = default;
};

// A pool of worker ids, leased one by one; who has one mints Snowflake ids (worker_pool.h).
struct PoolDefinition {
  std::string name{};
  SnowflakeLayout layout = kUsualSnowflakeLayout;  // of the ids
  // The worker ids are 0 to workers - 1. 0: all that the layout has, or kUsualWorkers.
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
//     `adopted` can be printed and has 1000 bytes at most (its store checks it when it is created);
//   - of a pool: its layout has room for its worker ids, which are at most
//     kMaxWorkers; the form goes with Snowflake ids.
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const SequenceDefinition& sequence);
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const PoolDefinition& pool);
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const Definition& definition);

// The definition as one line of JSON, the form in which every store keeps it; and back. Reading
// refuses what it does not know (kUnimplemented: written by a newer idmint) and what is damaged
// (kDataLoss).
[[nodiscard]] IDMINT_EXPORT std::string to_json(const Definition& definition);
[[nodiscard]] IDMINT_EXPORT Result<Definition> definition_from_json(std::string_view json);

}  // namespace idmint
