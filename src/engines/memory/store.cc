#include "idmint/store.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/fork_wiped.h"
#include "base/url.h"
#include "engines/memory/tables.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/counter_store.h"
#include "store/engine.h"
#include "store/protocol/counters.h"
#include "store/protocol/definitions.h"
#include "store/protocol/leases.h"
#include "store/unique_index.h"

namespace idmint::stores {
namespace {

constexpr std::string_view kUrl = "memory:";

// Tables under a mutex. Durable as long as the process, as the URL promises.
class MemoryStore final : public Store,
                          private UniqueIndex,
                          private Engine,
                          private CounterRows,
                          private DefinitionRows,
                          private WorkerRows {
 public:
  MemoryStore(const StoreOptions& options, Entropy& entropy)
      : options_(options), entropy_(entropy), id_(draw_store_id(entropy)) {}

  const Uuid& id() const noexcept override { return id_; }
  std::string_view url() const noexcept override { return kUrl; }
  std::chrono::milliseconds deadline() const noexcept override { return options_.deadline; }
  CounterStore* counters() noexcept override { return &counters_; }
  Catalog* catalog() noexcept override { return &definitions_; }
  UniqueIndex* unique_index() noexcept override { return this; }
  LeaseTable* leases() noexcept override { return &leases_; }

 private:
  using SteadyClock = std::chrono::steady_clock;

  template <class Work, class Found = decltype(std::declval<const Work&>()())>
  Found locked(const Work& work) {
    if (!owner_) return std::unexpected(inherited_handle(kUrl));
    const std::lock_guard lock(mutex_);
    return work();
  }

  std::string_view shown_url() const noexcept override { return kUrl; }
  Entropy& entropy() const noexcept override { return entropy_; }
  Result<SteadyTime> enter(Purpose /*purpose*/, SteadyTime by) override {
    if (!owner_) return std::unexpected(inherited_handle(kUrl));
    return std::min(by, SteadyClock::now() + options_.deadline);
  }
  Result<void> expect_trust(SteadyTime /*until*/) override { return {}; }

  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime /*until*/,
                                 std::string_view /*doing*/) override {
    return locked([&] { return tables_.make_pool(pool, workers); });
  }
  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime /*until*/) override {
    return locked([&] { return tables_.read_worker(pool, worker, SteadyClock::now()); });
  }
  Result<std::vector<WorkerRow>> read_workers(std::string_view pool,
                                              SteadyTime /*until*/) override {
    return locked([&] { return tables_.read_workers(pool, SteadyClock::now()); });
  }
  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime /*until*/) override {
    return locked([&] { return tables_.find_free(pool, wanted, SteadyClock::now()); });
  }
  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, Purpose /*purpose*/,
                                            const LeaseTerms* /*terms*/, SteadyTime /*until*/,
                                            std::string_view /*doing*/) override {
    return locked([&] { return tables_.swap_workers(pool, swaps, SteadyClock::now()); });
  }

  Result<CounterStates> make_counters(std::span<const NewCounter> counters, SteadyTime /*until*/,
                                      std::string_view /*doing*/) override {
    return locked([&] { return tables_.make_counters(counters); });
  }
  Result<std::optional<Range>> advance(std::string_view counter, std::int64_t most,
                                       std::int64_t least, SteadyTime /*until*/,
                                       std::string_view /*doing*/) override {
    return locked([&] { return tables_.advance(counter, most, least); });
  }
  Result<CounterStates> lift(std::span<const std::string> counters, const CounterLift& lift,
                             SteadyTime /*until*/, std::string_view /*doing*/) override {
    return locked([&] { return tables_.lift(counters, lift); });
  }
  Result<CounterStates> read_counters(std::span<const std::string> counters,
                                      SteadyTime /*until*/) override {
    return locked([&] { return tables_.read_counters(counters); });
  }
  Result<std::vector<CounterState>> list_counters(std::string_view prefix,
                                                  SteadyTime /*until*/) override {
    return locked([&] { return tables_.list_counters(prefix); });
  }

  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime /*until*/,
                                    std::string_view /*doing*/) override {
    return locked([&] { return tables_.insert_definition(row); });
  }
  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime /*until*/, std::string_view /*doing*/) override {
    return locked([&] { return tables_.swap_definition(row, json); });
  }
  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime /*until*/) override {
    return locked([&] { return tables_.read_definition(name); });
  }
  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t most,
                                                      SteadyTime /*until*/) override {
    return locked([&] { return tables_.list_definitions(after, most); });
  }

  Result<void> do_create_space(std::string_view space) override {
    return locked([&] { return tables_.create_space(space); });
  }
  Result<std::vector<bool>> do_insert(std::string_view space, std::span<const std::int64_t> keys,
                                      SteadyTime /*until*/) override {
    return locked([&] { return tables_.insert(space, keys); });
  }
  Result<std::int64_t> do_claimed(std::string_view space, SteadyTime /*until*/) override {
    return locked([&] { return tables_.claimed(space); });
  }
  Result<bool> do_contains(std::string_view space, std::int64_t key) override {
    return locked([&] { return tables_.contains(space, key); });
  }
  Result<void> do_close_space(std::string_view space) override {
    return locked([&] { return tables_.close_space(space); });
  }

  const OwnedByProcess owner_;
  const StoreOptions options_;
  Entropy& entropy_;
  const Uuid id_;
  std::mutex mutex_;  // guards tables_
  memory::Tables tables_{kUrl};
  Counters counters_{*this, *this};
  Definitions definitions_{*this, *this};
  Leases leases_{*this, *this};
};

Result<std::unique_ptr<Store>> open_memory(std::string_view url, const StoreOptions& options,
                                           Entropy& entropy) {
  if (url != kUrl)
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "a memory store has no name: use \"memory:\", "
                                 "not " +
                                     shown(redacted(url))});
  if (!options.create || options.access == Access::kReadOnly)
    return std::unexpected(Error{Code::kNotFound,
                                 "no memory store is there before it is opened: open it with "
                                 "StoreOptions::create"});
  return std::make_unique<MemoryStore>(options, entropy);
}

}  // namespace

extern const Backend kMemory;
constinit const Backend kMemory{.kind = {.scheme = "memory",
                                         .example = "memory:",
                                         .about = "this process only, gone with it; for tests",
                                         .lasts = false},
                                .open = open_memory};

}  // namespace idmint::stores
