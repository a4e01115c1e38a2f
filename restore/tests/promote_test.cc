// promote: restored collections into a live set of three, stopped at each point and gone on with,
// finished, and given up.
#include "restore/promote/promote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "idmint/definition.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "restore/collections.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/source.h"
#include "restore/promote/collection_at.h"
#include "restore/replay/record.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Stops a promotion before its nth write, as a kill does: nothing is cleaned up.
class StopsAt final : public Observer {
 public:
  explicit StopsAt(std::size_t stop = SIZE_MAX) : stop_(stop) {}
  explicit StopsAt(std::string before) : stop_(SIZE_MAX), before_(std::move(before)) {}
  Result<void> about_to(std::string_view what) override {
    points_.emplace_back(what);
    if (points_.size() <= stop_ && what != before_) return {};
    return fail(Code::kUnavailable, "stopped before: " + points_.back());
  }
  [[nodiscard]] const std::vector<std::string>& points() const { return points_; }

 private:
  std::size_t stop_;
  std::string before_{};
  std::vector<std::string> points_{};
};

// A program that takes ids by the recipe with $inc and upsert, whatever happens.
class HandWritten {
 public:
  explicit HandWritten(const std::string& uri) : uri_(uri), thread_([this] { work(); }) {}
  ~HandWritten() { end(); }
  HandWritten(const HandWritten&) = delete;
  HandWritten& operator=(const HandWritten&) = delete;

  // How many ids it has taken.
  [[nodiscard]] std::size_t count() const { return count_; }
  void await_more(std::size_t more) const {
    for (const std::size_t goal = count_ + more; count_ < goal;) std::this_thread::yield();
  }
  const std::vector<std::int64_t>& end() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
    return ids_;
  }

 private:
  void work() {
    Result<Server> server = Server::connect(uri_);
    if (!server) return;
    const Bson command(
        R"({"findAndModify":"counters","query":{"_id":"orders"},
            "update":{"$inc":{"seq":{"$numberLong":"1"}}},"upsert":true,"new":true})");
    while (!end_) {
      const Result<Bson> reply = server->command("shop", command);
      if (!reply) {
        std::this_thread::yield();
        continue;
      }
      ids_.push_back(reply->view().document("value").integer("seq").value_or(0));
      ++count_;
    }
  }

  std::string uri_;
  std::atomic<bool> end_ = false;
  std::atomic<std::size_t> count_ = 0;
  std::vector<std::int64_t> ids_{};
  std::thread thread_;
};

std::size_t repeats_in(const std::vector<std::int64_t>& ids) {
  return ids.size() - std::set<std::int64_t>(ids.begin(), ids.end()).size();
}

class Promote : public testing::Test {
 protected:
  void SetUp() override {
    for (Production* const each : {&production_, &spare_}) {
      for (const char* const database : {"shop", "probe", "idmint_restore"})
        each->run(database, R"({"dropDatabase":1})");
    }
    production_.run("shop", R"({"create":"orders","validator":{"total":{"$gte":0}}})");
    for (int i = 0; i < 50; ++i)
      production_.insert("shop.orders", R"({"_id":)" + std::to_string(i) + R"(,"total":)" +
                                            std::to_string(i) + R"(,"key":"k)" + std::to_string(i) +
                                            R"("})");
    production_.run("shop", R"({"createIndexes":"orders","indexes":[
        {"key":{"key":1},"name":"key","unique":true},
        {"key":{"at":1},"name":"ttl","expireAfterSeconds":1000000}]})");
    production_.insert("shop.stock", R"({"_id":"a","n":1},{"_id":"b","n":2})");
    production_.insert("shop.counters", R"({"_id":"orders","seq":{"$numberLong":"100"}})");
  }

  // The spare has what production has now, and the limit is the next entry.
  void restore_here() {
    for (const auto& [ns, state] : state_of(production_.server())) {
      if (!ns.starts_with("shop.")) continue;
      copy_to_spare(ns);
    }
    limit_ = production_.now();
  }
  void copy_to_spare(const std::string& ns) {
    const std::string name = ns.substr(5);
    Result<std::vector<CollectionFacts>> all = list_collections(production_.server());
    ASSERT_TRUE(all);
    for (const CollectionFacts& each : *all) {
      if (each.ns() != ns) continue;
      Bson create = Bson("create", name);
      const bson_t options = each.options.view().view();
      create.add_all(options);
      ASSERT_TRUE(spare_.server().command("shop", create));
      Result<void> read = for_each_document(
          production_.server(), "shop", name, [&](Document document) -> Result<void> {
            const Bson insert = Bson("insert", name, "documents", array(Bson::copy_of(document)),
                                     "bypassDocumentValidation", true);
            const Result<Bson> done = spare_.server().command("shop", insert);
            return done ? Result<void>{} : std::unexpected(done.error());
          });
      ASSERT_TRUE(read) << read.error().message();
      for (const Bson& index : each.indexes) {
        if (text_of(index.view(), "name") == "_id_") continue;
        const Bson build = Bson("createIndexes", name, "indexes", array(index));
        ASSERT_TRUE(spare_.server().command("shop", build));
      }
    }
  }

  [[nodiscard]] PromoteOptions options() const {
    return {.from = servers::mongo_standalone().url(""),
            .to = servers::mongo_set().url(""),
            .limit = limit_};
  }
  Result<PromotePlan> plan(PromoteOptions options) {
    return plan_promotion(std::move(options), {});
  }
  Result<PromoteReport> go(std::size_t stop = SIZE_MAX) { return go(options(), stop); }
  Result<PromoteReport> go(PromoteOptions options, std::size_t stop = SIZE_MAX) {
    Result<PromotePlan> planned = plan(std::move(options));
    if (!planned) return std::unexpected(std::move(planned.error()));
    StopsAt observer(stop);
    Result<PromoteReport> report = promote(*planned, observer);
    points_ = observer.points();
    return report;
  }
  Result<PromoteReport> undo(std::size_t stop = SIZE_MAX) {
    StopsAt observer(stop);
    Result<PromoteReport> report = undo_promotion(options(), observer);
    points_ = observer.points();
    return report;
  }

  // A mistake that changed one order, and how it is promoted.
  PromoteOptions after_a_mistake_in(int id) {
    production_.run("shop", R"({"update":"orders","updates":[{"q":{"_id":)" + std::to_string(id) +
                                R"(},"u":{"$set":{"total":7}}}]})");
    return merging_after_now();
  }
  // A mistake that deleted one order.
  PromoteOptions after_a_delete() {
    production_.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":1},"limit":1}]})");
    return merging_after_now();
  }
  PromoteOptions merging_after_now() {
    PromoteOptions merging = options();
    merging.mistake_to = production_.now();
    merging.merge_later = true;
    return merging;
  }
  // The _ids of orders, sorted as text.
  std::string ids_with(const std::string& filter) {
    const Bson found = production_.run("shop", R"({"find":"orders","filter":)" + filter + "}");
    std::set<std::string> ids;
    found.view().each_found([&](const Document& each) {
      const Bson id = only_id_of(id_element_of(each));
      const std::string json = to_relaxed_json(id.view());  // { "_id" : VALUE }
      std::string text = json.substr(10, json.size() - 12);
      std::erase(text, '"');
      ids.insert(std::move(text));
    });
    std::string line;
    for (const std::string& each : ids) line += (line.empty() ? "" : " ") + each;
    return line;
  }
  static std::string id_element_of(Document document) {
    const std::span<const std::uint8_t> element = find_field(document, "_id")->element();
    return {reinterpret_cast<const char*>(element.data()), element.size()};
  }
  static Loss loss_of(const PromotePlan& plan, const std::string& id) {
    const Result<Bson> document = from_json(id);
    const auto& documents = plan.later.collections.at("shop.orders").documents;
    const auto found = documents.find(id_key(document->view()));
    EXPECT_NE(found, documents.end()) << id;
    return found == documents.end() ? Loss::kNotMerged : found->second.loss;
  }
  // The entries of a collection from the limit on.
  std::vector<Timestamp> entries_of(std::string_view ns) {
    std::vector<Timestamp> found;
    Result<std::unique_ptr<OplogSource>> oplog =
        open_oplog(servers::mongo_set().url(""), {.from = limit_});
    EXPECT_TRUE(oplog);
    for (;;) {
      const Result<std::optional<Entry>> next = (*oplog)->next();
      EXPECT_TRUE(next);
      if (!next || !*next) return found;
      if ((*next)->operation.ns == ns) found.push_back((*next)->at.ts);
    }
  }
  // Dumps production's oplog from a timestamp to now.
  void write_oplog(const std::string& path, Timestamp from) {
    Result<std::unique_ptr<OplogSource>> oplog =
        open_oplog(servers::mongo_set().url(""), {.from = from});
    ASSERT_TRUE(oplog);
    std::ofstream file(path, std::ios::binary);
    for (;;) {
      const Result<std::optional<Entry>> next = (*oplog)->next();
      ASSERT_TRUE(next);
      if (!*next) return;
      const std::span<const std::uint8_t> bytes = (*next)->document.bytes();
      file.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
  }

  // The state of the collections of these names in shop.
  static State of(Server& server, const std::set<std::string>& namespaces) {
    State state = state_of(server);
    std::erase_if(state, [&](const auto& each) { return !namespaces.contains(each.first); });
    return state;
  }
  [[nodiscard]] std::set<std::string> namespaces() {
    std::set<std::string> all;
    for (const auto& [ns, each] : state_of(production_.server()))
      if (ns.starts_with("shop.")) all.insert(ns);
    return all;
  }
  std::int64_t sequence() {
    const Bson found = production_.run("shop", R"({"find":"counters","filter":{"_id":"orders"}})");
    std::int64_t value = 0;
    found.view().each_found([&](const Document& each) { value = each.number("seq"); });
    return value;
  }
  bool takes_writes(const std::string& collection) {
    const Bson insert =
        Bson("insert", collection, "documents", array(Bson("_id", "probe", "total", 1)));
    const Result<Bson> reply = production_.server().command("shop", insert);
    if (!reply || reply->view().has("writeErrors")) return false;
    production_.run("shop", R"({"delete":")" + collection +
                                R"(","deletes":[{"q":{"_id":"probe"},"limit":1}]})");
    return true;
  }

  // As an operator of a set that others use: these tests share one.
  Production production_{servers::mongo_set().url("")};
  Production spare_{servers::mongo_standalone().url("")};
  Timestamp limit_{};
  std::vector<std::string> points_{};
};

const std::set<std::string> kReplaced = {"shop.orders", "shop.stock"};

TEST_F(Promote, PutsBackWhatTheMistakeChangedAndKeepsTheRest) {
  restore_here();
  production_.run("shop", R"({"update":"orders","updates":[
      {"q":{},"u":{"$set":{"total":7}},"multi":true}]})");
  production_.run("shop",
                  R"({"update":"stock","updates":[{"q":{"_id":"a"},"u":{"$inc":{"n":5}}}]})");
  production_.insert("shop.later", R"({"_id":1})");
  const State mistaken = of(production_.server(), kReplaced);

  Result<PromotePlan> planned = plan(options());
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->items.size(), 2U);
  EXPECT_EQ(planned->lost(), 50U) << "one had that total already";
  EXPECT_EQ(planned->left.size(), 2U) << "counters, which nobody wrote to, and later";
  EXPECT_EQ(of(production_.server(), kReplaced).size(), mistaken.size());

  const Result<PromoteReport> report = go();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->step, PromoteStep::kOpened);
  EXPECT_EQ(
      in_lines(differences(of(production_.server(), kReplaced), of(spare_.server(), kReplaced))),
      "");
  EXPECT_THAT(namespaces(), Contains("shop.later"));
  EXPECT_EQ(report->kept.size(), 2U);
  for (const KeptCollection& kept : report->kept) EXPECT_THAT(namespaces(), Contains(kept.ns));
  EXPECT_TRUE(takes_writes("orders"));
  EXPECT_TRUE(takes_writes("stock"));
  EXPECT_EQ(sequence(), 100);

  const Result<PromoteReport> again = go();
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(again->resumed);
  StopsAt watch;
  const Result<PromoteReport> finished = finish_promotion(options(), watch);
  ASSERT_TRUE(finished) << finished.error().message();
  EXPECT_THAT(namespaces(),
              UnorderedElementsAre("shop.orders", "shop.stock", "shop.counters", "shop.later"));
  EXPECT_EQ(undo().error().code, Code::kNotFound);
}

TEST_F(Promote, SetsBackWhatIsNamedAlone) {
  restore_here();
  production_.run("shop",
                  R"({"update":"orders","updates":[{"q":{"_id":1},"u":{"$set":{"total":7}}}]})");
  production_.run("shop",
                  R"({"update":"stock","updates":[{"q":{"_id":"a"},"u":{"$inc":{"n":5}}}]})");
  const State before = of(production_.server(), {"shop.stock"});
  PromoteOptions only = options();
  only.filter = *NamespaceFilter::of({"shop.orders"}, {});
  const Result<PromoteReport> report = go(std::move(only));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->promoted, ElementsAre("shop.orders"));
  EXPECT_EQ(in_lines(differences(of(production_.server(), {"shop.stock"}), before)), "");
  EXPECT_EQ(in_lines(differences(of(production_.server(), {"shop.orders"}),
                                 of(spare_.server(), {"shop.orders"}))),
            "");
}

// Each point is a kill; ordinary runs try one in three.
std::size_t stride() { return std::getenv("IDMINT_ALL_KILLS") != nullptr ? 1 : 3; }

TEST_F(Promote, GoesOnAfterAKillAtAnyPointAndNoIdComesTwice) {
  restore_here();
  HandWritten program(servers::mongo_set().url("shop"));
  program.await_more(20);
  for (std::size_t stop = 0;; stop += stride()) {
    SCOPED_TRACE(stop);
    production_.run("shop", R"({"update":"orders","updates":[
        {"q":{},"u":{"$set":{"total":7}},"multi":true}]})");
    const Result<PromoteReport> stopped = go(stop);
    if (stopped) break;
    ASSERT_EQ(stopped.error().code, Code::kUnavailable) << stopped.error().message();
    const Result<PromoteReport> report = go();
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(in_lines(differences(of(production_.server(), {"shop.orders"}),
                                   of(spare_.server(), {"shop.orders"}))),
              "")
        << points_.back();
    program.await_more(20);
    StopsAt watch;
    ASSERT_TRUE(finish_promotion(options(), watch));
  }
  EXPECT_EQ(repeats_in(program.end()), 0U);
}

TEST_F(Promote, IsGivenUpAtAnyPointAndNoIdComesTwice) {
  restore_here();
  HandWritten program(servers::mongo_set().url("shop"));
  program.await_more(20);
  for (std::size_t stop = 0, undone = 0;; stop += stride(), ++undone) {
    production_.run("shop", R"({"update":"orders","updates":[
        {"q":{},"u":{"$inc":{"total":1}},"multi":true}]})");
    const State before = of(production_.server(), {"shop.orders"});
    const Result<PromoteReport> stopped = go(stop);
    SCOPED_TRACE(points_.back());
    Result<PromoteReport> given_up = undo(undone);  // is stopped itself
    if (!given_up && given_up.error().code != Code::kNotFound) {
      EXPECT_EQ(given_up.error().code, Code::kUnavailable) << given_up.error().message();
      given_up = undo();
    }
    EXPECT_TRUE(given_up || given_up.error().code == Code::kNotFound) << given_up.error().message();
    EXPECT_EQ(in_lines(differences(of(production_.server(), {"shop.orders"}), before)), "");
    EXPECT_TRUE(takes_writes("orders"));
    program.await_more(20);
    for (const std::string& ns : namespaces()) {
      if (ns.contains(kPromotedSuffix)) {
        EXPECT_TRUE(stopped || points_.empty() || given_up->kept.size() == 1U);
        production_.run("shop", R"({"drop":")" + ns.substr(5) + R"("})");
      }
    }
    EXPECT_THAT(namespaces(), UnorderedElementsAre("shop.orders", "shop.stock", "shop.counters"));
    if (stopped) break;
  }
  EXPECT_EQ(repeats_in(program.end()), 0U);
}

TEST_F(Promote, KeepsWhatProgramsWroteAfterwardsWhereItIsGivenUp) {
  restore_here();
  production_.run("shop", R"({"delete":"orders","deletes":[{"q":{},"limit":0}]})");
  ASSERT_TRUE(go());
  production_.insert("shop.orders", R"({"_id":"new","total":1,"key":"new"})");
  const Result<PromoteReport> given_up = undo();
  ASSERT_TRUE(given_up) << given_up.error().message();
  ASSERT_EQ(given_up->kept.size(), 1U);
  const Result<std::uint64_t> kept = count_documents(production_.server(), given_up->kept[0].ns);
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, 51U);
  EXPECT_EQ(given_up->kept[0].written, 1U);
  EXPECT_EQ(*count_documents(production_.server(), "shop.orders"), 0U);
}

TEST_F(Promote, MergesLaterWritesThatTheMistakeDidNotTouch) {
  restore_here();
  production_.run("shop", R"({"update":"orders","updates":[
      {"q":{"_id":{"$lt":10}},"u":{"$set":{"total":-7}},"multi":true}],"bypassDocumentValidation":true})");
  PromoteOptions merging = options();
  merging.mistake_to = production_.now();
  merging.merge_later = true;
  production_.run("shop", R"({"update":"orders","updates":[
      {"q":{"_id":5},"u":{"$set":{"total":1000}}},{"q":{"_id":20},"u":{"$set":{"total":1000}}}]})");
  production_.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":30},"limit":1}]})");
  production_.insert("shop.orders", R"({"_id":"new","total":1,"key":"new"})");
  // A transaction of both, and one that was given up.
  auto* session = production_.begin();
  production_.insert("shop.orders", R"({"_id":"in one","total":2,"key":"in one"})", session);
  Production::commit(session);
  session = production_.begin();
  production_.insert("shop.orders", R"({"_id":"not","total":2,"key":"not"})", session);
  Production::abort(session);

  Result<PromotePlan> planned = plan(options());
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 14U);
  PromoteOptions copy = merging;
  planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 10U);
  // Stopped in the merge, and gone on with.
  EXPECT_FALSE(go(merging, 12));
  const Result<PromoteReport> report = go(merging);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->unmerged, IsEmpty());
  const auto total = [&](const std::string& id) {
    const Bson found = production_.run("shop", R"({"find":"orders","filter":{"_id":)" + id + "}}");
    std::int64_t value = -1;
    found.view().each_found([&](const Document& each) { value = each.number("total"); });
    return value;
  };
  EXPECT_EQ(total("5"), 5) << "in the mistake";
  EXPECT_EQ(total("9"), 9);
  EXPECT_EQ(total("20"), 1000);
  EXPECT_EQ(total("30"), -1);
  EXPECT_EQ(total(R"("new")"), 1);
  EXPECT_EQ(total(R"("in one")"), 2);
  EXPECT_EQ(total(R"("not")"), -1);
}

// The public report: what came between a promotion and its undo was in no collection afterwards.
TEST_F(Promote, MergesWhatWasWrittenBeforeAnUndo) {
  restore_here();
  production_.run("shop", R"({"drop":"orders"})");
  PromoteOptions merging = options();
  merging.mistake_to = production_.now();
  merging.merge_later = true;
  const auto write = [&](int id) {
    production_.insert("shop.orders", R"({"_id":)" + std::to_string(id) + R"(,"key":)" +
                                          std::to_string(id) + R"(,"total":1})");
  };
  for (int id = 100; id < 110; ++id) write(id);
  ASSERT_TRUE(go());
  for (int id = 110; id < 120; ++id) write(id);
  production_.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":7},"limit":1}]})");
  const Result<PromoteReport> undone = undo();
  ASSERT_TRUE(undone) << undone.error().message();
  ASSERT_EQ(undone->kept.size(), 1U);
  EXPECT_EQ(undone->kept[0].written, 11U);
  for (int id = 120; id < 130; ++id) write(id);

  PromoteOptions copy = merging;
  Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 0U);
  const Result<PromoteReport> report = go(merging);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->merged, 31U);
  EXPECT_EQ(*count_documents(production_.server(), "shop.orders"), 79U);
}

// Two documents that exchange a unique value, and one whose value another one takes over.
TEST_F(Promote, MergesUniqueValuesThatMoved) {
  restore_here();
  PromoteOptions merging = after_a_mistake_in(1);
  const auto set_key = [&](int id, const std::string& key) {
    production_.run("shop", R"({"update":"orders","updates":[{"q":{"_id":)" + std::to_string(id) +
                                R"(},"u":{"$set":{"key":")" + key + R"("}}}]})");
  };
  set_key(10, "aside");
  set_key(11, "k10");
  set_key(10, "k11");
  production_.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":12},"limit":1}]})");
  production_.insert("shop.orders", R"({"_id":112,"total":1,"key":"k12"})");
  PromoteOptions copy = merging;
  const Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 1U) << "that of the mistake";
  const Result<PromoteReport> report = go(merging);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->unmerged, IsEmpty());
  EXPECT_EQ(ids_with(R"({"key":{"$in":["k10","k11","k12"]}})"), "10 11 112");
}

// The restored collection refuses a document: the plan says so, and --finish keeps what has it.
TEST_F(Promote, ListsWhatAUniqueIndexWillRefuse) {
  restore_here();
  const PromoteOptions merging = after_a_delete();
  production_.insert(
      "shop.orders",
      R"({"_id":"late","total":1,"key":"k1"},{"_id":"good","total":1,"key":"good"})");
  PromoteOptions copy = merging;
  const Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 2U) << "the deleted one, and the one that has its key";
  EXPECT_EQ(loss_of(*planned, R"({"_id":"late"})"), Loss::kRefused);
  EXPECT_EQ(loss_of(*planned, R"({"_id":"good"})"), Loss::kNone);
  const Result<PromoteReport> report = go(merging);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(report->unmerged.size(), 1U);
  EXPECT_THAT(report->unmerged[0].lost.id, HasSubstr("late"));
  EXPECT_THAT(report->unmerged[0].lost.why, HasSubstr("duplicate key"));
  EXPECT_EQ(ids_with(R"({"_id":{"$in":[1,"late","good"]}})"), "1 good");

  StopsAt all;
  const Result<PromoteReport> finished = finish_promotion(options(), all);
  ASSERT_TRUE(finished) << finished.error().message();
  ASSERT_EQ(finished->kept.size(), 1U);
  // A promotion after it takes the document from there, where it fits by then.
  production_.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":1},"limit":1}]})");
  EXPECT_EQ(*count_documents(production_.server(), finished->kept[0].ns), 51U);
  EXPECT_TRUE(takes_writes(finished->kept[0].ns.substr(5)));
  ASSERT_TRUE(go(merging));
  EXPECT_EQ(ids_with(R"({"_id":{"$in":[1,"late","good"]}})"), "good late");
}

// Programs wrote between two entries of the mistake.
TEST_F(Promote, TellsEntriesUnlikeTheMistakesFromThem) {
  restore_here();
  const auto wrong = [&](int id) {
    production_.run("shop", R"({"update":"orders","updates":[{"q":{"_id":)" + std::to_string(id) +
                                R"(},"u":{"$set":{"total":7,"items":[{"n":)" + std::to_string(id) +
                                R"(}]}}}]})");
  };
  wrong(1);
  production_.insert("shop.orders", R"({"_id":"new","total":1,"key":"new"})");
  production_.run("shop", R"({"update":"orders","updates":[
      {"q":{"_id":20},"u":{"$set":{"name":"x"}}},{"q":{"_id":2},"u":{"$set":{"name":"x"}}}]})");
  wrong(2);
  PromoteOptions merging = options();
  merging.mistake_to = production_.now();
  merging.merge_later = true;
  merging.alike = true;
  PromoteOptions copy = merging;
  Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_FALSE(planned) << "the limit is an entry that changes nothing";
  EXPECT_THAT(planned.error().message(), HasSubstr("changes nothing"));
  const std::vector<Timestamp> entries = entries_of("shop.orders");
  merging.alike = false;
  merging.limit = limit_ = entries.front();
  merging.mistake_to = entries.back();
  copy = merging;
  planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 4U);
  EXPECT_EQ(planned->lost_unlike(), 2U);
  merging.alike = true;
  copy = merging;
  planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 2U);
  EXPECT_THAT(planned->notes, Contains(HasSubstr("updates of items, total in shop.orders")));
  const Result<PromoteReport> report = go(merging);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(ids_with(R"({"$or":[{"name":"x"},{"_id":"new"}]})"), "20 new");
  EXPECT_EQ(ids_with(R"({"total":7})"), "7");
}

// Servers take 5 and 5.0 for one _id.
TEST_F(Promote, TakesEqualNumbersForOneId) {
  restore_here();
  PromoteOptions merging = after_a_mistake_in(1);
  production_.run("shop",
                  R"({"delete":"orders","deletes":[{"q":{"_id":{"$in":[1,5]}},"limit":0}]})");
  production_.insert("shop.orders", R"({"_id":5.0,"total":55,"key":"k5"},{"_id":1.0,"total":55})");
  PromoteOptions copy = merging;
  const Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(planned->lost(), 1U);
  ASSERT_TRUE(go(merging));
  EXPECT_EQ(ids_with(R"({"total":55})"), "5.0");
  EXPECT_EQ(*count_documents(production_.server(), "shop.orders"), 50U);
}

// A collection that gets the name by a rename has documents already, as that of $out.
TEST_F(Promote, FollowsACollectionThatIsRenamedToTheName) {
  production_.insert("shop.older", R"({"_id":1,"total":1})");
  restore_here();
  PromoteOptions merging = after_a_mistake_in(1);
  production_.run("shop", R"({"aggregate":"orders","cursor":{},
      "pipeline":[{"$match":{"_id":{"$lt":3}}},{"$set":{"_id":{"$add":["$_id",100]},"key":{"$concat":["n","$key"]}}},
                  {"$out":"orders"}]})");
  PromoteOptions copy = merging;
  Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_EQ(loss_of(*planned, R"({"_id":{"$numberLong":"102"}})"), Loss::kNone);
  ASSERT_TRUE(go(merging));
  EXPECT_EQ(ids_with(R"({"_id":{"$gte":100}})"), "100 101 102");
  StopsAt all;
  ASSERT_TRUE(finish_promotion(options(), all));
  production_.run("admin",
                  R"({"renameCollection":"shop.older","to":"shop.orders","dropTarget":true})");
  planned = plan(std::move(merging));
  ASSERT_TRUE(planned) << planned.error().message();
  ASSERT_EQ(planned->refused.size(), 1U);
  EXPECT_THAT(planned->refused[0].why, HasSubstr("shop.older was renamed to it"));
}

// A dump ends before the writers are blocked: production's own oplog has the rest.
TEST_F(Promote, ReadsProductionsOplogAfterTheFile) {
  restore_here();
  PromoteOptions merging = after_a_mistake_in(1);
  production_.insert("shop.orders", R"({"_id":"before","total":1,"key":"before"})");
  const fakes::TempFolder folder;
  merging.oplog = folder.path("oplog.bson");
  write_oplog(merging.oplog, limit_);
  PromoteOptions copy = merging;
  Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  production_.insert("shop.orders", R"({"_id":"after","total":1,"key":"after"})");
  StopsAt all;
  ASSERT_TRUE(promote(*planned, all));
  EXPECT_EQ(ids_with(R"({"_id":{"$in":["before","after"]}})"), "after before");
}

// A write that is lost between the plan and the block was in no list: --finish keeps it.
TEST_F(Promote, KeepsWhatWasLostSinceThePlan) {
  restore_here();
  PromoteOptions merging = after_a_mistake_in(1);
  Result<PromotePlan> planned = plan(std::move(merging));
  ASSERT_TRUE(planned) << planned.error().message();
  production_.run("shop", R"({"drop":"orders"})");
  production_.insert("shop.orders", R"({"_id":3,"total":33})");  // the spare has this _id
  StopsAt all;
  const Result<PromoteReport> report = promote(*planned, all);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->notes, Contains(HasSubstr("between the plan and the block")));
  // As if there were more than a record names.
  production_.run("idmint_restore", R"({"update":"promote","updates":[
      {"q":{},"u":{"$set":{"items.0.unlisted":{"$numberLong":"5"}}}}]})");
  const Result<PromoteReport> finished = finish_promotion(options(), all);
  ASSERT_TRUE(finished) << finished.error().message();
  ASSERT_EQ(finished->kept.size(), 1U);
  EXPECT_EQ(*count_documents(production_.server(), finished->kept[0].ns), 1U);
  EXPECT_THAT(finished->notes, ElementsAre(HasSubstr("4 documents of these are not named")));
}

// A document of which an undone promotion has one write and the old collection another: only one
// version is taken. The other is named, and said to be kept where it is.
TEST_F(Promote, NamesWhatIsLostSinceThePlanAndWhereItIs) {
  restore_here();
  const PromoteOptions merging = after_a_mistake_in(1);
  StopsAt all;
  {
    PromoteOptions copy = merging;
    Result<PromotePlan> first = plan(std::move(copy));
    ASSERT_TRUE(first) << first.error().message();
    const LaterCollection& later = first->later.collections.at("shop.orders");
    EXPECT_EQ(later.lost_of_mistake(), later.lost());
    ASSERT_TRUE(promote(*first, all));
  }
  const auto change = [&](const char* field) {
    production_.run("shop", std::string(R"({"update":"orders","updates":[
        {"q":{"_id":3},"u":{"$set":{")") +
                                field + R"(":1}}}]})");
  };
  change("promoted");
  const Result<PromoteReport> undone = undo();
  ASSERT_TRUE(undone) << undone.error().message();
  PromoteOptions copy = merging;
  Result<PromotePlan> second = plan(std::move(copy));
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(loss_of(*second, R"({"_id":{"$numberInt":"3"}})"), Loss::kNone);
  change("old");
  // An earlier promotion left the first one, and the oplog since the limit does not have it; the
  // second one is a program's own.
  production_.insert("shop.orders.promoted-20200101-000000", R"({"_id":1})");
  production_.insert("shop.orders.promoted-mine", R"({"_id":1})");
  const Result<PromoteReport> report = promote(*second, all);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(report->unlisted.size(), 1U);
  EXPECT_EQ(report->unlisted[0].lost.in, std::vector{undone->kept[0].ns});
  const Result<PromoteReport> finished = finish_promotion(options(), all);
  ASSERT_TRUE(finished) << finished.error().message();
  const auto kept = std::ranges::find(finished->kept, undone->kept[0].ns, &KeptCollection::ns);
  ASSERT_NE(kept, finished->kept.end());
  const auto unknown = std::ranges::find(finished->kept, "shop.orders.promoted-20200101-000000",
                                         &KeptCollection::ns);
  ASSERT_NE(unknown, finished->kept.end());
  EXPECT_FALSE(unknown->written);
  EXPECT_EQ(std::ranges::find(finished->kept, "shop.orders.promoted-mine", &KeptCollection::ns),
            finished->kept.end());
  EXPECT_EQ(kept->written, 1U);
  EXPECT_EQ(kept->ids, std::vector{report->unlisted[0].lost.id});
}

// A run that goes on has no plan: what the plan named stands on production.
TEST_F(Promote, NamesAfterAKillWhatIsLostSinceThePlanAlone) {
  for (const char* const step : {"close counters", "raise counters", "load collections"}) {
    SetUp();
    restore_here();
    production_.run("shop", R"({"drop":"stock"})");
    production_.insert("shop.stock", R"({"_id":"a","n":5})");  // the spare has this _id
    const PromoteOptions merging = after_a_mistake_in(1);
    PromoteOptions copy = merging;
    Result<PromotePlan> planned = plan(std::move(copy));
    ASSERT_TRUE(planned) << planned.error().message();
    EXPECT_EQ(planned->lost(), 2U);
    production_.insert("shop.stock", R"({"_id":"b","n":5})");
    StopsAt stops{std::string(step)};
    ASSERT_FALSE(promote(*planned, stops)) << step;
    for (int run = 0; run < 2; ++run) {
      const Result<PromoteReport> report = go(merging);
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_TRUE(report->resumed);
      ASSERT_EQ(report->unlisted.size(), 1U) << step;
      EXPECT_EQ(report->unlisted[0].ns, "shop.stock");
      EXPECT_THAT(report->unlisted[0].lost.id, HasSubstr("b"));
      ASSERT_EQ(report->planned.size(), 2U);
      EXPECT_EQ(report->planned[0].lost.why, in_words(Loss::kMistake));
      EXPECT_EQ(report->planned[1].ns, "shop.stock");
    }
    StopsAt all;
    const Result<PromoteReport> finished = finish_promotion(options(), all);
    ASSERT_TRUE(finished) << finished.error().message();
    EXPECT_EQ(finished->planned.size(), 2U);
    ASSERT_EQ(finished->kept.size(), 1U) << "it has what no plan named";
  }
}

TEST_F(Promote, NamesAfterAKillWhatWasNotMerged) {
  restore_here();
  const PromoteOptions merging = after_a_delete();
  production_.insert("shop.orders", R"({"_id":"late","total":1,"key":"k1"})");
  PromoteOptions copy = merging;
  Result<PromotePlan> planned = plan(std::move(copy));
  ASSERT_TRUE(planned) << planned.error().message();
  StopsAt stops{std::string("swap shop.orders")};
  ASSERT_FALSE(promote(*planned, stops));
  for (int run = 0; run < 2; ++run) {
    const Result<PromoteReport> report = go(merging);
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_EQ(report->unmerged.size(), 1U);
    EXPECT_THAT(report->unmerged[0].lost.why, HasSubstr("duplicate key"));
    EXPECT_EQ(report->unmerged[0].lost.in, std::vector{report->kept[0].ns});
  }
}

// A document of the server has 16 MB, and a promotion may have many collections.
TEST(PromoteRecord, HasRoomForSoMuchOfAList) {
  ListRoom room;
  const LostDocument lost{.id = std::string(1'000, 'i'), .why = std::string(900, 'w'), .in = {"a"}};
  std::size_t taken = 0;
  while (room.take(lost)) ++taken;
  EXPECT_NEAR(static_cast<double>(taken), 4.0 * 1024 * 1024 / 2'011, 2);
  EXPECT_FALSE(room.take({.id = "1"})) << "in their order";
}

// Writes between the two limits would be neither restored nor merged nor named.
TEST_F(Promote, RefusesALimitThatTheSpareWasNotRestoredTo) {
  restore_here();
  const Bson restored =
      Bson("limit", BsonTimestamp{.seconds = limit_.seconds, .ordinal = limit_.ordinal});
  ASSERT_TRUE(Record::begin(spare_.server(), restored.view()));
  production_.run("shop", R"({"drop":"orders"})");
  EXPECT_TRUE(plan(options()));
  PromoteOptions other = options();
  other.limit = production_.now();
  const Result<PromotePlan> planned = plan(std::move(other));
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(planned.error().message(), HasSubstr("was restored to " + print_timestamp(limit_)));
}

// A database that is dropped by mistake had the only copies that earlier promotions left in it.
TEST_F(Promote, SaysWhatItLeavesOfEarlierPromotions) {
  const std::string kept = "shop.orders.before-restore-20200101-000000";
  production_.insert(kept, R"({"_id":"only"})");
  restore_here();
  production_.run("shop", R"({"dropDatabase":1})");
  const Result<PromotePlan> planned = plan(options());
  ASSERT_TRUE(planned) << planned.error().message();
  ASSERT_EQ(planned->left.size(), 1U);
  EXPECT_EQ(planned->left[0].ns, kept);
}

// A finish that was stopped has dropped what an undo needs.
TEST_F(Promote, IsNotUndoneOnceItsFinishHasBegun) {
  restore_here();
  production_.run("shop", R"({"drop":"orders"})");
  ASSERT_TRUE(go());
  production_.insert("shop.orders", R"({"_id":"new","total":1,"key":"new"})");
  StopsAt forget(2);  // the collection is dropped, the record is not
  const Result<PromoteReport> stopped = finish_promotion(options(), forget);
  ASSERT_FALSE(stopped);
  EXPECT_THAT(stopped.error().message(), HasSubstr("forget"));
  const Result<PromoteReport> undone = undo();
  ASSERT_FALSE(undone);
  EXPECT_EQ(undone.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(undone.error().message(), HasSubstr("--finish"));
  EXPECT_EQ(*count_documents(production_.server(), "shop.orders"), 51U);
  StopsAt all;
  EXPECT_TRUE(finish_promotion(options(), all));
  EXPECT_FALSE(*PromoteRecord::look(production_.server()));
}

// A program has dropped the promoted collection and made another: that one is kept.
TEST_F(Promote, AnUndoKeepsWhatAProgramMadeInThePlaceOfThePromotedOne) {
  for (const bool renamed : {false, true}) {
    SCOPED_TRACE(renamed);
    SetUp();
    restore_here();
    const PromoteOptions merging = after_a_mistake_in(1);
    ASSERT_TRUE(go());
    if (renamed) {
      production_.run("admin", R"({"renameCollection":"shop.orders","to":"shop.moved"})");
    } else {
      production_.run("shop", R"({"drop":"orders"})");
    }
    production_.insert("shop.orders", R"({"_id":"made","total":1,"key":"made"})");
    const Result<PromoteReport> undone = undo();
    ASSERT_TRUE(undone) << undone.error().message();
    ASSERT_EQ(undone->kept.size(), 1U);
    EXPECT_EQ(*count_documents(production_.server(), undone->kept[0].ns), 1U);
    EXPECT_NE(undone->kept[0].written, 0U);
    EXPECT_EQ(renamed, find_collection(production_.server(), "shop.moved")->has_value());
    EXPECT_EQ(*count_documents(production_.server(), "shop.orders"), 50U);
    EXPECT_TRUE(takes_writes("orders"));
    ASSERT_TRUE(go(merging));
    EXPECT_EQ(ids_with(R"({"_id":"made"})"), "made");
    ASSERT_TRUE(undo());
  }
}

// Killed between the creation of the empty collection and the record of its UUID.
TEST_F(Promote, AnUndoDropsAPlaceholderOfWhichItsRecordHasNoUuid) {
  restore_here();
  production_.run("shop", R"({"drop":"orders"})");
  ASSERT_FALSE(go(3));
  ASSERT_EQ(points_.back(), "block shop.orders");
  const Result<std::optional<PromoteState>> state = PromoteRecord::look(production_.server());
  ASSERT_TRUE(state);
  ASSERT_TRUE(*state);
  production_.run(
      "idmint_restore",
      R"({"update":"promote","updates":[{"q":{},"u":{"$set":{"items.0.missing":true}}}]})");
  const Bson create = Bson("create", "orders", "validator", refusing_validator((*state)->id));
  ASSERT_TRUE(production_.server().command("shop", create));
  const Result<PromoteReport> undone = undo();
  ASSERT_TRUE(undone) << undone.error().message();
  EXPECT_FALSE(*find_collection(production_.server(), "shop.orders"));
}

// A refusal after the block has a status of its own and names the way out, whatever its kind.
TEST_F(Promote, ARefusalAfterTheBlockNamesTheWayOut) {
  restore_here();
  production_.run("shop",
                  R"({"update":"orders","updates":[{"q":{"_id":1},"u":{"$set":{"total":7}}}]})");
  for (const int code : {91, 13}) {  // ShutdownInProgress, Unauthorized
    ASSERT_FALSE(go(5)) << "stopped after the block";
    production_.run("admin", R"({"configureFailPoint":"failCommand","mode":"alwaysOn",
        "data":{"failCommands":["collMod"],"errorCode":)" +
                                 std::to_string(code) + "}}");
    const Result<PromoteReport> failed = code == 91 ? go() : undo();
    production_.run("admin", R"({"configureFailPoint":"failCommand","mode":"off"})");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, code == 91 ? Code::kUnavailable : Code::kUnknown);
    EXPECT_THAT(failed.error().message(), HasSubstr("--undo"));
    ASSERT_TRUE(undo());
    EXPECT_TRUE(takes_writes("orders"));
  }
}

// A validator stops no deletes, so they go on until the collections have their names.
TEST_F(Promote, MergesDeletesUntilTheSwap) {
  restore_here();
  production_.run("shop", R"({"update":"orders","updates":[
      {"q":{"_id":1},"u":{"$set":{"total":7}}}]})");
  PromoteOptions merging = options();
  merging.mistake_to = production_.now();
  merging.merge_later = true;
  Result<PromotePlan> planned = plan(std::move(merging));
  ASSERT_TRUE(planned) << planned.error().message();

  class Deletes final : public Observer {
   public:
    explicit Deletes(Production& production) : production_(production) {}
    Result<void> about_to(std::string_view what) override {
      if (what == "load collections") remove(10);
      if (what == "swap shop.orders") remove(11);
      if (what == "swap shop.orders") remove(1);  // which the mistake wrote to
      return {};
    }

   private:
    void remove(int id) {
      production_.run("shop", R"({"delete":"orders","deletes":[{"q":{"_id":)" + std::to_string(id) +
                                  R"(},"limit":1}]})");
    }
    Production& production_;
  };
  Deletes watch(production_);
  const Result<PromoteReport> report = promote(*planned, watch);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->merged, 2U);
  const Bson left =
      production_.run("shop", R"({"count":"orders","query":{"_id":{"$in":[1,10,11]}}})");
  EXPECT_EQ(left.view().number("n"), 1) << "the restored 1";
}

TEST_F(Promote, MakesADroppedCollectionAndItsCountersAgain) {
  production_.run("shop", R"({"findAndModify":"counters","query":{"_id":"orders"},
      "update":{"$inc":{"seq":{"$numberLong":"1"}}}})");
  restore_here();
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 5; ++i) {
    const Bson taken = production_.run("shop", R"({"findAndModify":"counters",
        "query":{"_id":"orders"},"update":{"$inc":{"seq":{"$numberLong":"1"}}},"new":true})");
    ids.push_back(taken.view().document("value").number("seq"));
  }
  production_.run("shop", R"({"drop":"counters"})");
  production_.run("shop", R"({"drop":"orders"})");
  const Result<PromoteReport> report = go();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->in_place, ElementsAre("shop.counters"));
  ASSERT_TRUE(report->fence);
  ASSERT_EQ(report->fence->documents.size(), 1U);
  EXPECT_EQ(report->fence->documents[0].outcome, FenceOutcome::kMade) << "what the report calls it";
  EXPECT_EQ(sequence(), ids.back()) << "the last value that was handed out";
  EXPECT_TRUE(takes_writes("orders"));
  EXPECT_EQ(in_lines(differences(of(production_.server(), {"shop.orders"}),
                                 of(spare_.server(), {"shop.orders"}))),
            "");
  // Given up, the collection is gone again, and the counter is not.
  ASSERT_TRUE(undo());
  EXPECT_EQ(sequence(), ids.back());
  EXPECT_FALSE(namespaces().contains("shop.orders"));
}

TEST_F(Promote, MakesAViewAgain) {
  production_.run("shop", R"({"create":"cheap","viewOn":"orders","pipeline":[
      {"$match":{"total":{"$lt":9}}}]})");
  restore_here();
  production_.run("shop", R"({"drop":"orders"})");
  production_.run("shop", R"({"drop":"cheap"})");
  const Result<PromoteReport> report = go();
  ASSERT_TRUE(report) << report.error().message();
  const std::set<std::string> both = {"shop.orders", "shop.cheap"};
  EXPECT_EQ(in_lines(differences(of(production_.server(), both), of(spare_.server(), both))), "");
  ASSERT_TRUE(undo());
  EXPECT_FALSE(namespaces().contains("shop.cheap"));
}

// dropDatabase takes idmint's own store away, too; what is put back goes on behind what was handed
// out, and stays where it is if the promotion is given up.
TEST_F(Promote, PutsADroppedStoreBack) {
  const std::string url = servers::mongo_set().url("shop");
  std::int64_t last = 0;
  {
    const auto store = Store::open(url);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(create_sequence(**store, {.name = "mails"}));
    ASSERT_TRUE(create_pool(**store, PoolDefinition{.name = "web"}));
    const auto sequence = Sequence::open(**store, "mails");
    ASSERT_TRUE(sequence) << sequence.error().message();
    for (int i = 0; i < 7; ++i) last = (*sequence)->next().value_or(0);
  }
  restore_here();
  for (const bool all : {true, false}) {
    SCOPED_TRACE(all);
    if (all) {
      production_.run("shop", R"({"dropDatabase":1})");
    } else {
      production_.run("shop", R"({"drop":"idmint.counters"})");
    }
    const Result<PromoteReport> report = go();
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->step, PromoteStep::kOpened);
    EXPECT_THAT(report->put_back, Contains("shop/mails"));
    EXPECT_EQ(report->put_back.size(), all ? 2U : 1U);
    const auto next = [&] {
      const auto store = Store::open(url, {.create = false});
      if (!store) return std::int64_t{-1};
      const auto sequence = Sequence::open(**store, "mails");
      return sequence ? (*sequence)->next().value_or(-2) : -3;
    };
    const std::int64_t given = next();
    EXPECT_GT(given, last);
    ASSERT_TRUE(undo());
    EXPECT_GT(next(), given);
  }
}

// Its sequences and counters are as they were, and what it has claimed is gone.
TEST_F(Promote, UnitesWhatWasDeletedOfAStore) {
  const std::string url = servers::mongo_set().url("shop");
  {
    const auto store = Store::open(url);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(
        create_sequence(**store, {.name = "codes", .strategy = Strategy::kRandom, .last = 1000}));
    const auto sequence = Sequence::open(**store, "codes");
    ASSERT_TRUE(sequence) << sequence.error().message();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE((*sequence)->next());
  }
  restore_here();
  const std::string claims = "idmint.claims.codes";
  const std::uint64_t before = *count_documents(production_.server(), "shop." + claims);
  ASSERT_GE(before, 20U);
  production_.run("shop", R"({"delete":")" + claims + R"(","deletes":[{"q":{},"limit":0}]})");
  const Result<PromoteReport> report = go();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(*count_documents(production_.server(), "shop." + claims), before);
}

// A sequence that a program makes anew in another way gives the ids of the former one again.
TEST_F(Promote, RefusesASequenceThatWasMadeAnewInAnotherWay) {
  const std::string url = servers::mongo_set().url("shop");
  const auto make = [&] {
    const auto store = Store::open(url);
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(
        create_sequence(**store, {.name = "codes", .strategy = Strategy::kPermuted, .last = 1000}));
  };
  make();
  restore_here();
  production_.run("shop", R"({"dropDatabase":1})");
  make();  // with another key
  const Result<PromotePlan> planned = plan(options());
  ASSERT_TRUE(planned) << planned.error().message();
  ASSERT_EQ(planned->refused.size(), 1U);
  EXPECT_EQ(planned->refused[0].ns, "shop/codes");
}

// A counter that was made and deleted since the limit is made again, over the validator that
// blocks.
TEST_F(Promote, MakesACounterOfWhichOnlyTheOplogKnows) {
  restore_here();
  for (int i = 0; i < 5; ++i)
    production_.run("shop", R"({"findAndModify":"counters","query":{"_id":"late"},"upsert":true,
        "update":{"$inc":{"seq":{"$numberLong":"1"}}}})");
  production_.run("shop", R"({"delete":"counters","deletes":[{"q":{"_id":"late"},"limit":1}]})");
  const Result<PromoteReport> report = go();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(*count_documents(production_.server(), "shop.counters"), 2U);
}

// An index of version 1 takes no collation. A fail point stands for all else that a server may
// refuse.
TEST_F(Promote, WhatProductionRefusesIsFoundBeforeAWriterIsBlocked) {
  production_.run("shop", R"({"createIndexes":"orders","indexes":[
      {"key":{"v":1},"name":"old","v":1}]})");
  restore_here();
  production_.run("shop", R"({"update":"orders","updates":[
      {"q":{},"u":{"$set":{"total":7}},"multi":true}]})");
  ASSERT_TRUE(go());
  ASSERT_TRUE(undo());
  production_.run("admin", R"({"configureFailPoint":"failCommand","mode":"alwaysOn","data":{
      "errorCode":67,"failCommands":["createIndexes"]}})");
  const Result<PromoteReport> refused = go();
  production_.run("admin", R"({"configureFailPoint":"failCommand","mode":"off"})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("no writer was blocked"));
  EXPECT_TRUE(takes_writes("orders"));
  EXPECT_EQ(undo().error().code, Code::kNotFound);
}

// Kills the primary once, before one of the writes.
class KillsBefore final : public Observer {
 public:
  KillsBefore(servers::MongoSet& members, std::string when)
      : members_(members), when_(std::move(when)) {}
  Result<void> about_to(std::string_view what) override {
    if (what != when_ || killed_) return {};
    killed_ = members_.primary();
    members_.member(*killed_).kill();
    return {};
  }
  [[nodiscard]] bool has_killed() const { return killed_.has_value(); }
  void mend() {
    if (killed_) members_.member(*killed_).restart();
  }

 private:
  servers::MongoSet& members_;
  const std::string when_;
  std::optional<std::size_t> killed_{};
};

TEST(PromoteOnASet, TakesTheRightToDoAnythingWhichIsAskedForFirst) {
  servers::MongoSet set({.users = true, .members = 1});  // the user has the role root
  servers::MongoServer spare;
  Production production(set.url(""));
  Production restored(spare.url(""));
  for (Production* const each : {&production, &restored})
    each->insert("shop.orders", R"({"_id":1,"n":1})");
  const PromoteOptions options{.from = spare.url(""), .to = set.url(""), .limit = production.now()};
  production.run("shop", R"({"update":"orders","updates":[{"q":{},"u":{"$set":{"n":2}}}]})");
  const Result<PromotePlan> denied = plan_promotion(options, {});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kPermissionDenied);
  EXPECT_THAT(denied.error().message(), HasSubstr("createRole"));
  production.run("admin", R"({"createRole":"idmintRestore","privileges":[
      {"resource":{"anyResource":true},"actions":["anyAction"]}],"roles":[]})");
  production.run("admin", R"({"grantRolesToUser":"root","roles":["idmintRestore"]})");
  Result<PromotePlan> planned = plan_promotion(options, {});
  ASSERT_TRUE(planned) << planned.error().message();
  StopsAt watch;
  const Result<PromoteReport> report = promote(*planned, watch);
  ASSERT_TRUE(report) << report.error().message();
  const Bson wrong = production.run("shop", R"({"count":"orders","query":{"n":2}})");
  EXPECT_EQ(wrong.view().number("n"), 0);
}

TEST(PromoteOnASet, GoesOnWhereThePrimaryIsKilled) {
  servers::MongoSet set;
  servers::MongoServer spare;
  Timestamp limit{};
  {
    Production production(set.url(""));
    Production restored(spare.url(""));
    for (int i = 0; i < 30; ++i) {
      const std::string document = R"({"_id":)" + std::to_string(i) + R"(,"n":1})";
      production.insert("shop.orders", document);
      restored.insert("shop.orders", document);
    }
    limit = production.now();
    production.run("shop", R"({"update":"orders","updates":[
        {"q":{},"u":{"$set":{"n":2}},"multi":true}],"writeConcern":{"w":"majority"}})");
  }
  const PromoteOptions options{.from = spare.url(""), .to = set.url(""), .limit = limit};
  for (const char* const when :
       {"block shop.orders", "load collections", "swap shop.orders", "open shop.orders"}) {
    SCOPED_TRACE(when);
    KillsBefore observer(set, when);
    // Two members are left, which elect one of them.
    bool done = false;
    for (int attempt = 0; attempt < 20 && !done; ++attempt) {
      Result<PromotePlan> planned = plan_promotion(options, {});
      const Result<PromoteReport> report =
          planned ? promote(*planned, observer)
                  : Result<PromoteReport>(std::unexpected(planned.error()));
      done = report.has_value();
      EXPECT_TRUE(done || report.error().code == Code::kUnavailable) << report.error().message();
    }
    EXPECT_TRUE(done);
    EXPECT_TRUE(observer.has_killed());
    observer.mend();
    Production production(set.url(""));
    const Bson wrong = production.run("shop", R"({"count":"orders","query":{"n":2}})");
    EXPECT_EQ(wrong.view().number("n"), 0);
    StopsAt watch;
    const Result<PromoteReport> undone = undo_promotion(options, watch);
    ASSERT_TRUE(undone) << undone.error().message();
    for (const KeptCollection& kept : undone->kept)
      production.run("shop", R"({"drop":")" + kept.ns.substr(5) + R"("})");
  }
}

TEST_F(Promote, RaisesACounterThatTheMistakeSetBack) {
  restore_here();
  for (int i = 0; i < 5; ++i)
    production_.run("shop", R"({"findAndModify":"counters","query":{"_id":"orders"},
        "update":{"$inc":{"seq":{"$numberLong":"1"}}}})");
  production_.run("shop", R"({"update":"counters","updates":[{"q":{},"u":{"$set":{"seq":3}}}]})");
  const Result<PromoteReport> report = go();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(sequence(), 105);
  EXPECT_THAT(namespaces(), UnorderedElementsAre("shop.orders", "shop.stock", "shop.counters"));
}

TEST_F(Promote, RefusesAMistakeOrACounterThatIsNotThere) {
  restore_here();
  PromoteOptions later = after_a_mistake_in(1);
  later.mistake_to->seconds += 500;
  const Result<PromotePlan> planned = plan(std::move(later));
  ASSERT_FALSE(planned);
  EXPECT_THAT(planned.error().message(), HasSubstr("after the newest entry"));
  PromoteOptions within = options();
  within.counters = {{.ns = "shop.counters.d", .field = "next"}};
  const Result<PromotePlan> other = plan(std::move(within));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("a field within another"));
}

TEST_F(Promote, RefusesWhatItCannotDoBeforeAnythingIsWritten) {
  production_.run("shop", R"({"create":"rates","timeseries":{"timeField":"t"}})");
  production_.insert("shop.rates", R"({"t":{"$date":"2026-01-01T00:00:00Z"},"x":1})");
  production_.insert("shop.mixed", R"({"_id":"counter","seq":5},{"_id":1,"name":"a"})");
  spare_.run("shop", R"({"create":"rates","timeseries":{"timeField":"t"}})");
  production_.run("shop", R"({"drop":"rates"})");
  restore_here();
  production_.run("shop",
                  R"({"update":"mixed","updates":[{"q":{"_id":1},"u":{"$set":{"name":"b"}}}]})");
  Result<PromotePlan> planned = plan(options());
  ASSERT_TRUE(planned) << planned.error().message();
  ASSERT_EQ(planned->refused.size(), 2U);
  EXPECT_EQ(planned->refused[0].ns, "shop.mixed");
  EXPECT_EQ(planned->refused[1].ns, "shop.rates");
  StopsAt observer;
  const Result<PromoteReport> refused = promote(*planned, observer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(observer.points(), IsEmpty());
  EXPECT_EQ(undo().error().code, Code::kNotFound);

  PromoteOptions none = options();
  none.limit.reset();
  EXPECT_EQ(plan(std::move(none)).error().code, Code::kInvalidArgument);
  PromoteOptions early = options();
  early.limit = Timestamp{.seconds = 1, .ordinal = 1};
  EXPECT_EQ(plan(std::move(early)).error().code, Code::kOutOfRange);
  PromoteOptions itself = options();
  itself.from = itself.to;
  EXPECT_EQ(plan(std::move(itself)).error().code, Code::kInvalidArgument);
}

TEST_F(Promote, OneRunAtATime) {
  restore_here();
  production_.run("shop",
                  R"({"update":"orders","updates":[{"q":{"_id":1},"u":{"$set":{"total":7}}}]})");
  Result<PromotePlan> first = plan(options());
  ASSERT_TRUE(first) << first.error().message();

  // Another takes over while the first is at work.
  class TakesOver final : public Observer {
   public:
    explicit TakesOver(std::function<void()> other) : other_(std::move(other)) {}
    Result<void> about_to(std::string_view what) override {
      if (what == "reach load") std::exchange(other_, [] {})();
      return {};
    }

   private:
    std::function<void()> other_;
  };
  std::optional<Result<PromoteReport>> second;
  TakesOver watch([&] { second.emplace(go()); });
  const Result<PromoteReport> report = promote(*first, watch);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnavailable) << report.error().message();
  ASSERT_TRUE(second && *second) << (second ? second->error().message() : "never ran");

  PromoteOptions other = options();
  other.filter = *NamespaceFilter::of({"shop.stock"}, {});
  EXPECT_EQ(plan(std::move(other)).error().code, Code::kAlreadyExists);
}

}  // namespace
}  // namespace idmint::restore
