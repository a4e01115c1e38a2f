// How fast idmint-restore makes a base backup of a replica set of one member with a cache of 1 GB,
// into a folder that is synced at its end:
//
//   dump_bench [DOCUMENTS [BYTES [INDEXES]]]
//
// 1,000,000 documents of 200 bytes without further indexes if nothing is given, in one collection
// and in four, by one reader and by four. Beside it the limits of this machine: bare loops of find
// by libmongoc, which count the bytes and keep nothing, with one cursor, and with four: one for
// each collection, or for each range of _id where there is one collection. Once more these four
// write what they read into files, by stdio, and sync them. The median of three.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/restore_work.h"
#include "restore/backup/dump.h"
#include "restore/backup/ranges.h"
#include "restore/collections.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

constexpr int kRuns = 3;
constexpr unsigned kReaders = 4;

struct Work {
  std::int32_t documents = 1'000'000;
  std::size_t bytes = 200;  // of a document
  int indexes = 0;
};

std::string name_of(int collection) { return "c" + std::to_string(collection); }

void fill(Server& server, const Work& work, int collections) {
  for (int c = 0; c < collections; ++c) {
    BsonArray indexes;
    int number = 0;
    for (const Bson& each : collection_of_bench(c, work.indexes).indexes)
      indexes.items.add(std::to_string(number++).c_str(), each);
    const Bson index = Bson("createIndexes", name_of(c), "indexes", indexes);
    need(server.command("bench", index));
    mongoc_collection_t* const collection =
        mongoc_client_get_collection(server.client(), "bench", name_of(c).c_str());
    for (std::int32_t id = 0; id < work.documents / collections;) {
      mongoc_bulk_operation_t* const bulk =
          mongoc_collection_create_bulk_operation_with_opts(collection, nullptr);
      for (int i = 0; i < 10'000; ++i)
        mongoc_bulk_operation_insert(
            bulk, document_of(id++, static_cast<int>(work.bytes), work.indexes).get());
      bson_error_t error{};
      if (mongoc_bulk_operation_execute(bulk, nullptr, &error) == 0)
        need<void>(std::unexpected(told("insert", error)));
      mongoc_bulk_operation_destroy(bulk);
    }
    mongoc_collection_destroy(collection);
  }
}

// `path`: a file to write, or empty.
void find_all(Server& server, int c, const IdRange& range, const std::string& path = "") {
  std::FILE* const file = path.empty() ? nullptr : std::fopen(path.c_str(), "wb");
  if (!path.empty() && file == nullptr)
    need<void>(std::unexpected(Error{Code::kUnavailable, "cannot make " + path}));
  mongoc_collection_t* const collection =
      mongoc_client_get_collection(server.client(), "bench", name_of(c).c_str());
  const Bson all;
  Bson options;
  if (range.min || range.max) options.append("hint", Bson("_id", 1));
  if (range.min) options.append("min", range.min);
  if (range.max) options.append("max", range.max);
  mongoc_cursor_t* const cursor =
      mongoc_collection_find_with_opts(collection, all.get(), options.get(), nullptr);
  const bson_t* document = nullptr;
  std::size_t bytes = 0;
  while (mongoc_cursor_next(cursor, &document)) {
    bytes += document->len;
    if (file != nullptr) std::fwrite(bson_get_data(document), 1, document->len, file);
  }
  bson_error_t error{};
  if (bytes == 0 || mongoc_cursor_error(cursor, &error))
    need<void>(std::unexpected(told("find", error)));
  if (file != nullptr) {
    const bool written = std::fflush(file) == 0 && ::fsync(fileno(file)) == 0;
    if (std::fclose(file) != 0 || !written)
      need<void>(std::unexpected(Error{Code::kUnavailable, "cannot write " + path}));
  }
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(collection);
}

template <class Do>
void measure(const std::string& what, Server& server, const Work& work, const Do& run_once) {
  const double megabytes =
      static_cast<double>(work.documents) * static_cast<double>(work.bytes) / 1e6;
  std::vector<Cost> costs;
  forget_most_memory();
  for (int run = 0; run <= kRuns; ++run) {  // the first warms up
    const Cost cost = cost_of(server, run_once);
    if (run != 0) costs.push_back(cost);
  }
  std::ranges::sort(costs, {}, &Cost::seconds);
  const Cost& median = costs[kRuns / 2];
  std::printf(
      "%-50s %4.0f MB/s (%.0f to %.0f); processor: ours %.2f s, mongod %.2f s, of %.2f s; %.0f MB; "
      "load %s\n",
      what.c_str(), megabytes / median.seconds, megabytes / costs.back().seconds,
      megabytes / costs.front().seconds, median.ours, median.servers, median.seconds, most_memory(),
      load_average().c_str());
  std::fflush(stdout);
}

// The ranges that a dump reads of the collection c0.
std::vector<IdRange> ranges_of(const std::string& uri, const Work& work) {
  Member member = need(Member::choose(need(Server::connect(uri))));
  Server server = need(Server::connect(uri));
  const std::vector<CollectionFacts> all = need(list_collections(server));
  const auto c0 = std::ranges::find(all, "bench.c0", &CollectionFacts::ns);
  return need(split(member, *c0, work.documents, DumpPace{}.range));
}

void measure(const Work& work, int collections) {
  servers::MongoSet set({.members = 1});
  const std::string uri = set.url("");
  Server server = need(Server::connect(uri));
  fill(server, work, collections);
  const std::string of = std::to_string(collections) + " collections, ";
  fakes::TempFolder folder;
  int number = 0;
  for (const unsigned readers : {1U, kReaders}) {
    for (const bool gzip : {false, true}) {
      measure(of + "dump" + (gzip ? " --gzip" : "") + " --readers " + std::to_string(readers),
              server, work, [&] {
                const std::string path = folder.path("base" + std::to_string(number++));
                need(dump(need(Server::connect(uri)), {.path = path, .gzip = gzip},
                          [](std::int64_t, std::int64_t) -> Result<void> { return {}; },
                          {.readers = readers}));
                std::filesystem::remove_all(path);
              });
    }
  }
  measure(of + "bare find, one after the other", server, work, [&] {
    Server reader = need(server.another());
    for (int c = 0; c < collections; ++c) find_all(reader, c, {});
  });
  const std::vector<IdRange> ranges =
      collections == 1 ? ranges_of(uri, work) : std::vector<IdRange>{};
  const std::size_t parts = std::max(ranges.size(), static_cast<std::size_t>(collections));
  for (const bool written : {false, true}) {
    const std::string how = written ? " parts, written" : " parts";
    measure(of + "bare find, side by side, " + std::to_string(parts) + how, server, work, [&] {
      const auto path = [&](std::size_t i) {
        return written ? folder.path("part" + std::to_string(i)) : std::string();
      };
      std::atomic<std::size_t> next = 0;
      std::vector<std::jthread> readers;
      for (unsigned r = 0; r < kReaders; ++r)
        readers.emplace_back([&, reader = std::make_shared<Server>(need(server.another()))] {
          for (std::size_t i = next++; i < parts; i = next++)
            ranges.empty() ? find_all(*reader, static_cast<int>(i), {}, path(i))
                           : find_all(*reader, 0, ranges[i], path(i));
        });
    });
  }
}

}  // namespace
}  // namespace idmint::restore

int main(int argc, char** argv) {
  idmint::restore::Work work;
  if (argc > 1) work.documents = std::atoi(argv[1]);
  if (argc > 2) work.bytes = static_cast<std::size_t>(std::atoi(argv[2]));
  if (argc > 3) work.indexes = std::atoi(argv[3]);
  for (const int collections : {1, 4}) idmint::restore::measure(work, collections);
}
