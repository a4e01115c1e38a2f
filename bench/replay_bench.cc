// How fast idmint-restore replays an oplog: 200,000 entries, of which 50 % insert, 40 % update and
// 10 % delete documents of 200 bytes, in one collection and in four, on a standalone mongod with a
// cache of 1 GB. The median of three.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "bench/restore_work.h"
#include "restore/oplog/check.h"
#include "restore/replay/replay.h"
#include "restore/server.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

constexpr int kEntries = 200'000;

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

int main() {
  for (const auto& [collections, workers] : {std::pair{1, 1U}, std::pair{1, 4U}, std::pair{4, 4U}})
    idmint::restore::measure(collections, workers);
}
