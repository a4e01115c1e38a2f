// redis://... and rediss://...: keys that begin with {idmint}: in a database of a Redis server.
// scripts.h has them.
//
// Each call that changes something is one script, which Redis runs as one atomic step, and answers
// when it is in its append-only file on the disk: idmint refuses a server whose settings would not
// keep it. One that hands something out has in its own condition that the store is complete on this
// server.
//
// The protocol is spoken here (reply.h), and not by hiredis: of hiredis 0.14 the store would use a
// hundred lines, as it has neither TLS nor deadlines, and its shared library has another name with
// each of its versions.
#include "idmint/store.h"

#include <utility>

#include "engines/redis/adoption.h"
#include "engines/redis/scripts.h"
#include "engines/redis/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"

namespace idmint::stores {
namespace redis {
namespace {

constexpr Script kClock{IDMINT_LUA_BEGIN R"(
local t = call('TIME')
return {'ok', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))})",
                        Kind::kRead};

class RedisStore final : public Store {
 public:
  RedisStore(Address address, const StoreOptions& options, Entropy& entropy)
      : database_(std::move(address), options.deadline, options.access, entropy) {}

  Result<void> open(const StoreOptions& options) {
    return database_.open(options, [&](std::string_view json) {
      definitions_->remember(options.first_definition, json);
    });
  }

  const Uuid& id() const noexcept override { return database_.id(); }
  std::string_view url() const noexcept override { return database_.url(); }
  milliseconds deadline() const noexcept override { return database_.deadline(); }
  CounterStore* counters() noexcept override { return counters_.get(); }
  Catalog* catalog() noexcept override { return definitions_.get(); }
  UniqueIndex* unique_index() noexcept override { return claims_.get(); }
  LeaseTable* leases() noexcept override { return workers_.get(); }
  std::optional<Error> doubt(SteadyTime until) override { return database_.doubt(until); }
  Result<void> settle(Settle how) override { return database_.settle(how); }
  std::int64_t settle_count() const noexcept override { return database_.settle_count(); }
  Result<std::int64_t> read_settle_count(SteadyTime until) override {
    return database_.read_settle_count(until);
  }
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled,
                              SteadyTime until) override {
    return database_.mark_gone_back(why, settled, until);
  }

  Result<std::optional<Instant>> time(SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Answer> answer = database_.run(kClock, {}, *until, "read the clock in");
    if (!answer) return std::unexpected(answer.error());
    const std::optional<std::int64_t> ms = answer->integer(1);
    if (!ms) return std::nullopt;
    return Instant{milliseconds{*ms}};
  }

 private:
  Database database_;
  const std::shared_ptr<Definitions> definitions_ = definitions_of(database_);
  const std::shared_ptr<CounterStore> counters_ = counters_of(database_);
  const std::shared_ptr<UniqueIndex> claims_ = claims_of(database_);
  const std::shared_ptr<LeaseTable> workers_ = workers_of(database_);
};

}  // namespace
}  // namespace redis

namespace {

Result<std::unique_ptr<Store>> open_redis(std::string_view url, const StoreOptions& options,
                                          Entropy& entropy) {
  Result<redis::Address> address = redis::parse_address(url);
  if (!address) return std::unexpected(std::move(address.error()));
  auto store = std::make_unique<redis::RedisStore>(*std::move(address), options, entropy);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(std::move(ok.error()));
  return store;
}

}  // namespace

extern const Backend kRedis;
constinit const Backend kRedis{
    .kind = {.scheme = "redis",
             .example = "redis://HOST",
             .about = "Redis 7 or later, any number of hosts; a fail-over that may have lost "
                      "values is noticed",
             .durability = "every value is in the append-only file of the server, on its disk, "
                           "before it is handed out",
             .shared = true},
    .other_scheme = "rediss",
    .open = open_redis,
    .adoption = &redis::kAdoption};

}  // namespace idmint::stores
