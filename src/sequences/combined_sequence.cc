#include "sequences/combined_sequence.h"

#include <utility>

#include "sequences/group_commit.h"
#include "sequences/strategies.h"

namespace idmint {

struct CombinedSequence::State {
  State(SequenceDefinition its_definition, const SequenceOptions& options,
        std::chrono::milliseconds deadline,
        const std::function<std::unique_ptr<RangeSource>(const SequenceDefinition&)>& make)
      : definition(std::move(its_definition)),
        rounds(make(definition)),
        group_commit(*rounds, definition.name, options.max_outstanding, deadline,
                     executor_of(options)) {}

  const SequenceDefinition definition;
  const std::unique_ptr<RangeSource> rounds;
  GroupCommit group_commit;
};

CombinedSequence::CombinedSequence(
    SequenceDefinition definition, const SequenceOptions& options,
    std::chrono::milliseconds deadline,
    const std::function<std::unique_ptr<RangeSource>(const SequenceDefinition&)>& make)
    : state_(std::make_unique<State>(std::move(definition), options, deadline, make)) {}

CombinedSequence::~CombinedSequence() {
  // In a child of fork() the locks may be held, so nothing is touched.
  if (!state_->group_commit.inherited()) return;
  [[maybe_unused]] const State* const left_alone = state_.release();
}

const SequenceDefinition& CombinedSequence::definition() const noexcept {
  return state_->definition;
}

Result<void> CombinedSequence::next(std::span<std::int64_t> out, SteadyTime until) {
  if (out.empty()) return {};
  const auto count = static_cast<std::int64_t>(out.size());
  if (auto allowed = check_count(state_->definition, count); !allowed) return allowed;
  return state_->group_commit.fill(out, until);
}

Result<void> CombinedSequence::submit(std::span<std::int64_t> out,
                                      MoveOnlyFunction<void(Result<void>)> done) {
  if (auto allowed = check_values(state_->definition, out); !allowed) return allowed;
  return state_->group_commit.submit_fill(out, std::move(done));
}

void CombinedSequence::close() noexcept { state_->group_commit.close(); }

std::vector<Range> CombinedSequence::given_up() const {
  if (!state_->group_commit.is_closed()) return {};
  const std::span<const Range> kept = state_->rounds->kept();
  return merged({kept.begin(), kept.end()});
}

SequenceStatistics CombinedSequence::statistics() const noexcept {
  return state_->group_commit.statistics();
}

}  // namespace idmint
