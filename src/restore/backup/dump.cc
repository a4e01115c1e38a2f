#include "restore/backup/dump.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "restore/oplog/member.h"
#include "restore/oplog/slice.h"

namespace idmint::restore {
namespace {

// How often collections are listed while one of them is in halves, and milliseconds in between.
constexpr int kListings = 20;
constexpr int kRestOfDump = 100;

Error rolled_over(Timestamp at) {
  return {Code::kOutOfRange,
          "the oplog rolled over while the backup was made: its entry " + print_timestamp(at) +
              " is gone; give the members a larger one (replSetResizeOplog), or make the backup "
              "while less is written"};
}

// What there is.

// As the common tools have it: with users and roles, without what is of the cluster.
bool is_dumped(std::string_view database, std::string_view collection) {
  if (collection.find('$') != std::string_view::npos) return false;
  if (database == "admin") return collection != "system.keys";
  return collection == "system.js" || !collection.starts_with("system.");
}

// Without those that are being built: when they are, the oplog says so. None of a collection that
// was dropped meanwhile, which the oplog says too.
Result<void> add_indexes(Member& member, CollectionFacts& facts) {
  const Bson list = Bson("listIndexes", facts.name, "includeBuildUUIDs", true);
  const Result<bool> listed =
      member.documents(facts.database.c_str(), list.get(), [&](Document index) -> Result<void> {
        bson_iter_t at;
        if (!index.find("buildUUID", &at)) facts.indexes.push_back(Bson::copy_of(index));
        return {};
      });
  return listed ? Result<void>{} : std::unexpected(listed.error());
}

// Those that are dumped.
Result<std::vector<std::string>> list_databases(Member& member) {
  const Result<Bson> reply = member.command("admin", listing_of_databases().get());
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::string> names = databases_in(reply->view());
  std::erase_if(names, [](const std::string& name) {
    return name == "local" || name == "config" || name.starts_with("__mdb_internal");
  });
  return names;
}

// A time-series collection is made and dropped in two steps, between which its documents are there
// and it is not. Its name; empty: there is none such.
std::string half_of_series(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    constexpr std::string_view buckets = "system.buckets.";
    if (name.starts_with(buckets) && !names.contains(name.substr(buckets.size())))
      return name.substr(buckets.size());
  }
  return {};
}

// Waits a moment for such a step.
Result<std::vector<CollectionFacts>> list_database(Member& member, const std::string& database) {
  for (int attempt = 0;; ++attempt) {
    std::vector<CollectionFacts> all;
    std::set<std::string> names;
    const Bson list = listing_of_collections();
    const Result<bool> listed =
        member.documents(database.c_str(), list.get(), [&](Document row) -> Result<void> {
          CollectionFacts facts = facts_of(database, row);
          names.insert(facts.name);
          if (is_dumped(database, facts.name)) all.push_back(std::move(facts));
          return {};
        });
    if (!listed) return std::unexpected(listed.error());
    const std::string half = half_of_series(names);
    if (half.empty()) {
      std::ranges::sort(all, {}, &CollectionFacts::name);
      return all;
    }
    if (attempt == kListings) {
      const std::string buckets = "system.buckets." + half;
      std::string why = database;
      for (const std::string& part :
           {std::string(" has "), buckets, std::string(" without the time-series collection "),
            half, std::string(", whose create or drop was cut short: drop "), buckets,
            std::string(", or create "), half, std::string(" again, and take the backup then")})
        why += part;
      return std::unexpected(Error{Code::kFailedPrecondition, std::move(why)});
    }
    ::poll(nullptr, 0, kRestOfDump);
  }
}

Result<std::vector<CollectionFacts>> list_collections(Member& member) {
  const Result<std::vector<std::string>> databases = list_databases(member);
  if (!databases) return std::unexpected(databases.error());
  std::vector<CollectionFacts> all;
  for (const std::string& database : *databases) {
    Result<std::vector<CollectionFacts>> listed = list_database(member, database);
    if (!listed) return listed;
    std::ranges::move(*listed, std::back_inserter(all));
  }
  for (CollectionFacts& each : all) {
    if (each.kind == CollectionKind::kView) continue;
    if (Result<void> done = add_indexes(member, each); !done)
      return std::unexpected(std::move(done.error()));
  }
  return all;
}

// About how many documents there are, from what the server keeps count of.
Result<std::int64_t> count_documents(Member& member, std::span<const CollectionFacts> collections) {
  std::int64_t total = 0;
  for (const CollectionFacts& each : collections) {
    if (each.kind == CollectionKind::kView) continue;
    const Bson count = Bson("count", data_name(each));
    const Result<Bson> reply = member.command(each.database.c_str(), count.get());
    if (!reply) return std::unexpected(reply.error());
    if (bson_iter_t at; reply->view().find("n", &at)) total += as_integer(at).value_or(0);
  }
  return total;
}

// The oldest entry of a transaction that is not at its end; nothing: none is open.
Result<std::optional<Timestamp>> oldest_transaction(Member& member) {
  const Bson find = Bson("find", "transactions", "filter",
                         Bson("state", Bson("$in", array("prepared", "inProgress"))), "sort",
                         Bson("startOpTime", 1), "limit", 1, "readConcern", Bson("level", "local"));
  std::optional<Timestamp> oldest;
  const Result<bool> read =
      member.documents("config", find.get(), [&](Document row) -> Result<void> {
        bson_iter_t at;
        Timestamp begin;
        if (row.find("startOpTime", &at) && as_document(at).find("ts", &at) &&
            BSON_ITER_HOLDS_TIMESTAMP(&at)) {
          bson_iter_timestamp(&at, &begin.seconds, &begin.ordinal);
          oldest = begin;
        }
        return {};
      });
  if (!read) return std::unexpected(read.error());
  return oldest;
}

// The documents, read by a thread while another writes what it read before.

struct Piece {
  std::size_t collection = 0;
  Bson reply = Bson::none();  // that `batch` is in
  Document batch{};           // an array of documents; none: the collection is at its end
};

class Handover {
 public:
  // Waits for room. False: nobody wants more.
  bool give(Piece piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pieces_.size() < kMost || closed_; });
    if (closed_) return false;
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    return true;
  }
  // Waits for one. Nothing: there are no more.
  std::optional<Piece> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pieces_.empty() || closed_; });
    if (pieces_.empty()) return std::nullopt;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }
  // No more are given; what is there can be taken still.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kMost = 2;  // of about 4 MB each, and at most 16

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  bool closed_ = false;
};

// After its cursor was ended: by its drop, which the slice of the oplog has, or while it is there
// still, as a rename or a rollback does it.
Result<void> require_dropped(Member& member, const CollectionFacts& collection) {
  const std::string name = data_name(collection);
  bool there = false;
  const Bson list = listing_of_collections();
  const Result<bool> listed =
      member.documents(collection.database.c_str(), list.get(), [&](Document row) -> Result<void> {
        const CollectionFacts facts = facts_of(collection.database, row);
        there =
            there || (collection.uuid.empty() ? facts.name == name : facts.uuid == collection.uuid);
        return {};
      });
  if (!listed) return std::unexpected(listed.error());
  if (!there) return {};
  return std::unexpected(Error{
      Code::kUnavailable, member.host() + " ended the reading of " + collection.database + "." +
                              name +
                              ", which was not dropped: it was renamed, or writes were rolled "
                              "back; make the backup again"});
}

// Gives the documents of all collections, and says what the newest entry was after each.
Result<std::vector<OpTime>> read_documents(Member& member, Timestamp start,
                                           std::span<const CollectionFacts> collections,
                                           Handover& to) {
  constexpr int look_again_after = 256;  // batches: about 1 GB
  std::vector<OpTime> ends;
  int batches = 0;
  const auto check_window = [&]() -> Result<void> {
    const Result<OpTime> oldest = member.oldest();
    if (!oldest) return std::unexpected(oldest.error());
    if (oldest->ts > start) return std::unexpected(rolled_over(start));
    return {};
  };
  for (std::size_t i = 0; i < collections.size(); ++i) {
    if (collections[i].kind != CollectionKind::kView) {
      const Bson find = Bson("find", data_name(collections[i]), "batchSize", 1000,
                             "noCursorTimeout", true, "readConcern", Bson("level", "local"));
      // Of one that is gone, the slice has the drop, whatever was read of it.
      const Result<bool> read = member.batches(
          collections[i].database.c_str(), find.get(),
          [&](Bson reply, Document batch) -> Result<void> {
            if (!to.give({.collection = i, .reply = std::move(reply), .batch = batch}))
              return std::unexpected(Error{Code::kUnavailable, "stopped"});
            return ++batches % look_again_after == 0 ? check_window() : Result<void>{};
          });
      if (!read && read.error().code == Code::kOutOfRange)
        return std::unexpected(
            Error{Code::kUnavailable,
                  read.error().message + ": the capped collection " + collections[i].database +
                      "." + collections[i].name +
                      " rolls over faster than it is read; make the backup again while less is "
                      "written to it"});
      if (!read) return std::unexpected(read.error());
      if (!*read) {
        if (Result<void> dropped = require_dropped(member, collections[i]); !dropped)
          return std::unexpected(std::move(dropped.error()));
      }
    }
    const Result<OpTime> end = member.newest();
    if (!end) return std::unexpected(end.error());
    if (ends.empty() || !(ends.back() == *end)) ends.push_back(*end);
    if (Result<void> there = check_window(); !there)
      return std::unexpected(std::move(there.error()));
    to.give({.collection = i});
  }
  return ends;
}

Result<std::vector<OpTime>> copy_documents(Member& member, Timestamp start,
                                           std::span<const CollectionFacts> collections,
                                           BackupWriter& writer, DumpFacts& facts,
                                           const std::function<Result<void>()>& progress) {
  Handover handover;
  Result<std::vector<OpTime>> ends;
  std::jthread reader([&] {
    ends = read_documents(member, start, collections, handover);
    handover.close();
  });
  Result<void> done;
  std::optional<std::size_t> open;
  while (done) {
    const std::optional<Piece> taken = handover.take();
    if (!taken) break;
    const Piece& piece = *taken;
    if (open != piece.collection) done = writer.begin(collections[piece.collection]);
    open = piece.collection;
    if (done && !piece.batch) done = writer.end();
    if (!done || !piece.batch) continue;
    bson_iter_t at = piece.batch.begin();
    while (done && bson_iter_next(&at)) {
      const Document document = as_document(at);
      done = writer.add(document);
      ++facts.documents;
      facts.bytes += static_cast<std::int64_t>(document.bytes().size());
    }
    if (done) done = progress();
  }
  handover.close();
  reader.join();
  if (!done) return std::unexpected(std::move(done.error()));
  return ends;
}

// The slice of the oplog.

// From `start` to `end`, both of which must be there.
Result<void> read_slice(Member& member, Timestamp start, Timestamp end,
                        const std::function<Result<void>(const Entry&)>& take) {
  const Bson find = Bson("find", "oplog.rs", "filter",
                         Bson("ts", Bson("$gte", BsonTimestamp{start.seconds, start.ordinal},
                                         "$lte", BsonTimestamp{end.seconds, end.ordinal})),
                         "readConcern", Bson("level", "majority"));
  Timestamp first{};
  Timestamp last{};
  const Result<bool> read =
      member.documents("local", find.get(), [&](Document document) -> Result<void> {
        const Result<Entry> entry = parse_entry(document);
        if (!entry) return std::unexpected(entry.error());
        last = entry->at.ts;
        if (std::exchange(first, first == Timestamp{} ? last : first) == Timestamp{} &&
            last != start)
          return std::unexpected(rolled_over(start));
        return take(*entry);
      });
  const Result<OpTime> oldest = member.oldest();
  if (!oldest) return std::unexpected(oldest.error());
  if (oldest->ts > start) return std::unexpected(rolled_over(start));
  if (!read) return std::unexpected(read.error());
  if (first != start || last != end)
    return std::unexpected(
        Error{Code::kUnavailable, "the oplog of " + member.host() + " ended with the entry " +
                                      print_timestamp(last) + " and not with " +
                                      print_timestamp(end) + ": make the backup again"});
  return {};
}

// The first entry of the transaction that has the entry `at`.
Result<Timestamp> begin_of_transaction(Member& member, Timestamp at) {
  while (true) {
    const Result<Bson> document = member.entry_of_majority(at);
    if (!document) return std::unexpected(document.error());
    if (bson_empty(document->get())) return std::unexpected(rolled_over(at));
    const Result<Entry> entry = parse_entry(document->view());
    if (!entry) return std::unexpected(entry.error());
    const OpTime previous = entry->previous.value_or(OpTime{});
    if (previous.ts == Timestamp{}) return at;
    at = previous.ts;
  }
}

// Checks the slice, and finds where it has to begin so that its transactions are whole.
Result<Timestamp> check_slice(Member& member, Timestamp start, Timestamp end) {
  while (true) {
    SliceCheck slice;
    if (Result<void> good =
            read_slice(member, start, end, [&](const Entry& entry) { return slice.add(entry); });
        !good)
      return std::unexpected(std::move(good.error()));
    Timestamp earliest = start;
    for (const Timestamp missing : slice.missing()) {
      const Result<Timestamp> begin = begin_of_transaction(member, missing);
      if (!begin) return begin;
      earliest = std::min(earliest, *begin);
    }
    if (earliest == start) return start;
    start = earliest;
  }
}

// kUnavailable: what was read was rolled back.
Result<void> require_majority(Member& member, const std::vector<OpTime>& ends) {
  for (const OpTime& end : ends) {
    const Result<Bson> document = member.entry_of_majority(end.ts);
    if (!document) return std::unexpected(document.error());
    const Result<Entry> entry = parse_entry(document->view());
    if (!entry || !(entry->at == end))
      return std::unexpected(Error{
          Code::kUnavailable,
          "writes that the backup has were rolled back on " + member.host() + ": make it again"});
  }
  return {};
}

}  // namespace

Result<DumpFacts> dump(Server server, const BackupTarget& target,
                       const TakeDumpProgress& progress) {
  Result<Member> member = Member::choose(std::move(server));
  if (!member) return std::unexpected(std::move(member.error()));
  const Result<OpTime> newest = member->newest_of_majority();
  if (!newest) return std::unexpected(newest.error());
  // After the newest entry, so that a transaction is seen that begins before it and ends later.
  const Result<std::optional<Timestamp>> open = oldest_transaction(*member);
  if (!open) return std::unexpected(open.error());
  const Timestamp start = std::min(newest->ts, open->value_or(newest->ts));

  const Result<std::vector<CollectionFacts>> collections = list_collections(*member);
  if (!collections) return std::unexpected(collections.error());
  const Result<std::int64_t> total = count_documents(*member, *collections);
  if (!total) return std::unexpected(total.error());
  BackupTarget complete = target;
  complete.server_version = member->version();
  Result<std::unique_ptr<BackupWriter>> writer = write_backup(complete, *collections);
  if (!writer) return std::unexpected(std::move(writer.error()));

  DumpFacts facts;
  facts.member = member->host();
  facts.version = member->version();
  facts.collections = static_cast<std::int64_t>(collections->size());
  std::string database;
  for (const CollectionFacts& each : *collections)
    facts.databases += std::exchange(database, each.database) != each.database ? 1 : 0;
  const Result<std::vector<OpTime>> ends =
      copy_documents(*member, start, *collections, **writer, facts,
                     [&] { return progress(facts.documents, *total); });
  if (!ends) return std::unexpected(ends.error());

  if (Result<void> good = require_majority(*member, *ends); !good)
    return std::unexpected(std::move(good.error()));
  const Timestamp end = ends->empty() ? newest->ts : ends->back().ts;
  const Result<Timestamp> first = check_slice(*member, start, end);
  if (!first) return std::unexpected(first.error());
  facts.first = *first;
  facts.last = end;
  Result<void> done = (*writer)->begin_oplog();
  if (done) {
    done = read_slice(*member, *first, end, [&](const Entry& entry) -> Result<void> {
      if (Result<void> go_on = progress(facts.documents, *total); !go_on) return go_on;
      ++facts.entries;
      return (*writer)->add(entry.document);
    });
  }
  if (done) done = (*writer)->end();
  if (done) done = (*writer)->finish();
  if (!done) return std::unexpected(std::move(done.error()));
  return facts;
}

}  // namespace idmint::restore
