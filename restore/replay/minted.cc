#include "restore/replay/minted.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "base/quantity.h"
#include "base/shell.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/reader.h"
#include "restore/oplog/transactions.h"
#include "restore/replay/state.h"
#include "stores/mongodb/names.h"
#include "stores/spi/counter_store.h"

namespace idmint::restore {
namespace {

constexpr std::string_view kMintedCounters = "idmint.counters";
constexpr std::string_view kDefinitions = "idmint.definitions";

// The values in one command. An argument of a program has at most 128 KiB.
constexpr std::size_t kValuesAtOnce = 1000;

// A counter: its state in the restored store, and in production according to the oplog.
struct MintedCounter {
  CounterBounds bounds{};
  std::int64_t restored = 0;  // the next value
  std::int64_t reached = 0;   // the next value in production; never below `restored`

  [[nodiscard]] bool moved() const { return reached > restored; }
  // REQUIRES: moved().
  [[nodiscard]] std::int64_t last_value() const { return reached - bounds.stride; }
};

// The field of a document that holds a counter's value.
struct CounterPlace {
  std::string counter{};
  std::string field = "next";
  bool holds_last = false;
};

// A store of idmint: a database.
struct Stored {
  std::map<std::string, Result<Definition>> definitions{};  // restored
  std::map<std::string, Definition> later{};                // the latest in the oplog
  std::map<std::string, MintedCounter> counters{};
  std::map<std::string, std::int64_t> bounds{};          // the largest of each pool, restored
  std::map<std::string, std::int64_t> reached_bounds{};  // the same, in production
  std::map<std::string, std::uint64_t> claims{};         // of random sequences, from the limit on
};
using Stores = std::map<std::string, Stored, std::less<>>;

std::optional<std::int64_t> integer_in(Document document, const char* field) {
  bson_iter_t at;
  return document.find(field, &at) ? as_integer(at) : std::nullopt;
}

std::string text_in(Document document, const char* field) {
  bson_iter_t at;
  return document.find(field, &at) ? std::string(as_text(at)) : std::string();
}

// The documents of a namespace that tell how far a counter, pool or sequence has come.
struct Watched {
  std::string database{};
  // By the bytes of {_id: ID}. In idmint.counters, counters that are not adopted need no entry: the
  // name is the _id.
  std::map<std::string, CounterPlace, std::less<>> places{};
  std::string pool{};    // the pool whose worker ids these are
  std::string random{};  // the sequence whose claims these are
};
using Watch = std::map<std::string, Watched, std::less<>>;

// {_id: ID}, for the value of a field.
Bson id_in(Document document, const char* field) {
  bson_iter_t at;
  Bson id;
  if (document.find(field, &at)) id.add("_id", &at);
  return id;
}

std::string bytes_of(const Bson& document) {
  const auto bytes = document.view().bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The place of an adopted counter's value; nullopt: the counter is idmint's own.
struct Adopted {
  std::string collection{};
  Bson id{};  // {_id: ID}
  CounterPlace place{};
};

std::optional<Adopted> adopted_in(Document record) {
  bson_iter_t at;
  if (!record.find("adopted", &at)) return std::nullopt;
  const Document place = as_document(at);
  bson_iter_t holds_last;
  return Adopted{.collection = text_in(place, "collection"),
                 .id = id_in(place, "id"),
                 .place = {.counter = text_in(record, "_id"),
                           .field = text_in(place, "field"),
                           .holds_last = place.find("holds_last", &holds_last) &&
                                         bson_iter_as_bool(&holds_last)}};
}

// The next value if the field holds this number.
std::int64_t next_of(const CounterPlace& place, std::int64_t number) {
  return place.holds_last ? number + 1 : number;
}

Result<std::int64_t> read_adopted(Server& server, const std::string& database,
                                  const Adopted& adopted) {
  const Bson command = Bson("find", adopted.collection, "filter", adopted.id, "limit", 1);
  const Result<Bson> reply = server.read(database.c_str(), command.get());
  if (!reply) return std::unexpected(reply.error());
  bson_iter_t at = reply->view().begin();
  bson_iter_t value;
  const std::string path = "cursor.firstBatch.0." + adopted.place.field;
  if (!bson_iter_find_descendant(&at, path.c_str(), &value)) return 0;
  return next_of(adopted.place, as_integer(value).value_or(0));
}

Result<void> read_counters(Server& server, const std::string& database, Stored& stored,
                           Watch& watch) {
  const std::string ns = database + "." + std::string(kMintedCounters);
  watch[ns].database = database;
  std::vector<Adopted> adopted;
  const Result<void> read = for_each_document(
      server, database, std::string(kMintedCounters), [&](Document record) -> Result<void> {
        const std::string name = text_in(record, "_id");
        MintedCounter& counter = stored.counters[name];
        counter.bounds = {.first = integer_in(record, "first").value_or(0),
                          .last = integer_in(record, "last").value_or(kLargestValue),
                          .stride = integer_in(record, "stride").value_or(1)};
        counter.restored = counter.reached = integer_in(record, "next").value_or(0);
        if (std::optional<Adopted> place = adopted_in(record)) adopted.push_back(std::move(*place));
        return {};
      });
  if (!read) return read;
  for (const Adopted& each : adopted) {
    const Result<std::int64_t> next = read_adopted(server, database, each);
    if (!next) return std::unexpected(next.error());
    MintedCounter& counter = stored.counters[each.place.counter];
    counter.restored = counter.reached = *next;
    Watched& watched = watch[database + "." + each.collection];
    watched.database = database;
    watched.places.emplace(bytes_of(each.id), each.place);
  }
  return {};
}

// Reads the restored store, and determines what to look for in the oplog.
Result<void> read_store(Server& server, const std::string& database, Stored& stored, Watch& watch) {
  Result<void> read = for_each_document(
      server, database, std::string(kDefinitions), [&](Document document) -> Result<void> {
        stored.definitions.emplace(text_in(document, "_id"),
                                   definition_from_json(text_in(document, "json")));
        return {};
      });
  if (!read || stored.definitions.empty()) return read;
  if (read = read_counters(server, database, stored, watch); !read) return read;
  for (const auto& [name, definition] : stored.definitions) {
    if (!definition) continue;
    const auto* const sequence = std::get_if<SequenceDefinition>(&*definition);
    if (sequence == nullptr) {
      const std::string workers = stores::mongodb::collection_of("idmint.workers", name);
      std::int64_t& largest = stored.bounds[name];
      read = for_each_document(server, database, workers, [&](Document row) -> Result<void> {
        largest = std::max(largest, integer_in(row, "minted_until").value_or(0));
        return {};
      });
      if (!read) return read;
      Watched& watched = watch[std::string(database).append(".").append(workers)];
      watched.database = database;
      watched.pool = name;
    } else if (sequence->strategy == Strategy::kRandom) {
      Watched& watched =
          watch[database + "." + stores::mongodb::collection_of("idmint.claims", name)];
      watched.database = database;
      watched.random = name;
    }
  }
  return {};
}

// Calls take(number) for each number that the operation writes to the field.
template <class Take>
void for_each_number(const Operation& operation, std::string_view field, const Take& take) {
  std::string path;
  for_each_change(operation.o, path, [&](std::string_view at, Change change, const Field& value) {
    if (at != field || change == Change::kUnset) return;
    if (const std::optional<std::int64_t> number = value.integer()) take(*number);
  });
}

void take_definition(const Operation& operation, const std::string& name, Stored& stored) {
  std::string path;
  for_each_change(operation.o, path, [&](std::string_view at, Change change, const Field& value) {
    if (at != "json" || change == Change::kUnset) return;
    if (Result<Definition> definition = definition_from_json(value.text()))
      stored.later.insert_or_assign(name, *std::move(definition));
  });
}

void take_operation(const Operation& operation, bool after_limit, Stores& stores,
                    const Watch& watch) {
  if (operation.op != Op::kInsert && operation.op != Op::kUpdate) return;
  const Document named = operation.op == Op::kInsert ? operation.o : operation.o2;
  if (operation.collection() == kDefinitions) {
    // A store without any restored document is not raised.
    const auto store = stores.find(operation.database());
    if (store != stores.end() && after_limit)
      take_definition(operation, text_in(named, "_id"), store->second);
    return;
  }
  const auto watched = watch.find(operation.ns);
  if (watched == watch.end()) return;
  const auto& [ns, what] = *watched;
  Stored& stored = stores.find(what.database)->second;
  if (!what.pool.empty()) {
    std::int64_t& reached = stored.reached_bounds[what.pool];
    for_each_number(operation, "minted_until",
                    [&](std::int64_t number) { reached = std::max(reached, number); });
    return;
  }
  const std::string id = text_in(named, "_id");
  if (!what.random.empty()) {
    if (operation.op == Op::kInsert && after_limit && id != "space") ++stored.claims[what.random];
    return;
  }
  const auto place = what.places.find(bytes_of(id_in(named, "_id")));
  const CounterPlace own{.counter = id};
  const CounterPlace& at = place == what.places.end() ? own : place->second;
  const auto counter = stored.counters.find(at.counter);
  if (counter == stored.counters.end()) return;
  for_each_number(operation, at.field, [&](std::int64_t number) {
    counter->second.reached = std::max(counter->second.reached, next_of(at, number));
  });
}

// Reads to the end: skipped entries may be before the limit.
Result<Timestamp> read_oplog(const std::string& path, Timestamp after, Timestamp limit,
                             Stores& stores, const Watch& watch) {
  Result<OplogReader> oplog =
      OplogReader::open(path, {.span = {.from = after}, .over_holes = true});
  if (!oplog) return std::unexpected(std::move(oplog.error()));
  Timestamp last{};
  for (;;) {
    const Result<std::optional<Entry>> read = oplog->next();
    if (!read) return std::unexpected(read.error());
    const std::optional<Entry>& entry = *read;
    if (!entry) return last;
    last = entry->at.ts;
    const Result<void> taken =
        for_each_operation(*entry, [&](const Operation& operation, std::uint32_t) -> Result<void> {
          take_operation(operation, last >= limit, stores, watch);
          return {};
        });
    if (!taken) return std::unexpected(taken.error());
  }
}

// The counter of a sequence with a single one.
const MintedCounter* only_counter(const Stored& stored, const std::string& name) {
  const auto found = stored.counters.find(name);
  return found == stored.counters.end() ? nullptr : &found->second;
}

// The arguments behind `idmint raise NAME`, one text per command.
std::vector<std::string> raises(const Stored& stored, const SequenceDefinition& definition) {
  const MintedCounter* const counter = only_counter(stored, definition.name);
  const bool moved = counter != nullptr && counter->moved();
  switch (definition.strategy) {
    case Strategy::kPermuted:  // the indices of the first N values are 0 to N - 1
      if (moved) return {" --past " + std::to_string(counter->reached)};
      return {};
    case Strategy::kCounter:
    case Strategy::kCached:
      if (moved) return {" --past " + std::to_string(counter->last_value())};
      return {};
    case Strategy::kInterleaved:
      if (definition.is_spread()) {  // its only counter here
        if (moved) return {" --past-each " + std::to_string(counter->last_value())};
        return {};
      }
      break;
    case Strategy::kStriped:
      break;
    case Strategy::kRandom:
    case Strategy::kGapless:
      return {};
  }
  std::vector<std::string> all;
  std::size_t count = 0;
  const std::string prefix = definition.name + "/";
  for (auto at = stored.counters.lower_bound(prefix);
       at != stored.counters.end() && at->first.starts_with(prefix); ++at) {
    if (!at->second.moved()) continue;
    if (count++ % kValuesAtOnce == 0) {
      all.emplace_back(" --past-each ");
    } else {
      all.back() += ',';
    }
    all.back() += std::to_string(at->second.last_value());
  }
  return all;
}

// The start of the last time unit below the bound.
std::string time_below(const SnowflakeLayout& layout, std::int64_t bound) {
  return format_exact_time(layout.epoch + layout.unit * (bound - 1));
}

void advise_pool(const Stored& stored, const PoolDefinition& pool, const std::string& store,
                 Minted& minted) {
  const auto reached = stored.reached_bounds.find(minted.name);
  const auto bound = stored.bounds.find(minted.name);
  if (reached != stored.reached_bounds.end() && bound != stored.bounds.end() &&
      reached->second > bound->second)
    minted.commands.push_back("idmint workers raise " + shell_word(minted.name) + " --past " +
                              time_below(pool.layout, reached->second) + " --store " + store);
}

void advise(const Stored& stored, const Definition& restored, const std::string& store,
            Minted& minted) {
  const std::string name = shell_word(minted.name);
  const auto later = stored.later.find(minted.name);
  const bool changed = later != stored.later.end();
  if (changed && is_retired(later->second)) {
    minted.commands.push_back("idmint retire " + name + " --store " + store);
    return;
  }
  if (const auto* const pool = std::get_if<PoolDefinition>(&restored)) {
    advise_pool(stored, *pool, store, minted);
    return;
  }
  const auto& sequence = std::get<SequenceDefinition>(restored);
  if (sequence.strategy == Strategy::kRandom) {
    const auto claims = stored.claims.find(minted.name);
    if (claims == stored.claims.end()) return;
    minted.note = print_count(static_cast<double>(claims->second)) +
                  " of its values were claimed after the limit and can come again. While "
                  "production still has their claims, bring them over: mongodump --uri "
                  "\"$PRODUCTION\" --db " +
                  shell_word(minted.database) + " --collection " +
                  shell_word(stores::mongodb::collection_of("idmint.claims", minted.name)) +
                  " --archive | mongorestore --uri " + store +
                  " --archive; otherwise retire it, and go on with another";
    return;
  }
  if (sequence.strategy == Strategy::kGapless) {
    const MintedCounter* const counter = only_counter(stored, minted.name);
    if (counter == nullptr || !counter->moved()) return;
    minted.note = "its numbers " + std::to_string(counter->restored) + " to " +
                  std::to_string(counter->last_value()) +
                  " were given to documents after the limit. They come again, as these documents "
                  "are gone as well; where they must not, retire it, and go on with one that is "
                  "made with --start " +
                  std::to_string(counter->reached);
    return;
  }
  std::vector<std::string> all = raises(stored, sequence);
  // A raise cannot go past the old end, so the end is moved first.
  const auto* const extended = changed ? std::get_if<SequenceDefinition>(&later->second) : nullptr;
  if (!all.empty() && extended != nullptr && extended->last > sequence.last)
    minted.commands.push_back("idmint alter " + name + " --max " + std::to_string(extended->last) +
                              " --store " + store);
  for (const std::string& raise : all) {
    std::string command = "idmint raise ";
    minted.commands.push_back(command.append(name).append(raise).append(" --store ").append(store));
  }
}

// Adds the sources of a store that were created after the limit.
void add_lost(const std::string& database, const Stored& stored, std::vector<Minted>& sources) {
  for (const auto& [name, definition] : stored.later) {
    if (stored.definitions.contains(name) || is_retired(definition)) continue;
    sources.push_back({.database = database,
                       .name = name,
                       .strategy = std::string(strategy_name(definition)),
                       .note = "it was made after the limit and is gone: made again it would begin "
                               "anew and repeat its values; give it another name"});
  }
}

}  // namespace

std::string with_database(std::string_view uri, std::string_view database) {
  const std::size_t scheme = uri.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t end = std::min(uri.find_first_of("/?", begin), uri.size());
  const std::size_t options = std::min(uri.find('?', end), uri.size());
  return std::string(uri.substr(0, end)) + "/" + std::string(database) +
         std::string(uri.substr(options));
}

// For commands: without the mark of redacted(), idmint asks for the password.
std::string without_hidden_password(std::string uri) {
  constexpr std::string_view kHidden = ":***@";
  if (const std::size_t at = uri.find(kHidden); at != std::string::npos)
    uri.replace(at, kHidden.size(), "@");
  return uri;
}

Result<MintedReport> find_minted(Server& server, const NamespaceFilter& filter,
                                 const std::string& oplog, Timestamp after, Timestamp limit) {
  const Result<std::vector<std::string>> databases = list_databases(server);
  if (!databases) return std::unexpected(databases.error());
  Stores stores;
  Watch watch;
  for (const std::string& database : *databases) {
    if (!filter.includes_database(database)) continue;
    Stored stored;
    if (Result<void> read = read_store(server, database, stored, watch); !read)
      return std::unexpected(std::move(read.error()));
    if (!stored.definitions.empty()) stores.emplace(database, std::move(stored));
  }
  MintedReport report;
  if (stores.empty()) return report;
  if (!oplog.empty()) {
    const Result<Timestamp> last = read_oplog(oplog, after, limit, stores, watch);
    if (!last) return std::unexpected(last.error());
    report.until = *last;
  }
  for (const auto& [database, stored] : stores) {
    const std::string store =
        shell_word(with_database(without_hidden_password(server.shown_uri()), database));
    for (const auto& [name, definition] : stored.definitions) {
      if (definition && is_retired(*definition)) continue;
      Minted minted{.database = database, .name = name};
      if (!definition) {
        minted.note = "its definition cannot be read: see idmint list with the idmint that made it";
      } else {
        minted.strategy = strategy_name(*definition);
        if (report.until) advise(stored, *definition, store, minted);
      }
      report.sources.push_back(std::move(minted));
    }
    add_lost(database, stored, report.sources);
  }
  return report;
}

}  // namespace idmint::restore
