#include "restore/load.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "restore/expectation.h"
#include "restore/state.h"
#include "restore/zero_timestamps.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kQueued = std::size_t{64} << 20;  // bytes that wait for a writer

struct CollectionDeleter {
  void operator()(mongoc_collection_t* collection) const { mongoc_collection_destroy(collection); }
};
using Collection = std::unique_ptr<mongoc_collection_t, CollectionDeleter>;
struct BulkDeleter {
  void operator()(mongoc_bulk_operation_t* bulk) const { mongoc_bulk_operation_destroy(bulk); }
};
using Bulk = std::unique_ptr<mongoc_bulk_operation_t, BulkDeleter>;

std::string ns_of(const CollectionFacts& facts) { return facts.database + "." + data_name(facts); }

bool is_true(Document options, const char* key) {
  bson_iter_t at;
  return options && options.find(key, &at) && bson_iter_as_bool(&at);
}

Document options_of(const CollectionFacts& facts) {
  return facts.options.get() != nullptr ? facts.options.view() : Document();
}

// The command create, with the options that it takes.
OwnDocument create_command(const CollectionFacts& facts) {
  OwnDocument command = own(bson_new());
  bson_append_utf8(command.get(), "create", -1, facts.name.c_str(),
                   static_cast<int>(facts.name.size()));
  const Document options = options_of(facts);
  if (options) {
    bson_iter_t at = options.begin();
    while (bson_iter_next(&at)) {
      const std::string_view key = bson_iter_key(&at);
      // What servers of other versions have; no _id_ is possible in local alone. Those that are
      // temporary go when the server starts.
      if (key == "create" || key == "temp" || key == "idIndex" || key == "uuid" ||
          key == "autoIndexId" || key == "recordIdsReplicated")
        continue;
      bson_append_iter(command.get(), nullptr, -1, &at);
    }
  }
  bson_iter_t unused;
  if (facts.kind != CollectionKind::kCollection ||
      (options && options.find("clusteredIndex", &unused)))
    return command;
  for (const OwnDocument& index : facts.indexes) {
    bson_iter_t name;
    if (!index.view().find("name", &name) || as_text(name) != "_id_") continue;
    bson_t id_index;
    bson_append_document_begin(command.get(), "idIndex", -1, &id_index);
    bson_iter_t at = index.view().begin();
    while (bson_iter_next(&at)) {
      if (std::string_view(bson_iter_key(&at)) != "ns")
        bson_append_iter(&id_index, nullptr, -1, &at);
    }
    bson_append_document_end(command.get(), &id_index);
  }
  return command;
}

// Of one collection, copied.
struct Batch {
  std::size_t collection = 0;
  bool in_order = false;
  bool as_logged = false;  // by applyOps, not by insert
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

// The writers, and what waits for them. push() and the like are for one thread.
class Writers {
 public:
  Writers(const std::vector<CollectionFacts>& collections, bool sliced)
      : collections_(collections),
        sliced_(sliced),
        left_(collections.size()),
        written_(collections.size()),
        twice_(collections.size()) {}
  ~Writers() { end(); }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  Result<void> start(const Server& server, unsigned count) {
    for (unsigned i = 0; i < std::max(count, 1U); ++i) {
      Result<Server> another = server.another();
      if (!another) return std::unexpected(std::move(another.error()));
      threads_.emplace_back([this, i, connection = std::make_shared<Server>(std::move(*another))] {
        write(*connection, i == 0);
      });
    }
    return {};
  }

  // Waits while there is too much already.
  Result<void> push(Batch batch) {
    std::unique_lock lock(mutex_);
    const std::size_t size = batch.bytes.size();
    room_.wait(lock, [&] { return failed_ || queued_ == 0 || queued_ + size <= kQueued; });
    if (failed_) return std::unexpected(*failed_);
    queued_ += size;
    ++left_[batch.collection];
    queue_.push_back(std::move(batch));
    work_.notify_all();
    return {};
  }
  // Waits until everything is written.
  Result<void> drain() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] {
      return failed_ || std::ranges::all_of(left_, [](std::size_t left) { return left == 0; });
    });
    if (failed_) return std::unexpected(*failed_);
    return {};
  }
  [[nodiscard]] bool is_written(std::size_t collection) {
    const std::lock_guard lock(mutex_);
    return left_[collection] == 0 && !failed_;
  }
  [[nodiscard]] std::uint64_t written(std::size_t collection) {
    const std::lock_guard lock(mutex_);
    return written_[collection];
  }
  // Documents whose _id was there.
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

  // The first writer alone takes what must stay in its order.
  std::optional<Batch> pop(bool first) {
    std::unique_lock lock(mutex_);
    while (true) {
      if (ended_ || failed_) return std::nullopt;
      const auto next = std::ranges::find_if(
          queue_, [&](const Batch& batch) { return first || !batch.in_order; });
      if (next != queue_.end()) {
        Batch batch = std::move(*next);
        queue_.erase(next);
        return batch;
      }
      work_.wait(lock);
    }
  }

  void write(Server& server, bool first) {
    while (std::optional<Batch> batch = pop(first)) {
      std::uint64_t twice = 0;
      const Result<std::uint64_t> inserted =
          batch->as_logged ? apply_inserts(server, *batch) : insert(server, *batch, twice);
      const std::lock_guard lock(mutex_);
      if (!inserted) {
        if (!failed_) failed_ = inserted.error();
      } else {
        queued_ -= batch->bytes.size();
        --left_[batch->collection];
        written_[batch->collection] += *inserted;
        twice_[batch->collection] += twice;
      }
      room_.notify_all();
      if (failed_) work_.notify_all();
    }
  }

  // How many were.
  Result<std::uint64_t> insert(Server& server, const Batch& batch, std::uint64_t& twice) {
    const CollectionFacts& facts = collections_[batch.collection];
    const Collection collection(mongoc_client_get_collection(
        server.client(), facts.database.c_str(), data_name(facts).c_str()));
    const OwnDocument order = own(BCON_NEW("ordered", BCON_BOOL(batch.in_order)));
    const Bulk bulk(
        mongoc_collection_create_bulk_operation_with_opts(collection.get(), order.get()));
    mongoc_bulk_operation_set_bypass_document_validation(bulk.get(), true);
    const OwnDocument as_it_is = own(BCON_NEW("validate", BCON_BOOL(false)));
    bson_error_t error{};
    for (std::size_t i = 0; i < batch.sizes.size(); ++i) {
      const bson_t document = batch.at(i).view();
      if (!mongoc_bulk_operation_insert_with_opts(bulk.get(), &document, as_it_is.get(), &error))
        return std::unexpected(told("insert into " + ns_of(facts), error));
    }
    bson_t reply;
    const bool ok = mongoc_bulk_operation_execute(bulk.get(), &reply, &error) != 0;
    const OwnDocument answer = own(bson_copy(&reply));
    bson_destroy(&reply);
    if (ok) return batch.sizes.size();

    const std::string doing = "insert into " + ns_of(facts);
    bson_iter_t errors;
    bson_iter_t each;
    constexpr std::int64_t kDuplicateKey = 11000;
    std::uint64_t known = 0;
    if (!answer.view().find("writeErrors", &errors) || !bson_iter_recurse(&errors, &each))
      return std::unexpected(told(doing, error));
    while (bson_iter_next(&each)) {
      const Document write_error = as_document(each);
      bson_iter_t at;
      const std::int64_t code = write_error.find("code", &at) ? as_integer(at).value_or(0) : 0;
      const std::int64_t index = write_error.find("index", &at) ? as_integer(at).value_or(-1) : -1;
      // Only _id_ is there yet.
      if (code == kDuplicateKey && sliced_ && !batch.in_order) {
        ++known;
        continue;
      }
      std::string message = doing;
      bson_iter_t id;
      if (index >= 0 && static_cast<std::size_t>(index) < batch.sizes.size() &&
          batch.at(static_cast<std::size_t>(index)).find("_id", &id)) {
        const OwnDocument named = own(bson_new());
        bson_append_iter(named.get(), "_id", -1, &id);
        message += " of the document " + to_relaxed_json(named.view());
      }
      const std::string why =
          write_error.find("errmsg", &at) ? std::string(as_text(at)) : std::string(error.message);
      message += ": " + why;
      return std::unexpected(Error{Code::kFailedPrecondition, message});
    }
    if (known == 0) return std::unexpected(told(doing, error));
    twice += known;
    return batch.sizes.size() - known;
  }

  // An _id that is there is replaced.
  Result<std::uint64_t> apply_inserts(Server& server, const Batch& batch) {
    const std::string ns = ns_of(collections_[batch.collection]);
    constexpr std::size_t most_bytes = std::size_t{4} << 20;
    for (std::size_t i = 0; i < batch.sizes.size();) {
      const OwnDocument command = own(bson_new());
      bson_t operations;
      BSON_APPEND_ARRAY_BEGIN(command.get(), "applyOps", &operations);
      std::size_t size = 0;
      for (std::uint32_t key = 0; i < batch.sizes.size() && (key == 0 || size < most_bytes);
           ++key) {
        size += batch.sizes[i];
        const Document document = batch.at(i++);
        const std::optional<TwoSteps> steps = in_two_steps(document);
        const bson_t first = (steps ? steps->first.view() : document).view();
        BCON_APPEND(&operations, std::to_string(key).c_str(), "{", "op", BCON_UTF8("i"), "ns",
                    BCON_UTF8(ns.c_str()), "o", BCON_DOCUMENT(&first), "}");
        if (!steps) continue;
        const OwnDocument id = only_id(document);
        BCON_APPEND(&operations, std::to_string(++key).c_str(), "{", "op", BCON_UTF8("u"), "ns",
                    BCON_UTF8(ns.c_str()), "o", BCON_DOCUMENT(steps->diff.get()), "o2",
                    BCON_DOCUMENT(id.get()), "}");
      }
      bson_append_array_end(command.get(), &operations);
      BSON_APPEND_BOOL(command.get(), "bypassDocumentValidation", true);
      if (const Result<OwnDocument> applied = server.command("admin", command.get()); !applied)
        return std::unexpected(
            Error{applied.error().code, "insert into " + ns + ": " + applied.error().message});
    }
    return batch.sizes.size();
  }

  const std::vector<CollectionFacts>& collections_;
  const bool sliced_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable room_;
  std::deque<Batch> queue_;
  std::size_t queued_ = 0;
  std::vector<std::size_t> left_;  // batches that are not written, by collection
  std::vector<std::uint64_t> written_;
  std::vector<std::uint64_t> twice_;
  std::optional<Error> failed_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

Result<void> drop(Server& server, const CollectionFacts& facts) {
  const OwnDocument command = own(BCON_NEW("drop", BCON_UTF8(facts.name.c_str())));
  const Result<OwnDocument> dropped = server.command(facts.database.c_str(), command.get());
  if (dropped || dropped.error().message.find("ns not found") != std::string::npos) return {};
  return std::unexpected(dropped.error());
}

Result<void> create(Server& server, const CollectionFacts& facts, bool again) {
  if (again) {
    if (Result<void> dropped = drop(server, facts); !dropped) return dropped;
  }
  const OwnDocument command = create_command(facts);
  const Result<OwnDocument> created = server.command(facts.database.c_str(), command.get());
  if (created) return {};
  return std::unexpected(Error{created.error().code,
                               facts.database + "." + facts.name + ": " + created.error().message});
}

// A server that was killed and is back may have lost what it had answered to; and another run may
// write to the same collection. One that is capped may have had no room for all.
// `twice` more were there, of the base or of a request of a run that was killed.
Result<void> check_count(Server& server, const CollectionFacts& facts, std::uint64_t written,
                         std::uint64_t twice) {
  if (is_true(options_of(facts), "capped")) return {};
  const Result<std::uint64_t> there = count_documents(server, ns_of(facts));
  if (!there) return std::unexpected(there.error());
  if (*there >= written && *there <= written + twice) return {};
  return std::unexpected(
      Error{Code::kUnavailable, ns_of(facts) + " has " + std::to_string(*there) + " documents on " +
                                    server.shown_uri() + " after " + std::to_string(written) +
                                    " were inserted: the server has lost some as it was ended and "
                                    "started again, or another run or client writes there; where "
                                    "none does, the same command loads it again"});
}

}  // namespace

Result<LoadCounts> load_base(const BaseBackup& base, Server& server, Record& record,
                             const LoadOptions& options,
                             const std::function<void(std::uint64_t bytes)>& progress) {
  const std::vector<CollectionFacts>& all = base.collections();
  const Result<Loaded> before = loaded(record);
  if (!before) return std::unexpected(before.error());

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
    return std::pair(all[b].bytes, a) < std::pair(all[a].bytes, b);  // of equals the first
  });
  for (const std::size_t i : to_load) {
    if (stop_signal() != 0)
      return std::unexpected(Error{Code::kUnavailable, "stopped by a signal"});
    if (Result<void> created = create(server, all[i], record.resumed()); !created)
      return std::unexpected(std::move(created.error()));
  }

  Writers writers(all, options.sliced);
  if (Result<void> started = writers.start(server, options.writers); !started)
    return std::unexpected(std::move(started.error()));
  std::uint64_t bytes = 0;
  std::vector<bool> replaced(all.size());  // what is twice in the base was not counted
  const TakeDocuments take = [&](const CollectionFacts& facts,
                                 std::span<const Document> documents) -> Result<void> {
    if (stop_signal() != 0)
      return std::unexpected(Error{Code::kUnavailable, "stopped by a signal"});
    const auto i = static_cast<std::size_t>(&facts - all.data());
    const bool in_order = is_true(options_of(facts), "capped");
    Batch batch{.collection = i, .in_order = in_order};
    Batch logged{.collection = i, .in_order = in_order, .as_logged = true};
    std::size_t size = 0;
    for (const Document& document : documents) size += document.bytes().size();
    bytes += size;
    if (progress) progress(bytes);
    if (!wanted[i] || documents.empty()) return {};
    const bool all_logged = in_order && std::ranges::any_of(documents, has_zero_timestamp);
    batch.bytes.reserve(all_logged ? 0 : size);
    for (const Document& document : documents)
      (all_logged || has_zero_timestamp(document) ? logged : batch).add(document);
    replaced[i] = replaced[i] || (options.sliced && !logged.sizes.empty());
    for (Batch* const each : {&batch, &logged}) {
      if (each->sizes.empty()) continue;
      if (Result<void> pushed = writers.push(std::move(*each)); !pushed) return pushed;
    }
    return {};
  };

  std::deque<std::size_t> unrecorded;  // read to their end
  const auto record_written = [&]() -> Result<void> {
    for (auto i = unrecorded.begin(); i != unrecorded.end();) {
      if (!writers.is_written(*i)) {
        ++i;
        continue;
      }
      const std::uint64_t documents = writers.written(*i);
      if (!replaced[*i]) {
        Result<void> good = check_count(server, all[*i], documents, writers.twice(*i));
        if (!good) return good;
      }
      if (Result<void> put = set_loaded(record, ns_of(all[*i]), documents); !put) return put;
      counts.documents += documents;
      counts.twice += writers.twice(*i);
      i = unrecorded.erase(i);
    }
    return {};
  };
  for (std::size_t i = 0; i < to_load.size(); ++i) {
    Result<void> read = base.documents(to_load[i], take);
    if (!read && read.error().code == Code::kUnimplemented && i == 0) {  // all at once
      read = base.documents({}, take);
      if (!read) return std::unexpected(std::move(read.error()));
      unrecorded.assign(to_load.begin(), to_load.end());
      break;
    }
    if (!read) return std::unexpected(std::move(read.error()));
    unrecorded.push_back(to_load[i]);
    if (Result<void> recorded = record_written(); !recorded)
      return std::unexpected(std::move(recorded.error()));
  }
  if (Result<void> drained = writers.drain(); !drained)
    return std::unexpected(std::move(drained.error()));
  if (Result<void> recorded = record_written(); !recorded)
    return std::unexpected(std::move(recorded.error()));

  for (const std::size_t i : views) {
    if (Result<void> created = create(server, all[i], record.resumed()); !created)
      return std::unexpected(std::move(created.error()));
  }
  return counts;
}

}  // namespace idmint::restore
