#include "restore/promote/promote.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "restore/collections.h"
#include "restore/promote/collection_at.h"
#include "restore/promote/copy.h"
#include "restore/promote/counters.h"
#include "restore/promote/merge.h"
#include "restore/promote/production.h"
#include "restore/promote/versions.h"

namespace idmint::restore {
namespace {

// Records the UUIDs of the copies. After the swap the collections under the names have them.
Result<void> note_copies(PromoteRecord& record) {
  for (PromoteItem& item : record.state().items) {
    if (!item.is_replaced() || !item.new_uuid.empty()) continue;
    const std::string copy = record.state().copy_name(item);
    const Result<std::string> uuid = uuid_of(record.production(), copy);
    if (!uuid) return error_in(uuid);
    if (uuid->empty()) return must_be_undone(Code::kUnavailable, copy + " was dropped meanwhile");
    item.new_uuid = *uuid;
  }
  return record.write();
}

constexpr std::size_t kMostUnlisted = 1000;  // that a record lists

void take_only_copies(const Result<std::optional<std::vector<std::string>>>& only,
                      KeptCollection& kept) {
  if (!only || !*only) return;
  kept.ids = only->value_or(std::vector<std::string>());
  kept.written = kept.ids.size();
}

// Whether an undo gave the item's collection this name, as PromoteState::promoted_name() makes it.
bool is_promoted_name(std::string_view ns, const PromoteItem& item) {
  const std::string begin = item.ns + std::string(kPromotedSuffix);
  constexpr std::string_view form = "00000000-000000";
  return ns.starts_with(begin) && ns.size() == begin.size() + form.size() &&
         std::ranges::equal(ns.substr(begin.size()), form, [](char is, char digit) {
           return digit == '-' ? is == '-' : is >= '0' && is <= '9';
         });
}

// The search for later writes to the collections that are replaced. `state` must outlive it.
LaterSearch search_for(const PromoteOptions& options, const PromoteState& state) {
  return {.production = options.to,
          .oplog = options.oplog,
          .limit = state.limit,
          .mistake_to = state.mistake_to,
          .alike = state.alike,
          .wanted = [&state](std::string_view ns) {
            const auto item = std::ranges::find(state.items, ns, &PromoteItem::ns);
            return item != state.items.end() && item->is_replaced();
          }};
}

// Whether writers may be blocked by now.
bool has_blocked(const PromoteState& state) {
  return state.step != PromoteStep::kBlock ||
         std::ranges::any_of(state.items, [](const PromoteItem& item) {
           return item.missing || !item.old_uuid.empty();
         });
}

// The error of a promotion or of an undo that has begun to block: a refusal is not as if nothing
// had been done, and writers wait.
Error error_of(Error error, const PromoteState& state) {
  if (error.code != Code::kUnavailable && error.code != Code::kDataLoss)
    error.code = Code::kUnknown;
  if (error.outcome != kUndoFirst)
    add_outcome(error, state.undoing
                           ? "writers may be blocked: --undo again goes on"
                           : "writers are blocked at the step " + std::string(name(state.step)) +
                                 ": the same command goes on, and --undo lets them in");
  return error;
}

// The common part of a promotion and its undo.
class RecordedRun {
 public:
  RecordedRun(PromoteRecord& record, const PromoteOptions& options, Observer& observer,
              PromoteReport& report)
      : record_(record), options_(options), observer_(observer), report_(report) {}

  // The error of run(): once writers may be blocked or counters closed, it says how to go on.
  std::unexpected<Error> failed(Result<void>& done) {
    return has_begun_ ? std::unexpected(error_of(std::move(done.error()), state()))
                      : error_in(done);
  }

 protected:
  PromoteState& state() { return record_.state(); }
  Server& production() { return record_.production(); }
  Result<void> about_to(std::string_view what, std::string_view subject) {
    return observer_.about_to(std::string(what).append(" ").append(subject));
  }
  Result<void> close_all() {
    if (Result<void> told = about_to("close", "counters"); !told) return told;
    return close_counters(production(), state());
  }
  Result<void> open_all() {
    if (Result<void> told = about_to("open", "counters"); !told) return told;
    return open_counters(production(), state());
  }
  Result<FenceReport> raise_all(Server* spare) {
    return raise_counters(spare, production(), state(), options_,
                          observer_.of("entries of the oplog"));
  }

  PromoteRecord& record_;
  const PromoteOptions& options_;
  Observer& observer_;
  PromoteReport& report_;
  bool has_begun_ = false;
};

class Promotion final : public RecordedRun {
 public:
  Promotion(PromoteRecord& record, Server& spare, const PromoteOptions& options, Observer& observer,
            PromoteReport& report)
      : RecordedRun(record, options, observer, report), spare_(spare) {}

  Result<void> run() {
    struct Row {
      PromoteStep step;
      Result<void> (Promotion::*work)();
    };
    constexpr std::array rows = {
        Row{PromoteStep::kBlock, &Promotion::block}, Row{PromoteStep::kFence, &Promotion::fence},
        Row{PromoteStep::kLoad, &Promotion::load},   Row{PromoteStep::kVerify, &Promotion::verify},
        Row{PromoteStep::kMerge, &Promotion::merge}, Row{PromoteStep::kSwap, &Promotion::swap},
        Row{PromoteStep::kOpen, &Promotion::open},
    };
    has_begun_ = has_blocked(state());
    for (const Row& row : rows) {
      if (state().step != row.step) continue;
      if (Result<void> done = (this->*row.work)(); !done) return done;
      const auto next = static_cast<PromoteStep>(static_cast<int>(row.step) + 1);
      if (Result<void> told = about_to("reach", name(next)); !told) return told;
      if (Result<void> reached = record_.reach(next); !reached) return reached;
    }
    return {};
  }

 private:
  // Nothing is blocked yet, so a refusal leaves no trace.
  Result<void> try_first() {
    if (Result<void> told = about_to("try", "collections"); !told) return told;
    const Result<std::vector<PlannedRefusal>> refused = try_copies(spare_, production(), state());
    if (!refused) return error_in(refused);
    if (refused->empty()) return {};
    if (Result<void> forgotten = record_.forget(); !forgotten) return forgotten;
    return fail(Code::kFailedPrecondition,
                "nothing was replaced, and no writer was blocked: " + refused->front().ns + ": " +
                    refused->front().why + "; leave it out with --exclude");
  }

  Result<void> block() {
    if (!has_blocked(state()))
      if (Result<void> tried = try_first(); !tried) return tried;
    has_begun_ = true;
    for (PromoteItem& item : state().items) {
      if (item.view) continue;
      if (Result<void> told = about_to("block", item.ns); !told) return told;
      if (Result<void> blocked = block_writers(record_, item); !blocked) return blocked;
    }
    return close_all();
  }

  Result<void> fence() {
    if (Result<void> told = about_to("raise", "counters"); !told) return told;
    Result<FenceReport> drawn = raise_all(&spare_);
    if (!drawn) return error_in(drawn);
    report_.fence = *std::move(drawn);
    if (!state().merge_later) return {};
    const LaterSearch search = search_for(options_, state());
    Result<LaterWrites> later = find_later(search, observer_.of("entries of the oplog"));
    if (!later) return error_in(later);
    if (Result<void> chosen = choose_versions(*later, search, true, spare_, production()); !chosen)
      return chosen;
    const Result<PlannedLosses> planned = planned_losses(production(), state().id);
    if (!planned) return error_in(planned);
    note_unlisted(*later, *planned);
    if (Result<void> told = about_to("note", "later writes"); !told) return told;
    if (Result<void> noted = note_later(production(), state(), *later); !noted) return noted;
    state().noted = later->last;
    return record_.write();
  }

  // Notes the lost documents that are in no plan: programs went on until they were blocked.
  void note_unlisted(const LaterWrites& later, const PlannedLosses& planned) {
    ListRoom room;
    for (PromoteItem& item : state().items) {
      item.unlisted.clear();
      item.unlisted_count = 0;
      const auto now = later.collections.find(item.ns);
      if (!item.is_replaced() || now == later.collections.end()) continue;
      const auto listed = planned.find(item.ns);
      for (const auto& [id, document] : now->second.documents) {
        if (document.loss == Loss::kNone) continue;
        if (listed != planned.end() && listed->second.contains(id)) continue;
        if (++item.unlisted_count > kMostUnlisted) continue;
        LostDocument lost{.id = id, .why = std::string(in_words(document.loss))};
        for (std::size_t i = 0; i < now->second.holders.size(); ++i) {
          const std::string& in = now->second.holders[i].now;
          if (!in.empty() && (document.lost & now->second.terms_of(i)) != 0)
            lost.in.push_back(in == item.ns ? state().old_name(item) : in);
        }
        if (room.take(lost)) item.unlisted.push_back(std::move(lost));
      }
    }
  }

  Result<void> load() {
    if (Result<void> told = about_to("load", "collections"); !told) return told;
    const Result<CopyCounts> copied =
        copy_collections(spare_, production(), state(), observer_.of("bytes of documents copied"));
    if (!copied) return error_in(copied);
    report_.documents = copied->documents;
    return index_copies(spare_, production(), state(), WhichIndexes::kAllButTtl,
                        observer_.of("collections indexed"));
  }

  Result<void> verify() {
    const Result<std::vector<Difference>> found =
        compare_copies(spare_, production(), state(), observer_.of("documents compared"));
    if (!found) return error_in(found);
    if (!found->empty()) {
      const Difference& first = found->front();
      return must_be_undone(Code::kDataLoss,
                            print_count(found->size(), "difference") +
                                " between the spare, to which nobody may write, and what was "
                                "loaded, such as " +
                                first.what + " of " + first.ns + ": " + first.is +
                                ", and should be " + first.should_be);
    }
    if (Result<void> told = about_to("build", "TTL indexes"); !told) return told;
    return index_copies(spare_, production(), state(), WhichIndexes::kTtl,
                        observer_.of("collections indexed"));
  }

  Result<void> merge() {
    if (state().merge_later) {
      if (Result<void> told = about_to("merge", "later writes"); !told) return told;
      const Result<std::uint64_t> merged =
          merge_later(spare_, production(), state(), observer_.of("documents merged"));
      if (!merged) return error_in(merged);
      report_.merged = *merged;
    }
    return note_copies(record_);
  }

  Result<void> swap() {
    for (const PromoteItem& item : state().items) {
      if (!item.is_replaced()) continue;
      if (Result<void> told = about_to("swap", item.ns); !told) return told;
      const std::array renames = {
          Rename{.uuid = item.old_uuid, .from = item.ns, .to = state().old_name(item)},
          Rename{.uuid = item.new_uuid, .from = state().copy_name(item), .to = item.ns}};
      if (Result<void> renamed = rename_at_once(production(), renames); !renamed) return renamed;
    }
    if (!state().merge_later) return {};
    if (Result<void> told = about_to("merge", "deletes"); !told) return told;
    const Result<MergedDeletes> deleted = merge_deletes(production(), state(), options_.to);
    if (deleted) {
      report_.merged += deleted->done;
      if (deleted->left != 0)
        report_.notes.push_back(print_count(deleted->left, "document") +
                                " that programs deleted meanwhile stay: the restored versions of "
                                "these were taken");
    } else if (deleted.error().code == Code::kOutOfRange) {
      report_.notes.push_back(
          "what programs deleted while the collections were loaded may be back: " +
          deleted.error().message());
    } else {
      return error_in(deleted);
    }
    return {};
  }

  Result<void> open() {
    if (!state().was_opened) {
      state().was_opened = true;  // from now on an undo keeps what programs write
      if (Result<void> written = record_.write(); !written) return written;
    }
    for (PromoteItem& item : state().items) {
      if (Result<void> told = about_to("open", item.ns); !told) return told;
      if (item.view) {
        if (Result<void> made = make_view(record_, item); !made) return made;
        continue;
      }
      const bool own = item.in_place && !item.missing;
      const Bson& options = own ? item.old_options : item.final_options;
      Result<void> opened = let_writers_in(production(), item.ns, options.view());
      if (!opened) return opened;
    }
    return open_all();
  }

  Server& spare_;
};

class Undo final : public RecordedRun {
 public:
  using RecordedRun::RecordedRun;

  Result<void> run() {
    if (!state().undoing) {
      if (Result<void> may = has_all(); !may) return may;
      state().undoing = true;
      if (Result<void> told = observer_.about_to("undo"); !told) return told;
      if (Result<void> written = record_.write(); !written) return written;
    }
    has_begun_ = true;
    Result<void> done = block();
    if (done) done = raise();
    if (done) done = put_back();
    if (done) done = open();
    if (!done) return done;
    count_written();
    if (Result<void> told = observer_.about_to("forget"); !told) return told;
    return record_.forget();
  }

 private:
  // Whether the collections that are to come back are there.
  Result<void> has_all() {
    if (state().finishing)
      return fail(Code::kFailedPrecondition,
                  "the promotion is being finished, and old collections may be dropped: go on with "
                  "--finish");
    for (const PromoteItem& item : state().items) {
      if (!item.is_replaced() || item.old_uuid.empty()) continue;
      bool there = false;
      for (const std::string& ns : {item.ns, state().old_name(item)}) {
        const Result<std::string> uuid = uuid_of(production(), ns);
        if (!uuid) return error_in(uuid);
        there = there || *uuid == item.old_uuid;
      }
      if (!there)
        return fail(Code::kFailedPrecondition,
                    "nothing was undone: the collection that was " + item.ns +
                        " is dropped or renamed; --finish ends the promotion");
    }
    return {};
  }

  // Blocks the collection that has the name now, unless it is blocked. Skips items that the block
  // of the promotion did not reach.
  Result<void> block() {
    for (const PromoteItem& item : state().items) {
      if (item.old_uuid.empty()) continue;
      if (Result<void> told = about_to("block", item.ns); !told) return told;
      const Result<std::optional<CollectionFacts>> there = find_collection(production(), item.ns);
      if (!there) return error_in(there);
      const std::optional<CollectionFacts>& found = *there;
      if (!found || refuses_writers(found->options.view(), state().id)) continue;
      const Bson refusing = Bson("validator", refusing_validator(state().id));
      Result<void> blocked = let_writers_in(production(), item.ns, refusing.view());
      if (!blocked) return blocked;
    }
    return close_all();
  }

  Result<void> raise() {
    if (Result<void> told = about_to("raise", "counters"); !told) return told;
    Result<FenceReport> drawn = raise_all(nullptr);
    if (drawn) {
      report_.fence = *std::move(drawn);
      return {};
    }
    const Code why = drawn.error().code;
    if (why != Code::kFailedPrecondition && why != Code::kUnknown && why != Code::kOutOfRange)
      return error_in(drawn);
    // No counter was ever lowered, so a refusal is no reason to keep writers out.
    report_.notes.push_back("the fence was not drawn again: " + drawn.error().message());
    return {};
  }

  // By UUID, because the names may have changed.
  Result<void> put_back() {
    for (const PromoteItem& item : state().items) {
      if (!item.is_replaced()) continue;
      if (item.old_uuid.empty()) {  // a run that was killed may have tried a copy
        Result<void> dropped = drop_collection(production(), state().copy_name(item));
        if (!dropped) return dropped;
        continue;
      }
      if (Result<void> told = about_to("put back", item.ns); !told) return told;
      const std::string old = state().old_name(item);
      const Result<std::string> swapped = uuid_of(production(), old);
      if (!swapped) return error_in(swapped);
      if (*swapped == item.old_uuid) {
        // Not by its UUID in the record: a program may have dropped or renamed the promoted one,
        // and have made another.
        const Result<std::optional<CollectionFacts>> has_name =
            find_collection(production(), item.ns);
        if (!has_name) return error_in(has_name);
        std::vector<Rename> renames;
        if (const std::optional<CollectionFacts>& other = *has_name)
          renames.push_back(
              {.uuid = other->uuid, .from = item.ns, .to = state().promoted_name(item)});
        renames.push_back({.uuid = item.old_uuid, .from = old, .to = item.ns});
        if (Result<void> renamed = rename_at_once(production(), renames); !renamed) return renamed;
      }
      if (Result<void> dropped = drop_collection(production(), state().copy_name(item)); !dropped)
        return dropped;
      if (!state().was_opened) {
        // Nobody has written to it.
        Result<void> dropped = drop_collection(production(), state().promoted_name(item));
        if (!dropped) return dropped;
        continue;
      }
      const Result<std::optional<CollectionFacts>> kept =
          find_collection(production(), state().promoted_name(item));
      if (!kept) return error_in(kept);
      if (*kept) report_.kept.push_back({.ns = state().promoted_name(item)});
    }
    return {};
  }

  Result<void> open() {
    for (const PromoteItem& item : state().items) {
      if (item.view && item.missing)
        if (Result<void> dropped = drop_collection(production(), item.ns); !dropped) return dropped;
      if (item.old_uuid.empty() && !item.missing) continue;
      if (Result<void> told = about_to("open", item.ns); !told) return told;
      // Drops a collection that the block created, unless it has counters now.
      if (item.missing && !item.in_place) {
        if (Result<void> dropped = drop_placeholder(item); !dropped) return dropped;
        continue;
      }
      const Bson& options = item.missing ? item.final_options : item.old_options;
      Result<void> opened = let_writers_in(production(), item.ns, options.view());
      if (!opened) return opened;
    }
    for (const KeptCollection& kept : report_.kept) {
      if (Result<void> opened = let_writers_in(production(), kept.ns, {}); !opened) return opened;
    }
    return open_all();
  }

  // The record may not have its UUID yet: a run was killed when it had just made it.
  Result<void> drop_placeholder(const PromoteItem& item) {
    const Result<std::optional<CollectionFacts>> there = find_collection(production(), item.ns);
    if (!there) return error_in(there);
    const std::optional<CollectionFacts>& found = *there;
    const bool is_ours =
        found && (item.old_uuid.empty() ? refuses_writers(found->options.view(), state().id)
                                        : found->uuid == item.old_uuid);
    return is_ours ? drop_collection(production(), item.ns) : Result<void>{};
  }

  // Finds the documents that only the promoted collections have. If that fails they stay unknown:
  // writers are let in already.
  void count_written() {
    if (report_.kept.empty()) return;
    const LaterSearch search = search_for(options_, state());
    Result<LaterWrites> later = find_later(search, observer_.of("entries of the oplog"));
    if (!later) {
      report_.notes.push_back("which documents are in the kept collections alone is unknown: " +
                              later.error().message());
      return;
    }
    for (KeptCollection& kept : report_.kept) {
      for (const PromoteItem& item : state().items) {
        if (state().promoted_name(item) != kept.ns) continue;
        const Result<std::string> uuid = uuid_of(production(), kept.ns);
        if (!uuid || uuid->empty()) continue;
        take_only_copies(find_only_copies(*later, search, item.ns, *uuid, production()), kept);
      }
    }
  }
};

void tell_items(const PromoteState& state, PromoteReport& report) {
  report.step = state.step;
  report.id = state.id;
  if (!state.undoing) report.put_back = state.put_back;
  for (const PromoteItem& item : state.items) {
    (item.in_place ? report.in_place : report.promoted).push_back(item.ns);
    if (item.is_replaced() && state.step >= PromoteStep::kOpen && !state.undoing)
      report.kept.push_back({.ns = state.old_name(item)});
    if (state.undoing) continue;  // the old collection is in its place, and has it
    for (const LostDocument& each : item.unmerged)
      report.unmerged.push_back({.ns = item.ns, .lost = each});
    for (const LostDocument& each : item.unlisted)
      report.unlisted.push_back({.ns = item.ns, .lost = each});
    if (item.unlisted_count != 0)
      report.notes.push_back(item.ns + ": " + print_count(item.unlisted_count, "document") +
                             " that programs wrote between the plan and the block " +
                             (item.unlisted_count == 1 ? "is" : "are") +
                             " lost as well; behind each are the collections that have it");
    if (item.unmerged_count != 0)
      report.notes.push_back(item.ns + ": " + print_count(item.unmerged_count, "document") +
                             " could not be merged; --finish keeps " + state.old_name(item));
  }
}

Result<void> tell_planned(Server& production, const PromoteState& state, PromoteReport& report) {
  const Result<PlannedLosses> planned = planned_losses(production, state.id);
  if (!planned) return error_in(planned);
  for (const auto& [ns, documents] : *planned)
    for (const auto& [id, why] : documents)
      report.planned.push_back({.ns = ns, .lost = {.id = id, .why = why}});
  return {};
}

// Lists the collections that undone promotions left, with the documents that only they have. If
// that fails these stay unknown.
void find_kept_promoted(const PromoteOptions& options, const PromoteState& state,
                        Server& production, Observer& observer, PromoteReport& report) {
  const Result<std::vector<CollectionFacts>> all = list_namespaces(production);
  if (!all) return;
  std::optional<Result<LaterWrites>> later;
  const LaterSearch search = search_for(options, state);
  for (const CollectionFacts& each : *all) {
    const auto item = std::ranges::find_if(state.items, [&](const PromoteItem& one) {
      return one.is_replaced() && is_promoted_name(each.ns(), one);
    });
    if (item == state.items.end()) continue;
    KeptCollection kept{.ns = each.ns()};
    if (!later) later.emplace(find_later(search, observer.of("entries of the oplog")));
    if (*later)
      take_only_copies(find_only_copies(**later, search, item->ns, each.uuid, production), kept);
    report.kept.push_back(std::move(kept));
  }
}

Result<PromoteRecord> record_for(PromotePlan& plan, Server& production, Observer& observer) {
  if (plan.resumed) return PromoteRecord::take_over(production);
  // Before there is a record, so that no run goes on with a part of it.
  if (Result<void> told = observer.about_to("note the plan"); !told) return error_in(told);
  if (Result<void> noted = note_planned(production, plan.state.id, plan.later); !noted)
    return error_in(noted);
  if (Result<void> told = observer.about_to("begin"); !told) return error_in(told);
  return PromoteRecord::begin(production, std::move(plan.state));
}

}  // namespace

Result<PromoteReport> promote(PromotePlan& plan, Observer& observer) {
  if (!plan.refused.empty())
    return fail(Code::kFailedPrecondition, "nothing was written: " + plan.refused.front().ns +
                                               ": " + plan.refused.front().why);
  PromoteReport report{.resumed = plan.resumed};
  if (plan.is_empty()) return report;
  Result<Server> spare = connect_for_promotion(plan.options.from);
  if (!spare) return error_in(spare);
  Result<Server> production = connect_for_promotion(plan.options.to);
  if (!production) return error_in(production);
  Result<PromoteRecord> record = record_for(plan, *production, observer);
  if (!record) return error_in(record);
  if (record->state().undoing)
    return fail(Code::kFailedPrecondition,
                "the promotion on " + production->shown_uri() +
                    " is being undone: go on with --undo, then promote again");
  if (record->state().finishing)
    return fail(Code::kFailedPrecondition, "the promotion on " + production->shown_uri() +
                                               " is being finished: go on with --finish");
  Promotion promotion(*record, *spare, plan.options, observer, report);
  if (Result<void> done = promotion.run(); !done) return promotion.failed(done);
  tell_items(record->state(), report);
  if (Result<void> told = tell_planned(*production, record->state(), report); !told)
    return error_in(told);
  return report;
}

Result<PromoteReport> undo_promotion(const PromoteOptions& options, Observer& observer) {
  Result<Server> production = connect_for_promotion(options.to);
  if (!production) return error_in(production);
  if (Result<void> may = check_rights(*production); !may) return error_in(may);
  Result<PromoteRecord> record = PromoteRecord::take_over(*production);
  if (!record) return error_in(record);
  PromoteReport report{.resumed = record->state().undoing};
  Undo undo(*record, options, observer, report);
  if (Result<void> done = undo.run(); !done) return undo.failed(done);
  tell_items(record->state(), report);
  return report;
}

Result<PromoteReport> finish_promotion(const PromoteOptions& options, Observer& observer) {
  Result<Server> production = connect_for_promotion(options.to);
  if (!production) return error_in(production);
  Result<PromoteRecord> record = PromoteRecord::take_over(*production);
  if (!record) return error_in(record);
  const PromoteState& state = record->state();
  if (state.undoing || state.step != PromoteStep::kOpened)
    return fail(Code::kFailedPrecondition,
                state.undoing ? "the promotion is being undone: go on with --undo"
                              : "the promotion is at the step " + std::string(name(state.step)) +
                                    ": go on with it first");
  PromoteReport report;
  if (!state.finishing) {
    if (Result<void> told = observer.about_to("finish"); !told) return error_in(told);
    record->state().finishing = true;  // from now on there is no way back
    if (Result<void> written = record->write(); !written) return error_in(written);
  }
  for (const PromoteItem& item : state.items) {
    if (!item.is_replaced()) continue;
    const std::string old = state.old_name(item);
    if (item.keeps_old()) {
      if (Result<void> opened = let_writers_in(*production, old, item.old_options.view()); !opened)
        return error_in(opened);
      std::vector<std::string> ids;
      for (const auto* const lost : {&item.unmerged, &item.unlisted})
        for (const LostDocument& each : *lost) ids.push_back(each.id);
      report.kept.push_back(
          {.ns = old, .written = item.unmerged_count + item.unlisted_count, .ids = std::move(ids)});
      continue;
    }
    if (Result<void> told = observer.about_to("drop " + old); !told) return error_in(told);
    if (Result<void> dropped = drop_collection(*production, old); !dropped)
      return error_in(dropped);
  }
  find_kept_promoted(options, state, *production, observer, report);
  if (Result<void> told = tell_planned(*production, state, report); !told) return error_in(told);
  if (Result<void> told = observer.about_to("forget"); !told) return error_in(told);
  if (Result<void> forgotten = record->forget(); !forgotten) return error_in(forgotten);
  std::vector<KeptCollection> kept = std::move(report.kept);
  tell_items(state, report);
  report.kept = std::move(kept);
  report.notes.clear();
  for (const KeptCollection& each : report.kept)
    if (each.written && *each.written > each.ids.size())
      report.notes.push_back(each.ns + ": " +
                             print_count(*each.written - each.ids.size(), "document") +
                             " of these are not named, as they were too many: compare all of it");
  return report;
}

}  // namespace idmint::restore
