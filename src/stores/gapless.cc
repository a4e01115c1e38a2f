// The calls of a GaplessInserter, combined: one of the callers leads, and takes those who queue
// into its transaction; who leaves the lead wakes the one that waits longest.
#include "idmint/gapless.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/store.h"
#include "stores/backend.h"

namespace idmint {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using stores::GaplessTransactions;

// Of one transaction, if it is of several calls: what takes longer keeps others waiting.
constexpr std::size_t kMostDocuments = 1000;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

std::unexpected<Error> refuse(std::string why) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(why)});
}

// A call that waits.
struct Request {
  std::shared_ptr<const GaplessTransactions::Documents> documents;
  std::size_t bytes = 0;
  SteadyTime until{};
  bool taken = false;  // into the transaction under way
  std::optional<Result<Range>> answer{};
  std::condition_variable changed{};
};

}  // namespace

struct GaplessInserter::State {
  const OwnedByProcess owner{};
  const Definition definition;
  const std::string url;  // without passwords
  const GaplessOptions options;
  std::unique_ptr<GaplessTransactions> transactions;

  std::mutex mutex{};  // guards what follows
  std::deque<Request*> queue{};
  bool led = false;
  GaplessStatistics statistics{};

  void lead(std::unique_lock<std::mutex>& lock);
  void serve(std::vector<Request*> batch);
};

GaplessInserter::GaplessInserter(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}

// In a child of fork() what is there is left as it is, on purpose.
GaplessInserter::~GaplessInserter() {
  if (!state_->owner) {
    [[maybe_unused]] const auto* const left = state_.release();
  }
}

const Definition& GaplessInserter::definition() const noexcept { return state_->definition; }

GaplessStatistics GaplessInserter::statistics() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->statistics;
}

Result<std::unique_ptr<GaplessInserter>> GaplessInserter::open(std::string_view url,
                                                               std::string_view name,
                                                               std::string_view collection,
                                                               std::string_view field,
                                                               const GaplessOptions& options) {
  Result<stores::NumberField> target = stores::number_field(collection, field);
  if (!target) return std::unexpected(std::move(target.error()));
  const Result<std::unique_ptr<Store>> store =
      open_store(url, {.deadline = options.deadline, .create = false, .access = Access::kReadOnly});
  if (!store) return std::unexpected(store.error());
  const std::string where = "sequence " + std::string(name) + " in " + std::string((*store)->url());
  const auto refuse_it = [&](Code code, const std::string& why) {
    return std::unexpected(Error{code, where + ": " + why});
  };
  const Result<Definition> definition = (*store)->catalog()->find(name);
  if (!definition && definition.error().code == Code::kNotFound)
    return refuse_it(Code::kNotFound, "no such sequence; create it: idmint create " +
                                          std::string(name) + " --strategy gapless");
  if (!definition) return std::unexpected(definition.error());
  if (definition->strategy != Strategy::kGapless)
    return refuse_it(Code::kFailedPrecondition,
                     "it is " + std::string(idmint::name(definition->strategy)) +
                         ", and only the numbers of a gapless one come with documents; create one: "
                         "idmint create NAME --strategy gapless");
  if (definition->retired)
    return refuse_it(Code::kFailedPrecondition, "it is retired: nothing comes from it any more");
  if (Result<void> possible = (*store)->has_transactions(); !possible)
    return refuse_it(possible.error().code, possible.error().message);
#ifdef IDMINT_MONGODB
  auto transactions = stores::open_mongodb_gapless(url, *definition, *std::move(target), options);
  if (!transactions) return std::unexpected(std::move(transactions.error()));
  std::unique_ptr<State> state(new State{.definition = *definition,
                                         .url = std::string((*store)->url()),
                                         .options = options,
                                         .transactions = *std::move(transactions)});
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
  Request request;
  request.until = std::chrono::steady_clock::now() + state.options.deadline;
  auto copies = std::make_shared<GaplessTransactions::Documents>();
  for (const std::span<const std::byte> document : documents) {
    request.bytes += document.size();
    if (request.bytes > kMaxBytes)
      return refuse("cannot insert documents of more than " + std::to_string(kMaxBytes) +
                    " bytes at once: give fewer");
    if (Result<void> ok = state.transactions->check(document); !ok) {
      const auto at = copies->size();
      return refuse("document " + std::to_string(at) + ": " + ok.error().message);
    }
    copies->emplace_back(document.begin(), document.end());
  }
  request.documents = std::move(copies);

  std::unique_lock lock(state.mutex);
  if (state.queue.size() >= state.options.max_outstanding)
    return std::unexpected(Error{Code::kResourceExhausted,
                                 std::to_string(state.queue.size()) +
                                     " calls wait for gapless numbers of " + state.definition.name +
                                     "; nothing was inserted; ask again later"});
  state.queue.push_back(&request);
  const SteadyTime begun_by = request.until - state.options.deadline / 4;
  while (!request.answer) {
    if (!request.taken && !state.led) {
      state.lead(lock);
    } else if (request.taken) {
      request.changed.wait(lock);  // its transaction has a deadline
    } else if (request.changed.wait_until(lock, begun_by) == std::cv_status::timeout &&
               !request.taken) {
      std::erase(state.queue, &request);
      return std::unexpected(
          Error{Code::kUnavailable, "no transaction with gapless numbers of " +
                                        state.definition.name + " in " + state.url +
                                        " had begun in time, as others took long; nothing was "
                                        "inserted; ask again"});
    }
  }
  return *std::move(request.answer);
}

// Serves those who wait longest.
void GaplessInserter::State::lead(std::unique_lock<std::mutex>& lock) {
  led = true;
  std::vector<Request*> batch;
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (!queue.empty()) {
    Request& next = *queue.front();
    count += next.documents->size();
    bytes += next.bytes;
    if (!batch.empty() && (count > kMostDocuments || bytes > kMostBytes)) break;
    next.taken = true;
    batch.push_back(&next);
    queue.pop_front();
  }
  lock.unlock();
  serve(std::move(batch));
  lock.lock();
  led = false;
  if (!queue.empty()) queue.front()->changed.notify_one();
}

// Who is to blame is left out, and the others are tried again; where nobody is known to be, each is
// tried alone.
void GaplessInserter::State::serve(std::vector<Request*> batch) {
  const auto answer = [this](Request& request, Result<Range> result) {
    const std::lock_guard lock(mutex);
    if (result) {
      ++statistics.calls;
      statistics.documents += request.documents->size();
    }
    request.answer = std::move(result);
    request.changed.notify_one();
  };
  while (!batch.empty()) {
    std::vector<std::shared_ptr<const GaplessTransactions::Documents>> calls;
    SteadyTime until = SteadyTime::max();
    for (const Request* const request : batch) {
      calls.push_back(request->documents);
      until = std::min(until, request->until);
    }
    {
      const std::lock_guard lock(mutex);
      ++statistics.transactions;
    }
    const auto done = transactions->insert(std::move(calls), until);
    if (done) {
      std::int64_t next = done->first;
      for (Request* const request : batch) {
        const auto count = static_cast<std::int64_t>(request->documents->size());
        answer(*request, Range{next, 1, count});
        next += count;
      }
      return;
    }
    const GaplessTransactions::Refused& refused = done.error();
    if (refused.call) {
      answer(*batch[*refused.call], std::unexpected(refused.error));
      batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(*refused.call));
      continue;
    }
    if (refused.retry_others && batch.size() > 1) {
      for (Request* const request : batch) serve({request});
      return;
    }
    for (Request* const request : batch) answer(*request, std::unexpected(refused.error));
    return;
  }
}

}  // namespace idmint
