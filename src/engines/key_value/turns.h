// Turns: the calls of this process on one counter, one after the other.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bounded_mutex.h"
#include "base/fork_wiped.h"
#include "base/text.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "store/backend.h"

namespace idmint::stores::key_value {

// Calls on one counter take turns, as of those that come at once only one could succeed. A Guess is
// what the counter was at the end of the latest one: with it, the next one needs no reading. Any
// thread may call it at any time, but not in a child of fork().
template <class Guess>
class Turns {
 public:
  struct OfOne {
    BoundedMutex mutex;  // guards guess
    std::optional<Guess> guess;
  };
  // Ends the turn.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<OfOne> one) : one_(std::move(one)) {}
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (one_ != nullptr) one_->mutex.unlock();
    }
    [[nodiscard]] std::optional<Guess>& guess() const noexcept { return one_->guess; }

   private:
    std::shared_ptr<OfOne> one_;
  };

  Turns() = default;
  ~Turns() {
    // A child of fork() may have them half changed, by a thread of its parent.
    if (owner_) return;
    [[maybe_unused]] const All* const left_alone = all_.release();
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits for those of other calls. `url` and `doing`: for messages.
  Result<Turn> take(std::string_view counter, SteadyTime until, std::string_view url,
                    std::string_view doing) {
    std::shared_ptr<OfOne> one = of(counter);
    if (one->mutex.try_lock_until(until)) return Turn(std::move(one));
    return std::unexpected(
        Error{.code = Code::kUnavailable,
              .what = "could not " + std::string(doing) + " " + std::string(url) +
                      ": other calls of this process hold counter " + shown(counter),
              .outcome = std::string(kNothingChanged)});
  }

 private:
  struct All {
    std::mutex mutex;  // guards by_counter
    std::map<std::string, std::shared_ptr<OfOne>, std::less<>> by_counter;
  };

  std::shared_ptr<OfOne> of(std::string_view counter) {
    const std::lock_guard lock(all_->mutex);
    const auto at = all_->by_counter.find(counter);
    if (at != all_->by_counter.end()) return at->second;
    return all_->by_counter.emplace(counter, std::make_shared<OfOne>()).first->second;
  }

  const OwnedByProcess owner_;
  std::unique_ptr<All> all_ = std::make_unique<All>();
};

}  // namespace idmint::stores::key_value
