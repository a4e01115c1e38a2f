#include "idmint/gapless.h"

#include <mutex>
#include <utility>

#include "base/errors.h"
#include "base/fork_wiped.h"
#include "idmint/store.h"
#include "sequences/gapless_queue.h"
#include "sequences/range_source.h"
#include "sequences/strategies.h"
#include "store/gapless_store.h"

namespace idmint {

struct GaplessInserter::State {
  const OwnedByProcess owned{};
  const SequenceDefinition definition;
  GaplessQueue queue;
};

GaplessInserter::GaplessInserter(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}

GaplessInserter::~GaplessInserter() {
  close();
  // In a child of fork() the locks may be held, so nothing is touched.
  if (!state_->owned) {
    [[maybe_unused]] const State* const left_alone = state_.release();
  }
}

const SequenceDefinition& GaplessInserter::definition() const noexcept {
  return state_->definition;
}

GaplessStatistics GaplessInserter::statistics() const noexcept {
  if (!state_->owned) return {};
  const std::lock_guard lock(state_->queue.mutex);
  return state_->queue.statistics;
}

Result<std::unique_ptr<GaplessInserter>> GaplessInserter::open(Store& store, std::string_view name,
                                                               std::string_view collection,
                                                               std::string_view field,
                                                               const GaplessOptions& options,
                                                               Entropy& entropy) {
  const SteadyTime until = std::chrono::steady_clock::now() + options.deadline;
  const Result<Definition> found = find_definition(store, name, until);
  if (!found) {
    Error why = found.error();
    if (why.advice.remedy == Remedy::kCreateSequence) why.advice.values = {"gapless"};
    return std::unexpected(std::move(why));
  }
  const auto* const definition = std::get_if<SequenceDefinition>(&*found);
  if (definition == nullptr || definition->strategy != Strategy::kGapless) {
    return std::unexpected(
        error_at(store, Code::kFailedPrecondition, name,
                 "it is " + std::string(strategy_name(*found)) +
                     ", and only the numbers of a gapless one come with documents; create one",
                 {Remedy::kCreateSequence, "", {"gapless"}}));
  }
  if (definition->retired) {
    return std::unexpected(error_at(store, Code::kFailedPrecondition, name,
                                    "it is retired: nothing comes from it any more"));
  }
  if (auto possible = has_transactions(store, *definition, until); !possible) {
    return std::unexpected(std::move(possible).error());
  }
  auto transactions = store.gapless()->transactions(*definition, collection, field,
                                                    options.make_index, options.deadline, entropy);
  if (!transactions) return std::unexpected(std::move(transactions).error());
  const GivingStore from(store, LastIssued::Kind::kValue);
  if (auto is_settled = must_be_settled(from, until); !is_settled)
    return std::unexpected(std::move(is_settled).error());
  std::unique_ptr<State> state(new State{
      .definition = *definition,
      .queue = {.what = definition->name + " in " + std::string(store.url()),
                .deadline = options.deadline,
                .max_outstanding = options.max_outstanding,
                .executor = options.executor != nullptr ? *options.executor : shared_executor(),
                .transactions = *std::move(transactions),
                .issued = from.issued() != nullptr
                              ? &from.issued()->counter(name, LastIssued::Kind::kValue)
                              : nullptr}});
  return std::unique_ptr<GaplessInserter>(new GaplessInserter(std::move(state)));
}

// Checks the documents and copies them.
Result<std::vector<std::vector<std::byte>>> GaplessInserter::checked(
    std::span<const std::span<const std::byte>> documents) const {
  if (!state_->owned) return std::unexpected(inherited_through_fork(state_->definition.name));
  if (documents.empty() || documents.size() > kMaxDocuments) {
    return refuse("cannot insert " + std::to_string(documents.size()) +
                  " documents at once: give 1 to " + std::to_string(kMaxDocuments));
  }
  GaplessTransactions::Documents copies;
  std::size_t bytes = 0;
  for (const std::span<const std::byte> document : documents) {
    bytes += document.size();
    if (bytes > kMaxBytes) {
      return refuse("cannot insert documents of more than " + std::to_string(kMaxBytes) +
                    " bytes at once: give fewer");
    }
    if (Result<void> ok = state_->queue.transactions->check(document); !ok) {
      return std::unexpected(of_document(copies.size(), ok.error()));
    }
    copies.emplace_back(document.begin(), document.end());
  }
  return copies;
}

Result<Range> GaplessInserter::insert(std::span<const std::span<const std::byte>> documents) {
  auto copies = checked(documents);
  if (!copies) return std::unexpected(std::move(copies).error());
  return state_->queue.insert(*std::move(copies));
}

Result<void> GaplessInserter::submit(std::span<const std::span<const std::byte>> documents,
                                     MoveOnlyFunction<void(Result<Range>)> done) {
  auto copies = checked(documents);
  if (!copies) return std::unexpected(std::move(copies).error());
  return state_->queue.submit(*std::move(copies), std::move(done));
}

void GaplessInserter::close() noexcept {
  if (state_->owned) state_->queue.close();
}

}  // namespace idmint
