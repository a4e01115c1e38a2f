// CombinedSequence: a sequence over any RangeSource, for values without an order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "idmint/definition.h"
#include "idmint/sequence.h"
#include "sequences/range_source.h"

namespace idmint {

class CombinedSequence final : public Sequence {
 public:
  // `make` gets the sequence's own copy of the definition, which outlives the rounds. `deadline`:
  // the longest that a call waits.
  CombinedSequence(
      SequenceDefinition definition, const SequenceOptions& options,
      std::chrono::milliseconds deadline,
      const std::function<std::unique_ptr<RangeSource>(const SequenceDefinition&)>& make);
  ~CombinedSequence() override;
  CombinedSequence(const CombinedSequence&) = delete;
  CombinedSequence& operator=(const CombinedSequence&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept override;
  using Sequence::next;
  [[nodiscard]] Result<void> next(std::span<std::int64_t> out, SteadyTime until) override;
  [[nodiscard]] Result<void> submit(std::span<std::int64_t> out,
                                    MoveOnlyFunction<void(Result<void>)> done) override;
  void close() noexcept override;
  [[nodiscard]] std::vector<Range> given_up() const override;
  [[nodiscard]] SequenceStatistics statistics() const noexcept override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace idmint
