// How fast idmint-restore replays an oplog, on a standalone mongod with a cache of 1 GB. The median
// of three.
//
//   replay_bench [mixed|hot]
//
// - mixed: 200,000 entries, of which 50 % insert, 40 % update and 10 % delete documents of 200
//   bytes, in one collection and in four.
// - hot: 1,000,000 updates of 100 counters. Half of them only count, half set a date too, as
//   sessions with retryable writes log them: 340 bytes each. Beside it a bare loop that applies
//   each of the first 200,000 by itself, 1000 in an applyOps, and one that only reads the file.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/restore_work.h"
#include "restore/oplog/check.h"
#include "restore/oplog/reader.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/replay.h"
#include "restore/server.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

constexpr int kEntries = 200'000;
constexpr int kHotEntries = 1'000'000;
constexpr int kPlainEntries = 200'000;
constexpr int kCounters = 100;

void write_oplog(const std::string& path, int collections) {
  std::ofstream file(path, std::ios::binary);
  std::mt19937 random(1);
  std::uint32_t ordinal = 0;
  const auto put = [&](const char* op, const std::string& ns, const Bson& o, const Bson& o2) {
    Bson entry = Bson("op", op, "ns", ns);
    entry.add_binary("ui", BSON_SUBTYPE_UUID, "0123456789abcdef").append("o", o);
    if (o2) entry.append("o2", o2);
    entry.append("ts", BsonTimestamp{1'800'000'000, ++ordinal}, "t", std::int64_t{1}, "v",
                 std::int64_t{2}, "wall", std::chrono::milliseconds(1'800'000'000'000));
    file.write(reinterpret_cast<const char*>(bson_get_data(entry.get())), entry.get()->len);
  };
  std::vector<std::vector<int>> ids(static_cast<std::size_t>(collections));
  for (std::size_t c = 0; c < ids.size(); ++c)
    put("c", "bench.$cmd",
        Bson("create", "c" + std::to_string(c), "idIndex",
             Bson("v", 2, "key", Bson("_id", 1), "name", "_id_")),
        Bson::none());
  const std::string text(160, 'x');
  for (int i = 0; i < kEntries; ++i) {
    const std::size_t c = random() % ids.size();
    std::vector<int>& known = ids[c];
    const std::string ns = "bench.c" + std::to_string(c);
    const auto pick = random() % 10;
    if (pick < 5 || known.empty()) {
      known.push_back(i);
      put("i", ns, Bson("_id", i, "k", static_cast<int>(random() % 1000), "text", text),
          Bson::none());
      continue;
    }
    std::swap(known[random() % known.size()], known.back());
    const int id = known.back();
    if (pick < 9) {
      put("u", ns, Bson("$v", 2, "diff", Bson("u", Bson("k", static_cast<int>(random() % 1000)))),
          Bson("_id", id));
    } else {
      known.pop_back();
      put("d", ns, Bson("_id", id), Bson::none());
    }
  }
}

void write_hot_oplog(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  std::mt19937 random(1);
  const std::string zeros(32, '\0');
  const std::string_view uuid = std::string_view(zeros).substr(0, 16);
  int number = 0;
  const auto put = [&](Bson& entry) {
    constexpr int a_second = 5000;
    const int second = number / a_second;
    entry.append(
        "ts",
        BsonTimestamp{static_cast<std::uint32_t>(1'800'000'000 + second),
                      static_cast<std::uint32_t>(number % a_second + 1)},
        "t", std::int64_t{1}, "v", std::int64_t{2}, "wall",
        std::chrono::milliseconds(1'800'000'000'000 + std::int64_t{1000} * number / a_second));
    ++number;
  };
  const auto write = [&](const Bson& entry) {
    file.write(reinterpret_cast<const char*>(bson_get_data(entry.get())), entry.get()->len);
  };
  Bson create = Bson("op", "c", "ns", "shop.$cmd");
  create.add_binary("ui", BSON_SUBTYPE_UUID, uuid)
      .append("o", Bson("create", "counters", "idIndex",
                        Bson("v", 2, "key", Bson("_id", 1), "name", "_id_")));
  put(create);
  write(create);
  const auto name = [](int counter) { return "page-" + std::to_string(counter); };
  for (int i = 0; i < kCounters; ++i) {
    Bson insert = Bson("op", "i", "ns", "shop.counters");
    insert.add_binary("ui", BSON_SUBTYPE_UUID, uuid)
        .append("o",
                Bson("_id", name(i), "n", 0, "at", std::chrono::milliseconds(1'800'000'000'000)),
                "o2", Bson("_id", name(i)));
    put(insert);
    write(insert);
  }
  std::vector<int> values(kCounters);
  for (int i = 0; i < kHotEntries; ++i) {
    const auto counter = static_cast<int>(random() % kCounters);
    const int value = ++values[static_cast<std::size_t>(counter)];
    Bson updated;
    if (random() % 2 == 0) updated.add("at", std::chrono::milliseconds(1'800'000'000'000 + i / 5));
    updated.add("n", value);
    Bson update;
    update.add("lsid", std::move(Bson()
                                     .add_binary("id", BSON_SUBTYPE_UUID, uuid)
                                     .add_binary("uid", BSON_SUBTYPE_BINARY, zeros)));
    update.append("txnNumber", std::int64_t{i}, "op", "u", "ns", "shop.counters");
    update.add_binary("ui", BSON_SUBTYPE_UUID, uuid)
        .append("o", Bson("$v", 2, "diff", Bson("u", updated)), "o2", Bson("_id", name(counter)),
                "stmtId", 0);
    put(update);
    update.add("prevOpTime", Bson("ts", BsonTimestamp{}, "t", std::int64_t{-1}));
    write(update);
  }
}

// Applies the first entries of a hot oplog as they are.
void apply_each(const std::string& path, Server& server) {
  OplogReader oplog = need(OplogReader::open(path));
  const Bson create = Bson("create", "counters");
  need(server.command("shop", create));
  Operations operations;
  for (int i = 0; i < kPlainEntries; ++i) {
    const std::optional<Entry> entry = need(oplog.next());
    if (!entry) break;
    const Operation& operation = entry->operation;
    if (operation.op == Op::kCommand) continue;
    operations.append(operation.op_name, operation.ns, operation.o, operation.o2);
    if (operations.size() < 1000 && i + 1 < kPlainEntries) continue;
    const Answer answer = apply_ops(server, operations, {}, false);
    if (!answer.ok) need(Result<void>(std::unexpected(lost(server, answer))));
    operations = Operations();
  }
}

void only_read(const std::string& path) {
  OplogReader oplog = need(OplogReader::open(path));
  while (need(oplog.next())) {
  }
}

void print(const char* what, int entries, std::vector<Cost> costs) {
  std::ranges::sort(costs, {}, &Cost::seconds);
  const Cost& median = costs[costs.size() / 2];
  std::printf("%s %.0f entries/s (%.0f to %.0f; processor: ours %.2f s, mongod %.2f, of %.2f)\n",
              what, entries / median.seconds, entries / costs.back().seconds,
              entries / costs.front().seconds, median.ours, median.servers, median.seconds);
  std::fflush(stdout);
}

void measure_hot() {
  fakes::TempFolder folder;
  const std::string path = folder.path("oplog.bson");
  write_hot_oplog(path);
  std::vector<Cost> reads;
  std::vector<Cost> plain;
  std::vector<Cost> replays;
  for (int round = 0; round < 3; ++round) {
    servers::MongoServer bare;
    Server server = need(Server::connect(bare.url("")));
    reads.push_back(cost_of(server, [&] { only_read(path); }));
    plain.push_back(cost_of(server, [&] { apply_each(path, server); }));
    servers::MongoServer spare;
    Server target = need(Server::connect(spare.url("")));
    const Bson fingerprint = Bson("of", "bench");
    Record record = need(Record::begin(target, fingerprint.view()));
    need(record.reach(RunStage::kOplog));
    Transactions transactions;
    ReplayCounts counts;
    replays.push_back(cost_of(
        target, [&] { counts = need(replay_oplog(path, target, record, transactions, {}, {})); }));
    if (counts.updates != kHotEntries || counts.missed != 0) std::exit(1);
  }
  print("hot: replay", kHotEntries, replays);
  print("  each by itself, a bare loop of applyOps:", kPlainEntries, plain);
  print("  only read and parsed:", kHotEntries, reads);
  std::printf("  load %s\n", load_average().c_str());
}

void measure(int collections, unsigned workers) {
  fakes::TempFolder folder;
  const std::string path = folder.path("oplog.bson");
  write_oplog(path, collections);
  std::vector<Cost> checks;
  std::vector<Cost> replays;
  for (int round = 0; round < 3; ++round) {
    servers::MongoServer spare;
    Server target = need(Server::connect(spare.url("")));
    const Bson fingerprint = Bson("of", "bench");
    Record record = need(Record::begin(target, Document::of(fingerprint.get())));
    need(record.reach(RunStage::kOplog));
    Transactions checked;
    checks.push_back(cost_of(target, [&] { need(check_oplog(path, {}, checked, {})); }));
    Transactions transactions;
    replays.push_back(cost_of(target, [&] {
      need(replay_oplog(path, target, record, transactions, {.workers = workers}, {}));
    }));
  }
  std::ranges::sort(checks, {}, &Cost::seconds);
  std::ranges::sort(replays, {}, &Cost::seconds);
  const Cost& median = replays[1];
  std::printf(
      "%d collections, %u workers: replay %.0f entries/s (%.0f to %.0f; processor: ours "
      "%.2f s, mongod %.2f, of %.2f), check before it %.0f/s; load %s\n",
      collections, workers, kEntries / median.seconds, kEntries / replays.back().seconds,
      kEntries / replays.front().seconds, median.ours, median.servers, median.seconds,
      kEntries / checks[1].seconds, load_average().c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace idmint::restore

int main(int argc, char** argv) {
  using namespace idmint::restore;
  const std::string_view only = argc > 1 ? argv[1] : "";
  if (only != "hot") {
    for (const auto& [collections, workers] :
         {std::pair{1, 1U}, std::pair{1, 4U}, std::pair{4, 4U}})
      measure(collections, workers);
  }
  if (only != "mixed") measure_hot();
}
