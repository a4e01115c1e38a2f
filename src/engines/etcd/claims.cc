#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "engines/etcd/tables.h"
#include "store/backend.h"

namespace idmint::stores::etcd {
namespace {

class Claims final : public UniqueIndex {
 public:
  explicit Claims(Database& database) : database_(database) {}

 private:
  Result<void> do_create_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const std::string key = database_.keys().space(space);
    const Result<Answer> answer = database_.change(
        Kind::kHandOut,
        {.compares = {is_as_changed(key, 0)}, .then = {put(key, kOpen)}, .otherwise = {get(key)}},
        *until, "make a space of claims in");
    if (!answer) return std::unexpected(answer.error());
    if (answer->succeeded) return {};
    const Result<bool> there = is_closed(space, answer->found.front());
    if (!there) return std::unexpected(there.error());
    return {};
  }

  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    std::vector<bool> ours(keys.size());
    std::unordered_set<std::int64_t>
        asked;  // of a number that stands there twice, the first counts
    bool applied = false;
    for (std::size_t next = 0; next < keys.size();) {
      Transaction claiming{.compares = {has_value(database_.keys().space(space), kOpen)},
                           .otherwise = {get(database_.keys().space(space))}};
      std::vector<std::size_t> some;
      for (; next < keys.size() && some.size() < kMostOperations; ++next) {
        if (!asked.insert(keys[next]).second) continue;
        const std::string key = database_.keys().claim(space, keys[next]);
        claiming.then.push_back(
            nested({.compares = {is_as_changed(key, 0)}, .then = {put(key, "")}}));
        some.push_back(next);
      }
      if (some.empty()) break;
      const Result<Answer> answer =
          database_.change(Kind::kHandOut, std::move(claiming), *until, "claim numbers in");
      if (!answer) return std::unexpected(applied ? after_a_write(answer.error()) : answer.error());
      if (!answer->succeeded) {
        const Result<bool> closed = is_closed(space, answer->found.front());
        if (!closed) return std::unexpected(closed.error());
        return std::unexpected(closed_space(space));
      }
      applied = true;
      for (std::size_t i = 0; i < some.size(); ++i) ours[some[i]] = answer->found[i].succeeded;
    }
    return ours;
  }

  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const std::string claims = database_.keys().claims(space);
    const auto found = read(space, count_range(claims, after_prefix(claims)), *until);
    if (!found) return std::unexpected(found.error());
    return found->count;
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const Result<SteadyTime> until = database_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    const auto found = read(space, get(database_.keys().claim(space, key)), *until);
    if (!found) return std::unexpected(found.error());
    return !found->entries.empty();
  }

  Result<void> do_close_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const std::string key = database_.keys().space(space);
    const Result<Answer> answer = database_.change(
        Kind::kWrite,
        {.compares = {has_value(key, kOpen)}, .then = {put(key, kClosed)}, .otherwise = {get(key)}},
        *until, "close a space of claims in");
    if (!answer) return std::unexpected(answer.error());
    if (answer->succeeded) return {};
    const Result<bool> closed = is_closed(space, answer->found.front());
    if (!closed) return std::unexpected(closed.error());
    return {};
  }

  // kNotFound: no such space.
  [[nodiscard]] Result<bool> is_closed(std::string_view space, const Found& found) const {
    if (found.entries.empty()) return std::unexpected(no_space(space, database_.url()));
    const std::string& value = found.entries.front().value;
    if (value == kOpen) return false;
    if (value == kClosed) return true;
    return database_.damaged("the space of claims " + shown(space) + " has the value " +
                             shown(value));
  }

  // The result of the operation, if the space is there.
  Result<Found> read(std::string_view space, std::string operation, SteadyTime until) {
    auto found = database_.read({get(database_.keys().space(space)), std::move(operation)}, until);
    if (!found) return std::unexpected(std::move(found.error()));
    if (const Result<bool> closed = is_closed(space, found->front()); !closed)
      return std::unexpected(closed.error());
    return std::move(found->back());
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<UniqueIndex> claims_of(Database& database) {
  return std::make_shared<Claims>(database);
}

}  // namespace idmint::stores::etcd
