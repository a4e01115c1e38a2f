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

#include "base/text.h"
#include "restore/namespaces.h"
#include "restore/oplog/member.h"
#include "restore/oplog/slice.h"

namespace idmint::restore {
namespace {

// The attempts to list collections while one is half created or renamed, and the milliseconds
// between two attempts.
constexpr int kListings = 20;
constexpr int kRestOfDump = 100;
// The attempts to read a collection that is renamed, or rolls over, meanwhile.
constexpr int kReadings = 100;

Error rolled_over(Timestamp at) {
  return {Code::kOutOfRange,
          "the oplog rolled over while the backup was made: its entry " + print_timestamp(at) +
              " is gone; give the members a larger one (replSetResizeOplog), or make the backup "
              "while less is written"};
}

// ---- the collections

// Like the common tools, includes users and roles, and excludes the cluster's own collections.
bool is_dumped(std::string_view database, std::string_view collection) {
  if (collection.find('$') != std::string_view::npos) return false;
  if (database == "admin") return collection != "system.keys";
  return collection == "system.js" || !collection.starts_with("system.");
}

// Omits indexes that are being built: the oplog has the end of the build. A collection that was
// dropped meanwhile has none: the oplog has the drop.
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

// The databases to dump.
Result<std::vector<std::string>> list_databases(Member& member) {
  const Result<Bson> reply = member.command("admin", listing_of_databases().get());
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::string> names = databases_in(reply->view());
  std::erase_if(names, [](const std::string& name) {
    return name == "local" || name == "config" || name.starts_with("__mdb_internal");
  });
  return names;
}

// A time-series collection is created and dropped in two steps; between them its buckets exist and
// it does not. Returns its name; empty: there is no such collection.
std::string half_of_series(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    constexpr std::string_view buckets = "system.buckets.";
    if (name.starts_with(buckets) && !names.contains(name.substr(buckets.size())))
      return name.substr(buckets.size());
  }
  return {};
}

// Waits briefly for the other step. If it does not come, the create or drop was interrupted, and
// the buckets belong to no collection. A note says so.
Result<std::vector<CollectionFacts>> list_database(Member& member, const std::string& database,
                                                   std::vector<std::string>& notes) {
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
    if (!half.empty() && attempt == kListings) {
      std::string note = database;
      for (const std::string_view part :
           {std::string_view(".system.buckets."), std::string_view(half),
            std::string_view(" is left out: there is no time-series collection "),
            std::string_view(half), std::string_view(", whose create or drop was cut short")})
        note += part;
      notes.push_back(std::move(note));
    }
    if (half.empty() || attempt == kListings) {
      std::ranges::sort(all, {}, &CollectionFacts::name);
      return all;
    }
    ::poll(nullptr, 0, kRestOfDump);
  }
}

Result<std::vector<CollectionFacts>> list_collections(Member& member, const NamespaceFilter& wanted,
                                                      std::vector<std::string>& notes) {
  const Result<std::vector<std::string>> databases = list_databases(member);
  if (!databases) return std::unexpected(databases.error());
  std::vector<CollectionFacts> all;
  for (const std::string& database : *databases) {
    if (!is_own_database(database) && !wanted.includes_database(database)) continue;
    Result<std::vector<CollectionFacts>> listed = list_database(member, database, notes);
    if (!listed) return listed;
    std::ranges::move(*listed, std::back_inserter(all));
  }
  std::erase_if(all, [&](const CollectionFacts& each) {
    return !is_own_database(each.database) && !wanted.includes(each.ns());
  });
  for (CollectionFacts& each : all) {
    if (each.kind == CollectionKind::kView) continue;
    if (Result<void> done = add_indexes(member, each); !done)
      return std::unexpected(std::move(done.error()));
  }
  return all;
}

// The approximate number of documents, from the server's own counts.
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

// The oldest entry of a transaction that has not ended; nullopt: none is open.
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

// ---- the documents: one thread reads, and another writes what was read before

struct Piece {
  std::size_t collection = 0;
  Bson reply = Bson::none();  // the memory of `batch`
  Document batch{};           // an array of documents; none: the end of the collection
};

class Handover {
 public:
  // Waits for room. False: the consumer has stopped.
  bool give(Piece piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pieces_.size() < kMost || closed_; });
    if (closed_) return false;
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    return true;
  }
  // Waits for a piece. nullopt: there are no more.
  std::optional<Piece> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pieces_.empty() || closed_; });
    if (pieces_.empty()) return std::nullopt;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }
  // Refuses further pieces. The queued ones can still be taken.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kMost = 2;  // of about 4 MB each, 16 MB at most

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  bool closed_ = false;
};

// Whether the collection still exists after the server closed its cursor. Renames and rollbacks
// close cursors too. If it was dropped, the slice of the oplog has the drop.
Result<bool> is_there_still(Member& member, const CollectionFacts& collection) {
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
  return there;
}

// Finds all documents of a collection by its UUID, because its name may change meanwhile.
Bson find_all(const CollectionFacts& collection) {
  Bson find;
  if (collection.uuid.empty()) {
    find.append("find", data_name(collection));
  } else {
    const std::string uuid = unhex(collection.uuid);
    bson_append_binary(find.get(), "find", -1, BSON_SUBTYPE_UUID,
                       reinterpret_cast<const std::uint8_t*>(uuid.data()),
                       static_cast<std::uint32_t>(uuid.size()));
  }
  find.append("batchSize", 1000);
  find.append("noCursorTimeout", true);
  find.append("readConcern", Bson("level", "local"));
  return find;
}

// Reads the documents of a collection. If it is renamed meanwhile, reads it again from the
// beginning: the restore ignores duplicates, and the slice has later changes. A capped collection
// that rolls over is also read again. It yields no duplicates, because the position of its cursor,
// and everything before, was deleted.
Result<void> read_collection(Member& member, const CollectionFacts& collection,
                             const Member::TakeBatch& take) {
  const Bson find = find_all(collection);
  const std::string ns = collection.database + "." + collection.name;
  for (int reading = 0; reading < kReadings; ++reading) {
    const Result<bool> read = member.batches(collection.database.c_str(), find.get(), take);
    if (!read && read.error().code == Code::kOutOfRange) continue;  // rolled over
    if (!read) return std::unexpected(read.error());
    if (*read) return {};
    const Result<bool> there = is_there_still(member, collection);
    if (!there) return std::unexpected(there.error());
    if (!*there) return {};
  }
  return std::unexpected(
      Error{Code::kUnavailable, ns + " is renamed, or rolls over, faster than " + member.host() +
                                    " reads it: make the backup again while less is written, or "
                                    "leave it out with --exclude " +
                                    ns});
}

// Reads the documents of all collections, and the newest entry of the oplog after each.
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
      if (Result<void> read = read_collection(
              member, collections[i],
              [&](Bson reply, Document batch) {
                if (!to.give({.collection = i, .reply = std::move(reply), .batch = batch}))
                  return Result<void>(std::unexpected(Error{Code::kUnavailable, "stopped"}));
                return ++batches % look_again_after == 0 ? check_window() : Result<void>{};
              });
          !read)
        return std::unexpected(std::move(read.error()));
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

// ---- the slice of the oplog

// Reads the entries from `start` to `end`, both of which must exist.
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

// Checks the slice, and returns the start that it needs for complete transactions.
Result<Timestamp> check_slice(Member& member, Timestamp start, Timestamp end, Timestamp listed) {
  while (true) {
    SliceCheck slice(listed);
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

// Whether a collection was renamed in this span.
Result<bool> renamed_between(Member& member, Timestamp start, Timestamp end) {
  const Bson there = Bson("$exists", true);
  const Bson find = Bson(
      "find", "oplog.rs", "filter",
      Bson("ts",
           Bson("$gt", BsonTimestamp{start.seconds, start.ordinal}, "$lte",
                BsonTimestamp{end.seconds, end.ordinal}),
           "op", "c", "$or",
           array(Bson("o.renameCollection", there), Bson("o.applyOps.o.renameCollection", there))),
      "limit", 1, "singleBatch", true, "readConcern", Bson("level", "local"));
  bool renamed = false;
  const Result<bool> read = member.documents("local", find.get(), [&](Document) -> Result<void> {
    renamed = true;
    return {};
  });
  if (!read) return std::unexpected(read.error());
  return renamed;
}

// The collections, and the start of the slice. The names are those at `start`, because the slice is
// replayed by names.
struct Listing {
  Timestamp start;   // of the slice
  Timestamp listed;  // the newest entry after it
  std::vector<CollectionFacts> collections{};
  std::vector<std::string> notes{};
};
Result<Listing> list_at_a_time(Member& member, const NamespaceFilter& wanted) {
  for (int attempt = 0;; ++attempt) {
    const Result<OpTime> newest = member.newest_of_majority();
    if (!newest) return std::unexpected(newest.error());
    // Asked after the newest entry, so that it sees a transaction that begins before and ends
    // later.
    const Result<std::optional<Timestamp>> open = oldest_transaction(member);
    if (!open) return std::unexpected(open.error());
    Listing listing{.start = std::min(newest->ts, open->value_or(newest->ts)), .listed = {}};
    Result<std::vector<CollectionFacts>> collections =
        list_collections(member, wanted, listing.notes);
    if (!collections) return std::unexpected(std::move(collections.error()));
    listing.collections = *std::move(collections);
    const Result<OpTime> after = member.newest();
    if (!after) return std::unexpected(after.error());
    listing.listed = after->ts;
    const Result<bool> renamed = renamed_between(member, listing.start, listing.listed);
    if (!renamed) return std::unexpected(renamed.error());
    if (!*renamed) return listing;
    if (attempt == kListings)
      return std::unexpected(
          Error{Code::kUnavailable,
                "collections of " + member.host() +
                    " are renamed, as $out does it, faster than they are listed: make the backup "
                    "again at another time"});
    ::poll(nullptr, 0, kRestOfDump);
  }
}

// kUnavailable: data in the backup was rolled back.
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
  const Result<NamespaceFilter> wanted = NamespaceFilter::of({}, target.excluded);
  if (!wanted) return std::unexpected(wanted.error());
  Result<Member> member = Member::choose(std::move(server));
  if (!member) return std::unexpected(std::move(member.error()));
  const Result<Listing> listing = list_at_a_time(*member, *wanted);
  if (!listing) return std::unexpected(listing.error());
  const Timestamp start = listing->start;
  const std::vector<CollectionFacts>& collections = listing->collections;
  const Result<std::int64_t> total = count_documents(*member, collections);
  if (!total) return std::unexpected(total.error());
  BackupTarget complete = target;
  complete.server_version = member->version();
  Result<std::unique_ptr<BackupWriter>> writer = write_backup(complete, collections);
  if (!writer) return std::unexpected(std::move(writer.error()));

  DumpFacts facts;
  facts.member = member->host();
  facts.version = member->version();
  facts.collections = static_cast<std::int64_t>(collections.size());
  facts.notes = listing->notes;
  std::string database;
  for (const CollectionFacts& each : collections)
    facts.databases += std::exchange(database, each.database) != each.database ? 1 : 0;
  const Result<std::vector<OpTime>> ends =
      copy_documents(*member, start, collections, **writer, facts,
                     [&] { return progress(facts.documents, *total); });
  if (!ends) return std::unexpected(ends.error());

  if (Result<void> good = require_majority(*member, *ends); !good)
    return std::unexpected(std::move(good.error()));
  const Timestamp end = ends->empty() ? listing->listed : ends->back().ts;
  const Result<Timestamp> first = check_slice(*member, start, end, listing->listed);
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
  if (done)
    done = (*writer)->finish(
        {.files = {}, .first = facts.first, .last = facts.last, .entries = facts.entries});
  if (!done) return std::unexpected(std::move(done.error()));
  return facts;
}

}  // namespace idmint::restore
