// Counters: the counters of a store, over its records, whatever its engine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "store/counter_store.h"
#include "store/engine.h"

namespace idmint::stores {

// Values are handed out by CounterRows::advance(), which the engine has in its own words. All other
// rules are here: what is compared with the stored record, which error comes first, and when to ask
// again.
class Counters final : public CounterStore {
 public:
  // Both must outlive it.
  Counters(Engine& engine, CounterRows& rows) noexcept : engine_(engine), rows_(rows) {}

  [[nodiscard]] const Adoption* adoption() const noexcept override { return rows_.adoption(); }
  [[nodiscard]] Result<std::string> find_record(const SequenceDefinition& definition) override {
    return rows_.find_record(definition);
  }

 private:
  Result<std::vector<CounterState>> do_create(std::span<const NewCounter> counters) override;
  Result<Range> do_advance(std::string_view counter, std::int64_t count, Take take,
                           SteadyTime by) override;
  Result<std::vector<std::int64_t>> do_raise(std::span<const std::string> counters,
                                             std::int64_t floor, SteadyTime by) override;
  Result<std::vector<CounterBounds>> do_extend(std::span<const std::string> counters,
                                               std::int64_t last) override;
  Result<void> do_close(std::span<const std::string> counters) override;
  Result<CounterState> do_peek(std::string_view counter, SteadyTime by) override;
  Result<std::vector<CounterState>> do_list(std::string_view prefix, SteadyTime by) override;
  Result<void> do_can_extend(std::span<const std::string> counters, std::int64_t last) override;

  // The state of each, lifted. kNotFound: one is missing; all others are lifted.
  Result<std::vector<CounterState>> lift_all(std::span<const std::string> counters,
                                             const CounterLift& lift, SteadyTime until,
                                             std::string_view doing);
  Result<CounterState> read(std::string_view counter, SteadyTime until);

  Engine& engine_;
  CounterRows& rows_;
};

}  // namespace idmint::stores
