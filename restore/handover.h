// A bounded queue between threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace idmint::restore {

template <class Piece>
class Handover {
 public:
  // `most`: pieces that wait at a time.
  explicit Handover(std::size_t most) : most_(most) {}

  // Waits for room. False: the queue is closed, and the piece is gone.
  bool give(Piece piece) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pieces_.size() < most_ || closed_; });
    if (closed_) return false;
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
    return true;
  }
  // Waits for a piece. nullopt: there are no more.
  [[nodiscard]] std::optional<Piece> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pieces_.empty() || closed_; });
    if (pieces_.empty()) return std::nullopt;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.notify_all();
    return piece;
  }
  // Refuses further pieces. The queued ones can still be taken.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  bool closed_ = false;
};

}  // namespace idmint::restore
