// A store far away: passes everything on, and every advance takes so much longer.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idmint/definition.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::bench {

class DistantStore final : public Store, public CounterStore {
 public:
  DistantStore(Store& store, std::chrono::milliseconds delay) : store_(store), delay_(delay) {}

  [[nodiscard]] const Uuid& id() const noexcept override { return store_.id(); }
  [[nodiscard]] std::string_view url() const noexcept override { return store_.url(); }
  [[nodiscard]] CounterStore* counters() noexcept override { return this; }
  [[nodiscard]] Catalog* catalog() noexcept override { return store_.catalog(); }
  [[nodiscard]] UniqueIndex* unique_index() noexcept override { return store_.unique_index(); }
  [[nodiscard]] LeaseTable* leases() noexcept override { return store_.leases(); }
  Result<std::vector<CounterState>> do_create(std::span<const NewCounter> counters) override {
    return there().create(counters);
  }
  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime until) override {
    std::this_thread::sleep_for(delay_);
    return there().advance(counter, count, take, until);
  }
  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime until) override {
    return there().raise(counters, floor, until);
  }
  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override {
    return there().extend(counters, last);
  }
  Result<void> do_close(std::span<const std::string> counters) override {
    return there().close(counters);
  }
  Result<CounterState> do_peek(std::string_view counter, SteadyTime until) override {
    return there().peek(counter, until);
  }
  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime until) override {
    return there().list(prefix, until);
  }

 private:
  CounterStore& there() { return *store_.counters(); }

  Store& store_;
  std::chrono::milliseconds delay_;
};

}  // namespace idmint::bench
