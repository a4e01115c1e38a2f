// A replica set of one member, for server_bench, and the recipe of one findAndModify for each id on
// it.
//
// Prints the URL of the set. For each line "CALLERS SECONDS" of its input it has so many callers
// take ids for so long, and prints "IDS_PER_SECOND P50_MS P99_MS". Ends, with the set, when its
// input does.
#include <mongoc/mongoc.h>

#include <chrono>
#include <cstddef>
#include <iostream>

#include "load.h"
#include "recipe.h"
#include "tests/servers/mongo.h"

int main() {
  using namespace idmint;
  mongoc_init();
  servers::MongoSet set({.members = 1});
  std::cout << set.url("bench") << std::endl;
  std::size_t callers = 0;
  double seconds = 0;
  while (std::cin >> callers >> seconds) {
    bench::Recipe recipe(set.url("bench"), callers);
    const bench::Figures is = bench::blocking(
        callers,
        std::chrono::duration_cast<bench::Steady::duration>(std::chrono::duration<double>(seconds)),
        [&] { return recipe.caller(); });
    std::cout << is.ids_per_second << ' ' << is.p50_ms << ' ' << is.p99_ms << std::endl;
  }
}
