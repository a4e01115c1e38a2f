// How fast idmint-restore loads a base backup: 500,000 documents of 200 bytes with one index beside
// that of _id, in one collection and in four, from a folder, into a standalone mongod with a cache
// of 1 GB, as it starts one for --spare: with its journal, and inserts that are acknowledged
// without waiting for the disk. Beside it the limit of this machine: a bare loop of insertMany by
// libmongoc, 1000 documents at a time that are in memory, and createIndexes. The median of three,
// each with a new mongod.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "bench/restore_work.h"
#include "restore/backup/base.h"
#include "restore/backup/writer.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/load.h"
#include "restore/replay/record.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

constexpr std::int32_t kDocuments = 500'000;
constexpr int kBatch = 1000;
constexpr int kRuns = 3;

std::string name_of(int collection) { return "c" + std::to_string(collection); }

Bson index_on_k() { return Bson("v", 2, "key", Bson("k", 1), "name", "k_1"); }

void make_base(const std::string& path, int collections) {
  std::vector<CollectionFacts> all;
  for (int c = 0; c < collections; ++c) {
    CollectionFacts facts;
    facts.database = "bench";
    facts.name = name_of(c);
    facts.options = Bson();
    facts.uuid = std::string(32, static_cast<char>('0' + c));
    facts.indexes.push_back(Bson("v", 2, "key", Bson("_id", 1), "name", "_id_"));
    facts.indexes.push_back(index_on_k());
    all.push_back(std::move(facts));
  }
  const auto writer = need(write_backup({.path = path, .server_version = "6.0.5"}, all));
  for (std::size_t c = 0; c < all.size(); ++c) {
    need(writer->begin(c));
    for (std::int32_t id = 0; id < kDocuments / collections; ++id) {
      const Bson bson = document_of_200_bytes(id);
      const Document document = bson.view();
      need(writer->add(c, need(writer->pack(c, std::span(&document, 1)))));
    }
    need(writer->end(c));
  }
  need(writer->finish({}));
}

struct Parts {
  Cost check{};
  Cost load{};
  Cost index{};
  [[nodiscard]] double seconds() const { return load.seconds + index.seconds; }
};

void build(Server& server, const BaseBackup& base) {
  IndexCatalog catalog;
  for (const CollectionFacts& each : base.collections()) {
    for (const Bson& index : each.indexes)
      catalog.add(each.database + "." + each.name, index.view());
  }
  need(build_indexes(server, catalog, {}));
}

Parts ours(const BaseBackup& base, unsigned writers) {
  servers::MongoServer spare;
  Server target = need(Server::connect(spare.url("")));
  const Bson fingerprint = Bson("of", "bench");
  Record record = need(Record::begin(target, Document::of(fingerprint.get())));
  Parts parts;
  parts.check =
      cost_of(target, [&] { need(base.check([](std::uint64_t) -> Result<void> { return {}; })); });
  parts.load =
      cost_of(target, [&] { need(load_base(base, target, record, {.writers = writers}, {})); });
  parts.index = cost_of(target, [&] { build(target, base); });
  return parts;
}

void insert_all(Server& server, const std::string& name, const std::vector<Bson>& documents,
                std::atomic<std::size_t>& next) {
  mongoc_collection_t* const collection =
      mongoc_client_get_collection(server.client(), "bench", name.c_str());
  const Bson options = Bson("ordered", false, "validate", false);
  for (std::size_t at = next.fetch_add(kBatch); at < documents.size();
       at = next.fetch_add(kBatch)) {
    const bson_t* batch[kBatch];
    for (std::size_t i = 0; i < kBatch; ++i) batch[i] = documents[at + i].get();
    bson_error_t error{};
    if (!mongoc_collection_insert_many(collection, batch, kBatch, options.get(), nullptr, &error))
      need<void>(std::unexpected(told("insert", error)));
  }
  mongoc_collection_destroy(collection);
}

Parts bare(const BaseBackup& base, unsigned writers, int collections) {
  std::vector<Bson> documents;
  for (std::int32_t id = 0; id < kDocuments / collections; ++id)
    documents.push_back(document_of_200_bytes(id));
  servers::MongoServer spare;
  Server target = need(Server::connect(spare.url("")));
  std::vector<std::atomic<std::size_t>> next(static_cast<std::size_t>(collections));
  Parts parts;
  parts.load = cost_of(target, [&] {
    std::vector<std::jthread> threads;
    for (unsigned w = 0; w < writers; ++w)
      threads.emplace_back([&, w, server = std::make_shared<Server>(need(target.another()))] {
        for (std::size_t i = 0; i < next.size(); ++i) {
          const std::size_t c = (i + w) % next.size();
          insert_all(*server, name_of(static_cast<int>(c)), documents, next[c]);
        }
      });
  });
  parts.index = cost_of(target, [&] { build(target, base); });
  return parts;
}

template <class Work>
void measure(const std::string& what, const Work& work) {
  std::vector<Parts> all;
  for (int run = 0; run < kRuns; ++run) all.push_back(work());
  std::ranges::sort(all, {}, &Parts::seconds);
  const Parts& median = all[kRuns / 2];
  std::printf(
      "%-42s %6.0f documents/s (%.0f to %.0f): load %.2f s (processor: ours %.2f, mongod "
      "%.2f), index %.2f s, check before it %.2f s; load %s\n",
      what.c_str(), kDocuments / median.seconds(), kDocuments / all.back().seconds(),
      kDocuments / all.front().seconds(), median.load.seconds, median.load.ours,
      median.load.servers, median.index.seconds, median.check.seconds, load_average().c_str());
  std::fflush(stdout);
}

void measure(int collections) {
  fakes::TempFolder folder;
  const std::string path = folder.path("base");
  make_base(path, collections);
  const std::unique_ptr<BaseBackup> base = need(open_base(path));
  const std::string of = std::to_string(collections) + " collections, ";
  for (const unsigned writers : {1U, 2U, 4U}) {
    const std::string by = std::to_string(writers) + " writers, ";
    measure(of + by + "restore", [&] { return ours(*base, writers); });
    measure(of + by + "bare insertMany", [&] { return bare(*base, writers, collections); });
  }
}

}  // namespace
}  // namespace idmint::restore

int main() {
  for (const int collections : {1, 4}) idmint::restore::measure(collections);
}
