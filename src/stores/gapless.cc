#include "idmint/gapless.h"

#include <mutex>
#include <utility>

#include "base/background.h"
#include "base/errors.h"
#include "base/fork_wiped.h"
#include "idmint/store.h"
#include "stores/backend.h"
#include "stores/gapless_queue.h"

namespace idmint {
namespace {

using stores::GaplessTransactions;

}  // namespace

struct GaplessInserter::State {
  const OwnedByProcess owner{};
  const SequenceDefinition definition;
  const std::string url;  // without passwords
  stores::GaplessQueue queue;
};

GaplessInserter::GaplessInserter(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}

// In a child of fork() what is there is left as it is, on purpose.
GaplessInserter::~GaplessInserter() {
  if (!state_->owner) {
    [[maybe_unused]] const auto* const left = state_.release();
  }
}

const SequenceDefinition& GaplessInserter::definition() const noexcept {
  return state_->definition;
}

GaplessStatistics GaplessInserter::statistics() const noexcept {
  const std::lock_guard lock(state_->queue.mutex);
  return state_->queue.statistics;
}

Result<std::unique_ptr<GaplessInserter>> GaplessInserter::open(std::string_view url,
                                                               std::string_view name,
                                                               std::string_view collection,
                                                               std::string_view field,
                                                               const GaplessOptions& options) {
  const SteadyTime until = std::chrono::steady_clock::now() + options.deadline;
  Result<stores::NumberField> target = stores::number_field(collection, field);
  if (!target) return std::unexpected(std::move(target.error()));
  Result<std::unique_ptr<Store>> store = open_store(
      url,
      {.deadline = options.deadline, .until = until, .create = false, .access = Access::kReadOnly});
  if (!store) return std::unexpected(store.error());
  const std::string where = "sequence " + std::string(name) + " in " + std::string((*store)->url());
  const auto refuse_it = [&](Code code, const std::string& why, Advice advice = {}) {
    return std::unexpected(Error{code, where + ": " + why, std::move(advice)});
  };
  const Result<Definition> found = (*store)->catalog()->find(name, until);
  if (!found && found.error().code == Code::kNotFound)
    return refuse_it(Code::kNotFound, "no such sequence; create it",
                     {Remedy::kCreateSequence, std::string(name), {"gapless"}});
  if (!found) return std::unexpected(found.error());
  const auto* const definition = std::get_if<SequenceDefinition>(&*found);
  if (definition == nullptr || definition->strategy != Strategy::kGapless)
    return refuse_it(Code::kFailedPrecondition,
                     "it is " + std::string(strategy_name(*found)) +
                         ", and only the numbers of a gapless one come with documents; create one",
                     {Remedy::kCreateSequence, "", {"gapless"}});
  if (definition->retired)
    return refuse_it(Code::kFailedPrecondition, "it is retired: nothing comes from it any more");
  if (Result<void> possible = (*store)->has_transactions(until); !possible)
    return refuse_it(possible.error().code, possible.error().message, possible.error().advice);
#ifdef IDMINT_MONGODB
  auto transactions = stores::open_mongodb_gapless(url, *definition, *std::move(target), options);
  if (!transactions) return std::unexpected(std::move(transactions.error()));
  const std::string in((*store)->url());
  std::unique_ptr<State> state(new State{.definition = *definition,
                                         .url = in,
                                         .queue = {.what = definition->name + " in " + in,
                                                   .deadline = options.deadline,
                                                   .max_outstanding = options.max_outstanding,
                                                   .transactions = *std::move(transactions)}});
  // Nobody waits for a server to hear that this one is closed.
  run_in_background([ends = *std::move(store)]() mutable { ends.reset(); });
  return std::unique_ptr<GaplessInserter>(new GaplessInserter(std::move(state)));
#else
  return refuse_it(Code::kUnimplemented, "this build of idmint left MongoDB out");
#endif
}

Result<Range> GaplessInserter::insert(std::span<const std::span<const std::byte>> documents) {
  State& state = *state_;
  if (!state.owner) return std::unexpected(stores::inherited_handle(state.url));
  if (documents.empty() || documents.size() > kMaxDocuments)
    return refuse("cannot insert " + std::to_string(documents.size()) +
                  " documents at once: give 1 to " + std::to_string(kMaxDocuments));
  GaplessTransactions::Documents copies;
  std::size_t bytes = 0;
  for (const std::span<const std::byte> document : documents) {
    bytes += document.size();
    if (bytes > kMaxBytes)
      return refuse("cannot insert documents of more than " + std::to_string(kMaxBytes) +
                    " bytes at once: give fewer");
    if (Result<void> ok = state.queue.transactions->check(document); !ok)
      return std::unexpected(GaplessTransactions::of_document(copies.size(), ok.error()));
    copies.emplace_back(document.begin(), document.end());
  }
  return state.queue.insert(std::move(copies));
}

}  // namespace idmint
