#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_set>
#include <utility>

#include "engines/zookeeper/tables.h"
#include "store/backend.h"

namespace idmint::stores::zookeeper {
namespace {

class Claims final : public UniqueIndex {
 public:
  explicit Claims(Database& database) : database_(database) {}

 private:
  Result<void> do_create_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const std::string path = database_.paths().named(kSpaces, space);
    bool made = false;
    const auto there =
        database_.run(Kind::kHandOut, *until, "make a space of claims in",
                      [&](Session& session) -> Attempt<Database::Nodes> {
                        Change one{create(path, std::string(kOpen))};
                        auto after = database_.change(session, Kind::kHandOut, std::span(&one, 1),
                                                      *until, nullptr, {path});
                        if (one.fate == Change::Fate::kDone) made = true;
                        return after;
                      });
    if (!there) return std::unexpected(there.error());
    if (made) return {};
    const Result<bool> closed = is_closed(space, there->front());
    if (!closed) return std::unexpected(closed.error());
    return {};
  }

  // A claim that an attempt without an answer made is there when it is made again, and nobody's.
  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const std::string path = database_.paths().named(kSpaces, space);
    std::vector<bool> ours(keys.size());
    std::vector<Change> claims;
    std::vector<std::size_t> places;         // of each claim in `keys`
    std::unordered_set<std::int64_t> asked;  // of repeated numbers the first counts
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!asked.insert(keys[i]).second) continue;
      claims.push_back({create(database_.paths().claim(space, keys[i]), "")});
      places.push_back(i);
    }
    bool applied = false;
    std::optional<Error> refused;
    const auto claimed = database_.run(
        Kind::kHandOut, *until, "claim numbers in", [&](Session& session) -> Attempt<bool> {
          auto answer = database_.read(session, {.reads = {path}}, *until);
          if (!answer) return std::unexpected(std::move(answer.error()));
          const std::optional<Node>& node = answer->nodes.front();
          const Result<bool> closed = is_closed(space, node);
          if (!closed || *closed) {
            refused = closed ? closed_space(space) : closed.error();
            return false;
          }
          for (Change& each : claims)
            if (each.fate == Change::Fate::kPerhaps) each.fate = Change::Fate::kPending;
          const Write is_open = check(path, node->version);
          auto changed = database_.change(session, Kind::kHandOut, claims, *until, &is_open);
          applied = applied || std::ranges::any_of(claims, [](const Change& each) {
                      return each.fate == Change::Fate::kDone;
                    });
          if (!changed) return std::unexpected(std::move(changed.error()));
          return true;
        });
    if (!claimed)
      return std::unexpected(applied ? after_a_write(claimed.error()) : claimed.error());
    if (refused) return std::unexpected(applied ? after_a_write(*refused) : *refused);
    for (std::size_t i = 0; i < claims.size(); ++i)
      ours[places[i]] = claims[i].fate == Change::Fate::kDone;
    return ours;
  }

  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    Request reading{.reads = {database_.paths().named(kSpaces, space)}};
    for (std::size_t shard = 0; shard < kShards; ++shard)
      reading.reads.push_back(database_.paths().claims(space, shard));
    const auto answer = database_.read(std::move(reading), *until, Database::By::kQuorum);
    if (!answer) return std::unexpected(answer.error());
    if (const Result<bool> closed = is_closed(space, answer->nodes.front()); !closed)
      return std::unexpected(closed.error());
    std::int64_t count = 0;
    for (std::size_t i = 1; i < answer->nodes.size(); ++i)
      if (const std::optional<Node>& folder = answer->nodes[i]; folder) count += folder->children;
    return count;
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const Result<SteadyTime> until = database_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    const auto answer = database_.read(
        {.reads = {database_.paths().named(kSpaces, space), database_.paths().claim(space, key)}},
        *until);
    if (!answer) return std::unexpected(answer.error());
    if (const Result<bool> closed = is_closed(space, answer->nodes.front()); !closed)
      return std::unexpected(closed.error());
    return answer->nodes.back().has_value();
  }

  Result<void> do_close_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const std::string path = database_.paths().named(kSpaces, space);
    Result<bool> there = true;
    const auto closed = database_.run(
        Kind::kWrite, *until, "close a space of claims in", [&](Session& session) -> Attempt<bool> {
          for (;;) {
            auto answer = database_.read(session, {.reads = {path}}, *until);
            if (!answer) return std::unexpected(std::move(answer.error()));
            const std::optional<Node>& node = answer->nodes.front();
            there = is_closed(space, node);
            if (!there || *there) return true;
            Change one{set(path, std::string(kClosed), node->version)};
            auto changed = database_.change(session, Kind::kWrite, std::span(&one, 1), *until);
            if (!changed) return std::unexpected(std::move(changed.error()));
            if (one.fate == Change::Fate::kDone) return true;
          }
        });
    if (!closed) return std::unexpected(closed.error());
    if (!there) return std::unexpected(std::move(there.error()));
    return {};
  }

  // kNotFound: no such space.
  [[nodiscard]] Result<bool> is_closed(std::string_view space,
                                       const std::optional<Node>& node) const {
    if (!node) return std::unexpected(no_space(space, database_.url()));
    if (node->value == kOpen) return false;
    if (node->value == kClosed) return true;
    return database_.damaged("the space of claims " + shown(space) + " has the value " +
                             shown(node->value));
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<UniqueIndex> claims_of(Database& database) {
  return std::make_shared<Claims>(database);
}

}  // namespace idmint::stores::zookeeper
