#include "restore/oplog_analysis.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "restore/changes.h"
#include "restore/commands_of_oplog.h"
#include "restore/counter_table.h"
#include "restore/namespace_filter.h"
#include "restore/operation_text.h"
#include "restore/server.h"
#include "terminal/output.h"
#include "terminal/quantity.h"

namespace idmint::restore {
namespace {

// Sizes of what is remembered; all of it takes about 20 MB.
constexpr std::size_t kCounters = std::size_t{1} << 18;
constexpr std::size_t kFields = std::size_t{1} << 13;
constexpr std::size_t kRuns = std::size_t{1} << 11;
constexpr std::size_t kNamespaces = 1024;
constexpr std::size_t kSuspects = 256;
constexpr std::size_t kAlike = 4;  // suspects of one key
constexpr std::size_t kDropRuns = 1024;
constexpr std::size_t kTransactionBytes = std::size_t{16} << 20;
constexpr std::size_t kNamed = 5;  // collections and fields that a sentence names

constexpr std::uint64_t kMass = 20;               // operations that make a run
constexpr std::int64_t kTight = 25;               // milliseconds between those of one command
constexpr std::uint64_t kTightChanges = 64;       // and operations of others
constexpr std::int64_t kPause = 5000;             // milliseconds that a run may stand still
constexpr std::uint32_t kResumed = 30;            // seconds after which it is another run
constexpr std::uint32_t kDropPause = 60;          // seconds between the drops of a dropDatabase
constexpr std::uint32_t kDropDatabaseWait = 900;  // and before itself: it waits for a majority
constexpr std::uint32_t kFallsKept = 8;           // of one field
constexpr int kDeepestNumber = 4;
constexpr int kDeepestApplyOps = 10;

std::string plural(std::uint64_t count, const std::string& one) {
  return print_count(static_cast<double>(count)) + " " + one + (count == 1 ? "" : "s");
}

// ---- filters

bool matches_namespace(const std::vector<std::string>& patterns, std::string_view ns) {
  const std::size_t dot = ns.find('.');
  const std::string_view database = ns.substr(0, dot);
  if (dot == std::string_view::npos)
    return std::ranges::any_of(patterns, [&](std::string_view pattern) {
      return matches_glob(pattern.substr(0, pattern.find('.')), database);
    });
  const std::string name =
      std::string(database) + "." + std::string(without_buckets(ns.substr(dot + 1)));
  return std::ranges::any_of(patterns, [&](std::string_view pattern) {
    return matches_glob(pattern, pattern.contains('.') ? name : database);
  });
}

// One is the other, or lies within it.
bool related(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

// ---- numbers

// As exact as the number is: 64 bits of mantissa.
using Number = long double;

// One in 9 bytes: exact, but of a decimal with a fraction the nearest double.
class Kept {
 public:
  Kept() = default;
  explicit Kept(Number number) {
    constexpr Number end = 9223372036854775808.0L;  // 2^63
    if (number >= -end && number < end) {
      const auto whole = static_cast<std::int64_t>(number);
      whole_ = static_cast<Number>(whole) == number;
      std::memcpy(bytes_.data(), &whole, sizeof whole);
    }
    if (whole_) return;
    const auto real = static_cast<double>(number);
    std::memcpy(bytes_.data(), &real, sizeof real);
  }
  [[nodiscard]] Number number() const {
    if (whole_) return static_cast<Number>(of_bytes<std::int64_t>());
    return of_bytes<double>();
  }

 private:
  template <class T>
  [[nodiscard]] T of_bytes() const {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

  std::array<std::uint8_t, 8> bytes_{};  // of an int64_t or a double, at any address
  bool whole_ = false;
};

std::optional<Number> number_of(const Field& field) {
  if (field.type == BSON_TYPE_DOUBLE) {
    if (!std::isfinite(field.real())) return std::nullopt;
    return field.real();
  }
  if (const std::optional<std::int64_t> integer = field.integer())
    return static_cast<Number>(*integer);
  if (field.type == BSON_TYPE_DECIMAL128) {
    bson_decimal128_t decimal{};
    decimal.low = field.load64();
    Field high = field;
    high.value = field.value.subspan(8);
    decimal.high = high.load64();
    char text[BSON_DECIMAL128_STRING];
    bson_decimal128_to_string(&decimal, text);
    const Number number = Kept(std::strtold(text, nullptr)).number();
    if (std::isfinite(number)) return number;
  }
  return std::nullopt;
}

std::string print_number(Number number) {
  if (std::floor(number) == number && std::fabs(number) < 9e18L)
    return std::to_string(static_cast<std::int64_t>(number));
  char text[64];
  std::snprintf(text, sizeof text, "%.10Lg", number);
  return text;
}

// ---- how many are different, in 64 bytes; off by about an eighth

class Different {
 public:
  void add(std::uint64_t hash) {
    const auto rank = static_cast<std::uint8_t>(std::countl_zero(hash | 63) + 1);
    std::uint8_t& most = ranks_[hash & 63];
    most = std::max(most, rank);
  }
  [[nodiscard]] double count() const {
    double sum = 0;
    int zeros = 0;
    for (const std::uint8_t rank : ranks_) {
      sum += std::ldexp(1.0, -rank);
      if (rank == 0) ++zeros;
    }
    const double raw = 0.709 * 64 * 64 / sum;
    return raw < 160 && zeros > 0 ? 64 * std::log(64.0 / zeros) : raw;
  }

 private:
  std::array<std::uint8_t, 64> ranks_{};
};

// ---- what is remembered

struct Counter {
  std::uint16_t rises = 0;
  Kept last{};
};
static_assert(sizeof(BoundedTable<Counter>::Slot) == 24);  // most of what is remembered

struct FieldFacts {
  std::uint32_t rises = 0;
  std::uint32_t falls = 0;
};

// What stood in the oplog where something began.
struct Place {
  Timestamp at{};
  std::optional<Timestamp> before_at{};
  Remembered before{};
  std::uint64_t before_operations = 0;
  std::optional<Timestamp> after{};
  std::uint64_t changes_before = 0;
};

// Operations of one kind on one collection that follow each other as only those of one command do.
struct Run {
  Reason reason{};
  std::string ns{};
  std::string fields{};
  Place place{};
  Remembered first{};
  Timestamp last{};
  std::int64_t wall = 0;      // of the last operation
  std::int64_t seen = 0;      // of the last one that may still be of it
  std::uint64_t seen_at = 0;  // the same, counted in operations of the oplog
  std::uint64_t count = 0;
  std::uint64_t unbroken = 0;  // of them, the last ones, with no pause between
  std::uint64_t ahead = 0;     // of them, the first ones, with pauses between
  bool mass = false;           // kMass of them came unbroken
  std::int64_t begun = 0;      // wall of the first
  std::uint64_t others = 0;    // before it, on the same key within `others_span` and the one before
  std::uint64_t others_earlier = 0;
  std::int64_t others_span = 0;
  std::uint64_t same = 0;  // those that are to the byte as the one before
  std::uint64_t content = 0;
  Different documents{};
  std::array<std::uint32_t, 64> sizes{};  // of runs that ended, by their logarithm

  // What `others` counts goes by, until it is of the time of that wall.
  void turn(std::int64_t to) {
    const std::int64_t span = to / kPause;
    if (span == others_span) return;
    others_earlier = span == others_span + 1 ? others : 0;
    others = 0;
    others_span = span;
  }
};

// Drops in one database with nothing between them.
struct DropRun {
  Suspect first;
  Timestamp last{};
  std::uint64_t collections = 0;
  std::uint64_t documents = 0;
  bool documents_known = true;
  bool temporary = true;  // all of them
  bool wanted = false;    // at least one passed the filter
  std::string names;
};

struct Pending {
  std::vector<std::vector<std::uint8_t>> entries;
};

constexpr std::array<ReasonText, 8> kReasons = {{
    {"drop_database", "a database was dropped"},
    {"drop", "a collection was dropped"},
    {"emptied", "a capped collection was emptied"},
    {"rename_over", "a collection was renamed over another"},
    {"mass_delete", "many documents were deleted at once"},
    {"fall", "a number that rises fell"},
    {"unset_wave", "a field was removed from many documents"},
    {"mass_update", "many documents were changed alike"},
}};

bool is_run(Reason reason) {
  return reason == Reason::kMassDelete || reason == Reason::kMassUpdate ||
         reason == Reason::kUnsetWave;
}

double large(double base, double step, std::uint64_t count, double most) {
  return std::min(most,
                  base + step * std::log10(static_cast<double>(std::max<std::uint64_t>(1, count))));
}

std::unexpected<Error> of_a_shard() {
  return std::unexpected(
      Error{Code::kFailedPrecondition,
            "it is of a sharded cluster, whose chunks move between shards; one oplog does not "
            "tell what happened to it"});
}

std::string span_text(Timestamp first, Timestamp last) {
  const std::uint32_t seconds = last.seconds - first.seconds;
  return seconds == 0 ? "within a second" : "within " + print_duration(seconds + 1);
}

}  // namespace

const ReasonText& text_of(Reason reason) { return kReasons[static_cast<std::size_t>(reason)]; }

// ---- IdFilter

Result<IdFilter> IdFilter::of(std::string_view text) {
  if (text.empty())
    return std::unexpected(
        Error{Code::kInvalidArgument, "an _id is no empty text: give its value"});
  IdFilter filter;
  const auto add = [&](const std::string& json) {
    const Result<OwnDocument> parsed = from_json("{\"v\":" + json + "}");
    if (!parsed) return;
    Fields fields(parsed->view());
    Field value;
    if (fields.next(value))
      filter.values_.push_back({value.type, std::string(value.value.begin(), value.value.end())});
  };
  add(std::string(text));
  if (text.size() == 24) add("{\"$oid\":\"" + std::string(text) + "\"}");
  if (text.size() == 36) add("{\"$uuid\":\"" + std::string(text) + "\"}");
  Value plain{.type = BSON_TYPE_UTF8, .bytes = std::string(4, '\0')};
  const std::uint32_t size = BSON_UINT32_TO_LE(static_cast<std::uint32_t>(text.size() + 1));
  std::memcpy(plain.bytes.data(), &size, sizeof size);
  plain.bytes += text;
  plain.bytes += '\0';
  filter.values_.push_back(std::move(plain));
  return filter;
}

bool IdFilter::matches(const Operation& operation) const {
  const Field id = document_id(operation);
  if (id.type == 0) return false;
  return std::ranges::any_of(values_, [&](const Value& value) {
    if (value.type == id.type && std::ranges::equal(value.bytes, id.value, {}, [](char c) {
          return static_cast<std::uint8_t>(c);
        }))
      return true;
    Field wanted;
    wanted.type = value.type;
    wanted.value = {reinterpret_cast<const std::uint8_t*>(value.bytes.data()), value.bytes.size()};
    const std::optional<Number> number = number_of(wanted);
    return number && number == number_of(id);
  });
}

// ---- the analysis

class OplogAnalysis::State {
 public:
  explicit State(FindFilter filter)
      : filter_(std::move(filter)),
        narrow_(!filter_.namespaces.empty() || !filter_.operations.empty() || filter_.id ||
                !filter_.field.empty()),
        counters_(kCounters),
        fields_(kFields),
        runs_(kRuns) {}

  Result<void> add(const Entry& entry);
  OplogAnswer finish();

 private:
  // Entries.
  Result<void> transaction(const Entry& entry);
  Result<void> changes_of(const Operation& operation, int depth);
  void begin(const Entry& entry);
  // `within`: its operations stand within an applyOps.
  void end(const Operation& operation, bool within);
  void change(const Operation& operation);
  [[nodiscard]] bool matches(const Operation& operation);
  void count(const Operation& operation);
  [[nodiscard]] NamespaceFacts* row_of(const Operation& operation);
  void list(const Operation& operation);

  // Suspects.
  void inserted(const Operation& operation);
  void updated(const Operation& operation);
  void deleted(const Operation& operation);
  void commanded(const Operation& operation);
  void dropped(const Operation& operation, bool wanted);
  void dropped_database(const Operation& operation, bool wanted);
  void number(const Operation& operation, std::uint64_t document, std::string_view path,
              const Field& field, bool only_known);
  void numbers_within(const Operation& operation, std::uint64_t document, const Field& field,
                      int depth, bool only_known);
  void fell(const Operation& operation, std::string_view path, std::uint64_t key,
            const Counter& counter, Number to, const FieldFacts& facts);
  void run(std::uint64_t key, Reason reason, const Operation& operation, std::uint64_t document,
           std::uint64_t content, const std::string& fields);
  void end_run(std::uint64_t key, Run& run);
  [[nodiscard]] Place here() const;
  [[nodiscard]] Suspect suspect(Reason reason, const Operation& operation, std::string ns) const;
  void keep(Suspect found);
  // False: it went on with what one before it began.
  bool keep_now(Suspect found);
  void score(Suspect& suspect);

  const FindFilter filter_;
  const bool narrow_;
  OplogAnswer answer_;
  std::map<std::string, std::uint16_t, std::less<>> rows_;
  std::array<std::uint16_t, kNamespaces> near_rows_{};  // by the hash: where it was the last time

  // Of the entry at hand.
  Timestamp at_{};
  std::int64_t wall_ = 0;
  bool told_ = false;  // it is in the span
  std::uint64_t changes_before_ = 0;
  std::uint64_t operations_ = 0;
  Remembered first_;  // its first operation
  // Of the one before that changes anything.
  std::optional<Timestamp> before_at_;
  Remembered before_;
  std::uint64_t before_operations_ = 0;

  BoundedTable<Counter> counters_;
  BoundedTable<FieldFacts> fields_;
  BoundedTable<Run> runs_;
  std::vector<std::pair<Run*, std::uint64_t>> begun_;  // in the entry before; changes_before
  std::map<std::string, DropRun, std::less<>> drop_runs_;
  std::vector<std::string> drops_begun_;  // in the entry before; their databases
  std::vector<Suspect> awaiting_;         // what the next entry is
  std::map<std::string, Pending, std::less<>> pending_;
  std::size_t pending_bytes_ = 0;

  std::uint64_t early_ = 0;  // operations of transactions that were too large to wait for
  std::uint64_t headless_ = 0;
  std::uint64_t disordered_ = 0;
  Timestamp first_disorder_{};
  std::uint64_t unknown_ = 0;
  std::string path_;
  std::string names_;
};

// ---- entries

Result<void> OplogAnalysis::State::add(const Entry& entry) {
  const Timestamp ts = entry.at.ts;
  if (answer_.entries == 0) answer_.first = ts;
  if (answer_.entries != 0 && ts <= answer_.last && disordered_++ == 0) first_disorder_ = ts;
  answer_.last = std::max(answer_.last, ts);
  ++answer_.entries;
  answer_.bytes += entry.document.bytes().size();
  if (shows_sharding(entry.operation)) return of_a_shard();
  if (entry.operation.op == Op::kUnknown) ++unknown_;
  if (entry.operation.op == Op::kUnknown || entry.operation.op == Op::kNoop) return {};
  if (entry.in_transaction()) return transaction(entry);
  begin(entry);
  Result<void> done = changes_of(entry.operation, 0);
  end(entry.operation,
      entry.operation.op == Op::kCommand && entry.operation.command() == "applyOps");
  return done;
}

// Its operations happen where it is committed. They are kept until then.
Result<void> OplogAnalysis::State::transaction(const Entry& entry) {
  const Operation& operation = entry.operation;
  std::string id(reinterpret_cast<const char*>(entry.lsid.bytes().data()),
                 entry.lsid.bytes().size());
  id += ' ' + std::to_string(entry.txn_number.value_or(0));
  const auto forget = [&](std::map<std::string, Pending, std::less<>>::iterator it) {
    for (const auto& kept : it->second.entries) pending_bytes_ -= kept.size();
    pending_.erase(it);
  };
  const auto found = pending_.find(id);
  const bool begins = entry.previous && entry.previous->ts == Timestamp{};
  if (operation.command() == "abortTransaction") {
    if (found != pending_.end()) forget(found);
    return {};
  }
  if (found == pending_.end() && !begins) ++headless_;
  if (operation.command() == "applyOps") {
    const auto flag = [&](const char* name) {
      bson_iter_t at;
      return operation.o.find(name, &at) && bson_iter_as_bool(&at);
    };
    if (flag("partialTxn") || flag("prepare")) {
      const std::span<const std::uint8_t> bytes = operation.o.bytes();
      if (pending_bytes_ + bytes.size() <= kTransactionBytes) {
        pending_[id].entries.emplace_back(bytes.begin(), bytes.end());
        pending_bytes_ += bytes.size();
        return {};
      }
      pending_[id];  // so that its commit is known
      const std::uint64_t before = answer_.changes;
      begin(entry);
      Result<void> done = changes_of(operation, 0);
      end(operation, true);
      early_ += answer_.changes - before;
      return done;
    }
  }
  begin(entry);
  Result<void> done;
  if (found != pending_.end()) {
    for (const auto& kept : found->second.entries) {
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

// NOLINTNEXTLINE(misc-no-recursion): kDeepestApplyOps
Result<void> OplogAnalysis::State::changes_of(const Operation& operation, int depth) {
  if (operation.op != Op::kCommand || operation.command() != "applyOps") {
    if (++operations_ == 1 && depth > 0) first_.set(operation);
    change(operation);
    return {};
  }
  bson_iter_t at;
  if (depth == kDeepestApplyOps || !operation.o.find("applyOps", &at) || !as_document(at))
    return std::unexpected(Error{Code::kDataLoss, "its applyOps has no operations"});
  Fields inner(as_document(at));
  Field each;
  while (inner.next(each)) {
    const Result<Operation> parsed = parse_operation(each.document());
    if (!parsed)
      return std::unexpected(Error{
          Code::kDataLoss,
          "operation " + std::string(each.key) + " of its applyOps is " + parsed.error().message});
    if (shows_sharding(*parsed)) return of_a_shard();
    if (parsed->op == Op::kUnknown) ++unknown_;
    if (parsed->op == Op::kUnknown || parsed->op == Op::kNoop) continue;
    if (Result<void> done = changes_of(*parsed, depth + 1); !done) return done;
  }
  if (inner.damaged())
    return std::unexpected(Error{Code::kDataLoss, "its applyOps is damaged BSON"});
  return {};
}

void OplogAnalysis::State::begin(const Entry& entry) {
  at_ = entry.at.ts;
  wall_ = entry.wall != 0 ? entry.wall : std::int64_t{at_.seconds} * 1000;
  told_ = at_ >= filter_.span.from;
  changes_before_ = answer_.changes;
  operations_ = 0;
  for (const auto& [run, changes_before] : begun_) {
    if (run->count != 0 && run->place.changes_before == changes_before) run->place.after = at_;
  }
  begun_.clear();
  for (const std::string& database : drops_begun_) {
    const auto drops = drop_runs_.find(database);
    if (drops != drop_runs_.end()) drops->second.first.after = at_;
  }
  drops_begun_.clear();
  for (Suspect& each : awaiting_) {
    each.after = at_;
    keep_now(std::move(each));
  }
  awaiting_.clear();
}

void OplogAnalysis::State::end(const Operation& operation, bool within) {
  if (operations_ == 0) return;
  before_at_ = at_;
  before_operations_ = operations_;
  if (within) {
    before_ = first_;
  } else {
    before_.set(operation);
  }
}

void OplogAnalysis::State::change(const Operation& operation) {
  ++answer_.changes;
  if (at_ > filter_.span.to) return;
  const bool wanted = !narrow_ || matches(operation);
  if (wanted && told_) {
    ++answer_.matched;
    count(operation);
    if (answer_.listed.size() < filter_.list_most) list(operation);
  }
  const std::string_view database = operation.database();
  if (database == "config" || database == "local") return;
  // Drops belong together whether they were asked for or not.
  if (operation.op == Op::kCommand && operation.command() == "drop")
    return dropped(operation, wanted && told_);
  if (operation.op == Op::kCommand && operation.command() == "dropDatabase")
    return dropped_database(operation, wanted && told_);
  if (!drop_runs_.empty()) {
    const auto drops = drop_runs_.find(database);
    if (drops != drop_runs_.end()) drop_runs_.erase(drops);
  }
  if (!wanted) return;
  switch (operation.op) {
    case Op::kInsert:
      return inserted(operation);
    case Op::kUpdate:
      return updated(operation);
    case Op::kDelete:
      return deleted(operation);
    case Op::kCommand:
      return commanded(operation);
    default:
      return;
  }
}

bool OplogAnalysis::State::matches(const Operation& operation) {
  if (!filter_.operations.empty()) {
    const std::string_view kind =
        kKinds[std::min<std::size_t>(static_cast<std::size_t>(operation.op), 3)];
    const std::string_view command =
        operation.op == Op::kCommand ? operation.command() : std::string_view{};
    if (std::ranges::none_of(filter_.operations, [&](const std::string& wanted) {
          return wanted == kind || wanted == command;
        }))
      return false;
  }
  if (!filter_.namespaces.empty()) {
    bool in = matches_namespace(filter_.namespaces, target_of(operation));
    bson_iter_t to;
    if (!in && operation.op == Op::kCommand && operation.command() == "renameCollection" &&
        operation.o.find("to", &to))
      in = matches_namespace(filter_.namespaces, as_text(to));
    if (!in) return false;
  }
  if (filter_.id && !filter_.id->matches(operation)) return false;
  if (filter_.field.empty()) return true;
  if (operation.op == Op::kInsert) {
    bson_iter_t at = operation.o.begin();
    bson_iter_t descendant;
    return bson_iter_find_descendant(&at, filter_.field.c_str(), &descendant);
  }
  bool touched = false;
  if (operation.op == Op::kUpdate)
    for_each_change(operation.o, path_, [&](std::string_view path, Change, const Field&) {
      touched = touched || related(path, filter_.field);
    });
  return touched;
}

NamespaceFacts* OplogAnalysis::State::row_of(const Operation& operation) {
  const bool command = operation.op == Op::kCommand;
  const std::string target = command ? target_of(operation) : std::string();
  const std::string_view ns = command ? std::string_view(target) : operation.ns;
  std::uint16_t& near = near_rows_[hash_of(ns, 0) % near_rows_.size()];
  if (near < answer_.namespaces.size() && answer_.namespaces[near].ns == ns)
    return &answer_.namespaces[near];
  const auto found = rows_.find(ns);
  if (found != rows_.end()) {
    near = found->second;
    return &answer_.namespaces[near];
  }
  if (answer_.namespaces.size() == kNamespaces) return nullptr;
  near = static_cast<std::uint16_t>(answer_.namespaces.size());
  rows_.emplace(ns, near);
  NamespaceFacts& row = answer_.namespaces.emplace_back();
  row.ns = ns;
  row.first = at_;
  return &row;
}

void OplogAnalysis::State::count(const Operation& operation) {
  NamespaceFacts* const row = row_of(operation);
  if (row == nullptr) {
    ++answer_.namespaces_left_out;
    return;
  }
  Timeline& timeline = answer_.timeline;
  if (answer_.matched == 1) timeline.origin = at_.seconds;
  const std::uint32_t since = at_.seconds - std::min(at_.seconds, timeline.origin);
  while (since / timeline.width >= Timeline::kBuckets) {  // twice as wide, two in one
    timeline.width *= 2;
    for (NamespaceFacts& each : answer_.namespaces) {
      for (Buckets& buckets : each.buckets) {
        for (std::size_t i = 0; i < Timeline::kBuckets / 2; ++i)
          buckets[i] = buckets[2 * i] + buckets[2 * i + 1];
        std::fill(buckets.begin() + Timeline::kBuckets / 2, buckets.end(), 0);
      }
    }
    timeline.used = (timeline.used + 1) / 2;
  }
  const std::size_t bucket = since / timeline.width;
  timeline.used = std::max(timeline.used, bucket + 1);
  const auto kind = static_cast<std::size_t>(operation.op);
  ++row->counts[kind];
  ++row->buckets[kind][bucket];
  row->last = at_;
}

void OplogAnalysis::State::list(const Operation& operation) {
  Remembered words;
  words.set(operation);
  ListedOperation row{.at = at_, .text = words.text(), .change = {}};
  if (operation.op == Op::kInsert || operation.op == Op::kUpdate) {
    bson_iter_t at;
    const bool diff = operation.op == Op::kUpdate && operation.o.find("diff", &at);
    const Document shown = diff ? as_document(at) : operation.o;
    if (shown) row.change = shortened(to_relaxed_json(shown));
  }
  answer_.listed.push_back(std::move(row));
}

// ---- numbers that fall

void OplogAnalysis::State::number(const Operation& operation, std::uint64_t document,
                                  std::string_view path, const Field& field, bool only_known) {
  const std::optional<Number> value = number_of(field);
  if (!value) return;
  const std::uint64_t key = hash_of(path, document);
  auto* slot = counters_.find(key);
  if (slot == nullptr) {
    if (only_known) return;
    slot = &counters_.take(key);
  }
  const bool known = slot->uses++ != 0;
  Counter& counter = slot->value;
  const Number last = counter.last.number();
  if (known && *value != last) {
    const std::uint64_t field_key = hash_of(path, hash_of(operation.ns, 1));
    auto& facts = fields_.take(field_key);
    ++facts.uses;
    if (*value > last) {
      if (counter.rises != UINT16_MAX) ++counter.rises;
      ++facts.value.rises;
    } else {
      ++facts.value.falls;
      if (told_ && facts.value.falls <= kFallsKept)
        fell(operation, path, field_key, counter, *value, facts.value);
    }
  }
  if (!known || *value != last) counter.last = Kept(*value);
}

// NOLINTNEXTLINE(misc-no-recursion): kDeepestNumber
void OplogAnalysis::State::numbers_within(const Operation& operation, std::uint64_t document,
                                          const Field& field, int depth, bool only_known) {
  if (field.type != BSON_TYPE_DOCUMENT) {
    number(operation, document, path_, field, only_known);
    return;
  }
  if (depth == kDeepestNumber) return;
  Fields inner(field.document());
  Field each;
  while (inner.next(each)) {
    const internal::PathStep step(path_, each.key);
    numbers_within(operation, document, each, depth + 1, only_known);
  }
}

void OplogAnalysis::State::fell(const Operation& operation, std::string_view path,
                                std::uint64_t key, const Counter& counter, Number to,
                                const FieldFacts& facts) {
  Suspect found = suspect(Reason::kFall, operation, std::string(operation.ns));
  found.key = key;
  found.why = std::string(path) + " of _id " + print_value(document_id(operation)) + " fell from " +
              print_number(counter.last.number()) + " to " + print_number(to);
  found.why += counter.rises == 0 ? "; it was not seen to rise before"
                                  : ", after it rose " + plural(counter.rises, "time");
  found.score = counter.rises >= 20  ? 86
                : counter.rises >= 3 ? 82
                                     : 40 + 12 * static_cast<double>(counter.rises);
  found.similar = facts.falls;
  keep(std::move(found));
}

void OplogAnalysis::State::inserted(const Operation& operation) {
  if (operation.collection().starts_with("system.")) return;
  // A document that is made anew may bring a smaller number. New ones are not remembered: most are
  // never updated.
  const Field id = document_id(operation);
  const std::uint64_t document =
      hash_of({reinterpret_cast<const char*>(id.value.data()), id.value.size()},
              hash_of(operation.ns, id.type));
  Fields fields(operation.o);
  Field field;
  while (fields.next(field)) {
    if (field.type == BSON_TYPE_INT32 || field.type == BSON_TYPE_INT64 ||
        field.type == BSON_TYPE_DOUBLE)
      number(operation, document, field.key, field, true);
  }
}

void OplogAnalysis::State::updated(const Operation& operation) {
  if (operation.collection().starts_with("system.")) return;
  const Field id = document_id(operation);
  const std::uint64_t ns = hash_of(operation.ns, id.type);
  const std::uint64_t document =
      hash_of({reinterpret_cast<const char*>(id.value.data()), id.value.size()}, ns);
  std::uint64_t shape = ns;
  bool unset = false;
  bool replaced = false;
  names_.clear();
  for_each_change(operation.o, path_,
                  [&](std::string_view path, Change change, const Field& field) {
                    if (change == Change::kReplaced) {
                      replaced = true;
                    } else {
                      shape += hash_of(path, static_cast<std::uint64_t>(change));
                      if (names_.size() < 100) {
                        if (!names_.empty()) names_ += ", ";
                        names_ += path;
                      }
                    }
                    if (change == Change::kUnset) {
                      unset = true;
                      return;
                    }
                    if (change == Change::kReplaced && path == "_id") return;
                    numbers_within(operation, document, field, 0, false);
                  });
  if (replaced) names_ = "replaced as a whole";
  const std::span<const std::uint8_t> o = operation.o.bytes();
  run(hash_of({}, shape), unset ? Reason::kUnsetWave : Reason::kMassUpdate, operation, document,
      hash_of({reinterpret_cast<const char*>(o.data()), std::min<std::size_t>(o.size(), 256)}, 2),
      names_);
}

void OplogAnalysis::State::deleted(const Operation& operation) {
  const Field id = document_id(operation);
  const std::uint64_t ns = hash_of(operation.ns, 3);
  names_.clear();
  run(ns, Reason::kMassDelete, operation,
      hash_of({reinterpret_cast<const char*>(id.value.data()), id.value.size()}, ns), 0, names_);
}

// ---- many at once

void OplogAnalysis::State::run(std::uint64_t key, Reason reason, const Operation& operation,
                               std::uint64_t document, std::uint64_t content,
                               const std::string& fields) {
  auto& slot = runs_.take(key, [this](auto& old) { end_run(old.key, old.value); });
  slot.uses = static_cast<std::uint32_t>(answer_.changes);
  Run& run = slot.value;
  const bool tight = wall_ - run.seen <= kTight && answer_.changes - run.seen_at <= kTightChanges;
  run.seen = wall_;
  run.seen_at = answer_.changes;
  if (run.count != 0 && !tight) {
    if (run.mass && wall_ - run.wall <= kPause) return;  // perhaps of others
    if (run.mass || run.unbroken < 2 || wall_ - run.begun > kPause) {
      end_run(key, run);
    } else {  // perhaps it stood still at its beginning
      run.ahead = run.count;
      run.unbroken = 0;
    }
  }
  if (!told_) {
    run.count = 0;
    return;
  }
  if (run.count == 0) {
    run.ahead = 0;
    run.unbroken = 0;
    run.mass = false;
    run.begun = wall_;
    run.reason = reason;
    run.ns = operation.ns;
    run.fields = fields;
    run.place = here();
    run.first.set(operation);
    run.same = 0;
    run.documents = {};
    begun_.emplace_back(&run, changes_before_);
  } else if (content == run.content) {
    ++run.same;
  }
  run.content = content;
  run.documents.add(document);
  ++run.count;
  run.mass = ++run.unbroken >= kMass || run.mass;
  run.last = at_;
  run.wall = wall_;
}

void OplogAnalysis::State::end_run(std::uint64_t key, Run& run) {
  const std::uint64_t count = std::exchange(run.count, 0);
  if (!run.mass) {
    run.turn(run.wall);
    run.others += count;
    return;
  }
  const double documents = run.documents.count();
  if (documents < static_cast<double>(count) / 2) return;  // the same ones again and again
  std::uint32_t& size = run.sizes[static_cast<std::size_t>(std::bit_width(count) - 1)];
  ++size;
  Suspect found;
  found.reason = run.reason;
  found.ns = run.ns;
  found.limit = run.place.at;
  found.last = run.last;
  found.operations = count;
  found.key = key | 1;
  found.first = run.first.text();
  found.before = run.place.before_at;
  found.after = run.place.after;
  found.changes_before = run.place.changes_before;
  if (found.before) {
    found.before_text = run.place.before.text();
    if (run.place.before_operations > 1)
      found.before_text = "a transaction of " + plural(run.place.before_operations, "operation") +
                          ", the first of them: " + found.before_text;
  }
  if (run.reason == Reason::kMassDelete) {
    found.score = large(60, 6, count, 88);
  } else {
    const bool same = run.same + 1 >= count - count / 10;
    found.score = run.reason == Reason::kUnsetWave ? large(55, 6, count, 85)
                                                   : large(35, 6, count, 70) + (same ? 8 : 0);
    found.why =
        (same ? ", all in the same way: " : ", in the same fields: ") + shortened(run.fields);
  }
  run.turn(run.begun);
  if (run.ahead != 0) {
    found.why += "; the first " + print_count(static_cast<double>(run.ahead)) +
                 " came a while before the others: look whether they are of it";
  } else if (const std::uint64_t others = run.others + run.others_earlier; others != 0) {
    found.why += "; " + print_count(static_cast<double>(others)) +
                 " more on it in the seconds before: look whether they are of it";
  }
  if (!keep_now(std::move(found))) --size;
}

// ---- commands

void OplogAnalysis::State::commanded(const Operation& operation) {
  const std::string_view command = operation.command();
  bson_iter_t at;
  const std::optional<std::int64_t> records =
      operation.o2.find("numRecords", &at) ? as_integer(at) : std::nullopt;
  const std::string documents =
      records ? " of " + plural(static_cast<std::uint64_t>(std::max<std::int64_t>(0, *records)),
                                "document")
              : "";
  if (command == "emptycapped" && told_) {
    Suspect found = suspect(Reason::kEmptied, operation, target_of(operation));
    found.score = 80;
    found.why = "all documents of " + found.ns + " removed";
    keep(std::move(found));
  }
  if (command == "renameCollection" && told_) {
    const bool over =
        operation.o.find("dropTarget", &at) && (!BSON_ITER_HOLDS_BOOL(&at) || bson_iter_bool(&at));
    if (!over || !operation.o.find("to", &at)) return;
    const std::string to(as_text(at));
    Suspect found = suspect(Reason::kRenameOver, operation, to);
    const std::string from = target_of(operation);
    const bool temporary = is_temporary_name(std::string_view(from).substr(from.find('.') + 1));
    found.key = hash_of(to, 5) | 1;
    found.score = temporary ? 35 : 76;
    found.why = from + " took the place of " + to + documents +
                (temporary ? ", as $out and convertToCapped do" : "");
    keep(std::move(found));
  }
}

void OplogAnalysis::State::dropped(const Operation& operation, bool wanted) {
  const std::string database(operation.database());
  Suspect found = suspect(Reason::kDrop, operation, target_of(operation));
  const std::string_view collection = std::string_view(found.ns).substr(database.size() + 1);
  bson_iter_t at;
  const std::optional<std::int64_t> records =
      operation.o2.find("numRecords", &at) ? as_integer(at) : std::nullopt;
  const auto documents = static_cast<std::uint64_t>(std::max<std::int64_t>(0, records.value_or(0)));
  const bool temporary = is_temporary_name(collection);
  found.key = hash_of(found.ns, 4) | 1;
  found.score = temporary                   ? 5
                : records && documents == 0 ? 25
                : records                   ? large(78, 2, documents, 90)
                                            : 78;
  found.why = found.ns + " dropped" +
              (!records         ? ""
               : documents == 0 ? "; it was empty"
                                : " with " + plural(documents, "document")) +
              (temporary ? "; MongoDB had made it for itself" : "");

  auto drops = drop_runs_.find(database);
  if (drops != drop_runs_.end() && at_.seconds - drops->second.last.seconds > kDropPause) {
    drop_runs_.erase(drops);
    drops = drop_runs_.end();
  }
  if (drops == drop_runs_.end()) {
    if (drop_runs_.size() == kDropRuns) drop_runs_.erase(drop_runs_.begin());
    drops = drop_runs_.emplace(database, DropRun{.first = found, .names = {}}).first;
    drops_begun_.push_back(database);
  }
  DropRun& all = drops->second;
  all.wanted = all.wanted || wanted;
  all.last = at_;
  all.documents += documents;
  all.documents_known = all.documents_known && records;
  all.temporary = all.temporary && temporary;
  if (++all.collections <= kNamed)
    all.names += (all.collections == 1 ? "" : ", ") + std::string(collection);
  if (all.collections == kNamed + 1) all.names += " and others";
  if (wanted) keep(std::move(found));
}

// 6.0 logs the drop of each collection first: the mistake begins with the first of them.
void OplogAnalysis::State::dropped_database(const Operation& operation, bool wanted) {
  const std::string database(operation.database());
  Suspect found = suspect(Reason::kDropDatabase, operation, database);
  found.key = hash_of(database, 6) | 1;
  found.score = 60;
  found.why = "database " + database + " dropped; it had no collections";
  const auto drops = drop_runs_.find(database);
  if (drops == drop_runs_.end() || at_.seconds - drops->second.last.seconds > kDropDatabaseWait) {
    if (wanted) keep(std::move(found));
    return;
  }
  const DropRun& all = drops->second;
  if (!wanted && !all.wanted) {
    drop_runs_.erase(drops);
    return;
  }
  const auto is_part = [&](const Suspect& each) {
    return each.reason == Reason::kDrop && each.limit >= all.first.limit &&
           each.ns.starts_with(database + ".");
  };
  std::erase_if(awaiting_, is_part);
  std::erase_if(answer_.suspects, is_part);
  const Timestamp last = found.last;
  found = all.first;
  found.reason = Reason::kDropDatabase;
  found.key = hash_of(database, 6) | 1;
  found.ns = database;
  found.last = last;
  found.operations = all.collections + 1;
  const bool nothing = all.temporary || (all.documents_known && all.documents == 0);
  found.score = nothing ? 40 : 96;
  found.why = "database " + database + " dropped, which begins with the drop of its " +
              plural(all.collections, "collection") + " (" + shortened(all.names) + ")";
  if (all.documents_known) found.why += " with " + plural(all.documents, "document");
  drop_runs_.erase(drops);
  if (found.after) {
    keep_now(std::move(found));
  } else {
    keep(std::move(found));
  }
}

// ---- suspects

Place OplogAnalysis::State::here() const {
  return {.at = at_,
          .before_at = before_at_,
          .before = before_,
          .before_operations = before_operations_,
          .after = {},
          .changes_before = changes_before_};
}

Suspect OplogAnalysis::State::suspect(Reason reason, const Operation& operation,
                                      std::string ns) const {
  Suspect found;
  found.reason = reason;
  found.ns = std::move(ns);
  found.limit = at_;
  found.last = at_;
  found.operations = 1;
  Remembered words;
  words.set(operation);
  found.first = words.text();
  found.before = before_at_;
  if (before_at_) {
    found.before_text = before_.text();
    if (before_operations_ > 1)
      found.before_text = "a transaction of " + plural(before_operations_, "operation") +
                          ", the first of them: " + found.before_text;
  }
  found.changes_before = changes_before_;
  return found;
}

void OplogAnalysis::State::keep(Suspect found) {
  if (awaiting_.size() == kSuspects) {
    keep_now(std::move(found));
  } else {
    awaiting_.push_back(std::move(found));
  }
}

bool OplogAnalysis::State::keep_now(Suspect found) {
  std::vector<Suspect>& all = answer_.suspects;
  const bool run = is_run(found.reason);
  std::size_t alike = 0;
  Suspect* least = nullptr;
  Suspect* least_alike = nullptr;
  for (Suspect& each : all) {
    if (least == nullptr || each.score < least->score) least = &each;
    if (found.key == 0 || each.key != found.key) continue;
    ++alike;
    if (least_alike == nullptr || each.score < least_alike->score) least_alike = &each;
    // A command that stood still for a while.
    if (run && found.limit >= each.last && found.limit.seconds - each.last.seconds <= kResumed) {
      each.last = found.last;
      each.operations += found.operations;
      each.score = std::max(each.score, found.score);
      return false;
    }
  }
  Suspect* const gives_way = run && alike >= kAlike    ? least_alike
                             : all.size() >= kSuspects ? least
                                                       : nullptr;
  if (gives_way == nullptr) {
    all.push_back(std::move(found));
    return true;
  }
  ++answer_.suspects_left_out;
  if (gives_way->score < found.score) *gives_way = std::move(found);
  return true;
}

// What is known only at the end: how usual it is.
void OplogAnalysis::State::score(Suspect& suspect) {
  if (suspect.reason == Reason::kFall) {
    const auto* const facts = fields_.find(suspect.key);
    if (facts == nullptr) return;
    const double falls = facts->value.falls;
    const double rises = facts->value.rises;
    suspect.similar = facts->value.falls;
    suspect.score /= 1 + 20 * (falls - 1) / (rises + 1);
    suspect.why += falls == 1 ? std::string("; this field never fell else")
                              : "; falls of this field: " + print_count(falls) +
                                    ", rises: " + print_count(rises);
    return;
  }
  if (is_run(suspect.reason))
    suspect.why = plural(suspect.operations, "document") +
                  (suspect.reason == Reason::kMassDelete ? " deleted " : " changed ") +
                  span_text(suspect.limit, suspect.last) + suspect.why;
  std::uint64_t similar = 0;
  if (auto* const runs = runs_.find(suspect.key); runs != nullptr) {
    const auto size = static_cast<std::size_t>(std::bit_width(suspect.operations) - 1);
    for (std::size_t i = size < 2 ? 0 : size - 2; i < runs->value.sizes.size(); ++i)
      similar += runs->value.sizes[i];
  } else {
    similar = static_cast<std::uint64_t>(
        std::ranges::count(answer_.suspects, suspect.key, &Suspect::key));
  }
  suspect.similar = similar;
  if (similar < 2) return;
  suspect.score /= std::sqrt(static_cast<double>(similar));
  suspect.why += "; that happened " + plural(similar, "time");
}

OplogAnswer OplogAnalysis::State::finish() {
  for (Suspect& each : awaiting_) keep_now(std::move(each));
  awaiting_.clear();
  for (auto& slot : runs_.slots()) {
    if (slot.key != 0) end_run(slot.key, slot.value);
  }
  for (Suspect& each : answer_.suspects) score(each);
  std::ranges::sort(answer_.suspects, [](const Suspect& a, const Suspect& b) {
    return std::tuple(-a.score, a.limit, a.key) < std::tuple(-b.score, b.limit, b.key);
  });
  std::ranges::sort(answer_.namespaces, {}, [](const NamespaceFacts& row) {
    const std::uint64_t all = row.counts[0] + row.counts[1] + row.counts[2] + row.counts[3];
    return std::tuple(~all, row.ns);
  });

  const auto tell = [this](std::string notice) { answer_.notices.push_back(std::move(notice)); };
  if (disordered_ != 0)
    tell(plural(disordered_, "entry") + " out of order, first " + print_timestamp(first_disorder_) +
         ": an oplog like that is not replayed; dump it again");
  if (unknown_ != 0)
    tell(plural(unknown_, "entry") +
         " of an unknown kind, which no replay can apply: is this an oplog of MongoDB 4.4 to 7.0?");
  if (counters_.forgotten() != 0)
    tell("numbers of " + plural(counters_.forgotten(), "document field") +
         " were forgotten: there is room for " + print_count(kCounters) +
         ", and those that were updated most are kept; a fall of others may be missing, so look "
         "with --ns, --id or --field for it");
  if (headless_ != 0)
    tell("the beginning of " + plural(headless_, "transaction") +
         " lies before this oplog: what is missing was not looked at");
  if (!pending_.empty())
    tell(plural(pending_.size(), "transaction") +
         " did not commit before the end of this oplog, and had no effect");
  if (early_ != 0)
    tell(plural(early_, "operation") +
         " of very large transactions were looked at where they stand; they took effect later, at "
         "the entry that commits them, which is the limit for them");
  if (answer_.suspects_left_out != 0)
    tell(plural(answer_.suspects_left_out, "suspect") +
         " left out, in whose place are likelier ones: there is room for " +
         print_count(kSuspects) + ", and for " + print_count(kAlike) +
         " that do the same; look with --ns, --op, --from or --to for others");
  if (answer_.namespaces_left_out != 0)
    tell("the timeline has room for " + print_count(kNamespaces) + " namespaces; " +
         plural(answer_.namespaces_left_out, "operation") +
         " on others are counted only as a whole");
  return std::move(answer_);
}

// ----

OplogAnalysis::OplogAnalysis(FindFilter filter)
    : state_(std::make_unique<State>(std::move(filter))) {}
OplogAnalysis::~OplogAnalysis() = default;

Result<void> OplogAnalysis::add(const Entry& entry) { return state_->add(entry); }
OplogAnswer OplogAnalysis::finish() { return state_->finish(); }

}  // namespace idmint::restore
