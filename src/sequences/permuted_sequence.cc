#include <string>
#include <utility>

#include "base/errors.h"
#include "sequences/counter_range_source.h"
#include "sequences/group_commit.h"
#include "sequences/permutation.h"
#include "sequences/strategies.h"

namespace idmint {
namespace {

// The counter hands out indices, 0 to size - 1, linearizable. The permutation maps them to
// values, which have no order.
class PermutedSequence final : public Sequence {
 public:
  PermutedSequence(Store& store, SequenceDefinition definition, const Permutation& permutation,
                   const SequenceOptions& options)
      : state_(std::make_unique<State>(store, std::move(definition), permutation, options)) {}

  ~PermutedSequence() override {
    // In a child of fork() the locks may be held, so nothing is touched.
    if (!state_->group_commit.inherited()) return;
    [[maybe_unused]] const State* const left_alone = state_.release();
  }
  PermutedSequence(const PermutedSequence&) = delete;
  PermutedSequence& operator=(const PermutedSequence&) = delete;

  const SequenceDefinition& definition() const noexcept override { return state_->definition; }

  using Sequence::next;
  Result<void> next(std::span<std::int64_t> out, SteadyTime until) override {
    if (out.empty()) return {};
    if (auto allowed = check_values(state_->definition, out); !allowed) return allowed;
    return state_->values_of(state_->group_commit.fill(out, until), out);
  }

  Result<void> submit(std::span<std::int64_t> out,
                      MoveOnlyFunction<void(Result<void>)> done) override {
    if (out.empty()) return state_->group_commit.submit_fill(out, std::move(done));
    if (auto allowed = check_values(state_->definition, out); !allowed) return allowed;
    return state_->group_commit.submit_fill(
        out, [state = state_.get(), out, done = std::move(done)](Result<void> filled) mutable {
          done(state->values_of(std::move(filled), out));
        });
  }

  void close() noexcept override { state_->group_commit.close(); }

  SequenceStatistics statistics() const noexcept override {
    return state_->group_commit.statistics();
  }

 private:
  struct State {
    State(Store& store, SequenceDefinition its_definition, const Permutation& its_permutation,
          const SequenceOptions& options)
        : definition(std::move(its_definition)),
          permutation(its_permutation),
          rounds(store, definition, counter_of(definition, 0).bounds),
          group_commit(rounds, definition.name, options.max_outstanding,
                       deadline_of(store, options), executor_of(options)) {}

    // Maps the indices in `out` to values.
    [[nodiscard]] Result<void> values_of(Result<void> filled, std::span<std::int64_t> out) const {
      if (!filled) return std::unexpected(of_values(std::move(filled).error(), out.size()));
      permutation.permute(out);
      for (std::int64_t& value : out) value = definition.first + value * definition.stride;
      return {};
    }

    // Rewords the error: a caller who knows values only cannot use the last index.
    [[nodiscard]] Error of_values(Error error, std::size_t count) const {
      if (error.code != Code::kOutOfRange) return error;
      const std::string left =
          count == 1 ? "used up" : "fewer than " + std::to_string(count) + " values are left";
      return about("sequence " + definition.name,
                   {error.code, left + ", of " + std::to_string(permutation.size()) +
                                    " in all; go on with " + onward_from(definition).words});
    }

    const SequenceDefinition definition;
    const Permutation permutation;
    CounterRangeSource rounds;
    GroupCommit group_commit;
  };

  std::unique_ptr<State> state_;
};

}  // namespace

Opened open_permuted(Store& store, SequenceDefinition definition, const SequenceOptions& options,
                     Clock&, Entropy&) {
  if (auto counters = read_counters(store, definition, options.until); !counters) {
    return std::unexpected(std::move(counters).error());
  }
  const Result<Permutation> permutation =
      Permutation::make(definition.key, static_cast<std::uint64_t>(definition.size()));
  if (!permutation) {
    return std::unexpected(
        error_at(store, Code::kDataLoss, definition.name, permutation.error().message()));
  }
  return std::make_unique<PermutedSequence>(store, std::move(definition), *permutation, options);
}

}  // namespace idmint
