// zookeeper://...: nodes below one of a ZooKeeper ensemble. records.h has what they hold.
//
// What is decided by a node is read after a sync. Each write names the version that was read on the
// same connection, and so does nothing where another was quicker: then it is tried again with what
// is there now. ZooKeeper answers when a quorum of the servers has it in its log on the disk. A
// transaction that hands something out also checks the record of the store (database.h).
#include "idmint/store.h"

#include <utility>

#include "engines/zookeeper/driver.h"
#include "engines/zookeeper/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"

namespace idmint::stores {
namespace zookeeper {
namespace {

class ZookeeperStore final : public Store {
 public:
  ZookeeperStore(Address address, const StoreOptions& options, Entropy& entropy)
      : database_(std::move(address), options.deadline, options.access, entropy) {}

  Result<void> open(const StoreOptions& options) {
    return database_.open(options, [&](std::string_view json) {
      definitions_->remember(options.first_definition, json);
    });
  }

  const Uuid& id() const noexcept override { return database_.id(); }
  std::string server() const override { return database_.place(); }
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

 private:
  Database database_;
  const std::shared_ptr<Definitions> definitions_ = definitions_of(database_);
  const std::shared_ptr<CounterStore> counters_ = counters_of(database_);
  const std::shared_ptr<UniqueIndex> claims_ = claims_of(database_);
  const std::shared_ptr<LeaseTable> workers_ = workers_of(database_);
};

}  // namespace
}  // namespace zookeeper

namespace {

Result<std::unique_ptr<Store>> open_zookeeper(std::string_view url, const StoreOptions& options,
                                              Entropy& entropy) {
  if (Result<void> loaded = zookeeper::load_libzookeeper(); !loaded)
    return std::unexpected(std::move(loaded.error()));
  Result<zookeeper::Address> address = zookeeper::parse_address(url);
  if (!address) return std::unexpected(std::move(address.error()));
  auto store = std::make_unique<zookeeper::ZookeeperStore>(*std::move(address), options, entropy);
  if (Result<void> ok = store->open(options); !ok) return std::unexpected(std::move(ok.error()));
  return store;
}

}  // namespace

extern const Backend kZookeeper;
constinit const Backend kZookeeper{
    .kind = {.scheme = "zookeeper",
             .example = "zookeeper://HOST,HOST,HOST/PATH",
             .about = "ZooKeeper 3.5 or later, any number of hosts; a fail-over loses nothing, and "
                      "a copy of the nodes is noticed",
             .durability = "every value is in the logs of a quorum of the servers, on their disks, "
                           "before it is handed out",
             .shared = true},
    .open = open_zookeeper};

}  // namespace idmint::stores
