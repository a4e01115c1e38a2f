// What an oplog did, and where it looks like a mistake. In bounded memory, however long it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/live_oplog.h"
#include "restore/oplog_entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// ---- what is looked at

// A value of _id that people write: extended JSON, or a plain text, which is also taken as what it
// looks like (an ObjectId, a UUID, a number).
class IdFilter {
 public:
  // kInvalidArgument: an empty text.
  [[nodiscard]] static Result<IdFilter> of(std::string_view text);
  [[nodiscard]] bool matches(const Operation& operation) const;

 private:
  struct Value {
    std::uint8_t type = 0;
    std::string bytes;
  };
  std::vector<Value> values_;
};

struct FindFilter {
  OplogSpan span{};
  // DATABASE, DATABASE.COLLECTION, or either with a * for any text; empty: all.
  std::vector<std::string> namespaces{};
  // insert, update, delete, command, or the name of a command; empty: all.
  std::vector<std::string> operations{};
  std::optional<IdFilter> id{};
  std::string field{};        // dotted; what is within it counts too. Empty: any
  std::size_t list_most = 0;  // operations that are listed one by one
};

// ---- what is found

enum class Kind : std::uint8_t { kInsert, kUpdate, kDelete, kCommand };
inline constexpr std::array<std::string_view, 4> kKinds = {"insert", "update", "delete", "command"};

// How many operations there were in each stretch of time.
struct Timeline {
  static constexpr std::size_t kBuckets = 96;

  std::uint32_t origin = 0;  // seconds since 1970
  std::uint32_t width = 1;   // seconds of each bucket; a power of 2
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
[[nodiscard]] const ReasonText& text_of(Reason reason);

struct Suspect {
  Reason reason{};
  double score = 0;  // 0 to 100: how much it looks like a mistake
  std::string ns;
  std::string why;
  Timestamp limit{};  // its first entry; of a transaction, the one that commits it
  Timestamp last{};
  std::uint64_t operations = 0;
  std::string first;                  // its first operation, in words
  std::optional<Timestamp> before{};  // the entry before it that changes anything
  std::string before_text{};          // what that did
  std::optional<Timestamp> after{};   // the one after its first entry
  std::uint64_t changes_before = 0;   // operations before it in the whole oplog
  std::uint64_t key = 0;              // the same for those of a kind
  std::optional<std::uint64_t>
      similar{};  // runs about as large as it; of a fall, falls of its field
};

struct ListedOperation {
  Timestamp at{};
  std::string text;
  std::string change;  // of an update: what it sets
};

struct OplogAnswer {
  std::uint64_t entries = 0;  // no-ops too
  std::uint64_t bytes = 0;
  Timestamp first{};
  Timestamp last{};
  std::uint64_t changes = 0;  // operations, those within transactions too, filtered or not
  std::uint64_t matched = 0;  // of them, those that the filter lets through
  Timeline timeline{};
  std::vector<NamespaceFacts> namespaces;  // the busiest first
  std::uint64_t namespaces_left_out = 0;   // operations of those that there was no room for
  std::vector<Suspect> suspects;           // the likeliest first
  std::uint64_t suspects_left_out = 0;     // likelier ones took their place
  std::vector<ListedOperation> listed;
  // What limits the answer, each a sentence.
  std::vector<std::string> notices;
};

// For one thread.
class OplogAnalysis {
 public:
  explicit OplogAnalysis(FindFilter filter);
  ~OplogAnalysis();
  OplogAnalysis(const OplogAnalysis&) = delete;
  OplogAnalysis& operator=(const OplogAnalysis&) = delete;

  // In the order of the oplog; those outside of the span are known of, and not told. kDataLoss:
  // what is within an applyOps is damaged. kFailedPrecondition: of a sharded cluster. The messages
  // do not say where the entry stands.
  [[nodiscard]] Result<void> add(const Entry& entry);
  // At the end, once.
  [[nodiscard]] OplogAnswer finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace idmint::restore
