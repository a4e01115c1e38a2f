#include <string>
#include <utility>

#include "sequences/combiner.h"
#include "sequences/counter_rounds.h"
#include "sequences/permutation.h"
#include "sequences/strategies.h"

namespace idmint {
namespace {

// The counter hands out indices, 0 to last - first, linearizable; the permutation makes values of
// them, in no order.
class PermutedSequence final : public Sequence {
 public:
  PermutedSequence(Store& store, SequenceDefinition definition, const Permutation& permutation,
                   const SequenceOptions& options)
      : state_(std::make_unique<State>(store, std::move(definition), permutation, options)) {}

  ~PermutedSequence() override {
    // In a child of fork() the locks may be held: nothing is touched.
    if (!state_->combiner.inherited()) return;
    [[maybe_unused]] const State* const left_alone = state_.release();
  }
  PermutedSequence(const PermutedSequence&) = delete;
  PermutedSequence& operator=(const PermutedSequence&) = delete;

  const SequenceDefinition& definition() const noexcept override { return state_->definition; }

  using Sequence::next;
  Result<void> next(std::span<std::int64_t> out, SteadyTime until) override {
    if (out.empty()) return {};
    const auto count = static_cast<std::int64_t>(out.size());
    if (auto allowed = check_count(state_->definition, count); !allowed) return allowed;
    const Result<Range> indices = state_->combiner.take(count, until);
    if (!indices) return std::unexpected(of_values(indices.error(), count));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = indices->at(static_cast<std::int64_t>(i));
    state_->permutation.permute(out);
    for (std::int64_t& value : out) value += state_->definition.first;
    return {};
  }

  SequenceStatistics statistics() const noexcept override { return state_->combiner.statistics(); }

 private:
  // That an index is the last says nothing to who knows the values only.
  [[nodiscard]] Error of_values(Error error, std::int64_t count) const {
    if (error.code != Code::kOutOfRange) return error;
    const std::string left =
        count == 1 ? "used up" : "fewer than " + std::to_string(count) + " values are left";
    return {error.code, "sequence " + state_->definition.name + ": " + left + ", of " +
                            std::to_string(state_->permutation.size()) + " in all"};
  }

  struct State {
    State(Store& store, SequenceDefinition its_definition, const Permutation& its_permutation,
          const SequenceOptions& options)
        : definition(std::move(its_definition)),
          permutation(its_permutation),
          rounds(*store.counters(), definition.name, counter_of(definition, 0).bounds),
          combiner(rounds, definition.name, options.max_outstanding, deadline_of(store, options)) {}

    const SequenceDefinition definition;
    const Permutation permutation;
    CounterRounds rounds;
    Combiner combiner;
  };

  std::unique_ptr<State> state_;
};

}  // namespace

Opened open_permuted(Store& store, SequenceDefinition definition, const SequenceOptions& options) {
  if (auto counters = read_counters(store, definition, options.until); !counters) {
    return std::unexpected(std::move(counters).error());
  }
  const Result<Permutation> permutation = Permutation::make(
      definition.key, static_cast<std::uint64_t>(definition.last - definition.first) + 1);
  if (!permutation) {
    return std::unexpected(
        error_at(store, Code::kDataLoss, definition.name, permutation.error().message));
  }
  return std::make_unique<PermutedSequence>(store, std::move(definition), *permutation, options);
}

}  // namespace idmint
