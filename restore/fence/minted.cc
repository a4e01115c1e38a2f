#include "restore/fence/minted.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <variant>

#include "base/quantity.h"
#include "base/shell.h"
#include "engines/mongodb/names.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "restore/collections.h"
#include "restore/fence/handed_out.h"
#include "restore/fence/server_state.h"
#include "restore/oplog/reader.h"

namespace idmint::restore {
namespace {

// The values in one command. An argument of a program has at most 128 KiB.
constexpr std::size_t kValuesAtOnce = 1000;

// A store of idmint in both states.
struct StoreStates {
  const HandedOutStore& restored;
  const HandedOutStore& reached;  // in production, according to the oplog
};

// A counter that production moved past its restored value.
struct MovedCounter {
  std::int64_t restored = 0;  // the next value
  std::int64_t reached = 0;   // the next value in production
  std::int64_t stride = 1;

  [[nodiscard]] std::int64_t last_value() const { return reached - stride; }
};

std::optional<MovedCounter> moved_counter(const StoreStates& states, const std::string& name) {
  const auto restored = states.restored.counters.find(name);
  const auto reached = states.reached.counters.find(name);
  if (restored == states.restored.counters.end() || reached == states.reached.counters.end() ||
      reached->second.next <= restored->second.next)
    return std::nullopt;
  return MovedCounter{.restored = restored->second.next,
                      .reached = reached->second.next,
                      .stride = restored->second.stride};
}

// Reads to the end: skipped entries may be before the limit.
Result<HandedOut> read_dump(const std::string& path, Timestamp after, Timestamp limit,
                            const HandedOutStores& restored) {
  Result<OplogReader> oplog =
      OplogReader::open(path, {.span = {.from = after}, .over_holes = true});
  if (!oplog) return error_in(oplog);
  WatchedFields watched;
  watch_adopted(restored, watched);
  HandedOutReader reader(std::move(watched), limit, HandedOutReader::kMostDocuments,
                         HandedOutScope::kStores);
  for (;;) {
    const Result<std::optional<Entry>> read = oplog->next();
    if (!read) return error_in(read);
    const std::optional<Entry>& entry = *read;
    if (!entry) break;
    if (Result<void> taken = reader.add(*entry); !taken) return error_in(taken);
  }
  HandedOut found = reader.finish();
  take_adopted(found, restored, found.stores);
  return found;
}

// The arguments behind `idmint raise NAME`, one text per command.
std::vector<std::string> raises(const StoreStates& states, const SequenceDefinition& definition) {
  const std::optional<MovedCounter> only = moved_counter(states, definition.name);
  switch (definition.strategy) {
    case Strategy::kPermuted:  // the indices of the first N values are 0 to N - 1
      if (only) return {" --past " + std::to_string(only->reached)};
      return {};
    case Strategy::kCounter:
    case Strategy::kCached:
      if (only) return {" --past " + std::to_string(only->last_value())};
      return {};
    case Strategy::kInterleaved:
      if (definition.is_multi_store()) {  // its only counter here
        if (only) return {" --past-each " + std::to_string(only->last_value())};
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
  const auto& counters = states.restored.counters;
  for (auto at = counters.lower_bound(prefix);
       at != counters.end() && at->first.starts_with(prefix); ++at) {
    const std::optional<MovedCounter> moved = moved_counter(states, at->first);
    if (!moved) continue;
    if (count++ % kValuesAtOnce == 0) {
      all.emplace_back(" --past-each ");
    } else {
      all.back() += ',';
    }
    all.back() += std::to_string(moved->last_value());
  }
  return all;
}

// The start of the last time unit below the bound.
std::string time_below(const SnowflakeLayout& layout, std::int64_t bound) {
  return format_exact_time(layout.epoch + layout.unit * (bound - 1));
}

void advise_pool(const StoreStates& states, const PoolDefinition& pool, const std::string& store,
                 IssuedValues& minted) {
  const std::string workers = stores::mongodb::collection_of("idmint.workers", minted.name);
  const auto reached = states.reached.bounds.find(workers);
  const auto bound = states.restored.bounds.find(workers);
  if (reached != states.reached.bounds.end() && bound != states.restored.bounds.end() &&
      reached->second > bound->second)
    minted.commands.push_back("idmint workers raise " + shell_word(minted.name) + " --past " +
                              time_below(pool.layout, reached->second) + " --store " + store);
}

void advise(const StoreStates& states, const Definition& restored, const std::string& store,
            IssuedValues& minted) {
  const std::string name = shell_word(minted.name);
  const auto later = states.reached.definitions.find(minted.name);
  const bool changed = later != states.reached.definitions.end();
  if (changed && is_retired(later->second)) {
    minted.commands.push_back("idmint retire " + name + " --store " + store);
    return;
  }
  if (const auto* const pool = std::get_if<PoolDefinition>(&restored)) {
    advise_pool(states, *pool, store, minted);
    return;
  }
  const auto& sequence = std::get<SequenceDefinition>(restored);
  if (sequence.strategy == Strategy::kRandom) {
    const std::string collection = stores::mongodb::collection_of("idmint.claims", minted.name);
    const auto claims = states.reached.claims.find(collection);
    if (claims == states.reached.claims.end()) return;
    minted.note = print_count(static_cast<double>(claims->second.size())) +
                  " of its values were claimed after the limit and can come again. While "
                  "production still has their claims, bring them over: mongodump --uri "
                  "\"$PRODUCTION\" --db " +
                  shell_word(minted.database) + " --collection " + shell_word(collection) +
                  " --archive | mongorestore --uri " + store +
                  " --archive; otherwise retire it, and go on with another";
    return;
  }
  if (sequence.strategy == Strategy::kGapless) {
    const std::optional<MovedCounter> moved = moved_counter(states, minted.name);
    if (!moved) return;
    minted.note = "its numbers " + std::to_string(moved->restored) + " to " +
                  std::to_string(moved->last_value()) +
                  " were given to documents after the limit. They come again, as these documents "
                  "are gone as well; where they must not, retire it, and go on with one that is "
                  "made with --start " +
                  std::to_string(moved->reached);
    return;
  }
  std::vector<std::string> all = raises(states, sequence);
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

// Adds the sources of a store: those that are restored, and those that were created after the
// limit.
void add_sources(const std::string& database, const StoreStates& states, const std::string& store,
                 IssuedReport& report) {
  const auto& [restored, reached] = states;
  std::set<std::string> names;
  for (const auto& [name, definition] : restored.definitions) names.insert(name);
  for (const auto& [name, why] : restored.unreadable) names.insert(name);
  for (const std::string& name : names) {
    IssuedValues minted{.database = database, .name = name};
    const auto definition = restored.definitions.find(name);
    if (definition == restored.definitions.end()) {
      minted.note = "its definition cannot be read: see idmint list with the idmint that made it";
    } else {
      if (is_retired(definition->second)) continue;
      minted.strategy = strategy_name(definition->second);
      if (report.until) advise(states, definition->second, store, minted);
    }
    report.sources.push_back(std::move(minted));
  }
  for (const auto& [name, definition] : reached.definitions) {
    if (names.contains(name) || is_retired(definition)) continue;
    report.sources.push_back(
        {.database = database,
         .name = name,
         .strategy = std::string(strategy_name(definition)),
         .note = "it was made after the limit and is gone: made again it would begin "
                 "anew and repeat its values; give it another name"});
  }
}

// For commands: without the mark of redacted(), idmint asks for the password.
std::string without_hidden_password(std::string uri) {
  constexpr std::string_view kHidden = ":***@";
  if (const std::size_t at = uri.find(kHidden); at != std::string::npos)
    uri.replace(at, kHidden.size(), "@");
  return uri;
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

Result<IssuedReport> find_minted(Server& server, const NamespaceFilter& filter,
                                 const std::string& oplog, Timestamp after, Timestamp limit) {
  const Result<std::vector<std::string>> databases = list_databases(server);
  if (!databases) return error_in(databases);
  HandedOutStores restored;
  for (const std::string& database : *databases) {
    if (!filter.includes_database(database)) continue;
    Result<HandedOutStore> store = read_store(server, database);
    if (!store) return error_in(store);
    if (!store->definitions.empty() || !store->unreadable.empty())
      restored.emplace(database, *std::move(store));
  }
  IssuedReport report;
  if (restored.empty()) return report;
  HandedOutStores reached;
  if (!oplog.empty()) {
    Result<HandedOut> found = read_dump(oplog, after, limit, restored);
    if (!found) return error_in(found);
    report.until = found->last.ts;
    reached = std::move(found->stores);
  }
  for (const auto& [database, store] : restored)
    add_sources(database, {store, reached[database]},
                shell_word(with_database(without_hidden_password(server.shown_uri()), database)),
                report);
  return report;
}

}  // namespace idmint::restore
