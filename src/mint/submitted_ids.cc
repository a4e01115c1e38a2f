#include "mint/submitted_ids.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/errors.h"

namespace idmint {
namespace {

constexpr std::size_t kMostOutstanding = 1'000'000;  // as SequenceOptions::max_outstanding
constexpr std::int64_t kMostTogether = 4096;         // ids of one call for several requests

}  // namespace

Result<void> Source::submit(std::span<Id> /*out*/,
                            std::move_only_function<void(Result<void>)> /*done*/) {
  return fail(Code::kUnimplemented, "this source has no submit(); use next()");
}

SubmittedIds::SubmittedIds(Source& source, std::string owner, Executor* executor,
                           std::chrono::milliseconds deadline)
    : source_(source),
      owner_(std::move(owner)),
      deadline_(deadline),
      submitted_(owner_, kMostOutstanding, executor != nullptr ? *executor : shared_executor(),
                 [this](std::span<Request> batch) { serve(batch); }) {}

Result<void> SubmittedIds::submit(std::span<Id> out,
                                  std::move_only_function<void(Result<void>)> done) {
  if (!submitted_.owned())
    return std::unexpected(about(
        owner_, {Code::kFailedPrecondition, "opened before fork(); open it again in the child"}));
  return submitted_.submit({out, std::chrono::steady_clock::now() + deadline_, std::move(done)});
}

void SubmittedIds::serve(std::span<Request> batch) {
  const std::int64_t largest = source_.declaration().largest_count;
  const std::int64_t most = largest != 0 ? std::min(largest, kMostTogether) : kMostTogether;
  while (!batch.empty()) {
    std::int64_t ids = std::ssize(batch.front().out);
    std::size_t size = 1;
    while (size < batch.size() && ids + std::ssize(batch[size].out) <= most)
      ids += std::ssize(batch[size++].out);
    serve_together(batch.first(size));
    batch = batch.subspan(size);
  }
}

void SubmittedIds::serve_together(std::span<Request> requests) {
  const SteadyTime until = requests.front().until;
  if (requests.size() == 1) return requests.front().done(source_.next(requests.front().out, until));
  std::size_t size = 0;
  for (const Request& each : requests) size += each.out.size();
  ids_.resize(size);
  const Result<void> filled = source_.next(ids_, until);
  // So many are not left, but perhaps as many as one of the requests wants.
  if (!filled && filled.error().code == Code::kOutOfRange) {
    for (Request& each : requests) serve_together({&each, 1});
    return;
  }
  auto from = ids_.cbegin();
  for (Request& each : requests) {
    const auto end = from + std::ssize(each.out);
    if (filled) std::copy(from, end, each.out.begin());
    from = end;
    each.done(filled);
  }
}

}  // namespace idmint
