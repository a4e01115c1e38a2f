#include "restore/promote/copy.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "restore/backup/base.h"
#include "restore/cursor.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/load.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kDocumentsAtOnce = 1000;
constexpr std::size_t kBytesAtOnce = std::size_t{8} << 20;
constexpr std::uint64_t kBytesBetweenWaits = std::uint64_t{16} << 20;
constexpr seconds kLagAllowed{5};
constexpr std::chrono::minutes kMemberLimit{10};

// The collections of a spare as a base, under the names of the copies.
class SpareAsBase final : public BaseBackup {
 public:
  SpareAsBase(const Server& spare, std::vector<CollectionFacts> collections,
              std::vector<std::string> sources)
      : spare_(&spare), sources_(std::move(sources)) {
    collections_ = std::move(collections);
    server_version_ = spare.version();
  }

  Result<void> check(const TakeProgress&) const override { return {}; }
  bool has_oplog() const override { return false; }
  Result<void> oplog(const std::function<Result<void>(const Entry&)>&) const override {
    return fail(Code::kNotFound, "a spare server has no slice of an oplog");
  }
  std::uint64_t size() const override {
    std::uint64_t bytes = 0;
    for (const CollectionFacts& each : collections_) bytes += each.bytes;
    return bytes;
  }

  Result<void> documents(std::optional<std::size_t> only, const TakeDocuments& take,
                         std::uint64_t) const override {
    Result<Server> server = spare_->another();
    if (!server) return error_in(server);
    for (std::size_t i = 0; i < collections_.size(); ++i) {
      if (only && *only != i) continue;
      if (Result<void> read = read_one(*server, i, take); !read) return read;
    }
    return {};
  }

 private:
  Result<void> read_one(Server& server, std::size_t i, const TakeDocuments& take) const {
    const CollectionFacts& facts = collections_[i];
    std::vector<Bson> held;
    std::size_t bytes = 0;
    const auto give = [&]() -> Result<void> {
      std::vector<Document> views;
      views.reserve(held.size());
      for (const Bson& each : held) views.push_back(each.view());
      Result<void> taken = take(facts, views);
      held.clear();
      bytes = 0;
      return taken;
    };
    const std::string ns = facts.database + "." + sources_[i];
    Result<void> read = find_each(
        server, ns, {}, Bson("sort", Bson("$natural", 1)),
        [&](Document document) -> Result<void> {
          held.push_back(Bson::copy_of(document));
          bytes += document.bytes().size();
          return held.size() < kDocumentsAtOnce && bytes < kBytesAtOnce ? Result<void>{} : give();
        },
        "find in " + ns + " of " + server.shown_uri());
    if (!read || held.empty()) return read;
    return give();
  }

  const Server* spare_;
  std::vector<std::string> sources_;
};

std::uint64_t size_of(Server& server, const CollectionFacts& facts) {
  const Bson command = Bson("collStats", facts.name, "maxTimeMS", kCommandLimit);
  const Result<Bson> reply = server.command(facts.database, command);
  return reply ? static_cast<std::uint64_t>(std::max<std::int64_t>(reply->view().number("size"), 0))
               : 0;
}

// The spare's options with a validator that blocks writers.
Bson options_of_copy(Document options, const std::string& id) {
  Bson changed;
  for (const Field& field : Fields(options)) {
    if (field.key != "validator" && field.key != "validationLevel" &&
        field.key != "validationAction")
      append_field(changed.get(), field);
  }
  changed.append("validator", refusing_validator(id), "validationLevel", "strict",
                 "validationAction", "error");
  return changed;
}

Result<std::vector<CollectionFacts>> restored_facts(Server& spare, const PromoteState& state) {
  Result<std::vector<CollectionFacts>> all = list_collections(spare);
  if (!all) return all;
  std::set<std::string, std::less<>> wanted;
  for (const PromoteItem& item : state.items)
    if (item.is_replaced()) wanted.insert(item.ns);
  std::erase_if(*all, [&](const CollectionFacts& each) {
    return each.kind != CollectionKind::kCollection || !wanted.contains(each.ns());
  });
  if (all->size() != wanted.size())
    return must_be_undone(
        Code::kFailedPrecondition,
        spare.shown_uri() + " does not have all of the collections any more that the plan has");
  return all;
}

bool expires(Document index) { return index.has("expireAfterSeconds"); }

Result<void> index_one(Server& production, const std::string& database,
                       const std::string& collection, const CollectionFacts& facts,
                       WhichIndexes which, std::uint64_t documents) {
  BsonArray specs;
  for (const Bson& each : facts.indexes) {
    const Document view = each.view();
    if (text_of(view, "name") == "_id_" || view.has("clustered") ||
        expires(view) != (which == WhichIndexes::kTtl))
      continue;
    specs.push(index_spec(view));
  }
  if (specs.size == 0) return {};
  // Ten minutes, and a millisecond for each document.
  const auto limit = static_cast<std::int64_t>(
      std::min<std::uint64_t>(600'000 + documents, std::uint64_t{24} * 3'600'000));
  Bson command = Bson("createIndexes", collection, "indexes", specs, "ignoreUnknownIndexOptions",
                      true, "maxTimeMS", limit);
  if (!production.set_name().empty()) command.add("commitQuorum", "majority");
  const Result<Bson> built = change(production, database, std::move(command));
  if (built) return {};
  return fail(built.error().code,
              "indexes of " + database + "." + collection + ": " + built.error().message());
}

struct MemberTimes {
  milliseconds primary{};
  std::map<std::string, milliseconds> behind{};  // running members, by host
};

Result<MemberTimes> member_times(Server& production) {
  const Bson command = Bson("replSetGetStatus", 1, "maxTimeMS", kCommandLimit);
  const Result<Bson> reply = production.command("admin", command);
  if (!reply) return error_in(reply);
  MemberTimes times;
  constexpr std::int64_t primary = 1;
  constexpr std::int64_t secondary = 2;
  reply->view().each("members", [&](const Document& member) {
    const std::int64_t state = member.number("state");
    const milliseconds at = member.date("optimeDate").value_or(milliseconds{0});
    if (state == primary) times.primary = at;
    if (state == secondary && member.number("health") == 1)
      times.behind[text_of(member, "name")] = at;
  });
  return times;
}

}  // namespace

Result<void> await_members(Server& production, const TakeProgress& progress) {
  if (production.set_name().empty()) return {};
  const Result<MemberTimes> begin = member_times(production);
  if (!begin) return error_in(begin);
  const milliseconds goal = begin->primary - kLagAllowed;
  std::map<std::string, milliseconds> seen;
  steady_clock::time_point moved = steady_clock::now();
  for (;;) {
    const Result<MemberTimes> now = member_times(production);
    if (!now) return error_in(now);
    const auto slowest =
        std::ranges::min_element(now->behind, {}, [](const auto& member) { return member.second; });
    if (slowest == now->behind.end() || slowest->second >= goal) return {};
    if (now->behind != seen) {
      seen = now->behind;
      moved = steady_clock::now();
    }
    if (steady_clock::now() - moved > kMemberLimit)
      return fail(Code::kUnavailable,
                  "the member " + slowest->first +
                      " has not come along for ten minutes: see what holds it, or shut it down; "
                      "then the same command goes on");
    if (progress)
      if (Result<void> told = progress(0); !told) return told;
    std::this_thread::sleep_for(milliseconds{50});
  }
}

namespace {

Result<void> try_views(Server& production, const PromoteState& state,
                       std::vector<PlannedRefusal>& refused) {
  for (const PromoteItem& item : state.items) {
    if (!item.view) continue;
    const std::string trial = state.copy_name(item);
    Bson command = Bson("create", trial.substr(trial.find('.') + 1));
    command.add_all(item.final_options.view().view());
    const Result<Bson> made = change(production, item.database(), std::move(command));
    if (Result<void> dropped = drop_collection(production, trial); !dropped) return dropped;
    if (made) continue;
    if (made.error().code == Code::kUnavailable) return error_in(made);
    refused.push_back({item.ns, "production refuses the view: " + made.error().message()});
  }
  return {};
}

// An index of a collection that is raised in place, and that production has in another way.
Result<void> try_indexes_in_place(Server& spare, Server& production, const PromoteState& state,
                                  std::vector<PlannedRefusal>& refused) {
  const Result<std::vector<CollectionFacts>> restored = list_collections(spare);
  if (!restored) return error_in(restored);
  const Result<std::vector<CollectionFacts>> there = list_collections(production);
  if (!there) return error_in(there);
  for (const PromoteItem& item : state.items) {
    if (!item.in_place) continue;
    const auto source = std::ranges::find(*restored, item.ns, &CollectionFacts::ns);
    const auto target = std::ranges::find(*there, item.ns, &CollectionFacts::ns);
    if (source == restored->end() || target == there->end()) continue;
    for (const Bson& index : source->indexes) {
      const std::string name = text_of(index.view(), "name");
      const auto same = std::ranges::find_if(
          target->indexes, [&](const Bson& each) { return text_of(each.view(), "name") == name; });
      if (name == "_id_" || same == target->indexes.end() ||
          index_spec(same->view()).view() == index_spec(index.view()).view())
        continue;
      refused.push_back({item.ns, "production has another index of the name " + name +
                                      ", and counters are raised in place: drop it there, or leave "
                                      "the collection out with --exclude"});
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PlannedRefusal>> try_copies(Server& spare, Server& production,
                                               const PromoteState& state) {
  Result<std::vector<CollectionFacts>> facts = restored_facts(spare, state);
  if (!facts) return error_in(facts);
  std::vector<PlannedRefusal> refused;
  for (CollectionFacts& each : *facts) {
    const std::string ns = each.ns();
    each.options = options_of_copy(each.options.view(), state.id);
    each.name += std::string(kCopySuffix) + state.id;
    if (Result<void> dropped = drop_collection(production, each.ns()); !dropped)
      return error_in(dropped);
    Result<void> tried = create_collection(production, each);
    for (const WhichIndexes which : {WhichIndexes::kAllButTtl, WhichIndexes::kTtl})
      if (tried) tried = index_one(production, each.database, each.name, each, which, 0);
    if (Result<void> dropped = drop_collection(production, each.ns()); !dropped)
      return error_in(dropped);
    if (tried) continue;
    if (tried.error().code == Code::kUnavailable) return error_in(tried);
    refused.push_back({ns, "production refuses what the spare has: " + tried.error().message()});
  }
  Result<void> rest = try_views(production, state, refused);
  if (rest) rest = try_indexes_in_place(spare, production, state, refused);
  if (!rest) return error_in(rest);
  return refused;
}

Result<CopyCounts> copy_collections(Server& spare, Server& production, const PromoteState& state,
                                    const TakeProgress& progress) {
  Result<std::vector<CollectionFacts>> facts = restored_facts(spare, state);
  if (!facts) return error_in(facts);
  if (facts->empty()) return CopyCounts{};
  std::vector<std::string> sources;
  for (CollectionFacts& each : *facts) {
    each.bytes = size_of(spare, each);
    each.options = options_of_copy(each.options.view(), state.id);
    sources.push_back(each.name);
    each.name += std::string(kCopySuffix) + state.id;
    each.uuid.clear();
  }
  const SpareAsBase base(spare, *std::move(facts), std::move(sources));
  const Bson fingerprint = Bson("promote", state.id);
  Result<Record> record = Record::begin(production, fingerprint.view());
  if (!record) return error_in(record);
  std::uint64_t waited_at = 0;
  const TakeProgress watched = [&](std::uint64_t bytes) -> Result<void> {
    if (bytes - waited_at >= kBytesBetweenWaits) {
      waited_at = bytes;
      const TakeProgress same = [&](std::uint64_t) {
        return progress ? progress(bytes) : Result<void>{};
      };
      if (Result<void> along = await_members(production, same); !along) return along;
    }
    return progress ? progress(bytes) : Result<void>{};
  };
  const Result<LoadCounts> loaded = load_base(base, production, *record, {}, watched);
  if (!loaded) return error_in(loaded);
  return CopyCounts{.collections = loaded->collections, .documents = loaded->documents};
}

Result<void> index_copies(Server& spare, Server& production, const PromoteState& state,
                          WhichIndexes which, const TakeProgress& progress) {
  const Result<std::vector<CollectionFacts>> facts = restored_facts(spare, state);
  if (!facts) return error_in(facts);
  std::uint64_t done = 0;
  for (const CollectionFacts& each : *facts) {
    const Result<std::uint64_t> documents = count_documents(spare, each.ns());
    if (!documents) return error_in(documents);
    const std::string copy = each.name + std::string(kCopySuffix) + state.id;
    Result<void> built = index_one(production, each.database, copy, each, which, *documents);
    if (!built) return built;
    if (!progress) continue;
    if (Result<void> told = progress(++done); !told) return told;
  }
  return await_members(production, {});
}

Result<std::vector<Difference>> compare_copies(Server& spare, Server& production,
                                               const PromoteState& state,
                                               const TakeProgress& progress) {
  std::map<std::string, std::string, std::less<>> by_copy;
  std::set<std::string, std::less<>> wanted;
  for (const PromoteItem& item : state.items) {
    if (!item.is_replaced()) continue;
    by_copy[state.copy_name(item)] = item.ns;
    wanted.insert(item.ns);
  }
  Result<State> should = read_state(
      spare,
      {.wanted = [&](std::string_view ns) { return wanted.contains(ns); }, .progress = progress});
  if (!should) return error_in(should);
  Result<State> copies = read_state(
      production,
      {.wanted = [&](std::string_view ns) { return by_copy.contains(ns); }, .progress = progress});
  if (!copies) return error_in(copies);
  State is;
  for (auto& [ns, each] : *copies) is[by_copy.find(ns)->second] = std::move(each);
  for (State* const both : {&is, &*should}) {
    for (auto& [ns, each] : *both) {
      each.options = "{}";  // the copies still block writers
      std::erase_if(each.indexes, [](const auto& index) {
        return index.second.contains("\"expireAfterSeconds\"");
      });
    }
  }
  return differences(is, *should);
}

}  // namespace idmint::restore
