#include "restore/backup/dump.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "restore/backup/copy_documents.h"
#include "restore/backup/ranges.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/member.h"
#include "restore/oplog/slice.h"

namespace idmint::restore {
namespace {

// The attempts to list collections while one is half created or renamed, and the milliseconds
// between two attempts.
constexpr int kListings = 20;
constexpr int kRestOfDump = 100;

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
      member.documents(facts.database, list, [&](Document index) -> Result<void> {
        if (!index.has("buildUUID")) facts.indexes.push_back(Bson::copy_of(index));
        return {};
      });
  return listed ? Result<void>{} : error_in(listed);
}

// The databases to dump.
Result<std::vector<std::string>> list_databases(Member& member) {
  const Result<Bson> reply = member.command("admin", listing_of_databases());
  if (!reply) return error_in(reply);
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
    const Result<bool> listed = member.documents(database, list, [&](Document row) -> Result<void> {
      CollectionFacts facts = facts_of(database, row);
      names.insert(facts.name);
      if (is_dumped(database, facts.name)) all.push_back(std::move(facts));
      return {};
    });
    if (!listed) return error_in(listed);
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
  if (!databases) return error_in(databases);
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
    if (Result<void> done = add_indexes(member, each); !done) return error_in(done);
  }
  return all;
}

// Each collection with its ranges, and the number of all documents by the server's own counts.
struct Extent {
  std::vector<ToCopy> all;
  std::int64_t documents = 0;
};
Result<Extent> measure(Member& member, std::span<const CollectionFacts> collections,
                       std::int64_t range) {
  Extent extent;
  for (const CollectionFacts& each : collections) {
    ToCopy& to_copy = extent.all.emplace_back(ToCopy{.collection = &each});
    if (each.kind == CollectionKind::kView) continue;
    const Result<Bson> reply = member.command(each.database, Bson("count", data_name(each)));
    if (!reply) return error_in(reply);
    const std::int64_t documents = reply->view().number("n");
    extent.documents += documents;
    Result<std::vector<IdRange>> ranges = split(member, each, documents, range);
    if (!ranges) return error_in(ranges);
    to_copy.ranges = *std::move(ranges);
  }
  return extent;
}

// The oldest entry of a transaction that has not ended; nullopt: none is open.
Result<std::optional<Timestamp>> oldest_transaction(Member& member) {
  const Bson find = Bson("find", "transactions", "filter",
                         Bson("state", Bson("$in", array("prepared", "inProgress"))), "sort",
                         Bson("startOpTime", 1), "limit", 1, "readConcern", Bson("level", "local"));
  std::optional<Timestamp> oldest;
  const Result<bool> read = member.documents("config", find, [&](Document row) -> Result<void> {
    if (const auto begin = timestamp_in(row.document("startOpTime"), "ts")) oldest = begin;
    return {};
  });
  if (!read) return error_in(read);
  return oldest;
}

// ---- the slice of the oplog

// Reads the entries from `start` to `end`, both of which must exist. `take` gets them in batches,
// as documents and parsed.
using TakeEntries = std::function<Result<void>(std::span<const Document>, std::span<const Entry>)>;
Result<void> read_slice(Member& member, Timestamp start, Timestamp end, const TakeEntries& take) {
  const Bson find = Bson("find", "oplog.rs", "filter",
                         Bson("ts", Bson("$gte", to_bson(start), "$lte", to_bson(end))),
                         "readConcern", Bson("level", "majority"));
  Timestamp first{};
  Timestamp last{};
  std::vector<Document> documents;
  std::vector<Entry> entries;
  const Result<bool> read =
      member.batches("local", find, [&](const Bson&, Document batch) -> Result<void> {
        documents.clear();
        entries.clear();
        for (const Field& field : Fields(batch)) {
          documents.push_back(field.document());
          Result<Entry> entry = parse_entry(documents.back());
          if (!entry) return error_in(entry);
          last = entry->at.ts;
          entries.push_back(*std::move(entry));
          if (std::exchange(first, first == Timestamp{} ? last : first) == Timestamp{} &&
              last != start)
            return std::unexpected(rolled_over(start));
        }
        return take(documents, entries);
      });
  if (Result<void> has = member.still_has(start); !has) return has;
  if (!read) return error_in(read);
  if (first != start || last != end)
    return fail(Code::kUnavailable, "the oplog of " + member.host() + " ended with the entry " +
                                        print_timestamp(last) + " and not with " +
                                        print_timestamp(end) + ": make the backup again");
  return {};
}

// The first entry of the transaction that has the entry `at`.
Result<Timestamp> begin_of_transaction(Member& member, Timestamp at) {
  while (true) {
    const Result<Bson> document = member.entry_of_majority(at);
    if (!document) return error_in(document);
    if (bson_empty(document->get())) return std::unexpected(rolled_over(at));
    const Result<Entry> entry = parse_entry(document->view());
    if (!entry) return error_in(entry);
    const OpTime previous = entry->previous.value_or(OpTime{});
    if (previous.ts == Timestamp{}) return at;
    at = previous.ts;
  }
}

// Checks the slice, and returns the start that it needs for complete transactions.
Result<Timestamp> check_slice(Member& member, Timestamp start, Timestamp end, Timestamp listed) {
  while (true) {
    SliceCheck slice(listed);
    Result<void> good =
        read_slice(member, start, end, [&](auto, std::span<const Entry> entries) -> Result<void> {
          for (const Entry& each : entries)
            if (Result<void> added = slice.add(each); !added) return added;
          return {};
        });
    if (!good) return error_in(good);
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
      Bson("ts", Bson("$gt", to_bson(start), "$lte", to_bson(end)), "op", "c", "$or",
           array(Bson("o.renameCollection", there), Bson("o.applyOps.o.renameCollection", there))),
      "limit", 1, "singleBatch", true, "readConcern", Bson("level", "local"));
  bool renamed = false;
  const Result<bool> read = member.documents("local", find, [&](Document) -> Result<void> {
    renamed = true;
    return {};
  });
  if (!read) return error_in(read);
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
    if (!newest) return error_in(newest);
    // Asked after the newest entry, so that it sees a transaction that begins before and ends
    // later.
    const Result<std::optional<Timestamp>> open = oldest_transaction(member);
    if (!open) return error_in(open);
    Listing listing{.start = std::min(newest->ts, open->value_or(newest->ts)), .listed = {}};
    Result<std::vector<CollectionFacts>> collections =
        list_collections(member, wanted, listing.notes);
    if (!collections) return error_in(collections);
    listing.collections = *std::move(collections);
    const Result<OpTime> after = member.newest();
    if (!after) return error_in(after);
    listing.listed = after->ts;
    const Result<bool> renamed = renamed_between(member, listing.start, listing.listed);
    if (!renamed) return error_in(renamed);
    if (!*renamed) return listing;
    if (attempt == kListings)
      return fail(Code::kUnavailable,
                  "collections of " + member.host() +
                      " are renamed, as $out does it, faster than they are listed: make the backup "
                      "again at another time");
    ::poll(nullptr, 0, kRestOfDump);
  }
}

// kUnavailable: data in the backup was rolled back. kOutOfRange: see Member::still_has().
Result<void> require_majority(Member& member, const std::vector<OpTime>& ends) {
  for (const OpTime& end : ends) {
    const Result<Bson> document = member.entry_of_majority(end.ts);
    if (!document) return error_in(document);
    const Result<Entry> entry = parse_entry(document->view());
    if (entry && entry->at == end) continue;
    if (Result<void> has = member.still_has(end.ts); !has) return has;
    return fail(Code::kUnavailable, "writes that the backup has were rolled back on " +
                                        member.host() + ": make it again");
  }
  return {};
}

}  // namespace

Result<DumpFacts> dump(Server server, const BackupTarget& target, const TakeDumpProgress& progress,
                       const DumpPace& pace) {
  const Result<NamespaceFilter> wanted = NamespaceFilter::of({}, target.excluded);
  if (!wanted) return error_in(wanted);
  Result<Member> member = Member::choose(std::move(server));
  if (!member) return error_in(member);
  const Result<Listing> listing = list_at_a_time(*member, *wanted);
  if (!listing) return error_in(listing);
  const Timestamp start = listing->start;
  const std::vector<CollectionFacts>& collections = listing->collections;
  const Result<Extent> extent = measure(*member, collections, pace.range);
  if (!extent) return error_in(extent);
  BackupTarget complete = target;
  complete.server_version = member->version();
  complete.at_once = pace.readers;
  Result<std::unique_ptr<BackupWriter>> writer = write_backup(complete, collections);
  if (!writer) return error_in(writer);

  DumpFacts facts;
  facts.member = member->host();
  facts.version = member->version();
  facts.collections = static_cast<std::int64_t>(collections.size());
  facts.notes = listing->notes;
  std::string database;
  for (const CollectionFacts& each : collections)
    facts.databases += std::exchange(database, each.database) != each.database ? 1 : 0;
  const Result<std::vector<OpTime>> ends =
      copy_documents(*member, start, extent->all, pace.readers, **writer,
                     [&](std::int64_t documents, std::int64_t bytes) {
                       facts.documents += documents;
                       facts.bytes += bytes;
                       return progress(facts.documents, extent->documents);
                     });
  if (!ends) return error_in(ends);

  if (Result<void> good = require_majority(*member, *ends); !good) return error_in(good);
  const Timestamp end = ends->empty() ? listing->listed : ends->back().ts;
  const Result<Timestamp> first = check_slice(*member, start, end, listing->listed);
  if (!first) return error_in(first);
  facts.first = *first;
  facts.last = end;
  constexpr std::size_t oplog = BackupWriter::kOplog;
  Result<void> done = (*writer)->begin(oplog);
  if (done) {
    done = read_slice(
        *member, *first, end, [&](std::span<const Document> entries, auto) -> Result<void> {
          if (Result<void> go_on = progress(facts.documents, extent->documents); !go_on)
            return go_on;
          facts.entries += std::ssize(entries);
          return (*writer)->put(oplog, entries);
        });
  }
  if (done) done = (*writer)->end(oplog);
  if (done)
    done = (*writer)->finish(
        {.files = {}, .first = facts.first, .last = facts.last, .entries = facts.entries});
  if (!done) return error_in(done);
  return facts;
}

}  // namespace idmint::restore
