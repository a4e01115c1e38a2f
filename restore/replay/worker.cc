#include "restore/replay/worker.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "mongo/errors.h"
#include "restore/namespaces.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/replay/net_effect.h"
#include "restore/replay/record.h"
#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {

namespace {

// The limits of one applyOps, which is one transaction of the storage engine.
constexpr std::size_t kMostOperations = 1000;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
// A batch has more than kMostOperations until it has so many bytes: their net effect may be less.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
// The most batches that wait for a worker.
constexpr std::size_t kMostWaiting = 2;
constexpr std::size_t kMostNamed = 20;

// Write conflict, transaction too large, transaction too large for the cache, too large a document
// or command; and an applyOps that took too long, as mongod 6.0 tries one that its cache does not
// hold again without end. error_codes.yml
constexpr std::array<std::int64_t, 5> kTooLarge = {112, 257, 388, 413, mongo::kMaxTimeExpired};
constexpr std::int32_t kLongestApply = 5000;  // milliseconds, of several operations
constexpr std::size_t kMoreAfter = 256;       // batches, until more operations are tried again

// nullopt: no number, or one with a fraction.
std::optional<std::int64_t> whole_number(const Field& field) {
  const std::optional<std::int64_t> whole = field.integer();
  if (whole && field.type == BSON_TYPE_DOUBLE && field.real() != static_cast<double>(*whole))
    return std::nullopt;
  return whole;
}

// The _id, equal for numbers that are.
std::string id_of(Document document) {
  const std::optional<Field> id = find_field(document, "_id");
  if (!id) return {};
  if (const std::optional<std::int64_t> whole = whole_number(*id)) return std::to_string(*whole);
  return std::string(1, static_cast<char>(id->type)) +
         std::string(reinterpret_cast<const char*>(id->value.data()), id->value.size());
}

// The document with the _id of what an insert, update or delete is about.
Document key_of(const Operation& write) { return write.op == Op::kUpdate ? write.o2 : write.o; }

// A document of a batch. Whole numbers are equal whatever their type, as they are to the server.
struct DocumentKey {
  std::string_view ns;
  std::optional<std::int64_t> number;
  std::string_view element;  // without a number

  friend bool operator==(const DocumentKey&, const DocumentKey&) = default;
};
struct HashOfKey {
  std::size_t operator()(const DocumentKey& key) const {
    const std::hash<std::string_view> hash;
    return hash(key.ns) * 31 +
           (key.number ? std::hash<std::int64_t>()(*key.number) : hash(key.element));
  }
};

DocumentKey key_in(std::string_view ns, const Field& id) {
  if (const std::optional<std::int64_t> whole = whole_number(id))
    return {.ns = ns, .number = whole, .element = {}};
  const std::span<const std::uint8_t> bytes = id.element();
  return {.ns = ns,
          .number = {},
          .element = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}

constexpr const char* kNotNoted =
    ": the same command must not go on here, though this could not be noted in the target";

}  // namespace

struct Worker::Batch {
  struct Item {
    Position position;
    Op op;                // kNoop: the second step of the item before
    bool unsure = false;  // what it does depends on what is there
    std::int64_t Counts::* count = Counts::of(op);
    std::string life{};                         // of the collection; empty: it does what it says
    std::int64_t Outcome::* outcome = nullptr;  // what it does instead
  };

  Operations operations;
  std::vector<Item> items;
  bool unsure = false;  // one of its items is, or it is of a slice

  [[nodiscard]] Operations part(std::size_t begin, std::size_t end) const {
    Operations some;
    for (std::size_t i = begin; i < end; ++i) some.append(operations[i]);
    return some;
  }
  // The end of a part that begins there and has at most `most` items and a second step.
  [[nodiscard]] std::size_t end_of(std::size_t begin, std::size_t most) const {
    if (items.size() - begin <= most) return items.size();
    return items[begin + most].op == Op::kNoop ? begin + most + 1 : begin + most;
  }
};

// Items of a batch with the net effect of the updates of each document.
struct Worker::NetPart {
  Operations operations;
  std::vector<std::size_t> items;  // the first item of each operation
  std::size_t end = 0;             // the first item that is not in it
};

Worker::Worker(Server server, Chain chain, bool slice, Shared& shared)
    : server_(std::move(server)),
      chain_(std::move(chain)),
      chain_begin_(chain_.position),
      slice_(slice),
      shared_(shared),
      most_(kMostOperations) {}

Worker::~Worker() {
  {
    const std::lock_guard hold(shared_.lock);
    over_ = true;
  }
  shared_.changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Worker::start() {
  thread_ = std::thread([this] { work(); });
}

Result<void> Worker::add(const Operation& operation, const Position& position,
                         const std::string& life) {
  if (position <= chain_begin_) return {};
  if (!batch_) batch_ = std::make_unique<Batch>();
  const std::size_t size = operation.o.bytes().size() + operation.o2.bytes().size();
  if (!batch_->items.empty() && batch_->operations.bytes() + size > kMostBytes) {
    if (Result<void> sent = send(); !sent) return sent;
    batch_ = std::make_unique<Batch>();
  }
  const std::optional<TwoSteps> steps =
      operation.op == Op::kDelete ? std::nullopt : in_two_steps(operation.o);
  batch_->operations.append(operation.op_name, operation.ns,
                            steps ? steps->first.view() : operation.o, operation.o2,
                            operation.upsert);
  const bool unsure = operation.by_hand || operation.upsert;
  batch_->unsure = batch_->unsure || slice_ || unsure;
  Batch::Item& item = batch_->items.emplace_back(Batch::Item{position, operation.op, unsure});
  if (unsure && !slice_) item.life = life;
  if (steps) {
    const Bson id = only_id(operation.op == Op::kUpdate ? operation.o2 : operation.o);
    batch_->operations.append("u", operation.ns, steps->diff.view(), id.view());
    batch_->items.push_back({position, Op::kNoop});
  }
  const bool full = batch_->unsure || batch_->operations.bytes() >= kBatchBytes;
  return full && batch_->items.size() >= kMostOperations ? send() : Result<void>{};
}

Result<void> Worker::send() {
  if (!batch_) return {};
  std::unique_lock hold(shared_.lock);
  shared_.changed.wait(hold, [&] { return shared_.failed || waiting_.size() < kMostWaiting; });
  if (shared_.failed) return std::unexpected(*shared_.failed);
  waiting_.push_back(std::move(batch_));
  hold.unlock();
  shared_.changed.notify_all();
  return {};
}

Result<void> Worker::wait() {
  std::unique_lock hold(shared_.lock);
  shared_.changed.wait(hold, [&] { return shared_.failed || (waiting_.empty() && !working_); });
  if (shared_.failed) return std::unexpected(*shared_.failed);
  return {};
}

void Worker::work() {
  std::unique_lock hold(shared_.lock);
  while (true) {
    shared_.changed.wait(hold, [&] { return over_ || shared_.failed || !waiting_.empty(); });
    if (over_ || shared_.failed) return;
    std::unique_ptr<Batch> batch = std::move(waiting_.front());
    waiting_.pop_front();
    working_ = true;
    hold.unlock();
    shared_.changed.notify_all();
    Result<void> applied = batch->unsure ? foresee(*batch) : Result<void>{};
    if (applied) applied = apply_net(*batch, 0, batch->items.size());
    hold.lock();
    working_ = false;
    if (!applied && !shared_.failed) shared_.failed = std::move(applied.error());
    shared_.changed.notify_all();
  }
}

// Looks at which documents are there, and sets what each item will count as.
Result<void> Worker::foresee(Batch& batch) {
  using Ids = std::set<std::string>;
  struct Collection {
    BsonArray ids;
    std::uint32_t size = 0;
    Ids there;
  };
  std::map<std::string, Collection, std::less<>> collections;
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    Result<Operation> operation = parse_operation(batch.operations[i]);
    if (!operation) return error_in(operation);
    Collection& of = collections[std::string(operation->ns)];
    const std::optional<Field> id = find_field(key_of(*operation), "_id");
    if (id) append_field_as(of.ids.items.get(), std::to_string(of.size++), *id);
    operations.push_back(*operation);
  }
  for (auto& [ns, of] : collections) {
    const Bson find =
        Bson("find", collection_of(ns), "filter", Bson("_id", Bson("$in", of.ids)), "projection",
             Bson("_id", 1), "batchSize", 1'000'000, "singleBatch", true);
    const Result<Bson> found = server_.command(database_of(ns), find);
    if (!found) return error_in(found);
    found->view().each_found([&](const Document& document) { of.there.insert(id_of(document)); });
  }
  for (std::size_t i = 0; i < operations.size() && i < batch.items.size(); ++i) {
    const Operation& operation = operations[i];
    Batch::Item& item = batch.items[i];
    Ids& there = collections.find(operation.ns)->second.there;
    const std::string id = id_of(key_of(operation));
    if (item.op == Op::kInsert) {
      item.count = there.insert(id).second ? &Counts::inserts : &Counts::replaced;
      if (item.count == &Counts::replaced) item.outcome = &Outcome::replaced;
    } else if (item.op == Op::kUpdate && operation.upsert) {
      item.count = there.insert(id).second ? &Counts::inserts : &Counts::updates;
      if (item.count == &Counts::inserts) item.outcome = &Outcome::upserted;
    } else if (item.op == Op::kDelete) {
      item.count = there.erase(id) != 0 ? &Counts::deletes : nullptr;
      if (item.count == nullptr) item.outcome = &Outcome::absent;
    }
  }
  return {};
}

// The operations with the net effect of the items from `begin` on, of as many before `end` as one
// applyOps takes.
Result<Worker::NetPart> Worker::net_part(const Batch& batch, std::size_t begin,
                                         std::size_t end) const {
  struct Net {
    Operation operation;
    std::vector<std::uint8_t> merged{};  // instead of its `o`
    [[nodiscard]] Document o() const { return merged.empty() ? operation.o : Document::of(merged); }
  };
  NetPart part;
  std::vector<Net> all;
  // The last operation on each document, if it is an update to which more may come.
  std::unordered_map<DocumentKey, std::size_t, HashOfKey> last;
  for (part.end = begin; part.end < end; ++part.end) {
    const Batch::Item& item = batch.items[part.end];
    const Result<Operation> operation = parse_operation(batch.operations[part.end]);
    if (!operation) return error_in(operation);
    const std::optional<Field> id = find_field(key_of(*operation), "_id");
    // An applyOps by hand may give the same _id with another type; a decimal is equal to a number.
    if (item.unsure || !id || id->type == BSON_TYPE_DECIMAL128) last.clear();
    const DocumentKey key = id ? key_in(operation->ns, *id)
                               : DocumentKey{.ns = operation->ns, .number = {}, .element = {}};
    const bool update = item.op == Op::kUpdate && !item.unsure && id;
    const auto known = last.find(key);
    if (update && known != last.end()) {
      Net& net = all[known->second];
      if (std::optional<std::vector<std::uint8_t>> both = net_effect(net.o(), operation->o)) {
        net.merged = *std::move(both);
        continue;
      }
    }
    if (all.size() >= most_ && item.op != Op::kNoop) break;
    if (update) {
      last.insert_or_assign(key, all.size());
    } else if (known != last.end()) {
      last.erase(known);
    }
    all.push_back({*operation});
    part.items.push_back(part.end);
  }
  for (const Net& net : all)
    part.operations.append(net.operation.op_name, net.operation.ns, net.o(), net.operation.o2,
                           net.operation.upsert);
  return part;
}

// Applies the items from `begin` to `end`, which `operations` do, with the marker. `missed`: the
// item at `end` found no document and is done too.
Answer Worker::try_once(const Batch& batch, std::size_t begin, std::size_t end, bool missed,
                        const Operations& operations, Sums& sums) {
  sums = {.counts = chain_.counts, .outcomes = {}};
  for (std::size_t i = begin; i < end; ++i) {
    const Batch::Item& item = batch.items[i];
    sums.counts.add(item.count);
    if (item.life.empty() || item.outcome == nullptr) continue;
    auto at = sums.outcomes.find(item.life);
    if (at == sums.outcomes.end()) {
      const std::lock_guard hold(shared_.lock);
      at = sums.outcomes.emplace(item.life, shared_.outcomes[item.life]).first;
    }
    ++(at->second.*item.outcome);
  }
  if (missed) ++sums.counts.missed;
  const Position& position = batch.items[missed ? end : end - 1].position;
  Operations marker;
  chain_.append_next(marker, position, sums.counts);
  for (const auto& [life, outcome] : sums.outcomes) append_outcome(marker, life, outcome);
  // Two may be the steps of one, which cannot be parted.
  const Answer answer =
      apply_ops(server_, operations, marker, false, operations.size() > 2 ? kLongestApply : 0);
  if (answer.ok && ++applied_ == kMoreAfter) {
    most_ = std::min(kMostOperations, 2 * most_);
    applied_ = 0;
  }
  return answer;
}

// Whether it was too much for the server, as small updates of large documents are for its cache.
// Fewer are sent at once from then on.
bool Worker::was_too_large(const Answer& answer, std::size_t operations) {
  if (std::ranges::find(kTooLarge, answer.code) == kTooLarge.end() || operations < 2) return false;
  most_ = operations / 2;
  applied_ = 0;
  return true;
}

// Once a batch has been applied.
void Worker::advance(const Position& position, const Sums& sums) {
  chain_.advance();
  chain_.counts = sums.counts;
  chain_.position = position;
  const std::lock_guard hold(shared_.lock);
  for (const auto& [life, outcome] : sums.outcomes) shared_.outcomes[life] = outcome;
}

// Applies the items from `begin` to `end`, by their net effect if that is much less. A refused net
// effect is tried in halves, and at last the items are applied as they are.
// NOLINTNEXTLINE(misc-no-recursion): each time for half as much
Result<void> Worker::apply_net(const Batch& batch, std::size_t begin, std::size_t end) {
  while (begin < end) {
    const Result<NetPart> net = net_part(batch, begin, end);
    if (!net) return error_in(net);
    std::size_t plain = std::min(end, batch.end_of(begin, most_));
    if (net->operations.size() <= (net->end - begin) / 2) {
      Sums sums;
      const Answer answer = try_once(batch, begin, net->end, false, net->operations, sums);
      if (answer.ok) {
        advance(batch.items[net->end - 1].position, sums);
        begin = net->end;
        continue;
      }
      if (was_too_large(answer, net->operations.size())) {
        if (Result<void> there = is_there(server_, chain_); !there) return there;
        continue;
      }
      if (answer.unavailable) return std::unexpected(lost(server_, answer));
      if (answer.code == kNamespaceNotFound && answer.results > 1)
        return broken(batch, net->items[std::min(answer.results, net->items.size()) - 1]);
      if (net->end > plain) {
        const std::size_t half = batch.end_of(begin, (net->end - begin) / 2);
        if (Result<void> applied = apply_net(batch, begin, half); !applied) return applied;
        begin = half;
        continue;
      }
      plain = net->end;
    }
    if (Result<void> applied = apply(batch, begin, plain); !applied) return applied;
    begin = plain;
  }
  return {};
}

Result<void> Worker::apply(const Batch& batch, std::size_t begin, std::size_t end) {
  while (begin < end) {
    Sums sums;
    Answer answer = try_once(batch, begin, end, false, batch.part(begin, end), sums);
    if (answer.ok) {
      advance(batch.items[end - 1].position, sums);
      return {};
    }
    const bool too_large = was_too_large(answer, end - begin);
    if (answer.unavailable && !too_large) return std::unexpected(lost(server_, answer));
    const std::size_t failed = begin + std::max<std::size_t>(answer.results, 1) - 1;
    if (answer.code == kNamespaceNotFound && answer.results > 1) return broken(batch, failed);
    if (Result<void> there = is_there(server_, chain_); !there) return there;
    if (too_large) {
      std::size_t middle = begin + (end - begin) / 2;
      if (batch.items[middle].op == Op::kNoop) --middle;
      if (middle == begin) return refused(batch, begin, answer);
      if (Result<void> half = apply(batch, begin, middle); !half) return half;
      begin = middle;
      continue;
    }
    if (answer.code != kUpdateOperationFailed || failed >= end ||
        batch.items[failed].op != Op::kUpdate)
      return refused(batch, failed, answer);
    // Apply all items before it; the marker says that it is done too.
    answer = try_once(batch, begin, failed, true, batch.part(begin, failed), sums);
    if (answer.unavailable) return std::unexpected(lost(server_, answer));
    if (!answer.ok) return refused(batch, failed, answer);
    advance(batch.items[failed].position, sums);
    if (!slice_) {
      const std::lock_guard hold(shared_.lock);
      if (shared_.missed.size() < kMostNamed) shared_.missed.push_back(words(batch, failed));
    }
    begin = failed + 1;
    if (begin < end && batch.items[begin].op == Op::kNoop) ++begin;
  }
  return {};
}

std::string Worker::words(const Batch& batch, std::size_t failed) {
  const Result<Operation> operation = parse_operation(batch.operations[failed]);
  return operation ? in_words(*operation, batch.items[failed].position.ts)
                   : print_timestamp(batch.items[failed].position.ts);
}

std::unexpected<Error> Worker::refused(const Batch& batch, std::size_t failed,
                                       const Answer& answer) {
  const std::size_t which = std::min(failed, batch.items.size() - 1);
  return fail(code_of(answer), "the server refuses " + words(batch, which) + ": " + answer.message);
}

// Reports that a collection disappeared during the replay. Then the server applies operations one
// by one, without the marker.
std::unexpected<Error> Worker::broken(const Batch& batch, std::size_t failed) {
  const Bson command =
      Bson("update", "progress", "updates",
           array(Bson("q", Bson("_id", "replay"), "u", Bson("$set", Bson("broken", true)))));
  const Result<Bson> marked = server_.command(kRecordDatabase, command);
  const bool noted = marked && marked->view().number("n") == 1;
  return fail(Code::kDataLoss, "somebody else drops collections of the target: that of " +
                                   words(batch, std::min(failed, batch.items.size() - 1)) +
                                   " was gone; empty the target, keep others away from it and "
                                   "begin anew" +
                                   (noted ? "" : kNotNoted));
}

}  // namespace idmint::restore
