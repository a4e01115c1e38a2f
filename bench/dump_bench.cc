// How fast idmint-restore makes a base backup: 1,000,000 documents of 200 bytes in one collection
// and in four, of a replica set of one member with a cache of 1 GB, into a folder that is synced at
// its end. Beside it the limits of this machine: bare loops of find by libmongoc, which count the
// bytes and keep nothing, one after the other and one for each collection. The median of three.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "bench/restore_work.h"
#include "restore/backup/dump.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

constexpr std::int32_t kDocuments = 1'000'000;
constexpr int kRuns = 3;

std::string name_of(int collection) { return "c" + std::to_string(collection); }

void fill(Server& server, int collections) {
  for (int c = 0; c < collections; ++c) {
    mongoc_collection_t* const collection =
        mongoc_client_get_collection(server.client(), "bench", name_of(c).c_str());
    for (std::int32_t id = 0; id < kDocuments / collections;) {
      mongoc_bulk_operation_t* const bulk =
          mongoc_collection_create_bulk_operation_with_opts(collection, nullptr);
      for (int i = 0; i < 10'000; ++i)
        mongoc_bulk_operation_insert(bulk, document_of_200_bytes(id++).get());
      bson_error_t error{};
      if (mongoc_bulk_operation_execute(bulk, nullptr, &error) == 0)
        need<void>(std::unexpected(told("insert", error)));
      mongoc_bulk_operation_destroy(bulk);
    }
    mongoc_collection_destroy(collection);
  }
}

void find_all(Server& server, int c) {
  mongoc_collection_t* const collection =
      mongoc_client_get_collection(server.client(), "bench", name_of(c).c_str());
  const Bson all;
  mongoc_cursor_t* const cursor =
      mongoc_collection_find_with_opts(collection, all.get(), nullptr, nullptr);
  const bson_t* document = nullptr;
  std::size_t bytes = 0;
  while (mongoc_cursor_next(cursor, &document)) bytes += document->len;
  bson_error_t error{};
  if (bytes == 0 || mongoc_cursor_error(cursor, &error))
    need<void>(std::unexpected(told("find", error)));
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(collection);
}

template <class Work>
void measure(const std::string& what, Server& server, const Work& work) {
  constexpr double megabytes = kDocuments * 200 / 1e6;
  std::vector<Cost> costs;
  for (int run = 0; run <= kRuns; ++run) {  // the first warms up
    const Cost cost = cost_of(server, work);
    if (run != 0) costs.push_back(cost);
  }
  std::ranges::sort(costs, {}, &Cost::seconds);
  const Cost& median = costs[kRuns / 2];
  std::printf(
      "%-50s %4.0f MB/s (%.0f to %.0f); processor: ours %.2f s, mongod %.2f s, of %.2f s; load "
      "%s\n",
      what.c_str(), megabytes / median.seconds, megabytes / costs.back().seconds,
      megabytes / costs.front().seconds, median.ours, median.servers, median.seconds,
      load_average().c_str());
  std::fflush(stdout);
}

void measure(int collections) {
  servers::MongoSet set({.members = 1});
  const std::string uri = set.url("");
  Server server = need(Server::connect(uri));
  fill(server, collections);
  const std::string of = std::to_string(collections) + " collections, ";
  fakes::TempFolder folder;
  int number = 0;
  for (const bool gzip : {false, true}) {
    measure(of + "dump" + (gzip ? " --gzip" : ""), server, [&] {
      const std::string path = folder.path("base" + std::to_string(number++));
      need(dump(need(Server::connect(uri)), {.path = path, .gzip = gzip},
                [](std::int64_t, std::int64_t) -> Result<void> { return {}; }));
      std::filesystem::remove_all(path);
    });
  }
  measure(of + "bare find, one after the other", server, [&] {
    Server reader = need(server.another());
    for (int c = 0; c < collections; ++c) find_all(reader, c);
  });
  if (collections == 1) return;
  measure(of + "bare find, side by side", server, [&] {
    std::vector<std::jthread> readers;
    for (int c = 0; c < collections; ++c)
      readers.emplace_back([&, c, reader = std::make_shared<Server>(need(server.another()))] {
        find_all(*reader, c);
      });
  });
}

}  // namespace
}  // namespace idmint::restore

int main() {
  for (const int collections : {1, 4}) idmint::restore::measure(collections);
}
