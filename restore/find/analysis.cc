#include "restore/find/analysis.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "base/text.h"
#include "restore/find/document_history.h"
#include "restore/find/drops.h"
#include "restore/find/falls.h"
#include "restore/find/hash.h"
#include "restore/find/histogram.h"
#include "restore/find/links.h"
#include "restore/find/namespace_counts.h"
#include "restore/find/runs.h"
#include "restore/find/schema_changes.h"
#include "restore/find/suspects.h"
#include "restore/namespaces.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/operation_text.h"
#include "restore/oplog/sharding.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kTransactionBytes = std::size_t{16} << 20;
constexpr int kDeepestApplyOps = 10;

}  // namespace

// Reads entries and transactions, and passes their operations to the detectors.
class OplogAnalysis::State {
 public:
  explicit State(FindFilter filter) : filter_(std::move(filter)) {}

  Result<void> add(const Entry& entry);
  OplogAnswer finish();

 private:
  // The applyOps entries of a transaction that has not committed yet.
  using Parts = std::vector<std::vector<std::uint8_t>>;
  using OpenTransactions = std::map<std::string, Parts>;

  Result<void> transaction(const Entry& entry);
  void forget(OpenTransactions::iterator transaction);
  Result<void> changes_of(const Operation& operation, int depth);
  // `transaction`: the operations belong to one.
  void begin(const Entry& entry, bool transaction);
  // `within`: its operations are elements of an applyOps.
  void end(const Operation& operation, bool within);
  void change(const Operation& operation);
  void updated(const Operation& operation);
  void list(const Operation& operation);
  void add_notices();

  const FindFilter filter_;
  OplogAnswer answer_;
  Place place_;                   // of the current operation
  std::uint64_t operations_ = 0;  // of the current entry, so far
  Remembered first_;              // the first of them, if they are in an applyOps

  NamespaceCounts counts_;
  OperationHistogram histogram_;
  Suspects suspects_{counts_};
  Falls falls_{suspects_};
  Runs runs_{suspects_};
  Drops drops_{suspects_};
  SchemaChanges schema_{suspects_};
  DocumentHistory document_{suspects_};
  UpdateShape shape_;
  std::string path_;

  OpenTransactions pending_;
  ShardTraces sharding_;
  std::size_t pending_bytes_ = 0;
  std::uint64_t early_ = 0;     // operations of transactions that were too large to keep
  std::uint64_t headless_ = 0;  // transactions
  std::uint64_t disordered_ = 0;
  Timestamp first_disorder_{};
  std::uint64_t unknown_ = 0;
};

// ---- entries

Result<void> OplogAnalysis::State::add(const Entry& entry) {
  const Timestamp ts = entry.at.ts;
  if (answer_.entries == 0) answer_.first = ts;
  if (answer_.entries != 0 && ts <= answer_.last && disordered_++ == 0) first_disorder_ = ts;
  answer_.last = std::max(answer_.last, ts);
  ++answer_.entries;
  answer_.bytes += entry.document.bytes().size();
  sharding_.add(entry);
  if (entry.operation.op == Op::kUnknown) ++unknown_;
  if (entry.operation.op == Op::kUnknown || entry.operation.op == Op::kNoop) return {};
  if (entry.in_transaction()) return transaction(entry);
  begin(entry, false);
  Result<void> done = changes_of(entry.operation, 0);
  end(entry.operation,
      entry.operation.op == Op::kCommand && entry.operation.command() == "applyOps");
  return done;
}

// The operations of a transaction take effect at the entry that commits it. They are kept until
// then.
Result<void> OplogAnalysis::State::transaction(const Entry& entry) {
  const Operation& operation = entry.operation;
  std::string id(entry.lsid.raw());
  id += ' ' + std::to_string(entry.txn_number.value_or(0));
  const auto found = pending_.find(id);
  const bool begins = entry.previous && entry.previous->ts == Timestamp{};
  if (operation.command() == "abortTransaction") {
    if (found != pending_.end()) forget(found);
    return {};
  }
  if (found == pending_.end() && !begins) ++headless_;
  if (operation.command() == "applyOps") {
    if (operation.o.truthy("partialTxn") || operation.o.truthy("prepare")) {
      const std::span<const std::uint8_t> bytes = operation.o.bytes();
      Parts& parts = pending_[id];  // even if nothing is kept, so that its commit is recognized
      if (pending_bytes_ + bytes.size() <= kTransactionBytes) {
        parts.emplace_back(bytes.begin(), bytes.end());
        pending_bytes_ += bytes.size();
        return {};
      }
      const std::uint64_t before = place_.changes;
      begin(entry, true);
      Result<void> done = changes_of(operation, 0);
      end(operation, true);
      early_ += place_.changes - before;
      return done;
    }
  }
  begin(entry, true);
  Result<void> done;
  if (found != pending_.end()) {
    for (const auto& kept : found->second) {
      if (!done) break;
      Operation part = operation;
      part.o = Document::of(kept);
      done = changes_of(part, 0);
    }
    forget(found);
  }
  if (done && operation.command() == "applyOps") done = changes_of(operation, 0);
  end(operation, true);
  return done;
}

void OplogAnalysis::State::forget(OpenTransactions::iterator transaction) {
  for (const auto& kept : transaction->second) pending_bytes_ -= kept.size();
  pending_.erase(transaction);
}

// NOLINTNEXTLINE(misc-no-recursion): kDeepestApplyOps
Result<void> OplogAnalysis::State::changes_of(const Operation& operation, int depth) {
  if (operation.op != Op::kCommand || operation.command() != "applyOps") {
    if (++operations_ == 1 && depth > 0) first_.set(operation);
    change(operation);
    return {};
  }
  const Document list = operation.o.array("applyOps");
  if (depth == kDeepestApplyOps || !list)
    return fail(Code::kDataLoss, "its applyOps has no operations");
  Fields inner(list);
  Field each;
  while (inner.next(each)) {
    const Result<Operation> parsed = parse_operation(each.document());
    if (!parsed)
      return fail(Code::kDataLoss, "operation " + std::string(each.key) + " of its applyOps is " +
                                       parsed.error().message());
    if (parsed->op == Op::kUnknown) ++unknown_;
    if (parsed->op == Op::kUnknown || parsed->op == Op::kNoop) continue;
    if (Result<void> done = changes_of(*parsed, depth + 1); !done) return done;
  }
  if (inner.damaged()) return fail(Code::kDataLoss, "its applyOps is damaged BSON");
  return {};
}

void OplogAnalysis::State::begin(const Entry& entry, bool transaction) {
  place_.at = entry.at.ts;
  place_.wall = entry.wall != 0 ? entry.wall : std::int64_t{entry.at.ts.seconds} * 1000;
  place_.in_span = place_.at >= filter_.span.from;
  place_.changes_before_entry = place_.changes;
  operations_ = 0;
  place_.session = 0;
  if (entry.lsid && entry.txn_number) {
    const auto seed = transaction ? static_cast<std::uint64_t>(*entry.txn_number) + 1 : 0;
    place_.session = hash_of(entry.lsid.bytes(), seed) | 1;
  }
  runs_.next_entry(place_.at);
  drops_.next_entry(place_.at);
  if (filter_.id) document_.next_entry(place_.at);
  suspects_.next_entry(place_.at);
}

void OplogAnalysis::State::end(const Operation& operation, bool within) {
  if (operations_ == 0) return;
  place_.previous_at = place_.at;
  place_.previous_operations = operations_;
  if (within) {
    place_.previous = first_;
  } else {
    place_.previous.set(operation);
  }
}

// ---- operations

void OplogAnalysis::State::change(const Operation& operation) {
  ++place_.changes;
  const bool command = operation.op == Op::kCommand;
  const std::string target = command ? target_of(operation) : std::string();
  const NamespaceCounts::Counted counted =
      counts_.add(operation, command ? std::string_view(target) : operation.ns);
  if (place_.at > filter_.span.to) return;
  const bool accepted = !filter_.narrows() || filter_.matches(operation, path_);
  const bool wanted = accepted && place_.in_span;
  if (wanted) {
    ++answer_.matched;
    histogram_.add(counted.row, counts_.rows()[counted.row].ns, operation.op, place_.at);
    list(operation);
  }
  const std::string_view database = operation.database();
  if (database == "config" || database == "local" || database == kRecordDatabase) return;
  // The filter does not apply here: all commands and writes tell which drops belong together.
  if (command) {
    const bool removes = place_.in_span && filter_.id && document_.concerns(operation);
    schema_.command(operation, place_, wanted);
    return drops_.command(operation, place_, wanted || removes);
  }
  drops_.write(database);
  if (counted.generated && operation.op == Op::kInsert) drops_.inserted(operation.ns);
  if (!accepted) return;
  if (filter_.id) document_.write(operation, place_);
  if (operation.op == Op::kDelete) return runs_.deleted(operation, place_);
  if (operation.collection().starts_with("system.")) return;
  if (operation.op == Op::kInsert) falls_.inserted(operation, place_);
  if (operation.op == Op::kUpdate) updated(operation);
}

void OplogAnalysis::State::updated(const Operation& operation) {
  const Field id = document_id(operation);
  const std::uint64_t document = Falls::document_hash(operation, id);
  shape_.begin(hash_of(operation.ns, id.type));
  for_each_change(operation.o, path_,
                  [&](std::string_view path, Change change, const Field& field) {
                    shape_.add(path, change);
                    const bool is_id = change == Change::kReplaced && path == "_id";
                    if (change == Change::kUnset || is_id) return;
                    falls_.updated(operation, document, path_, field, place_);
                  });
  runs_.updated(operation, document, shape_, place_);
}

void OplogAnalysis::State::list(const Operation& operation) {
  if (answer_.listed.size() >= filter_.list_most) {
    ++answer_.unlisted;
    return;
  }
  Remembered words;
  words.set(operation);
  ListedOperation row{.at = place_.at, .text = words.text(), .change = {}};
  if (operation.op == Op::kInsert || operation.op == Op::kUpdate) {
    const bool diff = operation.op == Op::kUpdate && operation.o.has("diff");
    const Document shown = diff ? operation.o.document("diff") : operation.o;
    if (shown) row.change = shortened(to_relaxed_json(shown));
  }
  answer_.listed.push_back(std::move(row));
}

// ---- the answer

OplogAnswer OplogAnalysis::State::finish() {
  answer_.changes = place_.changes;
  answer_.timeline = histogram_.timeline();
  answer_.namespaces = histogram_.take();
  suspects_.end();
  runs_.end();
  document_.end();
  for (Suspect& each : suspects_.all()) {
    if (each.reason == Reason::kFall) falls_.weigh(each);
    if (is_run(each.reason) && !each.surge) runs_.weigh(each, answer_.first, answer_.last);
    drops_.weigh(each);
    schema_.weigh(each);
  }
  answer_.routines = link(suspects_, answer_.first, answer_.last);
  answer_.suspects = suspects_.take();
  answer_.sharding = std::move(sharding_);
  add_notices();
  return std::move(answer_);
}

void OplogAnalysis::State::add_notices() {
  const auto tell = [this](std::string notice) { answer_.notices.push_back(std::move(notice)); };
  if (disordered_ != 0)
    tell(plural(disordered_, "entry") + " out of order, first " + print_timestamp(first_disorder_) +
         ": an oplog like that is not replayed; dump it again");
  if (unknown_ != 0)
    tell(plural(unknown_, "entry") +
         " of an unknown kind, which no replay can apply: is this an oplog of MongoDB 4.4 to 7.0?");
  if (falls_.forgotten() != 0)
    tell("numbers of " + plural(falls_.forgotten(), "document field") +
         " were forgotten: there is room for " + print_count(Falls::kCounters) +
         ", and those that were updated most are kept; a fall of others may be missing, so look "
         "with --ns, --id or --field for it");
  if (headless_ != 0)
    tell("the beginning of " + plural(headless_, "transaction") +
         " lies before this oplog: what is missing was not looked at");
  if (!pending_.empty())
    tell(plural(pending_.size(), "transaction") +
         " did not commit before the end of this oplog, and had no effect");
  if (answer_.sharding.migrated() != 0 && !answer_.sharding.sharded())
    tell(plural(answer_.sharding.migrated(), "operation") +
         " marked fromMigrate, as cloneCollectionAsCapped and migrations of chunks do it; nothing "
         "else here is of a sharded cluster");
  if (early_ != 0)
    tell(plural(early_, "operation") +
         " of very large transactions were looked at where they stand; they took effect later, at "
         "the entry that commits them, which is the limit for them");
  if (suspects_.left_out() != 0)
    tell(plural(suspects_.left_out(), "suspect") +
         " left out, in whose place are likelier ones: there is room for " +
         print_count(Suspects::kMost) + "; look with --ns, --op, --since or --until for others");
  if (histogram_.left_out() != 0)
    tell("the timeline has room for " + print_count(NamespaceCounts::kRows) + " namespaces; " +
         plural(histogram_.left_out(), "operation") + " on others are counted only as a whole");
}

// ----

OplogAnalysis::OplogAnalysis(FindFilter filter)
    : state_(std::make_unique<State>(std::move(filter))) {}
OplogAnalysis::~OplogAnalysis() = default;

Result<void> OplogAnalysis::add(const Entry& entry) { return state_->add(entry); }
OplogAnswer OplogAnalysis::finish() { return state_->finish(); }

}  // namespace idmint::restore
