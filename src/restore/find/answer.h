// What an analysis of an oplog answers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/oplog/sharding.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// In the order of Op.
inline constexpr std::array<std::string_view, 4> kKinds = {"insert", "update", "delete", "command"};

// The time axis of a histogram.
struct Timeline {
  static constexpr std::size_t kBuckets = 96;

  std::uint32_t origin = 0;  // seconds since 1970
  std::uint32_t width = 1;   // seconds of a bucket; a power of 2
  std::size_t used = 0;      // buckets
};
using Buckets = std::array<std::uint64_t, Timeline::kBuckets>;

struct NamespaceFacts {
  std::string ns;
  std::array<std::uint64_t, kKinds.size()> counts{};
  std::array<Buckets, kKinds.size()> buckets{};
  Timestamp first{};
  Timestamp last{};
};

enum class Reason : std::uint8_t {
  kDropDatabase,
  kDrop,
  kEmptied,  // emptycapped
  kRenameOver,
  kMassDelete,
  kFall,
  kUnsetWave,
  kMassUpdate,
};
struct ReasonText {
  std::string_view name;   // of JSON
  std::string_view title;  // for people
};
inline constexpr std::array<ReasonText, 8> kReasons = {{
    {"drop_database", "a database was dropped"},
    {"drop", "a collection was dropped"},
    {"emptied", "a capped collection was emptied"},
    {"rename_over", "a collection was renamed over another"},
    {"mass_delete", "many documents were deleted at once"},
    {"fall", "a number that rises fell"},
    {"unset_wave", "a field was removed from many documents"},
    {"mass_update", "many documents were changed alike"},
}};
[[nodiscard]] constexpr const ReasonText& text_of(Reason reason) {
  return kReasons[static_cast<std::size_t>(reason)];
}

// What may be a mistake.
struct Suspect {
  Reason reason{};
  double score = 0;  // 0 to 100: how likely it is a mistake
  std::string ns;
  std::string why;
  Timestamp limit{};  // its first entry; of a transaction, the entry that commits it
  Timestamp last{};
  std::uint64_t operations = 0;
  std::string first;                  // its first operation, in words
  std::optional<Timestamp> before{};  // the last entry before it that changes anything
  std::string before_text{};          // the operations of that entry, in words
  std::optional<Timestamp> after{};   // the first entry after `limit` that changes anything
  std::uint64_t changes_before = 0;   // operations before it in the whole oplog
  std::uint64_t key = 0;              // equal for suspects that repeat each other
};

struct ListedOperation {
  Timestamp at{};
  std::string text;
  std::string change;  // of an insert, the document; of an update, what it sets
};

struct OplogAnswer {
  std::uint64_t entries = 0;  // with no-ops
  std::uint64_t bytes = 0;
  Timestamp first{};
  Timestamp last{};
  std::uint64_t changes = 0;  // all operations, with those in transactions
  std::uint64_t matched = 0;  // operations that the filter accepts
  Timeline timeline{};
  std::vector<NamespaceFacts> namespaces;  // the busiest first
  std::vector<Suspect> suspects;           // the likeliest first
  std::vector<ListedOperation> listed;
  std::vector<std::string> notices;  // what limits the answer, each a sentence
  ShardTraces sharding;              // whether one oplog tells what happened at all
};

}  // namespace idmint::restore
