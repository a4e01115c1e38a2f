#include "restore/promote/plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/figures.h"
#include "base/shell.h"
#include "base/url.h"
#include "restore/collections.h"
#include "restore/cursor.h"
#include "restore/fence/handed_out.h"
#include "restore/fence/server_state.h"
#include "restore/namespaces.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/promote/counters.h"
#include "restore/promote/production.h"
#include "restore/promote/trial.h"
#include "restore/promote/versions.h"
#include "restore/replay/preflight.h"
#include "restore/replay/record.h"
#include "restore/replay/report.h"
#include "restore/replay/state.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kLongestNamespace = 255;   // bytes, since 4.4
constexpr std::uint64_t kMostInPlace = 100'000;  // documents of a collection with counters
constexpr std::string_view kOwnPrefix = "idmint.";
constexpr int kScanLimit = 30 * 60'000;  // milliseconds

using Facts = std::map<std::string, CollectionFacts, std::less<>>;

Result<Facts> facts_by_name(Server& server) {
  Result<std::vector<CollectionFacts>> all = list_namespaces(server);
  if (!all) return error_in(all);
  Facts facts;
  for (CollectionFacts& each : *all) {
    const std::string ns = each.ns();
    facts.insert_or_assign(ns, std::move(each));
  }
  return facts;
}

bool is_idmint_own(std::string_view ns) { return collection_of(ns).starts_with(kOwnPrefix); }

// The documents of a collection that are not counters, by id_key().
struct BesideCounters {
  std::map<std::string, std::string> documents{};
  bool too_many = false;
};

Result<BesideCounters> beside_counters(Server& server, const std::string& ns,
                                       const std::vector<std::string>& fields) {
  BesideCounters beside;
  Result<void> read = for_each_document(server, database_of(ns), collection_of(ns),
                                        [&](Document document) -> Result<void> {
                                          if (beside.documents.size() > kMostInPlace) {
                                            beside.too_many = true;
                                            return {};
                                          }
                                          for (const std::string& field : fields)
                                            if (counted_number(document, field)) return {};
                                          beside.documents[id_key(document)] = document.raw();
                                          return {};
                                        });
  if (!read) return error_in(read);
  return beside;
}

// Why the collection cannot be promoted in place; empty: it can.
Result<std::string> why_not_in_place(Server& spare, Server& production, const std::string& ns,
                                     const std::vector<std::string>& fields) {
  const Result<BesideCounters> one = beside_counters(spare, ns, fields);
  if (!one) return error_in(one);
  const Result<BesideCounters> other = beside_counters(production, ns, fields);
  if (!other) return error_in(other);
  if (!one->too_many && !other->too_many && one->documents == other->documents)
    return std::string();
  return "it has counters among other documents, which differ from the spare's: a rename would set "
         "the counters back. Bring the others over by hand, or leave it out with --exclude";
}

// Documents without their numbers at the top, which counters are, by _id.
Result<std::map<std::string, std::string>> without_numbers(Server& server, const std::string& ns) {
  std::map<std::string, std::string> documents;
  Result<void> read = for_each_document(
      server, database_of(ns), collection_of(ns), [&](Document document) -> Result<void> {
        if (documents.size() > kMostInPlace) return {};
        Bson rest;
        for (const Field& field : Fields(document))
          if (!field.is("_id") && !field.integer() && field.type != BSON_TYPE_DOUBLE &&
              field.type != BSON_TYPE_DECIMAL128)
            append_field(rest.get(), field);
        documents[id_key(document)] = rest.view().raw();
        return {};
      });
  if (!read) return error_in(read);
  return documents;
}

Result<bool> differs_beside_numbers(Server& spare, Server& production, const std::string& ns) {
  const Result<std::map<std::string, std::string>> restored = without_numbers(spare, ns);
  if (!restored) return error_in(restored);
  const Result<std::map<std::string, std::string>> now = without_numbers(production, ns);
  if (!now) return error_in(now);
  return std::ranges::any_of(*restored, [&](const auto& each) {
    const auto its = now->find(each.first);
    return its != now->end() && its->second != each.second;
  });
}

// The collections from which idmint counters were adopted.
Result<std::set<std::string>> adopted_collections(Server& server, const Facts& facts) {
  std::set<std::string> found;
  for (const auto& [ns, each] : facts) {
    if (each.name != "idmint.counters") continue;
    Result<void> read =
        for_each_document(server, each.database, each.name, [&](Document record) -> Result<void> {
          const std::string collection = text_of(record.document("adopted"), "collection");
          if (!collection.empty()) found.insert(each.database + "." + collection);
          return {};
        });
    if (!read) return error_in(read);
  }
  return found;
}

// The limit of the restore that made the spare. nullopt: its report was not found.
Result<std::optional<Timestamp>> limit_of(Server& spare, const std::string& report) {
  const Result<std::optional<FoundRecord>> record = find_record(spare, report);
  if (!record) return error_in(record);
  const std::optional<FoundRecord>& found = *record;
  if (!found) return std::optional<Timestamp>();
  const Document fingerprint = found->record.fingerprint();
  if (const std::optional<Timestamp> limit = timestamp_in(fingerprint, "limit")) return limit;
  const Result<Timestamp> limit = parse_timestamp(fingerprint.text("limit"));
  return limit ? std::optional(*limit) : std::nullopt;
}

class Planner {
 public:
  Planner(PromotePlan& plan, Server& spare, Server& production)
      : plan_(plan), spare_(spare), production_(production) {}

  Result<void> plan(const TakeProgress& progress) {
    Result<Facts> spare = facts_by_name(spare_);
    if (!spare) return error_in(spare);
    restored_ = *std::move(spare);
    Result<Facts> production = facts_by_name(production_);
    if (!production) return error_in(production);
    there_ = *std::move(production);
    for (const auto& [server, facts] :
         {std::pair(&spare_, &restored_), std::pair(&production_, &there_)}) {
      Result<std::set<std::string>> adopted = adopted_collections(*server, *facts);
      if (!adopted) return error_in(adopted);
      adopted_.merge(*adopted);
    }
    for (const CounterField& each : plan_.options.counters)
      if (!restored_.contains(each.ns) && !there_.contains(each.ns))
        return refuse("--counter " + each.ns + "." + each.field + ": there is no collection " +
                      each.ns + "; a field within another cannot be named");
    if (Result<void> read = read_later(progress); !read) return read;
    for (const auto& [ns, facts] : restored_) {
      if (Result<void> planned = plan_one(ns, facts); !planned) return planned;
      if (!progress) continue;
      if (Result<void> told = progress(0); !told) return told;
    }
    if (Result<void> noted = note_stores(); !noted) return noted;
    note_rest();
    take_free_id();
    if (Result<void> room = check_room(); !room) return room;
    return plan_.options.merge_later
               ? try_merge(plan_.state.items, plan_.later, spare_, production_, progress)
               : Result<void>{};
  }

 private:
  [[nodiscard]] bool is_wanted(std::string_view ns) const {
    return plan_.options.filter.includes(ns) && !is_kept_name(ns);
  }

  Result<void> read_later(const TakeProgress& progress) {
    const LaterSearch search{
        .production = plan_.options.to,
        .oplog = plan_.options.oplog,
        .limit = plan_.state.limit,
        .mistake_to = plan_.options.mistake_to,
        .alike = plan_.options.alike,
        .wanted = [this](std::string_view ns) { return is_wanted(ns) && !is_idmint_own(ns); }};
    Result<LaterWrites> later = find_later(search, progress);
    if (!later) return error_in(later);
    plan_.later = *std::move(later);
    if (const std::optional<Timestamp>& to = plan_.options.mistake_to; to && *to > plan_.later.last)
      return refuse("--mistake-to " + print_timestamp(*to) + " is after the newest entry " +
                    print_timestamp(plan_.later.last) +
                    ": give the last entry of the mistake, as find prints it");
    if (plan_.options.alike)
      plan_.notes.push_back("of the mistake are only " +
                            (plan_.later.mistake.empty() ? "its commands" : plan_.later.mistake));
    return choose_versions(plan_.later, search, plan_.options.merge_later, spare_, production_);
  }

  void refuse_it(const std::string& ns, std::string why) {
    plan_.refused.push_back({ns, std::move(why)});
  }
  void leave(const std::string& ns, std::string why) { plan_.left.push_back({ns, std::move(why)}); }

  Result<void> plan_one(const std::string& ns, const CollectionFacts& facts) {
    const std::string collection = collection_of(ns);
    const auto there = there_.find(ns);
    const bool is_there = there != there_.end();
    if (plan_.options.filter.includes(ns) && is_kept_name(ns) && !is_there)
      leave(ns,
            "an earlier promotion kept it, and production lost it: its documents may be nowhere "
            "else, so copy it over by hand before the spare goes");
    if (!is_wanted(ns) || is_idmint_own(ns) || collection.starts_with(kBuckets)) return {};
    if (collection.starts_with("system.")) {
      if (collection != "system.views" && collection != "system.profile")
        leave(ns, "it is the server's own: bring it over by hand");
      return {};
    }
    if (facts.kind == CollectionKind::kView) {
      if (is_there) return {};
      PlannedItem planned{.item = {.ns = ns, .view = true}};
      planned.item.final_options = facts.options.copy();
      plan_.items.push_back(std::move(planned));
      return {};
    }
    const bool touched = plan_.later.collections.contains(ns);
    if (is_there && !touched) {
      leave(ns, "nobody wrote to it since the limit");
      return {};
    }
    if (facts.kind == CollectionKind::kTimeSeries ||
        (is_there && there->second.kind != CollectionKind::kCollection)) {
      refuse_it(ns, facts.kind == CollectionKind::kTimeSeries
                        ? "a time-series collection cannot be renamed, and takes no validator that "
                          "would stop its writers: leave it out with --exclude, stop them, and "
                          "copy it by hand"
                        : "on production it is no plain collection: leave it out with --exclude");
      return {};
    }
    return plan_collection(ns, facts, is_there);
  }

  Result<void> plan_collection(const std::string& ns, const CollectionFacts& facts, bool is_there) {
    if (const auto later = plan_.later.collections.find(ns);
        later != plan_.later.collections.end() && !later->second.renamed_from.empty()) {
      refuse_it(ns, later->second.renamed_from +
                        " was renamed to it after the limit, with documents that are in no list of "
                        "what is lost: leave it out with --exclude");
      return {};
    }
    PlannedItem planned{.item = {.ns = ns}};
    planned.item.final_options = validation_in(facts.options.view());
    Result<std::vector<std::string>> fields = counter_fields(spare_, ns, plan_.options.counters);
    if (!fields) return error_in(fields);
    if (is_there) {
      const Result<std::vector<std::string>> more =
          counter_fields(production_, ns, plan_.options.counters);
      if (!more) return error_in(more);
      fields->insert(fields->end(), more->begin(), more->end());
    }
    planned.item.in_place = !fields->empty() || adopted_.contains(ns);
    if (planned.item.in_place && !adopted_.contains(ns)) {
      const Result<std::string> why = why_not_in_place(spare_, production_, ns, *fields);
      if (!why) return error_in(why);
      if (!why->empty()) {
        refuse_it(ns, *why);
        return {};
      }
    }
    if (planned.item.in_place && is_there) {
      const Result<bool> differs = differs_beside_numbers(spare_, production_, ns);
      if (!differs) return error_in(differs);
      if (*differs)
        plan_.notes.push_back(ns +
                              ": documents of it differ from the spare's in more than numbers, "
                              "and stay as production has them, for it is not replaced: bring "
                              "them over by hand");
    }
    if (!planned.item.in_place && plan_.state.old_name(planned.item).size() > kLongestNamespace) {
      refuse_it(ns, "its name is too long to get a suffix: leave it out with --exclude");
      return {};
    }
    const Result<std::uint64_t> documents = count_documents(spare_, ns);
    if (!documents) return error_in(documents);
    planned.documents = *documents;
    if (is_there) {
      const Result<std::uint64_t> now = count_documents(production_, ns);
      if (!now) return error_in(now);
      planned.now = *now;
    }
    const Bson stats = Bson("collStats", facts.name, "maxTimeMS", kCommandLimit);
    const Result<Bson> reply = spare_.command(facts.database, stats);
    if (!reply) return error_in(reply);
    planned.bytes =
        static_cast<std::uint64_t>(std::max<std::int64_t>(reply->view().number("size"), 0));
    if (!planned.item.in_place) bytes_ += planned.bytes;
    plan_.items.push_back(std::move(planned));
    return {};
  }

  // The stores of idmint beside the collections that are set back, and those that the mistake has
  // set back or taken away.
  Result<void> note_stores() {
    std::set<std::string> databases;
    const auto has_store = [](const Facts& facts, const std::string& database) {
      const std::string own = database + "." + std::string(kOwnPrefix);
      const auto first = facts.lower_bound(own);
      return first != facts.end() && first->first.starts_with(own);
    };
    for (const PlannedItem& each : plan_.items)
      if (has_store(there_, each.item.database()) || has_store(restored_, each.item.database()))
        databases.insert(each.item.database());
    const Result<std::set<std::string>> back = stores_set_back(spare_, production_);
    if (!back) return error_in(back);
    std::set<std::string> set_back = *back;
    for (const auto& [ns, facts] : restored_)
      if (is_idmint_own(ns) && !there_.contains(ns)) set_back.insert(facts.database);
    for (const std::string& database : plan_.later.robbed)
      if (has_store(restored_, database)) set_back.insert(database);
    for (const std::string& database : set_back)
      if (is_wanted(database + ".idmint.counters")) databases.insert(database);
    plan_.state.databases.assign(databases.begin(), databases.end());
    return {};
  }

  void note_rest() {
    for (const auto& [ns, facts] : there_) {
      if (!is_wanted(ns) || is_idmint_own(ns) || restored_.contains(ns) ||
          collection_of(ns).starts_with("system."))
        continue;
      leave(ns, "the spare does not have it: it was made after the limit");
    }
    std::erase_if(plan_.later.collections, [&](const auto& each) {
      return std::ranges::none_of(plan_.items, [&](const PlannedItem& planned) {
        return planned.item.ns == each.first && planned.item.is_replaced();
      });
    });
    for (const PlannedItem& each : plan_.items) plan_.state.items.push_back(copy_of(each.item));
  }

  static PromoteItem copy_of(const PromoteItem& item) {
    return {.ns = item.ns,
            .in_place = item.in_place,
            .view = item.view,
            .final_options = item.final_options ? item.final_options.copy() : Bson::none()};
  }

  // No collection and no promotion since the limit has the id, which is of this second.
  void take_free_id() {
    const auto is_taken = [this](const std::string& id) {
      return std::ranges::any_of(plan_.later.promotions,
                                 [&](const PastPromotion& each) { return each.state.id == id; }) ||
             std::ranges::any_of(there_,
                                 [&](const auto& each) { return each.first.ends_with(id); });
    };
    for (Instant now = plan_.options.clock->now(); is_taken(plan_.state.id);
         plan_.state.id = promotion_id(now))
      now += std::chrono::seconds(1);
  }

  // The old collections are kept beside the new ones.
  Result<void> check_room() {
    const Bson command = Bson("dbStats", 1, "maxTimeMS", kCommandLimit);
    const Result<Bson> reply = production_.command("admin", command);
    if (!reply) return error_in(reply);
    const std::int64_t room =
        reply->view().number("fsTotalSize") - reply->view().number("fsUsedSize");
    if (room <= 0 || bytes_ <= static_cast<std::uint64_t>(room)) return {};
    return fail(Code::kResourceExhausted,
                "the restored collections have " + print_count(static_cast<double>(bytes_)) +
                    " bytes, and the disk of " + production_.shown_uri() + " has room for " +
                    print_count(static_cast<double>(room)) +
                    ": the old collections stay until --finish");
  }

  PromotePlan& plan_;
  Server& spare_;
  Server& production_;
  Facts restored_;
  Facts there_;
  std::set<std::string> adopted_;
  std::uint64_t bytes_ = 0;
};

// A sequence that was dropped and made anew in another way gives what the former one has given.
Result<void> refuse_other_definitions(PromotePlan& plan, Server& spare, Server& production) {
  const Result<BothStores> stores = read_both_stores(spare, production);
  if (!stores) return error_in(stores);
  for (const std::string& database : plan.state.databases) {
    const HandedOutStore* const before = find_store(stores->restored, database);
    const HandedOutStore* const there = find_store(stores->now, database);
    if (before == nullptr || there == nullptr) continue;
    for (const auto& [name, definition] : before->definitions) {
      const auto its = there->definitions.find(name);
      if (its == there->definitions.end() || is_same_source(definition, its->second)) continue;
      plan.refused.push_back(
          {std::string(database).append("/").append(name),
           "production defines it otherwise than the spare, as where it was dropped and made anew: "
           "ids of both would come twice. Retire it there and give programs a sequence of another "
           "name, or leave the store out with --exclude " +
               shell_word(database + ".idmint.*")});
    }
  }
  return {};
}

// Refuses now what the fence would refuse after writers are blocked.
Result<void> look_at_counters(PromotePlan& plan, Server& spare, Server& production,
                              const TakeProgress& progress) {
  Result<std::vector<std::string>> lost = lost_numbers(spare, production, plan.state);
  if (!lost) return error_in(lost);
  for (const std::string& each : *lost) {
    if (plan.options.leave_gap) {
      plan.notes.push_back(each + ", and no document has them afterwards");
    } else {
      plan.refused.push_back({each.substr(0, each.find(':')),
                              each.substr(each.find(':') + 2) +
                                  ", and are not given again: add --leave-gap to accept that"});
    }
  }
  Result<void> alike = refuse_other_definitions(plan, spare, production);
  if (!alike) return alike;
  Result<FenceReport> preview = preview_fence(plan.options, plan.state, progress);
  if (!preview) return error_in(preview);
  const Result<std::set<std::string>> made = sources_to_make(spare, production, plan.state);
  if (!made) return error_in(made);
  plan.state.put_back.assign(made->begin(), made->end());
  for (const FencedSource& each : preview->sources) {
    if (made->contains(each.label())) continue;  // created before the fence
    if (each.outcome == FenceOutcome::kRefused) plan.refused.push_back({each.label(), each.why});
  }
  for (const std::string& each : *made)
    plan.notes.push_back(each + ": production lost it, and it is put back");
  for (const FencedDocument& each : preview->documents) {
    const auto item = std::ranges::find(plan.state.items, each.ns, &PromoteItem::ns);
    const bool replaced = item != plan.state.items.end() && item->is_replaced();
    if (each.outcome == FenceOutcome::kRefused) {
      plan.refused.push_back({each.label(), each.why});
    } else if (replaced && each.outcome != FenceOutcome::kAsItWas) {
      plan.refused.push_back({each.ns, "its document " + each.id + " counts in " + each.field +
                                           ", and would be set back: leave it out with --exclude"});
    }
  }
  plan.fence = *std::move(preview);
  return {};
}

std::string fingerprint_of(const PromoteOptions& options, Timestamp limit) {
  return print_timestamp(limit) + " " + options.filter.text() +
         (options.merge_later ? (options.alike ? " merged but for the likes of what came up to "
                                               : " merged after ") +
                                    print_timestamp(options.mistake_to.value_or(Timestamp{}))
                              : "");
}

Result<void> check_servers(const Server& spare, const Server& production) {
  if (!spare.set_name().empty() && spare.set_name() == production.set_name())
    return fail(Code::kInvalidArgument, "--from " + spare.shown_uri() + " and --to " +
                                            production.shown_uri() +
                                            " are of one replica set: give the spare server");
  if (!same_series(spare.version(), production.version()))
    return fail(Code::kFailedPrecondition, spare.shown_uri() + " is MongoDB " + spare.version() +
                                               ", and " + production.shown_uri() + " is " +
                                               production.version());
  return {};
}

}  // namespace

std::uint64_t PromotePlan::lost() const {
  std::uint64_t lost = 0;
  for (const auto& [ns, each] : later.collections) lost += each.lost();
  return lost;
}

std::uint64_t PromotePlan::lost_unlike() const {
  std::uint64_t count = 0;
  for (const auto& [ns, each] : later.collections)
    for (const auto& [id, document] : each.documents)
      if (document.loss == Loss::kMistake && document.is_unlike) ++count;
  return count;
}

Result<void> check_rights(Server& production) {
  return check_privileges(production,
                          "may not promote: two collections are renamed by one applyOps, which no "
                          "role of MongoDB's own may send, root neither");
}

std::string promotion_id(Instant now) {
  std::string text = format_exact_time(std::chrono::floor<std::chrono::seconds>(now));
  std::erase_if(text, [](char c) { return c == '-' || c == ':' || c == 'Z'; });
  std::ranges::replace(text, 'T', '-');
  return text;
}

Result<std::vector<std::string>> counter_fields(Server& server, const std::string& ns,
                                                const std::vector<CounterField>& more) {
  std::set<std::string> found;
  for (const CounterField& each : more)
    if (each.ns == ns) found.insert(each.field);
  constexpr std::array fields = {"COUNT", "seq", "index", "uniqueIdentifierCounter"};
  // Such a document has few fields; the server filters for that.
  const Bson filter(
      R"({"$or":[{"COUNT":{"$type":"number"}},{"seq":{"$type":"number"}},)"
      R"({"index":{"$type":"number"}},{"uniqueIdentifierCounter":{"$type":"number"}}],)"
      R"("$expr":{"$lte":[{"$size":{"$objectToArray":"$$ROOT"}},6]}})");
  Result<void> read = find_each(server, ns, filter, Bson("maxTimeMS", kScanLimit),
                                [&](Document document) -> Result<void> {
                                  for (const char* const field : fields)
                                    if (!classic_recipe(collection_of(ns), document, field).empty())
                                      found.insert(field);
                                  return {};
                                });
  if (!read) return error_in(read);
  return std::vector<std::string>(found.begin(), found.end());
}

Result<PromotePlan> plan_promotion(PromoteOptions options, const TakeProgress& progress) {
  if (options.merge_later && !options.mistake_to)
    return refuse(
        "--merge-later needs --mistake-to, the last entry of the mistake: find prints it "
        "behind \"to\"");
  Result<Server> spare = connect_for_promotion(options.from);
  if (!spare) return error_in(spare);
  Result<Server> production = connect_for_promotion(options.to);
  if (!production) return error_in(production);
  if (Result<void> good = check_servers(*spare, *production); !good) return error_in(good);
  if (Result<void> may = check_rights(*production); !may) return error_in(may);
  PromotePlan plan{.options = std::move(options)};
  std::optional<Timestamp> limit = plan.options.limit;
  const Result<std::optional<Timestamp>> recorded = limit_of(*spare, plan.options.restore_report);
  if (!limit && !recorded) return error_in(recorded);
  const std::optional<Timestamp> restored = recorded.value_or(std::nullopt);
  if (!limit) limit = restored;
  // Writes between the two would be neither restored nor merged nor named.
  if (limit && restored && *restored != *limit)
    return fail(Code::kFailedPrecondition,
                "--limit is " + print_timestamp(*limit) + ", and " + spare->shown_uri() +
                    " was restored to " + print_timestamp(*restored) +
                    ": leave --limit out, or give the server that was restored to it");
  if (!limit)
    return refuse("give --limit SECONDS:ORDINAL, to which " + spare->shown_uri() +
                  " was restored, or --restore-report FILE: the report is not where run writes it");
  if (plan.options.mistake_to && *plan.options.mistake_to < *limit)
    return refuse("--mistake-to " + print_timestamp(*plan.options.mistake_to) +
                  " is before the limit " + print_timestamp(*limit));
  const std::string fingerprint = fingerprint_of(plan.options, *limit);
  Result<std::optional<PromoteState>> under_way = PromoteRecord::look(*production);
  if (!under_way) return error_in(under_way);
  if (std::optional<PromoteState>& found = *under_way) {
    plan.resumed = true;
    plan.state = std::move(*found);
    if (plan.state.fingerprint == fingerprint) return plan;
    return fail(Code::kAlreadyExists, "another promotion is under way on " +
                                          production->shown_uri() + ", begun as " +
                                          plan.state.fingerprint + " and come to the step " +
                                          std::string(name(plan.state.step)) +
                                          ": go on with that one, --finish it or --undo it");
  }
  plan.state = {.id = promotion_id(plan.options.clock->now()),
                .fingerprint = fingerprint,
                .from = redacted(plan.options.from),
                .limit = *limit,
                .mistake_to = plan.options.mistake_to,
                .alike = plan.options.alike,
                .merge_later = plan.options.merge_later,
                .leave_gap = plan.options.leave_gap};
  for (const CounterField& each : plan.options.counters)
    plan.state.counters.push_back(each.ns + "." + each.field);
  Planner planner(plan, *spare, *production);
  if (Result<void> planned = planner.plan(progress); !planned) return error_in(planned);
  if (Result<void> looked = look_at_counters(plan, *spare, *production, progress); !looked)
    return error_in(looked);
  return plan;
}

}  // namespace idmint::restore
