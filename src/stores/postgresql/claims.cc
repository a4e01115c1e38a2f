#include <algorithm>
#include <set>

#include "stores/backend.h"
#include "stores/postgresql/names.h"
#include "stores/postgresql/tables.h"

namespace idmint::stores::postgresql {
namespace {

constexpr Query kCreateSpace{"create_space",
                             "INSERT INTO idmint.spaces (name, closed) SELECT $1, false"
                             " WHERE " IDMINT_TRUSTED " ON CONFLICT DO NOTHING",
                             Kind::kHandOut,
                             "SELECT and INSERT on idmint.spaces and SELECT on idmint.trusted"};
// The space stays open until the end, as those who claim lock it together. Where it is there, open
// and trusted, each row has a number that was free, or one row has none.
constexpr Query kClaim{
    "claim",
    "WITH space AS MATERIALIZED (SELECT name FROM idmint.spaces"
    "  WHERE name = $1 AND NOT closed AND " IDMINT_TRUSTED
    " FOR SHARE),"
    " won AS (INSERT INTO idmint.claims (space, key)"
    "  SELECT space.name, wanted.key FROM space, unnest($2::bigint[]) AS wanted (key)"
    "  ORDER BY wanted.key ON CONFLICT DO NOTHING RETURNING key),"
    " counted AS (INSERT INTO idmint.claimed (space, part, claimed)"
    "  SELECT space.name, pg_backend_pid() % 16, (SELECT count(*) FROM won) FROM space"
    "  WHERE EXISTS (SELECT FROM won) ON CONFLICT (space, part)"
    "  DO UPDATE SET claimed = idmint.claimed.claimed + excluded.claimed)"
    " SELECT won.key, won.key IS NOT NULL FROM space LEFT JOIN won ON true",
    Kind::kHandOut,
    "SELECT and UPDATE on idmint.spaces, SELECT and INSERT on idmint.claims, SELECT, INSERT and "
    "UPDATE on idmint.claimed, and SELECT on idmint.trusted"};
constexpr Query kSpace{
    "space",
    "SELECT closed, (SELECT coalesce(sum(claimed), 0)::bigint FROM idmint.claimed"
    "  WHERE space = $1) FROM idmint.spaces WHERE name = $1",
    Kind::kRead, "SELECT on idmint.spaces and on idmint.claimed"};
constexpr Query kContains{"contains",
                          "SELECT 1 FROM idmint.claims WHERE space = $1 AND key = $2::bigint",
                          Kind::kRead, "SELECT on idmint.claims"};
constexpr Query kCloseSpace{"close_space",
                            "UPDATE idmint.spaces SET closed = true WHERE name = $1 RETURNING 1",
                            Kind::kWrite, "SELECT and UPDATE on idmint.spaces"};

class Claims final : public UniqueIndex {
 public:
  explicit Claims(Database& database) : database_(database) {}

 private:
  struct Space {
    bool closed;
    std::int64_t claimed;
  };

  Result<void> do_create_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> made = database_.run(kCreateSpace, values_of(stored_name(space)), *until,
                                            "make a space of claims in");
    if (!made) return std::unexpected(made.error());
    const Result<Space> there = read(space, *until);
    if (there) return {};
    return std::unexpected(database_.why_not_made(there.error(), *until));
  }

  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter(by);
    if (!until) return std::unexpected(until.error());
    const Values values = {stored_name(space), array_of(keys)};
    // Another round only if somebody made the space, or settled the store, between the statements.
    for (;;) {
      const Result<Rows> rows = database_.run(kClaim, values, *until, "claim numbers in");
      if (!rows) return std::unexpected(rows.error());
      if (!rows->empty()) return given(*rows, keys);
      if (Result<void> trusted = database_.check_trust(*until); !trusted)
        return std::unexpected(std::move(trusted.error()));
      const Result<Space> there = read(space, *until);
      if (!there) return std::unexpected(there.error());
      if (there->closed) return std::unexpected(closed_space(space));
    }
  }

  // Of a number that stands twice in `keys`, the first is the caller's.
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
    const Result<Space> there = read(space, *until);
    if (!there) return std::unexpected(there.error());
    return there->claimed;
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const Result<SteadyTime> until = database_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    if (const Result<Space> there = read(space, *until); !there)
      return std::unexpected(there.error());
    const Result<Rows> rows =
        database_.run(kContains, values_of(stored_name(space), key), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    return !rows->empty();
  }

  Result<void> do_close_space(std::string_view space) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows = database_.run(kCloseSpace, values_of(stored_name(space)), *until,
                                            "close a space of claims in");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_space(space, database_.url()));
    return {};
  }

  Result<Space> read(std::string_view space, SteadyTime until) {
    const Result<Rows> rows = database_.run(kSpace, values_of(stored_name(space)), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_space(space, database_.url()));
    return Space{(*rows)[0].integer(0) != 0, (*rows)[0].integer(1)};
  }

  Database& database_;
};

}  // namespace

std::shared_ptr<UniqueIndex> claims_of(Database& database) {
  return std::make_shared<Claims>(database);
}

}  // namespace idmint::stores::postgresql
