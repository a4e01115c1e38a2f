#include <string>
#include <utility>

#include "idmint/sequence.h"
#include "sequences/counter_range_source.h"
#include "sequences/group_commit.h"
#include "sequences/strategies.h"

namespace idmint {

struct CounterSequence::State {
  State(Store& store, SequenceDefinition its_definition, const SequenceOptions& options)
      : definition(std::move(its_definition)),
        rounds(store, definition, counter_of(definition, 0).bounds),
        group_commit(rounds, definition.name, options.max_outstanding, deadline_of(store, options),
                     executor_of(options)) {}

  SequenceDefinition definition;
  CounterRangeSource rounds;
  GroupCommit group_commit;
};

CounterSequence::CounterSequence(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}

CounterSequence::~CounterSequence() {
  // In a child of fork() the locks may be held, so nothing is touched.
  if (!state_->group_commit.inherited()) return;
  [[maybe_unused]] const State* const left_alone = state_.release();
}

Result<std::unique_ptr<CounterSequence>> CounterSequence::open(Store& store, std::string_view name,
                                                               const SequenceOptions& options) {
  Opened opened = Sequence::open(store, name, options);
  if (!opened) return std::unexpected(std::move(opened.error()));
  const Strategy strategy = (*opened)->definition().strategy;
  if (strategy == Strategy::kCounter)
    return std::unique_ptr<CounterSequence>(static_cast<CounterSequence*>(opened->release()));
  return std::unexpected(error_at(store, Code::kFailedPrecondition, name,
                                  "it is " + std::string(idmint::name(strategy)) +
                                      ", and only a counter gives ranges; open it with "
                                      "Sequence::open()"));
}

const SequenceDefinition& CounterSequence::definition() const noexcept {
  return state_->definition;
}

Result<void> CounterSequence::next(std::span<std::int64_t> out, SteadyTime until) {
  if (out.empty()) return {};
  const Result<Range> values = take(static_cast<std::int64_t>(out.size()), until);
  if (!values) return std::unexpected(values.error());
  for (std::int64_t index = 0; std::int64_t& each : out) each = values->at(index++);
  return {};
}

Result<Range> CounterSequence::take(std::int64_t count, SteadyTime until) {
  if (auto ok = check_count(state_->definition, count); !ok)
    return std::unexpected(std::move(ok.error()));
  return state_->group_commit.take(count, until);
}

Result<void> CounterSequence::submit(std::int64_t count,
                                     MoveOnlyFunction<void(Result<Range>)> done) {
  if (auto ok = check_count(state_->definition, count); !ok) return ok;
  return state_->group_commit.submit(count, std::move(done));
}

Result<void> CounterSequence::submit(std::span<std::int64_t> out,
                                     MoveOnlyFunction<void(Result<void>)> done) {
  if (auto allowed = check_values(state_->definition, out); !allowed) return allowed;
  return state_->group_commit.submit_fill(out, std::move(done));
}

Result<void> CounterSequence::submit_each(std::span<std::int64_t> out,
                                          MoveOnlyFunction<void(Served)> done) {
  return state_->group_commit.submit_each(out, std::move(done));
}

void CounterSequence::close() noexcept { state_->group_commit.close(); }

SequenceStatistics CounterSequence::statistics() const noexcept {
  return state_->group_commit.statistics();
}

Opened open_counter(Store& store, SequenceDefinition definition, const SequenceOptions& options,
                    Clock&, Entropy&) {
  if (auto counters = read_counters(store, definition, options.until); !counters)
    return std::unexpected(std::move(counters.error()));
  auto state = std::make_unique<CounterSequence::State>(store, std::move(definition), options);
  return std::unique_ptr<Sequence>(new CounterSequence(std::move(state)));
}

}  // namespace idmint
