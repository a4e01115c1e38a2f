#include "restore/replay/plan.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/errors.h"
#include "base/figures.h"
#include "base/shell.h"
#include "base/text.h"
#include "restore/collections.h"
#include "restore/replay/preflight.h"
#include "restore/replay/report.h"
#include "restore/replay/spare.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

// Identifies the base independently of its path.
Result<std::string> identity_of(const BaseBackup& base) {
  std::string text = base.server_version();
  for (const CollectionFacts& each : base.collections()) {
    for (const std::string& part :
         {each.database, each.name, each.uuid, std::to_string(each.bytes)})
      text += part + '\0';
  }
  const Result<DigestBytes> digest =
      digest_of(Digest::kSha256, {std::as_bytes(std::span(text.data(), text.size()))});
  if (!digest) return error_in(digest);
  return hex({reinterpret_cast<const char*>(digest->data()), 16});
}

Result<Bson> fingerprint_of(const RestorePlan& plan) {
  const std::string after = plan.after ? print_timestamp(*plan.after) : std::string("unknown");
  std::string base = "data copy";
  if (plan.base) {
    Result<std::string> identity = identity_of(*plan.base);
    if (!identity) return error_in(identity);
    base = std::move(*identity);
  }
  // Without the number of writers and the entries after the limit: a file may grow between two
  // runs.
  std::string skipped;
  for (const Timestamp at : plan.options.skip) skipped += print_timestamp(at) + " ";
  const auto& replayed = plan.oplog.before_limit;
  Bson fingerprint =
      Bson("base", base, "after", after, "oplog",
           Bson("first", print_timestamp(plan.oplog.first), "last", print_timestamp(replayed.last),
                "entries", static_cast<std::int64_t>(replayed.entries), "bytes",
                static_cast<std::int64_t>(replayed.bytes)),
           "limit", plan.options.limit ? print_timestamp(*plan.options.limit) : std::string("none"),
           "skip", skipped, "filter", plan.options.filter.text());
  if (plan.options.filter.users()) fingerprint.append("users", true);
  return fingerprint;
}

// Checks the whole base, and its slice.
Result<void> check_base(RestorePlan& plan, Transactions& transactions, Observer& observer) {
  plan.base_stamp = stamp_of_files(plan.options.base);
  // A check with another one of these looks at other things.
  if (!plan.base_stamp.empty() && plan.options.not_sharded) plan.base_stamp += " not-sharded";
  if (!plan.base_stamp.empty() && plan.options.filter.users()) plan.base_stamp += " users";
  if (!plan.options.spare.empty() && !plan.base_stamp.empty()) {
    const Result<SpareFolder> folder = look_at(plan.options.spare);
    plan.checked_before = folder && folder->checked_base == plan.base_stamp;
  }
  const TakeProgress progress = observer.of_bytes(restore_step::kCheckBase, plan.base->size());
  if (!plan.checked_before)
    if (Result<void> checked = plan.base->check(progress); !checked) return checked;
  const std::optional<Timestamp>& base_at = plan.options.base_at;
  plan.sliced = plan.base->has_oplog();
  if (!plan.sliced) {
    if (!base_at && plan.options.oplog.empty()) return {};
    if (!base_at)
      return fail(Code::kFailedPrecondition,
                  plan.options.base +
                      " has no oplog.bson, so nothing says which moment it is of: where nobody "
                      "wrote while it was taken, give --base-at SECONDS:ORDINAL, the last entry "
                      "of the oplog before it");
    plan.after = base_at;
    return {};
  }
  if (base_at)
    return fail(
        Code::kInvalidArgument,
        plan.options.base + " has an oplog.bson, which says its moment: leave --base-at out");
  OplogCheck check("oplog.bson of " + plan.options.base,
                   {.slice = true,
                    .renames = plan.base->is_ours(),
                    .not_sharded = plan.options.not_sharded,
                    .filter = plan.options.filter,
                    .collections = plan.collections,
                    .uuids = plan.uuids,
                    .temporary = plan.temporary,
                    .collection_options = plan.collection_options},
                   transactions);
  std::uint64_t offset = 0;
  Result<void> read = plan.base->oplog([&](const Entry& entry) -> Result<void> {
    const std::uint64_t at = offset;
    offset += entry.document.bytes().size();
    Result<void> good = check.add(entry, at);
    return good ? progress(plan.base->size()) : good;
  });
  if (!read) return read;
  Result<OplogFacts> facts = check.finish();
  if (!facts) return error_in(facts);
  plan.slice = std::move(*facts);
  plan.after = plan.slice.last;
  return {};
}

// Opens the base, and sets the collections of the plan.
Result<void> open_base_of(RestorePlan& plan) {
  Result<std::unique_ptr<BaseBackup>> base =
      open_base(plan.options.base,
                {.not_sharded = plan.options.not_sharded, .users = plan.options.filter.users()});
  if (!base) return error_in(base);
  plan.base = std::move(*base);
  if (!plan.base->users_of().empty() && !plan.options.oplog.empty())
    return fail(Code::kFailedPrecondition,
                plan.options.base + " has the users and roles of the database " +
                    plan.base->users_of() +
                    " alone, and the oplog may change others: take a base of all databases, or "
                    "leave --users or --oplog out");
  std::set<std::string, std::less<>>& collections = plan.collections.emplace();
  // Collections that the base excludes are not restored from the oplog either.
  if (const std::optional<Checksums>& sums = plan.base->checksums())
    if (Result<void> added = plan.options.filter.exclude(sums->excluded); !added) return added;
  for (const CollectionFacts& each : plan.base->collections()) {
    const std::string ns = each.database + "." + each.name;
    collections.insert(ns);
    if (!each.uuid.empty()) plan.uuids[ns] = unhex(each.uuid);
    if (!each.options.view().empty())
      plan.collection_options[ns] = std::make_shared<const Bson>(each.options.copy());
    if (each.options.view().truthy("temp") && plan.options.filter.includes(ns))
      plan.temporary.push_back(ns);
  }
  return {};
}

// Checks the whole oplog, and sets plan.oplog.
Result<void> read_oplog_of(RestorePlan& plan, Transactions& transactions, Observer& observer) {
  Result<OplogFacts> facts =
      check_oplog(plan.options.oplog,
                  {.after = plan.after,
                   .not_sharded = plan.options.not_sharded,
                   .limit = plan.options.limit,
                   .filter = plan.options.filter,
                   .skip = plan.options.skip,
                   .skip_forced = plan.options.force_skip,
                   .collections = plan.sliced ? plan.slice.collections : plan.collections,
                   .uuids = plan.sliced ? plan.slice.uuids : plan.uuids,
                   .temporary = plan.sliced ? plan.slice.temporary : plan.temporary,
                   .collection_options = plan.options_after_slice()},
                  transactions, observer.of_bytes(restore_step::kCheckOplog));
  if (!facts) return error_in(facts);
  plan.oplog = std::move(*facts);
  return {};
}

// For a data copy, before its recovery reveals its last entry.
Result<void> look_at_oplog(const RestorePlan& plan, Observer& observer) {
  Transactions transactions;
  const Result<OplogFacts> facts =
      check_oplog(plan.options.oplog,
                  {.anywhere = true,
                   .not_sharded = plan.options.not_sharded,
                   .limit = plan.options.limit,
                   .filter = plan.options.filter,
                   .skip = plan.options.skip},
                  transactions, observer.of_bytes(restore_step::kCheckOplog));
  if (!facts) return error_in(facts);
  return {};
}

// Examines a target before the user is asked to confirm.
Result<void> look_at_target(const RestorePlan& plan, const Observer& observer) {
  if (plan.options.target.empty()) return {};
  Result<Server> server = Server::connect(
      plan.options.target, {.watch = {.stopped = [&observer] { return observer.stopped(); }}});
  if (!server) return error_in(server);
  const Result<std::optional<DoneRestore>> read = read_report(
      *server, plan.options.report.empty() ? report_here(*server) : plan.options.report);
  if (!read) return error_in(read);
  const std::optional<DoneRestore>& done = *read;
  if (done && done->is_there) return {};  // restore() compares it
  const Result<TargetFacts> facts =
      check_target(*server, {.version = plan.base->server_version(),
                             .replica_set_ok = plan.options.allow_replica_set,
                             .users = plan.options.filter.users(),
                             .fingerprint = plan.fingerprint.view()});
  if (!facts) return error_in(facts);
  return {};
}

// Finds the mongod to start, and checks that its version fits the base.
Result<std::string> look_at_spare(const RestorePlan& plan) {
  Result<std::string> program = find_mongod(plan.options.mongod);
  if (!program) return program;
  const Result<std::string> version = version_of(*program);
  if (!version) return error_in(version);
  if (plan.base && !plan.base->server_version().empty() &&
      !same_series(plan.base->server_version(), *version))
    return fail(Code::kFailedPrecondition, "the backup is of MongoDB " +
                                               plan.base->server_version() + ", and " +
                                               shell_word(*program) + " is " + *version +
                                               ": give --mongod PATH of one of the same series");
  const Result<SpareFolder> folder =
      look_at(plan.base ? plan.options.spare : plan.options.data_copy);
  if (!folder) return error_in(folder);
  if (plan.base && !folder->fresh && !folder->ours)
    return fail(Code::kAlreadyExists, shell_word(plan.options.spare) +
                                          " is not empty: give --spare a folder that is not "
                                          "there yet");
  return program;
}

}  // namespace

std::vector<std::string> RestorePlan::notes() const {
  std::vector<std::string> all;
  const std::string end = options.limit ? "the limit" : "the end";
  const auto wanted = [&](const CollectionFacts& each) {
    return options.filter.includes(each.database + "." + each.name);
  };
  if (base && !base->collections().empty() && std::ranges::none_of(base->collections(), wanted))
    all.push_back("--include and --exclude leave nothing of the base: are they spelled right?");
  if (!base && oplog.entries == 0)
    all.push_back("whether the oplog reaches back to the copy is checked when that is recovered");
  if (checked_before)
    all.push_back(
        "the base was checked by the run before this one, and its files are unchanged since: its "
        "documents were not read again for that");
  const std::optional<Checksums> sums = base ? base->checksums() : std::nullopt;
  if (base && !sums)
    all.push_back(
        "the base has no checksums, as idmint-restore dump writes them: bytes that were "
        "changed and are a document still go unseen");
  if (sums && !sums->excluded.empty()) {
    std::string names;
    for (const std::string& pattern : sums->excluded)
      names += (names.empty() ? "" : ", ") + pattern;
    all.push_back("the base was made without " + names);
  }
  if (oplog.lacking != 0)
    all.push_back("the newest slice is " + print_count(oplog.lacking, "byte") +
                  " shorter than its checksums say: its last entries are missing, and the others "
                  "were not compared. Copy it again");
  if (oplog.entries != 0 && !oplog.has_checksums && oplog.lacking == 0)
    all.push_back(
        "the oplog has no checksums, as idmint-restore oplog writes them: entries that "
        "were taken out go unseen");
  if (oplog.unchecked != 0)
    all.push_back("the last " + print_count(oplog.unchecked, "byte") +
                  " of the oplog came after its checksums, as the dump was killed, and were not "
                  "compared with them");
  if (oplog.silences != 0)
    all.push_back("the oplog has no entry for " + std::to_string(oplog.longest.seconds) +
                  " s after " + print_timestamp(oplog.longest.after) +
                  (oplog.silences == 1
                       ? std::string()
                       : ", and " + print_count(oplog.silences - 1, "other such time")) +
                  ": a primary writes one within 20 s, so there was none, or entries are missing");
  if (base && !options.oplog.empty() && uuids.empty() && !base->collections().empty())
    all.push_back(
        "the base has no UUIDs of collections: whether they are those of the oplog was "
        "not checked");
  if (base && !base->left_out().empty()) {
    std::string names;
    bool users = false;
    for (const std::string& ns : base->left_out()) {
      names += (names.empty() ? "" : ", ") + ns;
      users = users || ns.ends_with("admin.system.users") || ns.ends_with("admin.system.roles");
    }
    all.push_back("of the base are left out: " + names +
                  (users ? "; --users restores users and roles" : ""));
  }
  if (base && options.filter.users() &&
      std::ranges::none_of(base->collections(),
                           [](const auto& each) { return is_users(each.ns()); }))
    all.push_back("the base has no users and no roles");
  for (const OpenTransaction& open : oplog.open)
    all.push_back("the transaction begun at " + print_timestamp(open.first) +
                  " was not committed before " + end + ": its " +
                  print_count(open.operations, "operation") +
                  (open.operations == 1 ? " is" : " are") + " not applied");
  for (const std::string& ns : oplog.temporary) {
    std::string& told = all.emplace_back(ns);
    told += " is a temporary collection that was there at " + end;
    told += ": drop it if it is not wanted";
  }
  if (slice.migrated + oplog.migrated != 0)
    all.push_back(print_count(slice.migrated + oplog.migrated, "operation") +
                  " of the oplog marked fromMigrate, as cloneCollectionAsCapped and migrations of "
                  "chunks do it; nothing else is of a sharded cluster, so the set is taken for a "
                  "plain one");
  for (const auto& [database, count] : oplog.left_out)
    all.push_back(
        print_count(count, "operation") + " on " + database + (count == 1 ? " is" : " are") +
        " left out: " +
        (database == kUsersAndRoles ? "--users applies them" : "no restore applies them"));
  return all;
}

Result<void> check_oplog(RestorePlan& plan, Transactions& transactions, Observer& observer) {
  if (plan.options.oplog.empty()) {
    plan.oplog.open = transactions.open();
    plan.oplog.temporary = plan.sliced ? plan.slice.temporary : plan.temporary;
  } else if (Result<void> read = read_oplog_of(plan, transactions, observer); !read) {
    return read;
  }
  Result<Bson> fingerprint = fingerprint_of(plan);
  if (!fingerprint) return error_in(fingerprint);
  plan.fingerprint = std::move(*fingerprint);
  return {};
}

Result<RestorePlan> plan_restore(RestoreOptions options, Observer& observer) {
  RestorePlan plan{.options = std::move(options)};
  if (plan.options.data_copy.empty()) {
    Transactions transactions;
    if (Result<void> opened = open_base_of(plan); !opened) return error_in(opened);
    if (Result<void> checked = check_base(plan, transactions, observer); !checked)
      return error_in(checked);
    if (Result<void> checked = check_oplog(plan, transactions, observer); !checked)
      return error_in(checked);
  } else if (Result<void> looked = look_at_oplog(plan, observer); !looked) {
    return error_in(looked);
  }
  if (plan.options.target.empty()) {
    Result<std::string> found = look_at_spare(plan);
    if (!found) return error_in(found);
    plan.program = std::move(*found);
  } else if (Result<void> looked = look_at_target(plan, observer); !looked) {
    return error_in(looked);
  }
  return plan;
}

}  // namespace idmint::restore
