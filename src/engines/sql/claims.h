// Claims: the claims of an SQL server, whatever its dialect.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "engines/sql/database.h"
#include "store/backend.h"
#include "store/unique_index.h"

namespace idmint::stores::sql {

// The statements of an engine, with their values -> the columns of their rows.
struct ClaimStatements {
  Query create_space;  // name; what is there stays as it is
  // name, Dialect::numbers() -> a number, whether it was free. An engine that has a row where none
  // was free saves the call that asks why there is none.
  Query insert;
  Query space;        // name -> whether it is closed
  Query claimed;      // name -> how many claims it has
  Query contains;     // name, number -> a row if it is claimed
  Query close_space;  // name
};

template <class Dialect>
class Claims final : public UniqueIndex {
 public:
  // Both must outlive it.
  Claims(Database<Dialect>& database, const ClaimStatements& statements)
      : database_(database), sql_(statements) {}

 private:
  using Rows = typename Dialect::Rows;

  Result<void> do_create_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> made = database_.change(sql_.create_space, values_of<Dialect>(Name{space}),
                                               *until, "make a space of claims in");
    if (!made) return std::unexpected(made.error());
    const Result<bool> there = is_closed(space, *until);
    if (there) return {};
    return std::unexpected(database_.why_not_made(there.error(), *until));
  }

  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows =
        database_.run(sql_.insert, {Dialect::value(Name{space}), Dialect::numbers(keys)}, *until,
                      "claim numbers in");
    if (!rows) return std::unexpected(rows.error());
    if (!rows->empty()) return given(*rows, keys);
    if (Result<void> trusted = database_.expect_trust(*until); !trusted)
      return std::unexpected(std::move(trusted.error()));
    const Result<bool> closed = is_closed(space, *until);
    if (!closed) return std::unexpected(closed.error());
    if (*closed) return std::unexpected(closed_space(space));
    // None was free; or the space was made or the store settled since, and none is taken.
    return given(*rows, keys);
  }

  // If a number stands twice in `keys`, the first is the caller's.
  static std::vector<bool> given(const Rows& rows, std::span<const std::int64_t> keys) {
    std::set<std::int64_t> won;
    for (int i = 0; i < rows.size(); ++i)
      if (rows[i].integer(1) != 0) won.insert(rows[i].integer(0));
    std::vector<bool> ours;
    ours.reserve(keys.size());
    for (const std::int64_t key : keys) ours.push_back(won.erase(key) != 0);
    return ours;
  }

  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    if (const Result<bool> there = is_closed(space, *until); !there)
      return std::unexpected(there.error());
    const Result<Rows> rows =
        database_.run(sql_.claimed, values_of<Dialect>(Name{space}), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    return rows->empty() ? 0 : (*rows)[0].integer(0);
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const Result<SteadyTime> until = database_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    if (const Result<bool> there = is_closed(space, *until); !there)
      return std::unexpected(there.error());
    const Result<Rows> rows =
        database_.run(sql_.contains, values_of<Dialect>(Name{space}, key), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    return !rows->empty();
  }

  Result<void> do_close_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows = database_.change(sql_.close_space, values_of<Dialect>(Name{space}),
                                               *until, "close a space of claims in");
    if (!rows) return std::unexpected(rows.error());
    if (rows->found() == 0) return std::unexpected(no_space(space, database_.url()));
    return {};
  }

  Result<bool> is_closed(std::string_view space, SteadyTime until) {
    const Result<Rows> rows =
        database_.run(sql_.space, values_of<Dialect>(Name{space}), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_space(space, database_.url()));
    return (*rows)[0].integer(0) != 0;
  }

  Database<Dialect>& database_;
  const ClaimStatements& sql_;
};

}  // namespace idmint::stores::sql
