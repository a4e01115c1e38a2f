#include "mint/sequence_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/bounded_mutex.h"
#include "base/errors.h"
#include "base/url.h"
#include "mint/submitted_ids.h"
#include "sequences/life_cycle.h"
#include "sequences/multi_store.h"
#include "sequences/strategies.h"
#include "store/catalog.h"

namespace idmint {

// ---- other stores

Result<std::shared_ptr<Store>> OtherStores::at(const std::string& url, SteadyTime until) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto there = opened_.find(url); there != opened_.end()) return there->second;
  }
  Result<std::shared_ptr<Store>> opened = opener_(url, until);
  if (!opened) return opened;
  const std::lock_guard lock(mutex_);
  return opened_.try_emplace(url, *std::move(opened)).first->second;
}

Result<std::shared_ptr<Store>> OtherStores::with_id(const Move& move, SteadyTime until) {
  std::optional<Error> failed;
  std::size_t left = moved_to_.size();
  // First the one with this URL: another one need not answer then.
  for (const bool same_place : {true, false}) {
    for (const std::string& url : moved_to_) {
      if ((place_of(url) == place_of(move.url)) != same_place) continue;
      Result<std::shared_ptr<Store>> opened = at(url, share_of(until, left--));
      if (opened && (*opened)->id() == move.store) return opened;
      if (opened && same_place)
        failed =
            Error{Code::kDataLoss, "another store than that to which the sequence was moved, " +
                                       move.store.to_string() + ", is at " + move.url +
                                       "; say where that is, or restore it"};
      // One that does not exist is not the one.
      if (!opened && !failed && opened.error().code != Code::kNotFound)
        failed = std::move(opened.error());
    }
  }
  if (failed) return std::unexpected(*std::move(failed));
  return nullptr;
}

PlacedDefinition OtherStores::follow(PlacedDefinition from, SteadyTime until) {
  // A sequence does not come back to a store, so it comes to each of them once at most.
  for (std::size_t moves = 0; moves < moved_to_.size() && from.found; ++moves) {
    const auto* const sequence = std::get_if<SequenceDefinition>(&*from.found);
    if (sequence == nullptr || !sequence->move || sequence->move->stage != Move::Stage::kGone)
      break;
    Result<std::shared_ptr<Store>> store = with_id(*sequence->move, until);
    if (!store) {
      from.found = std::unexpected(std::move(store.error()));
      break;
    }
    if (*store == nullptr) break;
    const std::string name = sequence->name;
    from = {.store = *store, .found = find_definition(**store, name, until)};
    if (!from.found && from.found.error().code == Code::kNotFound)
      from.found = std::unexpected(
          error_at(**store, Code::kDataLoss, name,
                   "it was moved here, and is not here: the store has gone back; restore it, then "
                   "go on with a sequence that begins past every value in use"));
  }
  return from;
}

// ---- the source

namespace {

// The pauses between attempts during a move.
constexpr std::chrono::nanoseconds kFirstMovePause = std::chrono::milliseconds{5};
constexpr std::chrono::nanoseconds kLastMovePause = std::chrono::milliseconds{100};

std::string steps_of(const SequenceDefinition& definition) {
  return definition.stride == 1 ? "" : " in steps of " + std::to_string(definition.stride);
}

std::string places_of(const SequenceDefinition& definition, const Store& store) {
  if (!definition.is_multi_store()) return std::string(store.url());
  std::string all;
  for (const StoreOfStripe& each : definition.over) all += (all.empty() ? "" : ", ") + each.url;
  return all;
}

bool is_of_move(const Error& error) {
  return error.advice.remedy == Remedy::kFollowMove || error.advice.remedy == Remedy::kFinishMove;
}

class SequenceSource final : public Source {
 public:
  SequenceSource(PlacedSequence first, Reopen reopen, const MadeWith& mint)
      : reopen_(std::move(reopen)),
        deadline_(mint.options.store_options.deadline),
        clock_(mint.clock),
        submitted_(*this, "sequence " + first.sequence->definition().name, mint.options.executor,
                   deadline_) {
    const SequenceDefinition& definition = first.sequence->definition();
    declaration_ = {SourceKind::kSequence,
                    definition.name,
                    "integer",
                    guarantee(definition.strategy),
                    order(definition.strategy),
                    std::to_string(definition.first) + " to " + std::to_string(definition.last) +
                        steps_of(definition) + ", kept in " + places_of(definition, *first.store),
                    definition.form,
                    definition.largest_count};
    place(std::move(first));
  }

  const Declaration& declaration() const noexcept override { return declaration_; }

  Result<void> next(std::span<Id> out) override { return next(out, SteadyTime::max()); }

  Result<void> next(std::span<Id> out, SteadyTime until) override {
    if (out.size() == 1) {  // a buffer for several values costs more than a value of a cached range
      std::int64_t value = 0;
      if (Result<void> filled = fill({&value, 1}, until); !filled) return filled;
      out.front() = value;
      return {};
    }
    // All in one call, because the promise of order holds for each call.
    std::array<std::int64_t, 64> few{};
    std::vector<std::int64_t> many(out.size() > few.size() ? out.size() : 0);
    const std::span<std::int64_t> values = many.empty() ? std::span(few).first(out.size()) : many;
    if (Result<void> filled = fill(values, until); !filled) return filled;
    std::ranges::copy(values, out.begin());
    return {};
  }

  Result<void> submit(std::span<Id> out, MoveOnlyFunction<void(Result<void>)> done) override {
    return submitted_.submit(out, std::move(done));
  }

  Sequence* sequence() noexcept override { return now_.load(std::memory_order_acquire); }

 private:
  void place(PlacedSequence placed) {
    places_.push_back(std::move(placed));
    now_.store(places_.back().sequence.get(), std::memory_order_release);
  }

  Result<void> fill(std::span<std::int64_t> values, SteadyTime until) {
    Sequence* const asked = sequence();
    Result<void> filled = asked->next(values, until);
    if (filled || !reopen_ || !is_of_move(filled.error())) [[likely]]
      return filled;
    return fill_elsewhere(values, until, asked, std::move(filled.error()));
  }

  // `asked` gave no values, for the reason `why`.
  Result<void> fill_elsewhere(std::span<std::int64_t> values, SteadyTime until, Sequence* asked,
                              Error why) {
    until = std::min(until, std::chrono::steady_clock::now() + deadline_);
    for (std::chrono::nanoseconds pause = kFirstMovePause;;) {
      if (why.advice.remedy == Remedy::kFollowMove) {
        const Result<void> opened = open_again(asked, until);
        if (!opened) return opened;
      } else {
        const auto left = until - std::chrono::steady_clock::now();
        if (left <= pause) return std::unexpected(std::move(why));
        clock_.sleep_until(clock_.now() + pause, pause);
        pause = std::min(pause * 2, kLastMovePause);
      }
      asked = sequence();
      Result<void> filled = asked->next(values, until);
      if (filled || !is_of_move(filled.error())) return filled;
      why = std::move(filled.error());
    }
  }

  // Replaces `asked`, unless another caller has.
  Result<void> open_again(const Sequence* asked, SteadyTime until) {
    const std::unique_lock lock(mutex_, until);
    if (sequence() != asked) return {};
    if (!lock)
      return std::unexpected(about("sequence " + declaration_.name,
                                   {Code::kUnavailable,
                                    "it was moved, and its store did not answer in time "
                                    "whoever asked first; ask again"}));
    Result<PlacedSequence> placed = reopen_(until);
    if (!placed) return std::unexpected(std::move(placed.error()));
    place(*std::move(placed));
    return {};
  }

  const Reopen reopen_;
  const std::chrono::milliseconds deadline_;
  Clock& clock_;
  Declaration declaration_;
  BoundedMutex mutex_;
  // Those before the last stay for the calls of other threads that use them.
  std::vector<PlacedSequence> places_;  // guarded by mutex_
  std::atomic<Sequence*> now_{nullptr};
  SubmittedIds submitted_;
};

}  // namespace

std::unique_ptr<Source> make_sequence_source(PlacedSequence first, Reopen reopen,
                                             const MadeWith& mint) {
  return std::make_unique<SequenceSource>(std::move(first), std::move(reopen), mint);
}

}  // namespace idmint
