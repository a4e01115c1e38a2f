// The result of an analysis of an oplog.
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
// Operations of each kind.
using KindCounts = std::array<std::uint64_t, kKinds.size()>;

// The time axis of a histogram.
struct Timeline {
  static constexpr std::size_t kBuckets = 96;

  std::uint32_t origin = 0;  // seconds since 1970
  std::uint32_t width = 1;   // seconds of a bucket; a power of 2
  std::size_t used = 0;      // buckets
};
using Buckets = std::array<std::uint64_t, Timeline::kBuckets>;

struct NamespaceFacts {
  std::string ns;  // collections with generated names count as one: name_pattern()
  KindCounts counts{};
  std::array<Buckets, kKinds.size()> buckets{};
  Timestamp first{};
  Timestamp last{};
};

enum class Reason : std::uint8_t {
  kDropDatabase,
  kDrop,
  kEmptied,  // emptycapped
  kRenameOver,
  kRenameAway,
  kReplaced,  // by $out, mapReduce or convertToCapped
  kTimeToLive,
  kDropIndex,
  kOptions,  // collMod
  kMassDelete,
  kFall,
  kUnsetWave,
  kMassUpdate,
  kDocument,  // the document that the user asked for by its _id
};
struct ReasonText {
  std::string_view name;     // in JSON
  std::string_view title;    // for people
  std::string_view routine;  // a routine occurrence; follows the namespace
};
inline constexpr std::array<ReasonText, 14> kReasons = {{
    {"drop_database", "a database was dropped", "dropped"},
    {"drop", "a collection was dropped", "dropped"},
    {"emptied", "a capped collection was emptied", "emptied"},
    {"rename_over", "a collection was renamed over another", "renamed over"},
    {"rename_away", "a collection was renamed", "renamed"},
    {"replaced", "a collection was replaced as a whole", "replaced"},
    {"time_to_live", "documents expire sooner", "expiry changed"},
    {"drop_index", "an index was dropped", "an index dropped"},
    {"options", "the options of a collection were changed", "options changed"},
    {"mass_delete", "many documents were deleted at once", "documents deleted"},
    {"fall", "a rising number fell", "numbers fell"},
    {"unset_wave", "a field was removed from many documents", "fields removed"},
    {"mass_update", "many documents were changed alike", "documents changed"},
    {"document", "the document was deleted or overwritten", "changed"},
}};
[[nodiscard]] constexpr const ReasonText& text_of(Reason reason) {
  return kReasons[static_cast<std::size_t>(reason)];
}

// Operations on a namespace. Empty `ns`: operations on all namespaces beyond the table's capacity.
struct NamespaceLoss {
  std::string ns;
  KindCounts counts{};
};

// A consequence of a suspect. It is no suspect itself.
struct Effect {
  std::string text;
  Timestamp first{};
  Timestamp last{};
  std::string ns;
  std::size_t kind = 0;          // into kKinds
  std::uint64_t operations = 0;  // of that kind on `ns`
};

// A possible mistake.
struct Suspect {
  Reason reason{};
  double score = 0;  // 0 to 100: the likelihood of a mistake
  std::string ns;
  std::string why;
  Timestamp limit{};  // its first entry; of a transaction, the entry that commits it
  Timestamp last{};
  std::uint64_t operations = 0;
  std::optional<std::uint64_t> documents{};  // the number of documents changed or removed
  std::string first;                         // the first operation, in words
  std::optional<Timestamp> before{};         // the last entry before it that changes anything
  std::string before_text{};                 // the operations of that entry, in words
  std::optional<Timestamp> after{};          // the first entry after `limit` that changes anything
  std::uint64_t changes_before = 0;          // operations before it in the whole oplog
  std::vector<Effect> effects{};             // in the order of the oplog
  // Other losses of a restore up to `limit`: later operations that belong neither to the suspect
  // nor to its effects. Sorted, the most first.
  std::vector<NamespaceLoss> lost{};
  bool lost_is_least = false;  // there are more: the suspect was noticed long after it began

  // For the analysis.
  std::uint64_t key = 0;       // equal for suspects that repeat each other
  std::string field{};         // the field that fell, or the fields changed
  bool surge = false;          // found by the rate alone
  bool by_session = true;      // false: by a multi-document command, or the TTL monitor
  std::uint64_t sessions = 1;  // concurrent ones: the threads of a script
  std::vector<KindCounts> before_counts{};  // by the row of NamespaceCounts
};

// A repeated event, and therefore no mistake.
struct Routine {
  Reason reason{};
  std::string ns;  // a pattern if names are generated
  std::uint64_t times = 0;
  double every = 0;             // seconds between two, on average
  std::uint64_t documents = 0;  // in a usual occurrence, about; 0: none, or unknown
  Timestamp first{};
  Timestamp last{};
};

struct ListedOperation {
  Timestamp at{};
  std::string text;
  std::string change;  // the document of an insert; the fields that an update sets
};

struct OplogAnswer {
  std::uint64_t entries = 0;  // with no-ops
  std::uint64_t bytes = 0;
  Timestamp first{};
  Timestamp last{};
  std::uint64_t changes = 0;  // all operations, including those in transactions
  std::uint64_t matched = 0;  // operations that the filter accepts
  Timeline timeline{};
  std::vector<NamespaceFacts> namespaces;  // the busiest first
  std::vector<Suspect> suspects;           // the likeliest first
  std::vector<Routine> routines;           // the most frequent first
  std::vector<ListedOperation> listed;
  std::uint64_t unlisted = 0;        // operations beyond the capacity of `listed`
  std::vector<std::string> notices;  // what limits the answer, each a sentence
  ShardTraces sharding;              // whether one oplog has the whole history
};

}  // namespace idmint::restore
