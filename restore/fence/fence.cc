#include "restore/fence/fence.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "base/text.h"
#include "base/url.h"
#include "mongo/bson.h"
#include "restore/checksums.h"
#include "restore/collections.h"
#include "restore/fence/documents.h"
#include "restore/fence/handed_out.h"
#include "restore/fence/server_state.h"
#include "restore/oplog/reader.h"
#include "restore/oplog/source.h"
#include "restore/replay/record.h"
#include "restore/replay/report.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kEntriesBetweenLooks = 4096;
constexpr std::size_t kMostLeftAlone = 12;

// Everything that is known before the plan.
struct Evidence {
  ServerState target{};
  std::optional<ServerState> live{};
  HandedOut oplog{};
  HandedOutStores handed_out{};  // from the oplog and the live server together
};

std::optional<Timestamp> limit_in(const Record& record) {
  const Result<Timestamp> limit = parse_timestamp(text_of(record.fingerprint(), "limit"));
  return limit ? std::optional(*limit) : std::nullopt;
}

// The fields of adopted counters, and those in the options.
WatchedFields watched_fields(const FenceOptions& options, const Evidence& evidence) {
  WatchedFields watched;
  for (const CounterField& each : options.counters) watched[each.ns].insert(each.field);
  watch_adopted(evidence.target.stores, watched);
  if (evidence.live) watch_adopted(evidence.live->stores, watched);
  return watched;
}

// Reads a live oplog from the limit on only; the target has everything before.
Result<HandedOut> read_once(const std::string& where, WatchedFields& watched,
                            std::optional<Timestamp> limit, Observer& observer, bool& again) {
  OplogSpan span;
  if (limit && is_uri(where)) span.from = *limit;
  const Result<std::unique_ptr<OplogSource>> oplog = open_oplog(where, span);
  if (!oplog) return error_in(oplog);
  OplogSource& source = **oplog;
  observer.begin(std::string(source.unit()) + " read", static_cast<std::uint64_t>(source.total()));
  HandedOutReader reader(watched, limit);
  for (std::uint64_t entries = 1;; ++entries) {
    const Result<std::optional<Entry>> next = source.next();
    if (!next) {
      Error error = next.error();
      if (error.code == Code::kDataLoss)
        add_outcome(
            error,
            "what was handed out after it is not known, and nothing was written: copy the oplog "
            "again");
      return std::unexpected(std::move(error));
    }
    const std::optional<Entry>& entry = *next;
    if (!entry) break;
    if (Result<void> taken = reader.add(*entry); !taken)
      return fail(taken.error().code, source.name() + ": " + taken.error().message());
    if (entries % kEntriesBetweenLooks == 0)
      if (Result<void> going = observer.advance(static_cast<std::uint64_t>(source.done())); !going)
        return error_in(going);
  }
  again = !reader.missed().empty();
  for (const auto& [ns, fields] : reader.missed()) watched[ns].insert(fields.begin(), fields.end());
  HandedOut found = reader.finish();
  // All entries from there on were read, whatever the time of the first.
  if (source.notice().empty() && span.from != Timestamp{}) found.first = span.from;
  return found;
}

// Reads again if a counter was adopted from a document whose history was not kept.
Result<HandedOut> read_handed_out(const std::string& where, WatchedFields watched,
                                  std::optional<Timestamp> limit, Observer& observer) {
  for (;;) {
    bool again = false;
    Result<HandedOut> found = read_once(where, watched, limit, observer, again);
    if (!found || !again) return found;
  }
}

void unite_all(HandedOutStores& into, const HandedOutStores& newer) {
  for (const auto& [database, store] : newer) unite(into[database], store);
}

Result<void> check_writable(const Server& server, const ServerState& state) {
  if (state.writable) return {};
  return fail(Code::kFailedPrecondition,
              server.shown_uri() +
                  " takes no writes: it is a secondary, or was started read-only; name the primary "
                  "of its set, or a server of its own");
}

bool share_a_host(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  return std::ranges::any_of(
      one, [&](const std::string& host) { return std::ranges::find(other, host) != other.end(); });
}

// A set that has the last entry of the oplog wrote it. One whose collections have the same UUIDs is
// a copy of that set, or the set itself.
Result<void> check_not_production(Server& server, const Evidence& evidence) {
  const auto refuse_it = [&](const std::string& why) {
    return fail(Code::kFailedPrecondition,
                server.shown_uri() + " is production itself: " + why +
                    "; the target is the restored server. Where counters were copied back into "
                    "production, and are to be raised there, add --allow-production");
  };
  if (evidence.live) {
    if (!evidence.target.process.empty() && evidence.target.process == evidence.live->process)
      return refuse_it("it is the server of --live");
    if (share_a_host(evidence.target.hosts, evidence.live->hosts))
      return refuse_it("it is of the set of --live");
  }
  // A standalone has no oplog of its own and is not production.
  if (server.set_name().empty() || evidence.oplog.entries == 0) return {};
  const Result<bool> has = has_oplog_entry(server, evidence.oplog.last);
  if (!has) return error_in(has);
  if (*has)
    return refuse_it("its oplog has the entry " + print_timestamp(evidence.oplog.last.ts) +
                     ", with which this one ends");
  for (const auto& [ns, uuid] : evidence.oplog.uuids) {
    const auto there = evidence.target.collections.find(ns);
    if (there != evidence.target.collections.end() && there->second == hex(uuid))
      return refuse_it("its collection " + ns +
                       " is the one that the oplog writes to; or a copy of its data folder");
  }
  return {};
}

// Checks that the oplog has everything after the limit.
Result<void> check_reach(const FenceOptions& options, const Evidence& evidence,
                         FenceReport& report) {
  const HandedOut& oplog = evidence.oplog;
  if (!report.limit) {
    report.notes.emplace_back(
        "the limit of the restore is not known, so it is not checked that the oplog reaches back "
        "to it: give --limit S:O");
    return {};
  }
  const Timestamp limit = *report.limit;
  if (oplog.entries != 0 && oplog.first <= limit && (evidence.live || oplog.last.ts >= limit))
    return {};
  if (!evidence.live)
    return fail(Code::kOutOfRange,
                options.oplog + " goes from " + print_timestamp(oplog.first) + " to " +
                    print_timestamp(oplog.last.ts) + ", and the restore ends before " +
                    print_timestamp(limit) +
                    ": what was handed out from there on is not in it; copy an oplog that reaches "
                    "from the limit to the end, or give --live URI too");
  report.notes.push_back("the oplog begins at " + print_timestamp(oplog.first) +
                         ", after the limit " + print_timestamp(limit) +
                         ": of what was dropped in between nothing is known");
  return {};
}

void tell_what_is_unknown(const Evidence& evidence, FenceReport& report) {
  if (report.last)
    report.notes.push_back(
        "known is what was handed out up to " + print_timestamp(*report.last) + " (" +
        print_seconds(*report.last) +
        "); if anything was handed out after it, stop that, and do the same again with what is "
        "there then: it raises further");
  const auto step = std::ranges::max_element(report.documents, {}, &FencedDocument::largest_step);
  if (step != report.documents.end() && step->largest_step > 1)
    report.notes.push_back(
        "an oplog has values and no increments: the largest step of a counter document was " +
        std::to_string(step->largest_step) + " (" + step->label() +
        "). A program whose last call is not in it holds values up to one such step past what is "
        "known; the smallest figure that is safe for n such calls is n steps further");
  for (const std::string& field : evidence.oplog.too_many) {
    std::string& note = report.notes.emplace_back("more than ");
    note += print_count(HandedOutReader::kMostDocuments);
    note += " documents are counted in by " + field;
    note += ": taken for no counters; if they are, give --counter " + field;
  }
  if (evidence.oplog.rising_left_out)
    report.notes.emplace_back(
        "there was no room for all numbers that are no counters: some that rise are not shown");
}

// Reads both servers and the oplogs.
Result<void> gather(const FenceOptions& options, Server& target, std::optional<Server>& live,
                    Observer& observer, FenceReport& report, Evidence& evidence) {
  observer.begin("servers read", live ? 2 : 1);
  Result<ServerState> state = read_server_state(target);
  if (!state) return error_in(state);
  evidence.target = std::move(*state);
  if (Result<void> writable = check_writable(target, evidence.target); !writable) return writable;
  if (Result<void> going = observer.advance(1); !going) return going;
  // Read before the oplog, which then has whatever is dropped in between.
  if (live) {
    state = read_server_state(*live);
    if (!state) return error_in(state);
    evidence.live = std::move(*state);
    if (!evidence.live->writable)
      report.notes.push_back(report.live +
                             " has no primary: what that had handed out more is not known");
  }
  const WatchedFields watched = watched_fields(options, evidence);
  if (!options.oplog.empty()) {
    const Result<std::vector<std::string>> files = find_oplog_files(options.oplog);
    if (!files) return error_in(files);
    for (const std::string& file : *files)
      if (Result<void> whole = check_oplog_dump(file); !whole) return whole;
  }
  for (const std::string& where : {options.live, options.oplog}) {
    if (where.empty()) continue;
    Result<HandedOut> found = read_handed_out(where, watched, report.limit, observer);
    if (!found) return error_in(found);
    if (evidence.oplog.entries == 0) {
      evidence.oplog = std::move(*found);
      continue;
    }
    // Both: the file, which reaches further back, and the later entries of the live server.
    HandedOut& all = evidence.oplog;
    unite_all(found->stores, all.stores);
    all.stores = std::move(found->stores);
    for (auto& [field, history] : found->fields) {
      const auto [there, is_new] = all.fields.try_emplace(field, history);
      if (is_new) continue;
      FieldHistory& into = there->second;
      into.largest = std::max(into.largest, history.largest);
      into.largest_step = std::max(into.largest_step, history.largest_step);
      into.rises = std::max(into.rises, history.rises);
      into.falls = std::max(into.falls, history.falls);
      into.late_falls = std::max(into.late_falls, history.late_falls);
      if (into.made.empty()) into.made = history.made;
      if (into.odd.empty()) into.odd = history.odd;
    }
    all.too_many.insert(found->too_many.begin(), found->too_many.end());
    all.uuids.insert(found->uuids.begin(), found->uuids.end());
    all.first = std::min(all.first, found->first);
    if (found->last.ts > all.last.ts) all.last = found->last;
    if (all.rising.empty()) all.rising = std::move(found->rising);
    all.entries += found->entries;
  }
  unite_all(evidence.handed_out, evidence.oplog.stores);
  if (evidence.live) unite_all(evidence.handed_out, evidence.live->stores);
  for (const HandedOutStores* const stores : {&evidence.oplog.stores, &evidence.target.stores})
    take_adopted(evidence.oplog, *stores, evidence.handed_out);
  if (evidence.live) take_adopted(evidence.oplog, evidence.live->stores, evidence.handed_out);
  if (evidence.oplog.entries != 0) {
    report.first = evidence.oplog.first;
    report.last = evidence.oplog.last.ts;
  }
  return {};
}

// Marks the rows that an interrupted fence did not reach.
template <class Row>
void not_reached(std::vector<Row>& rows, std::size_t from) {
  for (Row& row : std::span(rows).subspan(from)) {
    if (row.outcome == FenceOutcome::kAsItWas || row.outcome == FenceOutcome::kLeftOut) continue;
    row.outcome = FenceOutcome::kRefused;
    row.why = "not reached: the same command goes on with it";
  }
}

// Carries out each row separately: a refusal for one does not prevent the others.
template <class Fence, class Row>
Result<void> carry_out_rows(Fence& fence, std::vector<Row>& rows, Observer& observer,
                            std::uint64_t& done, std::optional<Error>& failure) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Result<void> fenced = fence.carry_out(i, rows[i]);
    if (!fenced && fenced.error().code == Code::kUnavailable) {
      not_reached(rows, i);
      return fenced;
    }
    if (!fenced) {
      rows[i].outcome = FenceOutcome::kRefused;
      rows[i].why = fenced.error().message();
      if (!failure) failure = fenced.error();
    }
    if (Result<void> going = observer.advance(++done); !going) {
      not_reached(rows, i + 1);
      return going;
    }
  }
  return {};
}

}  // namespace

Result<void> fence(const FenceOptions& options, FenceMode mode, Observer& observer,
                   FenceReport& report) {
  report = {};
  report.target = redacted(options.target);
  report.oplog = options.oplog;
  report.live = redacted(options.live);
  if (options.oplog.empty() && options.live.empty())
    return refuse("give --oplog FILE, a dump of production's oplog, or --live URI, production");
  if (is_uri(options.oplog))
    return refuse("--oplog is a file or the folder it is in: name a server with --live");
  Result<Server> target = Server::connect(options.target);
  if (!target) return error_in(target);
  std::optional<Server> live;
  if (!options.live.empty()) {
    Result<Server> connected = Server::connect(options.live);
    if (!connected) return error_in(connected);
    live.emplace(std::move(*connected));
  }
  report.limit = options.limit;
  if (!report.limit) {
    const Result<std::optional<FoundRecord>> record = find_record(*target, options.restore_report);
    if (!record) return error_in(record);
    if (const std::optional<FoundRecord>& found = *record) report.limit = limit_in(found->record);
  }

  Evidence evidence;
  if (Result<void> gathered = gather(options, *target, live, observer, report, evidence); !gathered)
    return gathered;
  if (!options.allow_production)
    if (Result<void> other = check_not_production(*target, evidence); !other) return other;
  const std::size_t notes = report.notes.size();
  if (Result<void> reach = check_reach(options, evidence, report); !reach) return reach;
  const bool must_be_seen = report.limit && report.notes.size() > notes;

  observer.begin("counters compared", std::nullopt);
  SourceFence sources({.target = options.target,
                       .live = options.live,
                       .leave_gap = options.leave_gap,
                       .reopen = options.reopen,
                       .used_in = options.used_in,
                       .exclude = options.exclude,
                       .deadline = options.deadline,
                       .must_be_seen = must_be_seen},
                      *target, live ? &*live : nullptr, evidence.target.stores,
                      evidence.handed_out);
  Result<std::vector<FencedSource>> source_rows = sources.plan();
  if (!source_rows) return error_in(source_rows);
  report.sources = std::move(*source_rows);
  DocumentFence documents({.target_uri = options.target,
                           .live_uri = options.live,
                           .counters = options.counters,
                           .used_in = options.used_in,
                           .exclude = options.exclude},
                          *target, evidence.target, live ? &*live : nullptr,
                          evidence.live ? &*evidence.live : nullptr, evidence.oplog);
  Result<std::vector<FencedDocument>> document_rows = documents.plan();
  if (!document_rows) return error_in(document_rows);
  report.documents = std::move(*document_rows);
  report.notes.insert(report.notes.end(), documents.notes().begin(), documents.notes().end());
  report.left_alone = evidence.oplog.rising;
  if (report.left_alone.size() > kMostLeftAlone) report.left_alone.resize(kMostLeftAlone);
  tell_what_is_unknown(evidence, report);
  if (mode == FenceMode::kPreview) return {};

  if (const std::vector<std::string> refused = report.refused(); !refused.empty())
    return fail(Code::kFailedPrecondition, "nothing was written, as " +
                                               print_count(refused.size(), "counter") +
                                               " cannot be fenced: " + refused.front());
  if (Result<void> kept = observer.about_to("fence"); !kept) return kept;
  report.carried_out = true;
  const std::size_t rows = report.sources.size() + report.documents.size();
  observer.begin(kFenceStep, rows);
  std::uint64_t done = 0;
  std::optional<Error> failure;
  if (Result<void> fenced = carry_out_rows(sources, report.sources, observer, done, failure);
      !fenced) {
    not_reached(report.documents, 0);
    return fenced;
  }
  if (Result<void> fenced = carry_out_rows(documents, report.documents, observer, done, failure);
      !fenced)
    return fenced;
  if (failure) {
    const std::vector<std::string> refused = report.refused();
    return fail(failure->code == Code::kPermissionDenied ? failure->code : Code::kUnknown,
                print_count(refused.size(), "counter") + " of " + std::to_string(rows) +
                    " not fenced, all others are: " + refused.front());
  }
  return sources.settle(report.sources);
}

}  // namespace idmint::restore
