// Ids from a replica set of three, beside the recipe that everybody writes first, in one run.
//
//   mongodb_bench [SECONDS [JSON]]     SECONDS: for each figure, 2, measured three times; the
//                                      median counts. JSON: a file for the figures.
//
// It starts the set by itself, on loopback. "+25 ms" is a relay between the callers and the primary
// that holds every byte back for 12.5 ms in each direction. Everything is written with write
// concern majority and journal, on both sides.
#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "idmint/gapless.h"
#include "idmint/mint.h"
#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "load.h"
#include "recipe.h"
#include "tests/servers/mongo.h"
#include "tests/servers/relay.h"

namespace {

using namespace idmint;
using namespace bench;

// ---- inserts

using Bytes = std::span<const std::byte>;

Bytes bytes_of(const bson_t* document) {
  return std::as_bytes(std::span(bson_get_data(document), document->len));
}

// A plain client inserts `documents` in one unordered command. Their _ids are numbers of 12 digits
// that never come twice, so it has no code for duplicates.
class PlainInserts {
 public:
  PlainInserts(const std::string& url, std::size_t callers) : clients_(url, callers) {}

  [[nodiscard]] std::function<void()> caller(std::int64_t documents) {
    return [this, documents, client = std::shared_ptr(clients_.pop())] {
      std::int64_t next = next_.fetch_add(documents);
      bson_t command;
      bson_init(&command);
      bson_append_utf8(&command, "insert", -1, "plain", -1);
      bson_append_bool(&command, "ordered", -1, false);
      bson_t all;
      bson_append_array_begin(&command, "documents", -1, &all);
      for (std::int64_t i = 0; i < documents; ++i) {
        bson_t one;
        bson_append_document_begin(&all, std::to_string(i).c_str(), -1, &one);
        std::array<char, 16> id{};
        std::snprintf(id.data(), id.size(), "%012lld",
                      static_cast<long long>((next++ * 382'717'261'273) % 1'000'000'000'000));
        bson_append_utf8(&one, "_id", -1, id.data(), 12);
        bson_append_utf8(&one, "name", -1, "somebody", -1);
        bson_append_document_end(&all, &one);
      }
      bson_append_array_end(&command, &all);
      Recipe::run(client.get(), &command);
      bson_destroy(&command);
    };
  }

 private:
  Recipe clients_;
  std::atomic<std::int64_t> next_{1};
};

// As everybody does it: the counter and the document in a transaction of its own.
class TransactionEach {
 public:
  TransactionEach(const std::string& url, std::size_t callers) : clients_(url, callers) {}

  [[nodiscard]] std::function<void()> caller() {
    return [client = std::shared_ptr(clients_.pop())] {
      bson_error_t error{};
      const std::unique_ptr<mongoc_client_session_t, decltype(&mongoc_client_session_destroy)>
          session(mongoc_client_start_session(client.get(), nullptr, &error),
                  mongoc_client_session_destroy);
      if (session == nullptr) fail(error.message);
      const auto work = [](mongoc_client_session_t* in, void* context, bson_t** reply,
                           bson_error_t* wrong) {
        auto* const own = static_cast<mongoc_client_t*>(context);
        bson_t options;
        bson_init(&options);
        bool ok = mongoc_client_session_append(in, &options, wrong);
        bson_t answer;
        static bson_t* const advance =
            Recipe::json(R"({"findAndModify":"recipe","query":{"_id":"COUNT"},)"
                         R"("update":{"$inc":{"COUNT":{"$numberLong":"1"}}}})");
        if (ok) {
          ok = mongoc_client_write_command_with_opts(own, "bench", advance, &options, &answer,
                                                     wrong);
          std::int64_t number = 0;
          bson_iter_t at;
          bson_iter_t count;
          if (ok && bson_iter_init(&at, &answer) &&
              bson_iter_find_descendant(&at, "value.COUNT", &count))
            number = bson_iter_as_int64(&count);
          if (ok) {
            bson_t command;
            bson_init(&command);
            bson_append_utf8(&command, "insert", -1, "bills", -1);
            bson_t all;
            bson_t one;
            bson_append_array_begin(&command, "documents", -1, &all);
            bson_append_document_begin(&all, "0", -1, &one);
            bson_append_utf8(&one, "name", -1, "somebody", -1);
            bson_append_int64(&one, "number", -1, number);
            bson_append_document_end(&all, &one);
            bson_append_array_end(&command, &all);
            bson_destroy(&answer);
            ok = mongoc_client_write_command_with_opts(own, "bench", &command, &options, &answer,
                                                       wrong);
            bson_destroy(&command);
          }
          if (!ok) {
            *reply = bson_copy(&answer);  // its labels say whether to begin again
          }
          bson_destroy(&answer);
        }
        bson_destroy(&options);
        return ok;
      };
      mongoc_transaction_opt_t* const options = mongoc_transaction_opts_new();
      mongoc_write_concern_t* const concern = mongoc_write_concern_new();
      mongoc_write_concern_set_w(concern, MONGOC_WRITE_CONCERN_W_MAJORITY);
      mongoc_write_concern_set_journal(concern, true);
      mongoc_transaction_opts_set_write_concern(options, concern);
      bson_t reply;
      const bool ok = mongoc_client_session_with_transaction(session.get(), work, options,
                                                             client.get(), &reply, &error);
      bson_destroy(&reply);
      mongoc_write_concern_destroy(concern);
      mongoc_transaction_opts_destroy(options);
      if (!ok) fail(error.message);
    };
  }

 private:
  Recipe clients_;
};

// ---- the table

using Runs = std::array<Figures, 3>;

Figures median(Runs runs) {
  std::ranges::sort(runs, {}, &Figures::ids_per_second);
  return runs[1];
}

Figures median(const std::function<Figures()>& measure) {
  Runs runs{};
  for (Figures& run : runs) run = measure();
  return median(runs);
}

// In turns, so that what slows the machine down, or fills the servers, slows down both.
std::pair<Figures, Figures> medians(const std::function<Figures()>& recipe,
                                    const std::function<Figures()>& ours) {
  Runs theirs{};
  Runs own{};
  for (std::size_t i = 0; i < own.size(); ++i) {
    theirs[i] = recipe();
    own[i] = ours();
  }
  return {median(theirs), median(own)};
}

struct Row {
  std::string what;
  std::string delay;
  std::size_t callers;
  Figures recipe;
  Figures ours;
};

void print(const Row& row) {
  std::printf(
      "%-34s %8s %7zu %10.0f %9.2f %9.2f %10.0f %9.2f %9.2f %8.2fx\n", row.what.c_str(),
      row.delay.c_str(), row.callers, row.recipe.ids_per_second, row.recipe.p50_ms,
      row.recipe.p99_ms, row.ours.ids_per_second, row.ours.p50_ms, row.ours.p99_ms,
      row.recipe.ids_per_second > 0 ? row.ours.ids_per_second / row.recipe.ids_per_second : 0.0);
  std::fflush(stdout);
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream out(path);
  const auto figures = [&](const char* name, const Figures& is) {
    out << ", \"" << name << "\": {\"ids_per_second\": " << is.ids_per_second
        << ", \"p50_ms\": " << is.p50_ms << ", \"p99_ms\": " << is.p99_ms
        << ", \"p999_ms\": " << is.p999_ms << "}";
  };
  out << "[";
  const char* before = "\n";
  for (const Row& row : rows) {
    out << std::exchange(before, ",\n") << "  {\"what\": \"" << row.what << "\", \"delay\": \""
        << row.delay << "\", \"callers\": " << row.callers;
    figures("recipe", row.recipe);
    figures("idmint", row.ours);
    out << "}";
  }
  out << "\n]\n";
  if (!out.flush()) fail("could not write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const auto duration =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
  if (duration <= Steady::duration::zero()) fail("SECONDS is a number above 0");
  mongoc_init();

  servers::MongoSet& set = servers::mongo_set();
  servers::Relay relay(set.member(set.primary()).port());
  relay.delay(std::chrono::microseconds{12'500});
  const std::string near = set.url("bench");
  const std::string far = "mongodb://" + relay.host() + "/bench?directConnection=true";

  std::vector<Row> rows;
  std::printf("%-34s %8s %7s %30s %30s\n%51s %10s %9s %9s %10s %9s %9s %9s\n", "", "", "",
              "the plain recipe", "idmint", "callers", "ids/s", "p50 ms", "p99 ms", "ids/s",
              "p50 ms", "p99 ms", "");
  const auto add = [&](Row row) {
    print(row);
    rows.push_back(std::move(row));
  };
  for (const auto& [url, delay] : {std::pair{near, "none"}, std::pair{far, "+25 ms"}}) {
    const auto store = checked(Store::open(url));
    checked(create_sequence(*store, {.name = "counter"}));
    for (const std::size_t callers : {1U, 16U, 64U, 256U, 1000U}) {
      Recipe recipe(url, callers);
      const auto sequence = checked(Sequence::open(*store, "counter"));
      const auto [theirs, ours] =
          medians([&] { return blocking(callers, duration, [&] { return recipe.caller(); }); },
                  [&] { return blocking(*sequence, callers, duration); });
      add({"counter, one id a call", delay, callers, theirs, ours});
    }
  }
  {
    const auto store = checked(Store::open(far));
    add({"counter, asynchronous", "+25 ms", 32'768, {}, median([&] {
           const auto sequence = checked(CounterSequence::open(*store, "counter"));
           return asynchronous(*sequence, 32'768, duration);
         })});
    checked(create_sequence(*store, {.name = "cached", .strategy = Strategy::kCached}));
    const auto sequence = checked(CachedSequence::open(*store, "cached"));
    const std::vector<float> took = a_million_a_second(1, duration, duration, [&] {
      if (checked(sequence->next()) == 0) fail("there is no value 0");
    });
    const auto at = [&](double share) {
      return took[static_cast<std::size_t>(share * static_cast<double>(took.size() - 1))];
    };
    std::printf(
        "cached range, +25 ms, 1 M ids/s demanded of one thread: p50 %.2f us, p99 %.2f us, "
        "p99.9 %.2f us\n",
        static_cast<double>(at(0.5)), static_cast<double>(at(0.99)),
        static_cast<double>(at(0.999)));
  }
  {
    constexpr std::int64_t kDocuments = 10'000;
    PlainInserts plain(near, 1);
    auto collection = checked(mongodb::Collection::open(near, "accounts"));
    Mint mint;
    const auto source = checked(mint.source("digits", {.digits = DigitsLayout{.digits = 12}}));
    bson_t* const document = Recipe::json(R"({"name":"somebody"})");
    const std::vector<Bytes> documents(kDocuments, bytes_of(document));
    const auto insert = [&] {
      if (!mongodb::insert_with_id(collection, *source, documents)) fail("an insert was refused");
    };
    const auto [theirs, ours] = medians(
        [&] { return blocking(1, duration, [&] { return plain.caller(kDocuments); }, kDocuments); },
        [&] { return blocking(1, duration, [&] { return insert; }, kDocuments); });
    add({"documents, 10,000 a call, 12 digits", "none", 1, theirs, ours});
    TransactionEach each(near, 64);
    const auto store = checked(Store::open(near));
    checked(create_sequence(*store, {.name = "bills", .strategy = Strategy::kGapless}));
    const auto gapless =
        checked(GaplessInserter::open(*store, "bills", "bench.gapless_bills", "number"));
    const auto [one_by_one, together] = medians(
        [&] { return blocking(64, duration, [&] { return each.caller(); }); },
        [&] {
          return blocking(64, duration,
                          [&] { return [&] { checked(gapless->insert(bytes_of(document))); }; });
        });
    add({"gapless documents, one a call", "none", 64, one_by_one, together});
    bson_destroy(document);
  }
  if (argc > 2) write_json(argv[2], rows);
}
