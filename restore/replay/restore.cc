#include "restore/replay/restore.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "base/text.h"
#include "restore/collections.h"
#include "restore/output_file.h"
#include "restore/replay/expectation.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/index_trial.h"
#include "restore/replay/left_out.h"
#include "restore/replay/load.h"
#include "restore/replay/preflight.h"
#include "restore/replay/record.h"
#include "restore/replay/report.h"
#include "restore/replay/state.h"
#include "restore/server.h"

namespace idmint::restore {

namespace {

// The watch aborts unanswered calls when the restore should end.
Result<Server> connect_for(Observer& observer, const std::string& uri) {
  return Server::connect(uri, {.watch = {.stopped = [&observer] { return observer.stopped(); }}});
}

// Records the counts after the slice, from which verify starts.
Result<void> count_after_slice(Server& server, Record& record, const RestorePlan& plan) {
  const Result<Loaded> before = loaded(record);
  if (!before) return error_in(before);
  const Result<std::vector<CollectionFacts>> there =
      list_collections(server, plan.options.filter.users());
  if (!there) return error_in(there);
  Loaded gone = *before;
  std::set<std::string> counted;  // touched by the oplog
  for (const auto& [ns, tally] : plan.oplog.tallies) counted.insert(tally.base);
  for (const CollectionFacts& each : *there) {
    if (each.kind != CollectionKind::kCollection) continue;
    const std::string ns = each.ns();
    gone.erase(ns);
    const bool touched = plan.slice.tallies.contains(ns) || plan.slice.gone.contains(ns);
    if (plan.base && before->contains(ns) && !touched) continue;
    if (!plan.base && !counted.contains(ns)) continue;  // a data copy may be large
    const Result<std::uint64_t> documents = count_documents(server, ns);
    if (!documents) return error_in(documents);
    if (Result<void> set = set_loaded(record, ns, *documents); !set) return set;
  }
  for (const auto& [ns, documents] : gone)
    if (Result<void> set = unset_loaded(record, ns); !set) return set;
  return {};
}

void add_indexes_of_base(const RestorePlan& plan, IndexCatalog& catalog) {
  for (const CollectionFacts& each : plan.base->collections()) {
    const std::string ns = each.database + "." + each.name;
    if (!plan.options.filter.includes(ns)) continue;
    for (const Bson& index : each.indexes)
      if (!index.view().has("clustered")) catalog.add(ns, index.view());
  }
}

// Leaves out what was not built when the base was made. A unique one may even be impossible to
// build; its build was aborted for that reason.
void leave_out_unbuilt(const RestorePlan& plan, IndexCatalog& catalog) {
  for (const auto& [ns, names] : plan.oplog.building)
    for (const std::string& name : names) catalog.remove(ns, name);
}

// The indexes that the base has after its slice. Empty for a data copy.
Result<IndexCatalog> indexes_of_base(const RestorePlan& plan) {
  IndexCatalog catalog;
  if (!plan.base) return catalog;
  add_indexes_of_base(plan, catalog);
  if (plan.sliced) {
    Result<void> read = plan.base->oplog([&](const Entry& entry) -> Result<void> {
      if (entry.operation.op != Op::kCommand || entry.in_transaction()) return {};
      return catalog.apply(entry.operation);
    });
    if (!read) return error_in(read);
  }
  leave_out_unbuilt(plan, catalog);
  return catalog;
}

// All indexes that the restore builds: those in `of_base`, and those that the oplog builds. They
// point into both.
std::vector<IndexTrial> trials_of(const RestorePlan& plan, const IndexCatalog& of_base) {
  std::vector<IndexTrial> trials;
  for (const auto& [ns, indexes] : of_base.all()) {
    IndexTrial& trial = trials.emplace_back(
        IndexTrial{.ns = ns, .options = options_of(plan.options_after_slice(), ns), .specs = {}});
    for (const auto& [name, spec] : indexes) trial.specs.push_back(spec.view());
  }
  for (const BuiltIndex& each : plan.oplog.built)
    trials.push_back(
        {.ns = each.ns, .options = each.options, .specs = {each.spec->view()}, .built = each.at});
  return trials;
}

// Finds out before anything is restored which indexes the server refuses. kFailedPrecondition:
// there are some, and they are not to be left out.
Result<void> check_indexes(const RestorePlan& plan, Server& server) {
  if (plan.options.report_index_errors) return {};
  const Result<IndexCatalog> catalog = indexes_of_base(plan);
  if (!catalog) return error_in(catalog);
  const Result<std::vector<RefusedIndex>> refused =
      refused_indexes(server, trials_of(plan, *catalog));
  if (!refused) return error_in(refused);
  if (refused->empty()) return {};
  return std::unexpected(refusal_of(*refused, server.shown_uri()));
}

// Takes the indexes out of the catalog that wait until the oplog is replayed, which then has fewer
// of them to keep: those of collections that no command of the oplog concerns, as it might change
// the index. A unique one does not wait: it shows the entry that is not to be applied.
IndexCatalog take_later(const RestorePlan& plan, IndexCatalog& catalog) {
  IndexCatalog later;
  if (!plan.base || plan.options.oplog.empty()) return later;
  const auto& commanded = plan.oplog.commanded;
  for (const CollectionFacts& each : plan.base->collections()) {
    const std::string ns = each.ns();
    const auto indexes = catalog.all().find(ns);
    if (indexes == catalog.all().end() || each.kind != CollectionKind::kCollection ||
        each.name.starts_with("system.") || commanded.contains(ns) ||
        commanded.contains(each.database + "."))
      continue;
    for (const auto& [name, spec] : indexes->second)
      if (!spec.view().has("unique")) later.add(ns, spec.view());
  }
  for (const auto& [ns, indexes] : later.all())
    for (const auto& [name, spec] : indexes) catalog.remove(ns, name);
  return later;
}

// Builds them, after the oplog.
Result<void> build_later(const RestorePlan& plan, Server& server, Record& record,
                         const IndexCatalog& later, Observer& observer) {
  if (later.size() == 0) return {};
  std::vector<RefusedIndex> refused;
  Result<void> built =
      build_indexes(server, later, observer.of(restore_step::kBuildIndexes, later.all().size()),
                    plan.options.report_index_errors ? &refused : nullptr);
  return built && !refused.empty() ? keep_left_out_at_end(record, std::move(refused)) : built;
}

// Replays the slice, and sets the indexes of the base as of its end.
Result<void> replay_slice(RestorePlan& plan, Server& server, Record& record,
                          Transactions& transactions, IndexCatalog& catalog, Observer& observer,
                          RestoreReport& report) {
  add_indexes_of_base(plan, catalog);
  if (!plan.sliced) return {};
  Result<std::unique_ptr<Replay>> replay = Replay::begin(
      server, record, transactions, &catalog,
      {.slice = true, .filter = plan.options.filter, .workers = plan.options.writers});
  if (!replay) return error_in(replay);
  observer.begin(restore_step::kReplaySlice, plan.slice.entries);
  std::uint64_t done = 0;
  Result<void> read = plan.base->oplog([&](const Entry& entry) -> Result<void> {
    Result<void> applied = (*replay)->apply(entry);
    return applied ? observer.advance(++done) : applied;
  });
  if (!read) return read;
  Result<ReplayCounts> counts = (*replay)->finish();
  if (!counts) return error_in(counts);
  report.slice = std::move(*counts);
  return {};
}

// Without checksums nothing but its files says that it is the base of which a part is loaded.
Result<void> check_same_files(const RestorePlan& plan, Record& record) {
  constexpr const char* files = "base files";
  if (plan.base->checksums()) return {};
  const Result<std::optional<Bson>> noted = record.get(files);
  if (!noted) return error_in(noted);
  const std::optional<Bson>& known = *noted;
  if (!known) return record.put(files, Bson("stamp", plan.base_stamp));
  if (text_of(known->view(), "stamp") == plan.base_stamp) return {};
  return fail(Code::kFailedPrecondition,
              "the files of " + plan.options.base +
                  " were changed or copied since a part of them was loaded, and have no checksums "
                  "that say that they are the same: begin anew, with an empty server or another "
                  "--spare folder");
}

Result<void> load(const RestorePlan& plan, Server& server, Record& record, Observer& observer,
                  RestoreReport& report) {
  if (Result<void> same = check_same_files(plan, record); !same) return same;
  const Result<LoadCounts> counts =
      load_base(*plan.base, server, record,
                {.filter = plan.options.filter,
                 .writers = plan.options.writers,
                 .sliced = plan.sliced,
                 .note_every = kNoteLoadEvery},
                observer.of_bytes(restore_step::kLoad, plan.base->size()));
  if (!counts) return error_in(counts);
  if (counts->twice != 0)
    report.notes.push_back(print_count(counts->twice, "document") +
                           (counts->twice == 1 ? " is" : " are") +
                           " twice in the base, deleted and inserted again while it was taken: "
                           "the slice made them what they were");
  return {};
}

// Turns the TTL monitor off, because it deletes old documents, and restored ones are old. The
// record has that, so that each run reports it.
Result<void> keep_ttl_off(const RestorePlan& plan, Server& server, Record& record, bool runs,
                          RestoreReport& report) {
  constexpr const char* paused = "ttl";
  if (runs && record.stage() == RunStage::kDone) return {};  // somebody has turned it on again
  const std::string told = "the TTL monitor of " + server.shown_uri() +
                           " was turned off, as it would delete what is restored; on again with "
                           "db.adminCommand({setParameter: 1, ttlMonitorEnabled: true})";
  if (runs) {
    if (record.resumed() || !plan.base) {
      const Result<bool> deletes = has_ttl(server);
      if (!deletes) return error_in(deletes);
      if (*deletes)
        return fail(Code::kFailedPrecondition,
                    "the TTL monitor of " + server.shown_uri() +
                        " is on, and may have deleted what was restored: begin anew, with an "
                        "empty server that is started with --setParameter "
                        "ttlMonitorEnabled=false, or with --spare");
    }
    if (Result<void> put = record.put(paused, {}); !put) return put;
    if (Result<void> done = pause_ttl(server); !done) return done;
  }
  const Result<std::optional<Bson>> noted = record.get(paused);
  if (!noted) return error_in(noted);
  if (*noted) report.notes.push_back(told);
  return {};
}

Result<void> restore(RestorePlan& plan, Server& server, Record& record, bool ttl_runs,
                     Observer& observer, RestoreReport& report) {
  if (record.resumed())
    if (Result<void> ended = end_leftovers(server); !ended) return ended;
  if (Result<void> off = keep_ttl_off(plan, server, record, ttl_runs, report); !off) return off;
  if (Result<void> kept = keep_tallies(record, plan.oplog); !kept) return kept;
  Transactions transactions;

  if (record.stage() == RunStage::kBase) {
    if (Result<void> good = check_apply_ops(record); !good) return good;
    if (plan.base)
      if (Result<void> done = load(plan, server, record, observer, report); !done) return done;
    if (Result<void> kept = keep_in_base(record); !kept) return kept;
    if (Result<void> reached = record.reach(RunStage::kSlice); !reached) return reached;
  }
  const Result<std::uint64_t> in_base = documents_in_base(record);
  if (!in_base) return error_in(in_base);
  report.documents = *in_base;

  // Completed parts are read again for their transactions, indexes and counts.
  IndexCatalog catalog;
  if (plan.base) {
    Result<void> replayed =
        replay_slice(plan, server, record, transactions, catalog, observer, report);
    if (!replayed) return replayed;
  }
  leave_out_unbuilt(plan, catalog);
  report.indexes = catalog.size();
  const IndexCatalog later = take_later(plan, catalog);
  if (record.stage() == RunStage::kSlice) {
    if (Result<void> counted = count_after_slice(server, record, plan); !counted) return counted;
    if (Result<void> reached = record.reach(RunStage::kIndexes); !reached) return reached;
  }
  if (record.stage() == RunStage::kIndexes) {
    const TakeProgress progress = observer.of(restore_step::kBuildIndexes, catalog.all().size());
    std::vector<RefusedIndex> refused;
    Result<void> built = build_indexes(server, catalog, progress,
                                       plan.options.report_index_errors ? &refused : nullptr);
    if (!built) return built;
    LeftOut left_out(record);
    if (Result<void> kept = left_out.add(std::move(refused)); !kept) return kept;
    if (Result<void> reached = record.reach(RunStage::kOplog); !reached) return reached;
  }
  if (!plan.options.oplog.empty()) {
    Result<ReplayCounts> counts =
        replay_oplog(plan.options.oplog, server, record, transactions,
                     {.after = plan.after.value_or(Timestamp{}),
                      .limit = plan.options.limit,
                      .filter = plan.options.filter,
                      .skip = plan.options.skip,
                      .report_index_errors = plan.options.report_index_errors,
                      .workers = plan.options.writers},
                     observer.of_bytes(restore_step::kReplayOplog));
    if (!counts) return error_in(counts);
    report.oplog = std::move(*counts);
  }
  if (record.stage() == RunStage::kOplog) {
    if (Result<void> built = build_later(plan, server, record, later, observer); !built)
      return built;
    if (Result<void> reached = record.reach(RunStage::kDone); !reached) return reached;
  }
  LeftOut of_base(record);
  if (Result<void> known = of_base.read(); !known) return known;
  report.indexes -= std::min(report.indexes, of_base.of_base());
  const Result<std::vector<std::string>> left_out = left_out_in_words(record);
  if (!left_out) return error_in(left_out);
  for (const std::string& each : *left_out) report.notes.push_back("left out is " + each);
  return {};
}

std::string report_path(const RestorePlan& plan, const Server& server,
                        const RestoreReport& report) {
  if (!plan.options.report.empty()) return plan.options.report;
  return report.spare ? report_beside(report.spare->folder) : report_here(server);
}

// Whether the same restore was completed before: there is its report and no record. kAlreadyExists:
// another restore was completed.
Result<bool> was_done(const RestorePlan& plan, Server& server, RestoreReport& report) {
  const Result<std::optional<Record>> under_way = Record::find(server);
  if (!under_way) return error_in(under_way);
  if (*under_way) return false;
  Result<std::optional<DoneRestore>> read = read_report(server, report.report);
  if (!read) return error_in(read);
  const std::optional<DoneRestore>& found = *read;
  if (!found || !found->is_there) return false;  // somebody may have emptied the server
  if (Result<void> same = found->record.expect(plan.fingerprint.view()); !same)
    return error_in(same);
  static_cast<Restored&>(report) = found->restored;
  report.was_done = report.resumed = true;
  return true;
}

void add_notes(const RestorePlan& plan, RestoreReport& report) {
  if (report.was_done) return;  // the report has them already
  for (std::string& note : plan.notes()) report.notes.push_back(std::move(note));
  for (const ReplayCounts* const counts : {&report.slice, &report.oplog})
    report.notes.insert(report.notes.end(), counts->notes.begin(), counts->notes.end());
  if (report.oplog.missed == 0) return;
  report.notes.push_back(print_count(report.oplog.missed, "update") +
                         " found no document: entries are missing between the base and the "
                         "limit, or --skip left out what they build on");
  for (const std::string& missed : report.oplog.first_missed) report.notes.push_back(missed);
}

// Checks the server, prepares it, and restores to it.
Result<void> restore_to(RestorePlan& plan, const std::string& uri, Observer& observer,
                        const LookAtRestored& look, RestoreReport& report) {
  Result<Server> server = connect_for(observer, uri);
  if (!server) return error_in(server);
  report.target = server->shown_uri();
  report.report = report_path(plan, *server, report);
  const Result<bool> before = was_done(plan, *server, report);
  if (!before) return error_in(before);
  if (*before) return look ? look(*server) : Result<void>{};
  if (Result<void> writable = check_replaceable(report.report); !writable)
    return fail(writable.error().code, writable.error().message() +
                                           ": the report of this restore goes there; give another "
                                           "place with --report FILE");
  const Result<TargetFacts> facts =
      check_target(*server, {.version = plan.base ? plan.base->server_version() : std::string(),
                             .replica_set_ok = plan.options.allow_replica_set,
                             .filled = plan.base == nullptr,
                             .users = plan.options.filter.users(),
                             .fingerprint = plan.fingerprint.view()});
  if (!facts) return error_in(facts);
  Result<Record> record = Record::begin(*server, plan.fingerprint.view());
  if (!record) return error_in(record);
  report.resumed = record->resumed();
  if (record->stage() == RunStage::kBase) {
    Result<void> checked = check_indexes(plan, *server);
    if (!checked && !record->resumed())
      if (Result<void> forgotten = Record::forget(*server); !forgotten) return forgotten;
    if (!checked) return checked;
  }
  Result<void> done = restore(plan, *server, *record, facts->ttl_runs, observer, report);
  if (done) {
    add_notes(plan, report);
    done = write_report(*record, report, report.report);
    if (done) done = Record::forget(*server);
    return done && look ? look(*server) : done;
  }
  const Code why = done.error().code;
  if (why != Code::kFailedPrecondition && why != Code::kAlreadyExists) return done;
  // Something has been written.
  done.error().code = Code::kUnknown;
  if (!plan.options.skip.empty() && why == Code::kAlreadyExists)
    add_outcome(
        done.error(),
        "where --skip left out what freed that key, as a delete does: take a new spare, and "
        "skip the entries that use it too");
  return done;
}

// Examines a data copy before anything is replayed.
Result<void> look_at_copy(RestorePlan& plan, const std::string& uri, Observer& observer,
                          const RestoreReport& report) {
  Result<Server> server = connect_for(observer, uri);
  if (!server) return error_in(server);
  const Result<std::optional<Record>> record = Record::find(*server);
  if (!record) return error_in(record);
  if (*record) return {};  // the replay has changed the collections
  const Result<std::optional<DoneRestore>> done =
      read_report(*server, report_path(plan, *server, report));
  if (!done) return error_in(done);
  if (*done) return {};
  // They would remain unfinished for ever, and make their own commit fail.
  if (Result<void> dropped = drop_unfinished_indexes(*server); !dropped) return dropped;
  const Result<std::vector<CollectionFacts>> there =
      list_collections(*server, plan.options.filter.users());
  if (!there) return error_in(there);
  std::set<std::string, std::less<>>& collections = plan.collections.emplace();
  for (const CollectionFacts& each : *there) {
    collections.insert(each.ns());
    if (!each.uuid.empty()) plan.uuids[each.ns()] = unhex(each.uuid);
    if (!each.options.view().empty())
      plan.collection_options[each.ns()] = std::make_shared<const Bson>(each.options.copy());
  }
  return {};
}

Result<void> restore_to_spare(RestorePlan& plan, Observer& observer, const LookAtRestored& look,
                              RestoreReport& report) {
  observer.begin(restore_step::kStartServer, std::nullopt);
  const TakeProgress progress = observer.waits();
  const Mongod mongod{.program = plan.program, .arguments = plan.options.mongod_arguments};
  if (plan.base) {
    Result<Spare> spare = start_spare(plan.options.spare, mongod, progress);
    if (!spare) return error_in(spare);
    report.spare = std::move(*spare);
  } else {
    Result<RecoveredCopy> copy = start_copy(plan.options.data_copy, mongod, progress);
    if (!copy) return error_in(copy);
    report.spare = std::move(copy->spare);
    plan.after = copy->last;
  }
  Result<void> done;
  if (plan.base) {
    done = note_checked_base(*report.spare, plan.base_stamp);
  } else {
    Transactions transactions;
    done = look_at_copy(plan, report.spare->uri(), observer, report);
    if (done) done = check_oplog(plan, transactions, observer);
  }
  if (done) done = restore_to(plan, report.spare->uri(), observer, look, report);
  if (done && !plan.options.stop_spare) return done;
  if (!done) {
    if (std::optional<Error> why = why_it_ended(*report.spare)) {
      end_of(*why) += " (" + done.error().message() + ")";
      return std::unexpected(*std::move(why));
    }
    if (report.spare->ran_before) return done;
  }
  // A failed restore's server is ended, unless it ran before. The same command starts it again.
  Result<void> ended = stop_spare(*report.spare, progress);
  report.spare_ended = ended.has_value();
  if (!done && !ended) add_outcome(done.error(), "and " + ended.error().message());
  return done ? ended : done;
}

}  // namespace

Error refusal_of(const std::vector<RefusedIndex>& refused, const std::string& by) {
  std::string all;
  bool of_base = false;
  for (const RefusedIndex& each : refused) {
    all += "\n  " + each.name + " of " + each.ns +
           (each.built == Timestamp{} ? "" : ", built at " + print_timestamp(each.built)) + ": " +
           each.why;
    of_base = of_base || each.built == Timestamp{};
  }
  return {Code::kFailedPrecondition,
          by + " refuses " + print_count(refused.size(), "index", "indexes") + " of the " +
              (of_base ? "base or the oplog" : "oplog") +
              ", and nothing was restored: add --index-errors report to leave " +
              (refused.size() == 1 ? "it" : "them") + " out" +
              (of_base ? ", or mend the metadata of the base:" : ":") + all};
}

Result<std::vector<RefusedIndex>> try_indexes(const RestorePlan& plan, Observer& observer) {
  std::vector<RefusedIndex> none;
  if (plan.program.empty()) return none;
  const Result<IndexCatalog> catalog = indexes_of_base(plan);
  if (!catalog) return error_in(catalog);
  const std::vector<IndexTrial> trials = trials_of(plan, *catalog);
  if (std::ranges::all_of(trials, [](const IndexTrial& each) { return each.specs.empty(); }))
    return none;
  observer.begin(restore_step::kStartServer, std::nullopt);
  const TakeProgress progress = observer.waits();
  const Result<Spare> spare =
      start_temporary_spare({plan.program, plan.options.mongod_arguments}, progress);
  if (!spare) return error_in(spare);
  Result<Server> server = connect_for(observer, spare->uri());
  Result<std::vector<RefusedIndex>> refused =
      server ? refused_indexes(*server, trials)
             : Result<std::vector<RefusedIndex>>(error_in(server));
  if (Result<void> removed = remove_spare(spare->folder); refused && !removed)
    refused = error_in(removed);
  return refused;
}

Result<RestoreReport> restore(RestorePlan& plan, Observer& observer, const LookAtRestored& look) {
  RestoreReport report;
  const std::string& target = plan.options.target;
  Result<void> done = target.empty() ? restore_to_spare(plan, observer, look, report)
                                     : restore_to(plan, target, observer, look, report);
  if (!done) return error_in(done);
  return report;
}

}  // namespace idmint::restore
