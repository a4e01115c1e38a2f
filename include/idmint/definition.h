// Definition: the description of a sequence or a pool. It is written into the store once, beside
// the counters. Hosts with different definitions would mint duplicates, so the configuration of a
// host only says where the store is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "idmint/uuid.h"

namespace idmint {

// Values taken from a counter: first, first + stride, ... The taker owns them.
struct Range {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;

  [[nodiscard]] constexpr std::int64_t at(std::int64_t index) const noexcept {
    return first + index * stride;
  }
  // REQUIRES: count >= 1.
  [[nodiscard]] constexpr std::int64_t last() const noexcept { return at(count - 1); }

  // The values in their order: for (const std::int64_t value : range).
  class Iterator {
   public:
    using value_type = std::int64_t;
    using difference_type = std::ptrdiff_t;

    constexpr Iterator() noexcept = default;
    constexpr Iterator(std::int64_t first, std::int64_t stride, std::int64_t index) noexcept
        : first_(first), stride_(stride), index_(index) {}

    constexpr std::int64_t operator*() const noexcept { return first_ + index_ * stride_; }
    constexpr Iterator& operator++() noexcept {
      ++index_;
      return *this;
    }
    constexpr Iterator operator++(int) noexcept {
      Iterator before = *this;
      ++index_;
      return before;
    }
    friend constexpr bool operator==(const Iterator&, const Iterator&) noexcept = default;

   private:
    std::int64_t first_ = 0;
    std::int64_t stride_ = 1;
    std::int64_t index_ = 0;
  };
  [[nodiscard]] constexpr Iterator begin() const noexcept { return {first, stride, 0}; }
  [[nodiscard]] constexpr Iterator end() const noexcept { return {first, stride, count}; }

  friend bool operator==(const Range&, const Range&) = default;
};

// 2^63-2. A record stores its next value, so it cannot express that 2^63-1 was taken.
inline constexpr std::int64_t kLargestValue = std::numeric_limits<std::int64_t>::max() - 1;

// The largest number of worker ids in a pool.
inline constexpr std::int64_t kMaxWorkers = 65'536;

// How a sequence generates its values.
enum class Strategy : std::uint8_t {
  kCounter,      // one counter, group commit: linearizable, consecutive
  kStriped,      // many counters, each with a block of values; each round picks one at random
  kInterleaved,  // K counters; counter k hands out first + k, first + k + K, ...
  kCached,       // one counter; each process holds a range in memory and hands out from it
  kRandom,       // no counter: values are drawn at random and claimed under a unique key
  kPermuted,     // one counter; a keyed permutation of its values
  kGapless,      // one counter, incremented in the transaction that inserts the numbered document
                 // (gapless.h)
};

// The name in commands and documents: "counter", "striped", "interleaved", "cached", "random",
// "permuted", "gapless".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Strategy strategy) noexcept;
// kInvalidArgument: no such strategy; the message lists the names.
[[nodiscard]] IDMINT_EXPORT Result<Strategy> strategy_named(std::string_view name);

// The promise of a source for its ids. Each level includes those before it; kUniqueIfConfigured is
// kUnique under a condition.
enum class Guarantee : std::uint8_t {
  kPractical,           // no coordination: the odds of a repeat are small, and stated
  kUniqueIfConfigured,  // no value twice, as long as no other generator has the same worker id
  kUnique,              // no value twice, ever
  kLinearizable,        // a call that begins after another one ended gets a larger value
  kGapless,             // no value is missing: value and document are committed together
};

// "practical", "unique if configured so", "unique", "linearizable", "gapless".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Guarantee guarantee) noexcept;

// The guarantee of all sequences with this strategy.
[[nodiscard]] IDMINT_EXPORT Guarantee guarantee(Strategy strategy) noexcept;
// kAll, kPerThread or kNone.
[[nodiscard]] IDMINT_EXPORT Order order(Strategy strategy) noexcept;

// The move of a sequence from one store to another (move_sequence()), as recorded in the definition
// in either store. In the target it is removed when the move is complete.
struct Move {
  enum class Stage : std::uint8_t {
    kLeaving,   // in the source: it hands out values until its counters are closed
    kGone,      // in the source: the move is done, and the sequence is retired here
    kArriving,  // in the target: the name is taken, and no value comes yet
  };
  Stage stage = Stage::kLeaving;
  Uuid store{};       // the id of the other store
  std::string url{};  // the URL of the other store, without secrets

  friend bool operator==(const Move&, const Move&) = default;
};

// One store of a sequence over several.
struct StoreOfStripe {
  Uuid id{};          // Store::id()
  std::string url{};  // its place when the sequence was created, without secrets

  friend bool operator==(const StoreOfStripe&, const StoreOfStripe&) = default;
};

// A sequence of integers.
struct SequenceDefinition {
  std::string name{};
  Strategy strategy = Strategy::kCounter;
  std::int64_t first = 1;  // both ends inclusive; as integers, before the form is applied
  std::int64_t last = kLargestValue;
  // The values are first, first + stride, ... up to `last`. Stores with equal strides and different
  // remainders of `first` hand out different values: see with_offset(). 1 to kMaxStride; always 1
  // for kGapless and for adopted records, except ticket tables of MariaDB.
  std::int64_t stride = 1;
  std::int64_t stripes = 1;  // kStriped, kInterleaved: the number of counters, 2 to kMaxStripes
  std::int64_t step = 0;     // kCached: values in a range; 0: adapts to the rate
  std::string key{};  // kPermuted: 32 hexadecimal digits; if empty, create_sequence() draws one
  std::int64_t largest_count = 0;  // the most values that one call may take; 0: no limit
  // How the values are printed. If the encoding needs a width and none is set, create_sequence()
  // sets the width of `last`.
  Form form{};
  bool retired = false;  // a tombstone: it hands out nothing any more
  // Names the record of another program that holds the next value, in the syntax of the store
  // (docs/mongodb-adopt.md, docs/adopting.md). For kCounter, kCached, kStriped, and kInterleaved
  // over several stores, with one record in each. Empty: idmint keeps its own record.
  std::string adopted{};
  // create_sequence() makes an adopted document of MongoDB that is missing. Otherwise that is an
  // error: a misspelt name would begin a second counter. Not kept; false in a stored definition.
  bool make_adopted = false;
  // The stores of a kInterleaved sequence over several, in the order of the stripes, `stripes` in
  // all. Each store keeps one stripe, and this definition with the index of that stripe in
  // `stripe`. Empty: one store keeps all stripes. create_sequence() of several stores sets both
  // members.
  std::vector<StoreOfStripe> over{};
  std::int64_t stripe = 0;
  std::optional<Move> move{};  // written by move_sequence() alone

  static constexpr std::int64_t kMaxStripes = 100'000;
  static constexpr std::size_t kMaxStores = 16;
  static constexpr std::int64_t kMaxStride = 65'535;

  // The number of values from `first` to `last`. REQUIRES: valid.
  [[nodiscard]] constexpr std::int64_t size() const noexcept { return (last - first) / stride + 1; }
  // Whether the sequence is over several stores.
  [[nodiscard]] bool is_multi_store() const noexcept { return !over.empty(); }
  // The remainder of all values modulo `stride`, 1 to `stride`; `stride` stands for 0.
  [[nodiscard]] constexpr std::int64_t offset() const noexcept {
    return first % stride == 0 ? stride : first % stride;
  }

  friend bool operator==(const SequenceDefinition&, const SequenceDefinition&) = default;
};

// The sequence restricted to its values v with v modulo stride = offset modulo stride. `first`
// moves up to the first of them; `last` stays, unless it is among the few largest integers, which a
// counter of this stride cannot reach. So sequences with equal `first`, `last` and stride and the
// offsets 1 to stride divide all values from `first` to `last` among them, none twice, as with
// MySQL's auto_increment_increment and auto_increment_offset. kInvalidArgument unless 1 <= offset
// <= stride <= kMaxStride, the strategy takes a stride, and such a value exists.
[[nodiscard]] IDMINT_EXPORT Result<SequenceDefinition> with_offset(SequenceDefinition sequence,
                                                                   std::int64_t stride,
                                                                   std::int64_t offset);

// A pool of worker ids. A generator of Snowflake ids leases one of them (worker_pool.h).
struct PoolDefinition {
  std::string name{};
  SnowflakeLayout layout = kUsualSnowflakeLayout;  // of the Snowflake ids
  // The worker ids are 0 to workers - 1. 0: all of the layout, at most kUsualWorkers.
  std::int64_t workers = 0;
  std::int64_t largest_count = 0;  // the most ids that one call may take; 0: no limit
  Form form{};                     // how the ids are printed
  bool retired = false;            // a tombstone: none of its worker ids is leased any more

  // The largest default size of a pool. Each worker id is a row in the store.
  static constexpr std::int64_t kUsualWorkers = 1024;

  friend bool operator==(const PoolDefinition&, const PoolDefinition&) = default;
};

// An entry of a catalog.
using Definition = std::variant<SequenceDefinition, PoolDefinition>;

// The members that both kinds have.
[[nodiscard]] IDMINT_EXPORT const std::string& name(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT const Form& form(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT bool is_retired(const Definition& definition) noexcept;
// The strategy's name, or "pool"; the guarantee and the order as above. A pool is kUnique and
// kPerProcess.
[[nodiscard]] IDMINT_EXPORT std::string_view strategy_name(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT Guarantee guarantee(const Definition& definition) noexcept;
[[nodiscard]] IDMINT_EXPORT Order order(const Definition& definition) noexcept;

// kInvalidArgument unless all of these hold; the message says what to change. The name has 1 to 120
// characters of A-Z a-z 0-9 . _ - and begins with a letter or a digit. For a sequence:
// - 0 <= first <= last <= kLargestValue;
// - each stripe has at least one value;
// - the value after the last one of each counter can be stored: `last` is at most kLargestValue -
//   (stride - 1), of an interleaved sequence kLargestValue - (stride * stripes - 1);
// - the members that its strategy does not use have their defaults;
// - the form is valid for integers and has room for `last`;
// - `over` names 2 to kMaxStores different stores, one for each stripe, with URLs of 2500 bytes in
//   all at most, and `stripe` is the index of one; only strategy kInterleaved has them;
// - `adopted` is printable and has at most 1000 bytes; the store parses it at creation;
// - `move` names a store by its id and a URL of at most 1000 printable bytes; if its stage is
//   kGone, the sequence is retired, and otherwise not; a sequence over several stores has none.
// For a pool:
// - the layout has room for its worker ids, at most kMaxWorkers;
// - the form is valid for Snowflake ids.
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const SequenceDefinition& sequence);
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const PoolDefinition& pool);
[[nodiscard]] IDMINT_EXPORT Result<void> validate(const Definition& definition);

// The definition as one line of JSON, the format in which every store keeps it, and its inverse.
// Errors of definition_from_json():
// - kUnimplemented: it has members or values of a newer idmint.
// - kDataLoss: it is damaged.
[[nodiscard]] IDMINT_EXPORT std::string to_json(const Definition& definition);
[[nodiscard]] IDMINT_EXPORT Result<Definition> definition_from_json(std::string_view json);

}  // namespace idmint
