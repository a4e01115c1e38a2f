// The classic procedure from end to end: programs mint by every strategy and by hand before, during
// and after; a mistake; dump, oplog, find, run, verify, fence, promote, with kills in between;
// programs go on. Afterwards a program of its own looks for an id that came twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "idmint/gapless.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "restore/promote/record.h"
#include "restore/replay/state.h"
#include "restore/tests/production.h"
#include "restore/tests/program.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/gapless.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// One id as text, or why there is none.
using Mint = std::function<Result<std::string>()>;
// A fresh start of the program: what it holds in memory is gone.
using Start = std::function<Result<Mint>()>;

// A program that takes one id after the other and writes each down, whatever happens. It is started
// anew where its store has gone back, as an operator would, and after many failures in a row.
class MintingProgram {
 public:
  MintingProgram(std::string name, std::string file, Start start)
      : name_(std::move(name)),
        file_(std::move(file)),
        start_(std::move(start)),
        thread_([this] { work(); }) {}
  ~MintingProgram() { end(); }
  MintingProgram(const MintingProgram&) = delete;
  MintingProgram& operator=(const MintingProgram&) = delete;

  void end() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string last_error() {
    const std::lock_guard lock(mutex_);
    return last_error_;
  }

 private:
  void work() {
    std::ofstream ids(file_, std::ios::app);
    constexpr int many = 40;
    while (!end_) {
      const Result<Mint> mint = start_();
      if (!mint) failed(mint.error());
      for (int failures = 0; mint && !end_ && failures < many;) {
        const Result<std::string> id = (*mint)();
        if (!id) {
          failed(id.error());
          failures = id.error().code == Code::kDataLoss ? many : failures + 1;
          continue;
        }
        failures = 0;
        ids << name_ << ' ' << *id << std::endl;
        ++count_;
        std::this_thread::sleep_for(milliseconds{3});  // a program does something else, too
      }
    }
  }
  void failed(const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      last_error_ = error.message();
    }
    std::this_thread::sleep_for(milliseconds{10});
  }

  const std::string name_;
  const std::string file_;
  const Start start_;
  std::mutex mutex_;
  std::string last_error_{};
  std::atomic<bool> end_ = false;
  std::atomic<std::size_t> count_ = 0;
  std::thread thread_;
};

constexpr const char* kShop = "shop";

const std::vector<SequenceDefinition>& sequences() {
  static const std::vector<SequenceDefinition> all = {
      {.name = "counter", .first = 1000},
      {.name = "cached", .strategy = Strategy::kCached, .step = 10},
      {.name = "blocks", .strategy = Strategy::kStriped, .last = 999'999'999, .stripes = 20},
      {.name = "turns", .strategy = Strategy::kInterleaved, .last = 999'999'999, .stripes = 3},
      {.name = "cards", .strategy = Strategy::kPermuted, .last = 999'999'999},
      {.name = "codes", .strategy = Strategy::kRandom, .last = 999'999'999},
  };
  return all;
}

Result<std::unique_ptr<Store>> open_store(const std::string& url) {
  return Store::open(url, {.deadline = seconds{5}, .create = false});
}

Start of_sequence(const std::string& url, const std::string& name) {
  return [=]() -> Result<Mint> {
    Result<std::unique_ptr<Store>> store = open_store(url);
    if (!store) return std::unexpected(std::move(store.error()));
    Result<std::unique_ptr<Sequence>> opened = Sequence::open(**store, name);
    if (!opened) return std::unexpected(std::move(opened.error()));
    const std::shared_ptr<Store> kept = *std::move(store);
    const std::shared_ptr<Sequence> sequence(opened->release(),
                                             [kept](Sequence* ended) { delete ended; });
    return Mint([sequence]() -> Result<std::string> {
      std::int64_t value = 0;
      Result<void> next = sequence->next({&value, 1}, steady_clock::now() + seconds{5});
      if (!next) return std::unexpected(std::move(next.error()));
      return std::to_string(value);
    });
  };
}

Start of_pool(const std::string& url, const std::string& name) {
  return [=]() -> Result<Mint> {
    Result<std::unique_ptr<Store>> store = open_store(url);
    if (!store) return std::unexpected(std::move(store.error()));
    auto opened = SnowflakeGenerator::open(**store, name);
    if (!opened) return std::unexpected(std::move(opened.error()));
    const std::shared_ptr<Store> kept = *std::move(store);
    const std::shared_ptr<SnowflakeGenerator> generator(
        opened->release(), [kept](SnowflakeGenerator* ended) { delete ended; });
    return Mint([generator]() -> Result<std::string> {
      std::vector<Snowflake> ids(1);
      if (auto next = generator->next(ids); !next) return std::unexpected(next.error());
      return std::to_string(ids[0].value());
    });
  };
}

// The number of an invoice, which is in the collection or nowhere.
Start of_invoices(const std::string& url) {
  return [=]() -> Result<Mint> {
    auto opened = servers::open_gapless(url, "invoices", "shop.invoices", "number");
    if (!opened) return std::unexpected(std::move(opened.error()));
    const auto inserter = std::make_shared<servers::OpenedInserter>(*std::move(opened));
    return Mint([inserter]() -> Result<std::string> {
      const Bson document = Bson("total", 1);
      const Result<std::int64_t> number =
          (*inserter)->insert(std::as_bytes(document.view().bytes()));
      if (!number) return std::unexpected(number.error());
      return std::to_string(*number);
    });
  };
}

// The program takes ids with a command of its own.
Start by_hand(const std::string& url, const std::string& json, const std::string& field) {
  return [=]() -> Result<Mint> {
    Result<Server> server = Server::connect(url);
    if (!server) return std::unexpected(std::move(server.error()));
    const auto kept = std::make_shared<Server>(*std::move(server));
    return Mint([kept, json, field]() -> Result<std::string> {
      const Bson command(json);
      const Result<Bson> reply = kept->command(kShop, command);
      if (!reply) return std::unexpected(reply.error());
      const std::optional<std::int64_t> value =
          reply->view().document("value").integer(field.c_str());
      if (!value) return fail(Code::kUnavailable, "the recipe found no document");
      return std::to_string(*value);
    });
  };
}

// A new order with an _id of the driver's kind, as good later writes are.
Start of_orders(const std::string& url) {
  return [=]() -> Result<Mint> {
    Result<Server> server = Server::connect(url);
    if (!server) return std::unexpected(std::move(server.error()));
    const auto kept = std::make_shared<Server>(*std::move(server));
    return Mint([kept]() -> Result<std::string> {
      bson_oid_t unique;
      bson_oid_init(&unique, nullptr);
      std::array<char, 25> text{};
      bson_oid_to_string(&unique, text.data());
      const Bson insert =
          Bson("insert", "orders", "documents", array(Bson("_id", text.data(), "total", 3)),
               "writeConcern", Bson("w", "majority"));
      const Result<Bson> reply = kept->command(kShop, insert);
      if (!reply) return std::unexpected(reply.error());
      if (reply->view().has("writeErrors")) return fail(Code::kUnavailable, "refused");
      return std::string(text.data());
    });
  };
}

class WayBack : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = Store::open(set_.url(kShop));
    ASSERT_TRUE(opened) << opened.error().message();
    for (const SequenceDefinition& definition : sequences())
      ASSERT_TRUE(create_sequence(**opened, definition));
    ASSERT_TRUE(create_sequence(**opened, {.name = "invoices", .strategy = Strategy::kGapless}));
    ASSERT_TRUE(create_sequence(
        **opened, {.name = "adopted", .adopted = "numbers/a:last=n", .make_adopted = true}));
    ASSERT_TRUE(create_pool(**opened, {.name = "web", .workers = 8}));
    production_.insert("shop.blocks", R"({"_id":"b","COUNT":{"$numberLong":"500"},"MAXCOUNT":
                                          {"$numberLong":"999999999"},"NOTES":"by hand"})");
    production_.run("shop", R"({"create":"invoices"})");
    for (int i = 0; i < 200; ++i)
      production_.insert("shop.orders", R"({"_id":)" + std::to_string(i) + R"(,"total":)" +
                                            std::to_string(i) + "}");
  }

  void start_programs() {
    const std::string url = set_.url(kShop);
    for (const SequenceDefinition& each : sequences())
      start(each.name, of_sequence(url, each.name));
    start("adopted", of_sequence(url, "adopted"));
    start("web", of_pool(url, "web"));
    start("invoices", of_invoices(url));
    start("seq", by_hand(url, R"({"findAndModify":"counters","query":{"_id":"users"},
        "update":{"$inc":{"seq":{"$numberLong":"1"}}},"upsert":true,"new":true,
        "writeConcern":{"w":"majority"}})",
                         "seq"));
    start("COUNT", by_hand(url, R"({"findAndModify":"blocks","query":{"_id":"b",
        "$expr":{"$lt":["$COUNT","$MAXCOUNT"]}},"update":{"$inc":{"COUNT":{"$numberLong":"1"}}},
        "new":true,"writeConcern":{"w":"majority"}})",
                           "COUNT"));
    start("orders", of_orders(url));
  }
  void start(const std::string& name, Start how) {
    programs_.push_back(
        std::make_unique<MintingProgram>(name, folder_.path("ids." + name), std::move(how)));
  }
  void end_programs() {
    for (const auto& each : programs_) each->end();
  }
  // Each of them has taken so many more.
  void await_ids(std::size_t more) {
    std::vector<std::size_t> goals;
    for (const auto& each : programs_) goals.push_back(each->count() + more);
    const steady_clock::time_point limit = steady_clock::now() + std::chrono::minutes{2};
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      while (programs_[i]->count() < goals[i] && steady_clock::now() < limit)
        std::this_thread::sleep_for(milliseconds{10});
      EXPECT_GE(programs_[i]->count(), goals[i])
          << programs_[i]->name() << " does not go on: " << programs_[i]->last_error();
    }
  }

  Ended restore(std::vector<std::string> words) { return Program(folder_, std::move(words)).end(); }
  std::string restored(std::vector<std::string> words) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    const Ended ended = restore(std::move(words));
    EXPECT_EQ(ended.status, 0) << line << "\n" << ended.out << ended.err;
    return ended.out;
  }
  // The value behind a label of `find`.
  static std::string after(const std::string& out, const std::string& label, std::size_t from = 0) {
    const std::size_t at = out.find("\n  " + label + " ", from);
    if (at == std::string::npos) return {};
    const std::size_t begin = out.find_first_not_of(' ', at + 3 + label.size());
    return out.substr(begin, out.find_first_of(" ,\n", begin) - begin);
  }

  // Base, work, mistake, oplog, find, run, verify: up to a spare that is to be promoted.
  void up_to_the_spare(const std::function<void()>& mistake) {
    const std::string base = folder_.path("base");
    const std::string oplog = folder_.path("oplog.bson");
    const std::string to = set_.url("");
    restored({"dump", "--uri", to, "--out", base});
    await_ids(10);
    mistake();
    await_some_time();
    restored({"oplog", "--uri", to, "--base", base, "--out", oplog});
    const std::string found = restored({"find", "--oplog", oplog, "--ns", "shop.orders"});
    limit_ = after(found, "limit");
    mistake_to_ = after(found, "to");
    ASSERT_NE(limit_, "") << found;
    ASSERT_NE(mistake_to_, "") << found;
    restored(with({"run", "--base", base, "--oplog", oplog, "--limit", limit_, "--yes"},
                  spare_.words()));
    restored(with({"verify", "--oplog", oplog}, spare_.words()));
    std::ifstream facts(spare_.path() + "/idmint-restore.json");
    const std::string json{std::istreambuf_iterator<char>(facts), {}};
    const std::size_t port = json.find("\"port\":") + 7;
    from_ = "mongodb://127.0.0.1:" +
            json.substr(port, json.find_first_not_of(" 0123456789", port) - port) +
            "/?directConnection=true";
    std::erase(from_, ' ');
  }
  void fence_the_spare() {
    restored({"fence", "--target", from_, "--live", set_.url(""), "--limit", limit_, "--leave-gap",
              "--report", folder_.path("fence"), "--yes"});
  }
  // Programs that can go on do, with the mistake made.
  void await_some_time() {
    const std::size_t goal = programs_.back()->count() + 20;
    while (programs_.back()->count() < goal) std::this_thread::sleep_for(milliseconds{5});
  }

  [[nodiscard]] std::vector<std::string> promote_words() const {
    return {"promote",     "--from", from_,          "--to",      set_.url(""),
            "--limit",     limit_,   "--mistake-to", mistake_to_, "--merge-later",
            "--leave-gap", "--ns",   "shop",         "--yes"};
  }
  // Killed as soon as the record has the step. False: it was over before.
  bool kill_at(const std::vector<std::string>& words, PromoteStep step) {
    Program program(folder_, words);
    while (program.runs()) {
      const Result<std::optional<PromoteState>> state = PromoteRecord::look(production_.server());
      if (!state || !*state || (*state)->step < step) continue;
      program.kill();
      return true;
    }
    const Ended ended = program.end();
    EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
    return false;
  }

  // Other programs check it: every line of all histories occurs once.
  void expect_no_id_twice() {
    const std::string command = "sort " + folder_.path("ids.") + "* | uniq -d | head";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string twice;
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) twice += line.data();
    EXPECT_EQ(::pclose(pipe), 0);
    EXPECT_EQ(twice, "");
  }
  void wrong_update() {
    production_.run("shop", R"({"update":"orders","updates":[
        {"q":{"_id":{"$type":"number"}},"u":{"$set":{"total":-20}},"multi":true}]})");
  }
  std::int64_t wrong_orders() {
    const Bson reply = production_.run("shop", R"({"count":"orders","query":{"total":-20}})");
    return reply.view().number("n");
  }

  fakes::TempFolder folder_;
  servers::MongoSet set_{{.election_timeout = std::chrono::minutes{10}}};
  Production production_{set_.url("admin")};
  SpareServer spare_;
  std::vector<std::unique_ptr<MintingProgram>> programs_;
  std::string limit_{};
  std::string mistake_to_{};
  std::string from_{};
};

TEST_F(WayBack, NoIdComesTwiceThoughEachStepIsKilled) {
  start_programs();
  await_ids(20);
  // The spare is not fenced: promote draws the fence itself.
  up_to_the_spare([&] {
    wrong_update();
    for (const char* const lost : {"counters", "definitions", "workers.web", "claims.codes"})
      production_.run("shop", std::string(R"({"drop":"idmint.)") + lost + R"("})");
  });
  // Orders that came between the first and the last entry of the mistake are lost, and listed.
  const nlohmann::json plan =
      nlohmann::json::parse(restored(with(promote_words(), {"--dry-run", "--json"})));
  const auto lost = std::ranges::count_if(plan["later"], [](const nlohmann::json& each) {
    return each["ns"] == "shop.orders" && each["last"] == "insert" && each["lost"] == true;
  });
  for (const PromoteStep step :
       {PromoteStep::kBlock, PromoteStep::kFence, PromoteStep::kLoad, PromoteStep::kVerify,
        PromoteStep::kMerge, PromoteStep::kSwap, PromoteStep::kOpen})
    kill_at(promote_words(), step);
  const std::string out = restored(promote_words());
  EXPECT_THAT(out, HasSubstr("\n\nPromoted")) << "on a line of its own";
  EXPECT_EQ(wrong_orders(), 0);
  await_ids(30);
  restored({"promote", "--to", set_.url(""), "--finish", "--yes"});
  await_ids(10);
  end_programs();
  expect_no_id_twice();
  // The writes of programs after the mistake are there, too.
  const Result<std::uint64_t> orders = count_documents(production_.server(), "shop.orders");
  ASSERT_TRUE(orders);
  EXPECT_GE(*orders + static_cast<std::uint64_t>(lost), 200 + programs_.back()->count());
}

TEST_F(WayBack, NoIdComesTwiceWhereThePromotionIsGivenUp) {
  start_programs();
  await_ids(20);
  up_to_the_spare([&] { wrong_update(); });
  fence_the_spare();
  // Killed in the middle and given up, and that is killed too.
  kill_at(promote_words(), PromoteStep::kSwap);
  {
    Program undo(folder_, {"promote", "--to", set_.url(""), "--undo", "--yes"});
    for (bool begun = false; !begun && undo.runs();) {
      const Result<std::optional<PromoteState>> state = PromoteRecord::look(production_.server());
      begun = state && (!*state || (*state)->undoing);
    }
    undo.kill();
  }
  const Ended undone = restore({"promote", "--to", set_.url(""), "--undo", "--yes"});
  EXPECT_TRUE(undone.status == 0 || undone.status == 3) << undone.err;
  EXPECT_EQ(wrong_orders(), 200);
  await_ids(20);
  // Done, used, and given up after all.
  restored(promote_words());
  EXPECT_EQ(wrong_orders(), 0);
  await_ids(20);
  restored({"promote", "--to", set_.url(""), "--undo", "--yes"});
  EXPECT_EQ(wrong_orders(), 200);
  await_ids(20);
  end_programs();
  expect_no_id_twice();
}

}  // namespace
}  // namespace idmint::restore
