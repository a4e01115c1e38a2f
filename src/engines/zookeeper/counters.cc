#include "store/protocol/counters.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/outcome.h"
#include "engines/key_value/step_aside.h"
#include "engines/key_value/turns.h"
#include "engines/zookeeper/tables.h"
#include "store/backend.h"
#include "store/engine.h"

namespace idmint::stores::zookeeper {
namespace {

// A counter as it was at one version.
struct Seen {
  CounterState state{};
  std::int32_t version = 0;
  std::uint64_t connection = 0;  // on which it was read, or written
  Uuid nonce{};                  // of the record of the store beside it
  std::int64_t created = 0;      // the transaction that made the node; 0: it is not known
  SteadyTime at = std::chrono::steady_clock::now();
};
// A node that is made anew has the same versions again, but not so soon: see Address::renewed_at.
constexpr std::chrono::seconds kGuessLasts{10};

class CounterTable final : private CounterRows {
 public:
  explicit CounterTable(Database& database) : database_(database) {}

  [[nodiscard]] CounterStore& counters() noexcept { return counters_; }

 private:
  // A counter without a state is not there.
  using AllSeen = std::map<std::string_view, std::optional<Seen>>;

  Result<CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime until,
                                      std::string_view doing) override {
    CounterStates there;
    std::vector<std::string> names;
    for (const NewCounter& each : counters) names.push_back(each.name);
    const auto made =
        database_.run(Kind::kHandOut, until, doing, [&](Session& session) -> Attempt<bool> {
          for (;;) {
            auto seen = read(session, std::span<const std::string>(names), until);
            if (!seen) return std::unexpected(std::move(seen.error()));
            std::vector<Change> making;
            for (const NewCounter& each : counters) {
              const std::optional<Seen>& one = seen->at(each.name);
              CounterState state{each.name, each.bounds, each.bounds.first};
              if (one)
                there.insert_or_assign(each.name, one->state);
              else
                making.push_back({create(database_.paths().counter(each.name), text_of(state))});
            }
            if (making.empty()) return true;
            auto changed = database_.change(session, Kind::kHandOut, making, until);
            if (!changed) return std::unexpected(std::move(changed.error()));
          }
        });
    if (!made) return std::unexpected(made.error());
    return there;
  }

  // A guess from this connection is used without reading the counter again.
  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime until,
                                       std::string_view doing) override {
    const auto turn = turns_.take(counter, until, database_.url(), doing);
    if (!turn) return std::unexpected(turn.error());
    const std::string path = database_.paths().counter(counter);
    std::optional<Seen> there = std::exchange(turn->guess(), std::nullopt);
    bool fresh = false;  // it was read in this call
    bool sent = false;   // an attempt may have been applied: its values are nobody's
    int attempts = 0;
    Result<void> in_time;
    Range range{};
    const auto taken =
        database_.run(Kind::kHandOut, until, doing, [&](Session& session) -> Attempt<bool> {
          for (;; ++attempts) {
            if (there && !is_recent(session, *there)) there.reset();
            if (!there || (!fresh && !has(there->state, least))) {
              auto seen = read_one(session, counter, path, until);
              if (!seen) return std::unexpected(std::move(seen.error()));
              there = *std::move(seen);
              fresh = true;
            }
            if (!there || !has(there->state, least)) return false;
            CounterState after = there->state;
            range = {after.next, after.bounds.stride, std::min(most, after.left())};
            after.next += range.count * range.stride;
            Change one{set(path, text_of(after), there->version)};
            const std::int64_t created = there->created;
            auto now = database_.change(session, Kind::kHandOut, std::span(&one, 1), until, nullptr,
                                        {path});
            if (one.fate == Change::Fate::kPerhaps) sent = true;
            if (one.fate == Change::Fate::kDone) {
              there = Seen{std::move(after), session.connection->version_after(one.write),
                           session.connection->number(), nonce_of(session),
                           session.connection->renews(one.write) ? 0 : created};
              return true;
            }
            there.reset();
            if (!now) return std::unexpected(std::move(now.error()));
            if (const std::optional<Node>& node = now->front(); node) {
              if (node->created == created && node->version < one.write.version)
                return std::unexpected(
                    database_.gone_back(session, path, one.write.version, node->version));
              auto seen = parse(session, counter, *node);
              if (!seen) return std::unexpected(std::move(seen.error()));
              there = *std::move(seen);
              fresh = true;
            }
            in_time =
                key_value::step_aside(database_.entropy(), attempts, until, database_.url(), doing);
            if (!in_time) return false;
          }
        });
    const auto failed = [&sent](Error error) {
      return std::unexpected(sent ? after_a_write(std::move(error)) : std::move(error));
    };
    if (!taken) return failed(taken.error());
    if (!in_time) return failed(in_time.error());
    if (*taken) {
      turn->guess() = std::move(there);
      return range;
    }
    if (!sent) return std::nullopt;
    return failed(there ? refused_advance(there->state, most)
                        : no_counter(counter, database_.url()));
  }

  // Many at a time, until every one is as it is to be.
  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime until, std::string_view doing) override {
    CounterStates lifted;
    Result<void> in_time;
    int attempts = 0;
    bool applied = false;
    const auto done =
        database_.run(Kind::kWrite, until, doing, [&](Session& session) -> Attempt<bool> {
          AllSeen fresh;
          for (;; ++attempts) {
            if (fresh.empty()) {
              std::vector<std::string_view> left;
              for (const std::string& counter : counters)
                if (!lifted.contains(counter)) left.push_back(counter);
              auto seen = read(session, std::span<const std::string_view>(left), until);
              if (!seen) return std::unexpected(std::move(seen.error()));
              fresh = *std::move(seen);
            }
            std::vector<Change> changes;
            std::vector<CounterState> after;
            for (const auto& [name, there] : fresh) {
              if (!there) continue;
              CounterState state = there->state;
              lift_to(lift, state);
              if (state == there->state) {
                lifted.insert_or_assign(std::string(name), std::move(state));
                continue;
              }
              changes.push_back(
                  {set(database_.paths().counter(name), text_of(state), there->version)});
              after.push_back(std::move(state));
            }
            if (changes.empty()) return true;
            std::vector<std::string> paths;
            for (const Change& each : changes) paths.push_back(each.write.path);
            auto changed = database_.change(session, Kind::kWrite, changes, until, nullptr, paths);
            fresh.clear();
            bool all = true;
            for (std::size_t i = 0; i < changes.size(); ++i) {
              if (changes[i].fate == Change::Fate::kDone) {
                lifted.insert_or_assign(after[i].name, std::move(after[i]));
                applied = true;
                continue;
              }
              all = false;
              if (!changed) continue;
              // At once with what is there now: against those who count without a pause, whoever
              // reads first comes too late.
              const auto name = std::ranges::find(counters, after[i].name);
              if (const std::optional<Node>& node = (*changed)[i]; node) {
                Attempt<Seen> seen = parse(session, *name, *node);
                if (!seen) return std::unexpected(std::move(seen.error()));
                fresh.insert_or_assign(*name, *std::move(seen));
              }
            }
            if (!changed) return std::unexpected(std::move(changed.error()));
            if (all) return true;
            in_time =
                key_value::step_aside(database_.entropy(), attempts, until, database_.url(), doing);
            if (!in_time) return false;
          }
        });
    const auto failed = [&](const Error& error) {
      return std::unexpected(applied ? after_a_write(error) : error);
    };
    if (!done) return failed(done.error());
    if (!in_time) return failed(in_time.error());
    return lifted;
  }

  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime until) override {
    const auto seen = database_.run(Kind::kRead, until, "read", [&](Session& session) {
      return read(session, counters, until);
    });
    if (!seen) return std::unexpected(seen.error());
    CounterStates there;
    for (const auto& [name, one] : *seen)
      if (one) there.insert_or_assign(std::string(name), one->state);
    return there;
  }

  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime until) override {
    const Result<std::vector<std::string>> names = database_.names(kCounters, prefix, until);
    if (!names) return std::unexpected(names.error());
    Result<CounterStates> there = read_counters(*names, until);
    if (!there) return std::unexpected(std::move(there.error()));
    std::vector<CounterState> all;
    for (auto& [name, state] : *there) all.push_back(std::move(state));
    return all;
  }

  // That of the record which the session knows, and which each change checks.
  static Uuid nonce_of(const Session& session) {
    return session.record ? session.record->nonce : Uuid{};
  }
  // Whether the version still counts.
  static bool is_recent(const Session& session, const Seen& there) {
    return there.connection == session.connection->number() && there.nonce == nonce_of(session) &&
           std::chrono::steady_clock::now() - there.at < kGuessLasts;
  }
  // Whether the counter gives at least that many values.
  static bool has(const CounterState& state, std::int64_t least) {
    return !state.closed && state.left() >= least;
  }

  [[nodiscard]] Attempt<Seen> parse(const Session& session, std::string_view counter,
                                    const Node& node) const {
    std::optional<CounterState> state = read_counter(counter, node.value);
    if (!state)
      return std::unexpected(Failure{
          .error =
              database_.damaged("counter " + shown(counter) + " has the value " + shown(node.value))
                  .error()});
    return Seen{*std::move(state), node.version, session.connection->number(), nonce_of(session),
                node.created};
  }

  // Nothing: no such counter.
  Attempt<std::optional<Seen>> read_one(Session& session, std::string_view counter,
                                        const std::string& path, SteadyTime until) {
    auto answer = database_.read(session, {.reads = {path}}, until);
    if (!answer) return std::unexpected(std::move(answer.error()));
    const std::optional<Node>& node = answer->nodes.front();
    if (!node) return std::nullopt;
    Attempt<Seen> seen = parse(session, counter, *node);
    if (!seen) return std::unexpected(std::move(seen.error()));
    return *std::move(seen);
  }

  // Of each name, which must live as long as what is returned.
  template <class Name>
  Attempt<AllSeen> read(Session& session, std::span<const Name> counters, SteadyTime until) {
    AllSeen all;
    for (const std::string_view counter : counters) all.try_emplace(counter);
    Request reading;
    for (const auto& [name, none] : all) reading.reads.push_back(database_.paths().counter(name));
    auto answer = database_.read(session, std::move(reading), until);
    if (!answer) return std::unexpected(std::move(answer.error()));
    auto node = answer->nodes.begin();
    for (auto& [name, seen] : all) {
      if (const std::optional<Node>& one = *node++; one) {
        Attempt<Seen> parsed = parse(session, name, *one);
        if (!parsed) return std::unexpected(std::move(parsed.error()));
        seen = *std::move(parsed);
      }
    }
    return all;
  }

  Database& database_;
  // A guess is only that: it names the version that the counter must have, its connection, as a
  // restored ensemble gives versions again, and the record beside it, as a copy does so too.
  key_value::Turns<Seen> turns_{};
  Counters counters_{database_, *this};
};

}  // namespace

std::shared_ptr<CounterStore> counters_of(Database& database) {
  const auto table = std::make_shared<CounterTable>(database);
  return {table, &table->counters()};
}

}  // namespace idmint::stores::zookeeper
