#include <algorithm>

#include "engines/sqlite/tables.h"
#include "store/backend.h"
#include "store/unique_index.h"

namespace idmint::stores::sqlite {
namespace {

class Claims final : public UniqueIndex {
 public:
  explicit Claims(TrustedFile& file) : file_(file) {}

  Result<void> do_create_space(std::string_view space) override {
    const Call call{"make a space of claims in"};
    return file_.change(call,
                        [&] { return Statement(file_, create_space_, call.doing, space).end(); });
  }

  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime until) override {
    const Call call{"claim numbers in", until};
    std::vector<bool> ours;
    const auto claim = [&]() -> Result<void> {
      const Result<Space> there = read(space);
      if (!there) return std::unexpected(there.error());
      if (there->closed) return std::unexpected(closed_space(space));
      ours.reserve(keys.size());
      for (const std::int64_t key : keys) {
        Statement run(file_, claim_, call.doing, space, key);
        ours.push_back(run.next());
        if (Result<void> ended = run.end(); !ended) return ended;
      }
      const std::int64_t count = std::ranges::count(ours, true);
      return Statement(file_, count_, call.doing, space, count).end();
    };
    const Result<void> done = file_.change(call, claim);
    if (!done) return std::unexpected(done.error());
    return ours;
  }

  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    const Result<Space> there = read(space);
    if (!there) return std::unexpected(there.error());
    return there->claimed;
  }

  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    const auto lock = file_.enter();
    if (!lock) return std::unexpected(lock.error());
    if (const Result<Space> there = read(space); !there) return std::unexpected(there.error());
    Statement row(file_, find_, "read", space, key);
    const bool found = row.next();
    if (!found && !row.is_done()) return std::unexpected(row.failure());
    return found;
  }

  Result<void> do_close_space(std::string_view space) override {
    const Call call{.doing = "close a space of claims in", .needs = Needs::kNothing};
    return file_.change(call, [&]() -> Result<void> {
      Statement run(file_, close_space_, call.doing, space);
      const bool there = run.next();
      if (Result<void> ended = run.end(); !ended || there) return ended;
      return std::unexpected(no_space(space, file_.url()));
    });
  }

 private:
  struct Space {
    std::int64_t claimed;
    bool closed;
  };

  Result<Space> read(std::string_view space) {
    Statement row(file_, space_, "read", space);
    if (row.next()) return Space{row.integer(0), row.integer(1) != 0};
    return std::unexpected(row.is_done() ? no_space(space, file_.url()) : row.failure());
  }

  TrustedFile& file_;
  Query create_space_{
      "INSERT INTO spaces (name, claimed, closed) VALUES (?1, 0, 0) ON CONFLICT DO NOTHING"};
  Query space_{"SELECT claimed, closed FROM spaces WHERE name = ?1"};
  Query claim_{
      "INSERT INTO claims (space, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING RETURNING 1"};
  Query count_{"UPDATE spaces SET claimed = claimed + ?2 WHERE name = ?1"};
  Query find_{"SELECT 1 FROM claims WHERE space = ?1 AND key = ?2"};
  Query close_space_{"UPDATE spaces SET closed = 1 WHERE name = ?1 RETURNING 1"};
};

}  // namespace

std::shared_ptr<UniqueIndex> claims_of(TrustedFile& file) { return std::make_shared<Claims>(file); }

}  // namespace idmint::stores::sqlite
