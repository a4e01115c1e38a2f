#include "restore/replay/load.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "restore/cursor.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/expectation.h"
#include "restore/replay/state.h"
#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kQueued = std::size_t{64} << 20;  // bytes queued for the writers

using Bulk = std::unique_ptr<mongoc_bulk_operation_t,
                             MongocDeleter<mongoc_bulk_operation_t, mongoc_bulk_operation_destroy>>;

std::string ns_of(const CollectionFacts& facts) { return facts.database + "." + data_name(facts); }

// Whether the driver would change the document, or the server would. The driver puts an _id in
// front where it finds none, and it reads no further than binary data that it takes for damaged.
bool must_be_logged(Document document) {
  return has_zero_timestamp(document) ||
         (!document.has("_id") && find_field(document, "_id").has_value());
}

constexpr std::string_view kBegun = "begun:";  // prefix of a namespace

// The part of a collection that was read: its first bytes and documents.
struct Reached {
  std::uint64_t bytes = 0;
  std::uint64_t documents = 0;
  friend auto operator<=>(const Reached&, const Reached&) = default;
};

// The note in the record about a collection that is being loaded.
struct BegunLoad {
  Reached written{};        // the server has all of this, and some of the rest
  std::uint64_t twice = 0;  // at least as many documents of it had an _id that was there
};

Result<std::map<std::string, BegunLoad>> begun_loads(Record& record) {
  const Result<std::map<std::string, Bson>> found = record.get_all(kBegun);
  if (!found) return error_in(found);
  std::map<std::string, BegunLoad> begun;
  for (const auto& [id, fields] : *found) {
    const auto number = [&](const char* key) {
      return static_cast<std::uint64_t>(fields.view().number(key));
    };
    begun[id.substr(kBegun.size())] = {
        .written = {.bytes = number("bytes"), .documents = number("documents")},
        .twice = number("twice")};
  }
  return begun;
}

Result<void> note_begun(Record& record, const std::string& ns, const BegunLoad& begun) {
  return record.put(std::string(kBegun) + ns,
                    Bson("bytes", static_cast<std::int64_t>(begun.written.bytes), "documents",
                         static_cast<std::int64_t>(begun.written.documents), "twice",
                         static_cast<std::int64_t>(begun.twice)));
}

// A batch of one collection, copied.
struct LoadBatch {
  std::size_t collection = 0;
  Reached after{};            // what was read before it
  bool may_be_there = false;  // a run before this one may have written it
  bool in_order = false;
  bool as_logged = false;  // with applyOps, not insert
  std::vector<std::uint8_t> bytes{};
  std::vector<std::size_t> begins{};
  std::vector<std::size_t> sizes{};

  [[nodiscard]] Document at(std::size_t i) const {
    return Document::of(std::span(bytes).subspan(begins[i], sizes[i]));
  }
  void add(Document document) {
    const auto raw = document.bytes();
    begins.push_back(bytes.size());
    bytes.insert(bytes.end(), raw.begin(), raw.end());
    sizes.push_back(raw.size());
  }
};

// The writers and their queue. One thread calls push(), drain() and the like.
class Writers {
 public:
  Writers(const std::vector<CollectionFacts>& collections, bool sliced)
      : collections_(collections),
        sliced_(sliced),
        unwritten_(collections.size()),
        written_(collections.size()),
        twice_(collections.size()) {}
  ~Writers() { end(); }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  Result<void> start(const Server& server, unsigned count) {
    for (unsigned i = 0; i < std::max(count, 1U); ++i) {
      Result<Server> another = server.another(kWriterPatience);
      if (!another) return error_in(another);
      threads_.emplace_back([this, i, connection = std::make_shared<Server>(std::move(*another))] {
        write(*connection, i == 0);
      });
    }
    return {};
  }

  // Waits while the queue is full.
  Result<void> push(LoadBatch batch) {
    std::unique_lock lock(mutex_);
    const std::size_t size = batch.bytes.size();
    room_.wait(lock, [&] { return failed_ || queued_ == 0 || queued_ + size <= kQueued; });
    if (failed_) return std::unexpected(*failed_);
    queued_ += size;
    unwritten_[batch.collection].insert(batch.after);
    queue_.push_back(std::move(batch));
    work_.notify_all();
    return {};
  }
  // Waits until everything is written.
  Result<void> drain() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] {
      return failed_ ||
             std::ranges::all_of(unwritten_, [](const auto& each) { return each.empty(); });
    });
    if (failed_) return std::unexpected(*failed_);
    return {};
  }
  [[nodiscard]] bool is_written(std::size_t collection) {
    const std::lock_guard lock(mutex_);
    return unwritten_[collection].empty() && !failed_;
  }
  // The begin of the first unwritten batch; `read` if all are written.
  [[nodiscard]] Reached written_before(std::size_t collection, const Reached& read) {
    const std::lock_guard lock(mutex_);
    const std::multiset<Reached>& unwritten = unwritten_[collection];
    return unwritten.empty() ? read : *unwritten.begin();
  }
  [[nodiscard]] std::uint64_t written(std::size_t collection) {
    const std::lock_guard lock(mutex_);
    return written_[collection];
  }
  // The number of documents whose _id existed.
  [[nodiscard]] std::uint64_t twice(std::size_t collection) {
    const std::lock_guard lock(mutex_);
    return twice_[collection];
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Only the first writer takes batches that must stay in order.
  std::optional<LoadBatch> pop(bool first) {
    std::unique_lock lock(mutex_);
    while (true) {
      if (ended_ || failed_) return std::nullopt;
      const auto next = std::ranges::find_if(
          queue_, [&](const LoadBatch& batch) { return first || !batch.in_order; });
      if (next != queue_.end()) {
        LoadBatch batch = std::move(*next);
        queue_.erase(next);
        return batch;
      }
      work_.wait(lock);
    }
  }

  void write(Server& server, bool first) {
    while (std::optional<LoadBatch> batch = pop(first)) {
      std::uint64_t twice = 0;
      const Result<std::uint64_t> inserted =
          batch->as_logged ? apply_inserts(server, *batch) : insert(server, *batch, twice);
      const std::lock_guard lock(mutex_);
      if (!inserted) {
        if (!failed_) failed_ = inserted.error();
      } else {
        queued_ -= batch->bytes.size();
        std::multiset<Reached>& unwritten = unwritten_[batch->collection];
        unwritten.erase(unwritten.find(batch->after));
        written_[batch->collection] += *inserted;
        twice_[batch->collection] += twice;
      }
      room_.notify_all();
      if (failed_) work_.notify_all();
    }
  }

  // Returns the number of inserted documents.
  Result<std::uint64_t> insert(Server& server, const LoadBatch& batch, std::uint64_t& twice) {
    const CollectionFacts& facts = collections_[batch.collection];
    const Collection collection(mongoc_client_get_collection(
        server.client(), facts.database.c_str(), data_name(facts).c_str()));
    const Bson order = Bson("ordered", batch.in_order);
    const Bulk bulk(
        mongoc_collection_create_bulk_operation_with_opts(collection.get(), order.get()));
    mongoc_bulk_operation_set_bypass_document_validation(bulk.get(), true);
    const Bson as_it_is = Bson("validate", false);
    bson_error_t error{};
    for (std::size_t i = 0; i < batch.sizes.size(); ++i) {
      const bson_t document = batch.at(i).view();
      if (!mongoc_bulk_operation_insert_with_opts(bulk.get(), &document, as_it_is.get(), &error))
        return std::unexpected(told("insert into " + ns_of(facts), error));
    }
    bson_t reply;
    const bool ok = mongoc_bulk_operation_execute(bulk.get(), &reply, &error) != 0;
    const Bson answer = Bson::taken_from(&reply);
    if (ok) return batch.sizes.size();

    const std::string doing = "insert into " + ns_of(facts);
    std::uint64_t known = 0;
    for (const Field& each : Fields(answer.view().array("writeErrors"))) {
      const Document write_error = each.document();
      const std::int64_t code = write_error.number("code");
      // There is no unique index yet but _id_.
      if (code == kDuplicateKey && (sliced_ || batch.may_be_there) && !batch.in_order) {
        ++known;
        continue;
      }
      std::string message = doing;
      const auto index = static_cast<std::uint64_t>(write_error.numeric("index").value_or(-1));
      if (index < batch.sizes.size() && batch.at(index).has("_id"))
        message += " of the document " + to_relaxed_json(only_id(batch.at(index)).view());
      message += ": ";
      message += write_error.has("errmsg") ? write_error.text("errmsg") : error.message;
      return fail(Code::kFailedPrecondition, message);
    }
    if (known == 0) return std::unexpected(told(doing, error));
    twice += known;
    return batch.sizes.size() - known;
  }

  // Deletes a document with the same _id first, as over it the insert would be an upsert, in which
  // the server sets zero timestamps. A capped collection has none, and its order must stay.
  static void append_insert(Operations& operations, const std::string& ns, Document document,
                            bool capped) {
    const Bson id = only_id(document);
    if (!capped && !id.view().empty()) operations.append("d", ns, id.view(), {});
    operations.append("i", ns, document, {});
  }

  // Inserts the documents as they are: not as one atomic step, as then the server would set zero
  // timestamps. Replaces a document with the same _id.
  Result<std::uint64_t> apply_inserts(Server& server, const LoadBatch& batch) {
    const std::string ns = ns_of(collections_[batch.collection]);
    constexpr std::size_t most_bytes = std::size_t{4} << 20;
    for (std::size_t i = 0; i < batch.sizes.size();) {
      Operations operations;
      while (i < batch.sizes.size() && (operations.size() == 0 || operations.bytes() < most_bytes))
        append_insert(operations, ns, batch.at(i++), batch.in_order);
      const Answer answer = apply_one_by_one(server, operations);
      if (!answer.ok) return failed(server, answer, "insert into " + ns);
    }
    return batch.sizes.size();
  }

  const std::vector<CollectionFacts>& collections_;
  const bool sliced_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable room_;
  std::deque<LoadBatch> queue_;
  std::size_t queued_ = 0;
  std::vector<std::multiset<Reached>> unwritten_;  // batches, by collection
  std::vector<std::uint64_t> written_;
  std::vector<std::uint64_t> twice_;
  std::optional<Error> failed_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

Result<void> create(Server& server, const CollectionFacts& facts, bool again) {
  // A server whose last user was dropped has the empty collection.
  if (again || is_users(facts.ns()))
    if (Result<void> dropped = drop_collection(server, facts); !dropped) return dropped;
  return create_collection(server, facts);
}

// Detects losses: a server that was killed may lose acknowledged writes, and another run may write
// to the same collection.
Result<void> check_count(const Server& server, const CollectionFacts& facts, std::uint64_t there,
                         std::uint64_t least, std::uint64_t most) {
  if (there >= least && there <= most) return {};
  return fail(Code::kUnavailable,
              ns_of(facts) + " has " + std::to_string(there) + " documents on " +
                  server.shown_uri() + " after " + std::to_string(least) +
                  " were inserted: the server has lost some as it was ended and "
                  "started again, or another run or client writes there; where "
                  "none does, the same command loads it again");
}

// The command create, with the collection's options that it accepts.
Bson create_command(const CollectionFacts& facts) {
  Bson command = Bson("create", facts.name);
  for (const Field& option : Fields(facts.options.view())) {
    const std::string_view key = option.key;
    // Skips options of other server versions; only collections in local can lack _id_. Skips temp
    // too, because a server drops temporary collections when it starts.
    if (key == "create" || key == "temp" || key == "idIndex" || key == "uuid" ||
        key == "recordIdsReplicated" ||
        (key == "autoIndexId" && !facts.options.view().truthy("autoIndexId")))
      continue;
    append_field(command.get(), option);
  }
  if (facts.kind != CollectionKind::kCollection || facts.options.view().has("clusteredIndex"))
    return command;
  for (const Bson& index : facts.indexes) {
    if (index.view().text("name") != "_id_") continue;
    const Bson id_index;
    // Older servers also noted ns, unique and background, which none accepts today.
    for (const char* const key : {"v", "key", "name", "collation"}) {
      if (const std::optional<Field> field = find_field(index.view(), key))
        append_field(id_index.get(), *field);
    }
    command.add("idIndex", id_index);
  }
  return command;
}

}  // namespace

// With the command drop, or with applyOps for collections like system.js, which drop refuses.
Result<void> drop_collection(Server& server, const CollectionFacts& facts) {
  const Bson command = Bson("drop", facts.name);
  const Answer answer = facts.name.starts_with("system.")
                            ? apply_command(server, facts.database, command)
                            : ask(server, facts.database, command);
  if (answer.ok || answer.code == kNamespaceNotFound) return {};
  return failed(server, answer, "drop on " + server.shown_uri());
}

Result<void> create_collection(Server& server, const CollectionFacts& facts) {
  // The command itself would refuse what older servers allowed, and what only a set may have.
  const Bson command = create_command(facts);
  const Answer answer = facts.kind == CollectionKind::kCollection
                            ? apply_command(server, facts.database, command)
                            : ask(server, facts.database, command);
  if (answer.ok) return {};
  return failed(server, answer, facts.ns() + ": create on " + server.shown_uri());
}

Result<LoadCounts> load_base(const BaseBackup& base, Server& server, Record& record,
                             const LoadOptions& options, const TakeProgress& progress) {
  const std::vector<CollectionFacts>& all = base.collections();
  const Result<Loaded> before = loaded(record);
  if (!before) return error_in(before);
  Result<std::map<std::string, BegunLoad>> begun = begun_loads(record);
  if (!begun) return error_in(begun);

  LoadCounts counts;
  std::vector<std::size_t> to_load;
  std::vector<std::size_t> views;
  std::vector<bool> wanted(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!options.filter.includes(all[i].database + "." + all[i].name)) continue;
    ++(all[i].kind == CollectionKind::kView ? counts.views : counts.collections);
    if (all[i].kind == CollectionKind::kView) {
      views.push_back(i);
    } else if (!before->contains(ns_of(all[i]))) {
      to_load.push_back(i);
      wanted[i] = true;
    }
  }
  std::ranges::sort(to_load, [&](std::size_t a, std::size_t b) {
    return std::pair(all[b].bytes, a) < std::pair(all[a].bytes, b);  // stable for equal sizes
  });
  const auto tell = [&](std::uint64_t bytes) {
    return progress ? progress(bytes) : Result<void>{};
  };
  std::set<std::string> there;
  if (!begun->empty()) {
    const Result<std::vector<CollectionFacts>> listed = list_namespaces(server);
    if (!listed) return error_in(listed);
    for (const CollectionFacts& each : *listed) there.insert(ns_of(each));
  }
  std::vector<BegunLoad> from(all.size());
  for (const std::size_t i : to_load) {
    if (Result<void> told = tell(0); !told) return error_in(told);
    const std::string ns = ns_of(all[i]);
    if (const auto at = begun->find(ns); at != begun->end() && at->second.written.bytes != 0) {
      if (there.contains(ns)) {
        from[i] = at->second;
        continue;
      }
      if (Result<void> reset = note_begun(record, ns, {}); !reset) return error_in(reset);
    }
    if (Result<void> created = create(server, all[i], record.resumed()); !created)
      return error_in(created);
  }

  Writers writers(all, options.sliced);
  if (Result<void> started = writers.start(server, options.writers); !started)
    return error_in(started);
  std::uint64_t bytes = 0;
  std::vector<bool> replaced(all.size());  // duplicates in the base were not counted
  std::vector<Reached> reached(all.size());
  std::vector<std::uint64_t> noted(all.size());
  for (const std::size_t i : to_load) noted[i] = from[i].written.bytes;
  // An upper bound of the documents that were read and had an _id that was there.
  const auto twice_of = [&](std::size_t i, const Reached& read) {
    return replaced[i] ? read.documents : from[i].twice + writers.twice(i);
  };
  const auto note = [&](std::size_t i) -> Result<void> {
    if (!options.note_every || reached[i].bytes < noted[i] + *options.note_every) return {};
    const Reached written = writers.written_before(i, reached[i]);
    if (written.bytes < noted[i] + *options.note_every) return {};
    noted[i] = written.bytes;
    return note_begun(record, ns_of(all[i]), {.written = written, .twice = twice_of(i, written)});
  };
  const TakeDocuments take = [&](const CollectionFacts& facts,
                                 std::span<const Document> documents) -> Result<void> {
    const auto i = static_cast<std::size_t>(&facts - all.data());
    const bool in_order = facts.options.view().truthy("capped");
    std::size_t size = 0;
    for (const Document& document : documents) size += document.bytes().size();
    bytes += size;
    if (Result<void> told = tell(bytes); !told) return told;
    if (!wanted[i] || documents.empty()) return {};
    while (reached[i] < from[i].written && !documents.empty()) {
      reached[i].bytes += documents.front().bytes().size();
      ++reached[i].documents;
      size -= documents.front().bytes().size();
      documents = documents.subspan(1);
    }
    LoadBatch batch{.collection = i,
                    .after = reached[i],
                    .may_be_there = from[i].written.bytes != 0,
                    .in_order = in_order};
    LoadBatch logged{.collection = i, .after = reached[i], .in_order = in_order, .as_logged = true};
    reached[i].bytes += size;
    reached[i].documents += documents.size();
    const bool all_logged = in_order && std::ranges::any_of(documents, must_be_logged);
    batch.bytes.reserve(all_logged ? 0 : size);
    for (const Document& document : documents)
      (all_logged || must_be_logged(document) ? logged : batch).add(document);
    replaced[i] = replaced[i] || (options.sliced && !logged.sizes.empty());
    for (LoadBatch* const each : {&batch, &logged}) {
      if (each->sizes.empty()) continue;
      if (Result<void> pushed = writers.push(std::move(*each)); !pushed) return pushed;
    }
    return in_order ? Result<void>{} : note(i);
  };

  std::deque<std::size_t> unrecorded;  // completely read
  const auto record_written = [&]() -> Result<void> {
    for (auto i = unrecorded.begin(); i != unrecorded.end();) {
      if (!writers.is_written(*i)) {
        ++i;
        continue;
      }
      const std::string ns = ns_of(all[*i]);
      const bool went_on = from[*i].written.bytes != 0;
      std::uint64_t documents = writers.written(*i);
      std::uint64_t twice = writers.twice(*i);
      if (!all[*i].options.view().truthy("capped")) {  // it may have room for fewer
        const Result<std::uint64_t> there = count_documents(server, ns);
        if (!there) return error_in(there);
        // Duplicates came from the base, or from a run that was killed.
        std::uint64_t most = documents + twice;
        if (went_on) {
          most = reached[*i].documents;
          documents = most - (options.sliced ? std::min(most, twice_of(*i, reached[*i])) : 0);
        }
        Result<void> good =
            replaced[*i] ? Result<void>{} : check_count(server, all[*i], *there, documents, most);
        if (!good) {
          // The missing documents may be before the note.
          [[maybe_unused]] const Result<void> reset = note_begun(record, ns, {});
          return good;
        }
        if (went_on) twice = most - std::min(most, *there);
        if (went_on || replaced[*i]) documents = *there;
      }
      if (Result<void> put = set_loaded(record, ns, documents); !put) return put;
      counts.documents += documents;
      counts.twice += twice;
      i = unrecorded.erase(i);
    }
    return {};
  };
  for (std::size_t i = 0; i < to_load.size(); ++i) {
    const std::size_t collection = to_load[i];
    reached[collection] = from[collection].written;
    bytes += reached[collection].bytes;
    Result<void> read = base.documents(collection, take, reached[collection].bytes);
    if (!read && read.error().code == Code::kUnimplemented && i == 0) {  // reads all at once
      reached[collection] = {};
      bytes = 0;
      read = base.documents({}, take);
      if (!read) return error_in(read);
      unrecorded.assign(to_load.begin(), to_load.end());
      break;
    }
    if (!read) return error_in(read);
    unrecorded.push_back(collection);
    if (Result<void> recorded = record_written(); !recorded) return error_in(recorded);
  }
  if (Result<void> drained = writers.drain(); !drained) return error_in(drained);
  if (Result<void> recorded = record_written(); !recorded) return error_in(recorded);

  for (const std::size_t i : views) {
    if (Result<void> created = create(server, all[i], record.resumed()); !created)
      return error_in(created);
  }
  return counts;
}

}  // namespace idmint::restore
