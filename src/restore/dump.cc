#include "restore/dump.h"

#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/shell.h"
#include "restore/backup_names.h"
#include "restore/commands.h"
#include "restore/member.h"
#include "restore/oplog_slice.h"
#include "terminal/progress.h"
#include "terminal/quantity.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

// How often collections are listed while one of them is in halves, and milliseconds in between.
constexpr int kListings = 20;
constexpr int kRest = 100;

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

std::string hex(const bson_iter_t& uuid) {
  constexpr std::string_view digits = "0123456789abcdef";
  bson_subtype_t subtype{};
  std::uint32_t size = 0;
  const std::uint8_t* data = nullptr;
  bson_iter_binary(&uuid, &subtype, &size, &data);
  std::string text;
  for (const std::uint8_t byte : std::span(data, size)) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

OwnDocument copy_of(Document document) {
  const bson_t view = document.view();
  return own(bson_copy(&view));
}

// Of a row of listCollections.
CollectionFacts facts_of(const std::string& database, Document row) {
  CollectionFacts facts;
  facts.database = database;
  facts.options = own(bson_new());
  bson_iter_t at = row.begin();
  while (bson_iter_next(&at)) {
    const std::string_view key = bson_iter_key(&at);
    if (key == "name") {
      facts.name = as_text(at);
    } else if (key == "type") {
      if (as_text(at) == "view") facts.kind = CollectionKind::kView;
      if (as_text(at) == "timeseries") facts.kind = CollectionKind::kTimeSeries;
    } else if (key == "options" && as_document(at)) {
      facts.options = copy_of(as_document(at));
    } else if (bson_iter_t uuid; key == "info" && as_document(at).find("uuid", &uuid) &&
                                 BSON_ITER_HOLDS_BINARY(&uuid)) {
      facts.uuid = hex(uuid);
    }
  }
  return facts;
}

// Without those that are being built: when they are, the oplog says so. None of a collection that
// was dropped meanwhile, which the oplog says too.
Result<void> add_indexes(Member& member, CollectionFacts& facts) {
  const OwnDocument list = own(
      BCON_NEW("listIndexes", BCON_UTF8(facts.name.c_str()), "includeBuildUUIDs", BCON_BOOL(true)));
  const Result<bool> listed =
      member.documents(facts.database.c_str(), list.get(), [&](Document index) -> Result<void> {
        bson_iter_t at;
        if (!index.find("buildUUID", &at)) facts.indexes.push_back(copy_of(index));
        return {};
      });
  return listed ? Result<void>{} : std::unexpected(listed.error());
}

Result<std::vector<std::string>> list_databases(Member& member) {
  // Never fewer than there are: without the right to see all, it fails.
  const OwnDocument list = own(BCON_NEW("listDatabases", BCON_INT32(1), "nameOnly", BCON_BOOL(true),
                                        "authorizedDatabases", BCON_BOOL(false)));
  const Result<OwnDocument> reply = member.command("admin", list.get());
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::string> names;
  bson_iter_t at;
  if (!reply->view().find("databases", &at)) return names;
  bson_iter_t row = as_document(at).begin();
  while (bson_iter_next(&row)) {
    bson_iter_t name;
    if (!as_document(row).find("name", &name)) continue;
    const std::string database(as_text(name));
    if (database != "local" && database != "config" && !database.starts_with("__mdb_internal"))
      names.push_back(database);
  }
  std::ranges::sort(names);
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
    const OwnDocument list = own(BCON_NEW("listCollections", BCON_INT32(1)));
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
    ::poll(nullptr, 0, kRest);
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
    const OwnDocument count = own(BCON_NEW("count", BCON_UTF8(data_name(each).c_str())));
    const Result<OwnDocument> reply = member.command(each.database.c_str(), count.get());
    if (!reply) return std::unexpected(reply.error());
    if (bson_iter_t at; reply->view().find("n", &at)) total += as_integer(at).value_or(0);
  }
  return total;
}

// The oldest entry of a transaction that is not at its end; nothing: none is open.
Result<std::optional<Timestamp>> oldest_transaction(Member& member) {
  const OwnDocument find =
      own(BCON_NEW("find", BCON_UTF8("transactions"), "filter", "{", "state", "{", "$in", "[",
                   BCON_UTF8("prepared"), BCON_UTF8("inProgress"), "]", "}", "}", "sort", "{",
                   "startOpTime", BCON_INT32(1), "}", "limit", BCON_INT32(1), "readConcern", "{",
                   "level", BCON_UTF8("local"), "}"));
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
  OwnDocument reply{};  // that `batch` is in
  Document batch{};     // an array of documents; none: the collection is at its end
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
  const OwnDocument list = own(BCON_NEW("listCollections", BCON_INT32(1)));
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
      const OwnDocument find =
          own(BCON_NEW("find", BCON_UTF8(data_name(collections[i]).c_str()), "batchSize",
                       BCON_INT32(1000), "noCursorTimeout", BCON_BOOL(true), "readConcern", "{",
                       "level", BCON_UTF8("local"), "}"));
      // Of one that is gone, the slice has the drop, whatever was read of it.
      const Result<bool> read = member.batches(
          collections[i].database.c_str(), find.get(),
          [&](OwnDocument reply, Document batch) -> Result<void> {
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
  const auto number = [](std::uint32_t part) { return static_cast<std::int32_t>(part); };
  const OwnDocument find =
      own(BCON_NEW("find", BCON_UTF8("oplog.rs"), "filter", "{", "ts", "{", "$gte",
                   BCON_TIMESTAMP(number(start.seconds), number(start.ordinal)), "$lte",
                   BCON_TIMESTAMP(number(end.seconds), number(end.ordinal)), "}", "}",
                   "readConcern", "{", "level", BCON_UTF8("majority"), "}"));
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
    const Result<OwnDocument> document = member.entry_of_majority(at);
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
    const Result<OwnDocument> document = member.entry_of_majority(end.ts);
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

// The command.

namespace {

struct Given {
  std::string uri;
  std::string out;
  bool gzip = false;
  bool archive = false;
} given;

void add(CLI::App& command) {
  command.add_option("--uri", given.uri, "The replica set, as mongodb:// or mongodb+srv://")
      ->type_name("URI")
      ->required();
  command.add_option("--out", given.out, "Folder to make, or with --archive, file")
      ->type_name("PATH")
      ->required();
  command.add_flag("--archive", given.archive, "One file instead of a folder");
  command.add_flag("--gzip", given.gzip, "Compress it");
}

void print(Context& context, const DumpFacts& facts) {
  if (context.json) {
    const nlohmann::ordered_json json = {
        {"base", given.out},
        {"form", given.archive ? "archive" : "folder"},
        {"gzip", given.gzip},
        {"member", facts.member},
        {"server_version", facts.version},
        {"databases", facts.databases},
        {"collections", facts.collections},
        {"documents", facts.documents},
        {"bytes", facts.bytes},
        {"oplog",
         {{"first", print_timestamp(facts.first)},
          {"last", print_timestamp(facts.last)},
          {"entries", facts.entries}}},
    };
    context.out.write(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                      "\n");
    return;
  }
  const auto count = [](std::int64_t number) { return print_count(static_cast<double>(number)); };
  print_fact(context.out, "base", given.out + (given.archive ? ", an archive" : ", a folder"));
  print_fact(context.out, "of", facts.member + ", MongoDB " + facts.version);
  print_fact(context.out, "documents",
             count(facts.documents) + " of " + count(facts.collections) + " collections in " +
                 count(facts.databases) + " databases, " + count(facts.bytes) + " bytes");
  print_fact(context.out, "oplog",
             count(facts.entries) + (facts.entries == 1 ? " entry, " : " entries, ") +
                 print_timestamp(facts.first) + " to " + print_timestamp(facts.last));
  print_fact(context.out, "moment",
             print_seconds(facts.last) +
                 ": dump the oplog from no later than that to restore to "
                 "a later one");
}

Result<void> run(Context& context) {
  if (given.out.find_first_not_of('/') == std::string::npos)
    return std::unexpected(Error{Code::kInvalidArgument,
                                 shell_word(given.out) + " cannot be --out: name a new folder"});
  const auto with_role = [](Error error) {
    if (error.code == Code::kPermissionDenied)
      error.message += "; the user needs the role backup of the database admin";
    return std::unexpected(std::move(error));
  };
  Result<Server> server = Server::connect(given.uri);
  if (!server) return std::unexpected(std::move(server.error()));
  std::optional<Progress> progress;
  const Result<DumpFacts> facts =
      dump(*std::move(server),
           {.path = given.out,
            .form = given.archive ? BackupForm::kArchive : BackupForm::kFolder,
            .gzip = given.gzip},
           [&](std::int64_t done, std::int64_t total) -> Result<void> {
             if (!progress) progress.emplace("documents", total, Results::kAtEnd);
             progress->show(done);
             context.stopped_by = stop_signal();
             if (context.stopped_by == 0) return {};
             return std::unexpected(Error{Code::kUnavailable, "stopped"});
           });
  progress.reset();
  if (context.stopped_by != 0) return {};
  if (!facts) return with_role(facts.error());
  print(context, *facts);
  return {};
}

}  // namespace

const Command kDump = {"dump", "Back up a running replica set, as the base of a restore", add, run,
                       R"(Examples:
  $ idmint-restore dump --uri mongodb://db1,db2,db3/?replicaSet=rs0 --out base
  $ idmint-restore dump --uri mongodb://db1/?replicaSet=rs0 --archive --gzip --out base.archive.gz
)"};

}  // namespace idmint::restore
