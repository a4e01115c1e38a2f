// Whether the caller of a store has another one to go on with.
#pragma once

namespace idmint {

// While one of these lives, a call of its thread to a store ends at once with kUnavailable if the
// store's servers refuse the connection, or if there are no hosts of their names. Otherwise the
// call tries again until its deadline, because a server that restarts refuses connections too. A
// server that does not answer is waited for in both cases.
class OtherStoreAtHand {
 public:
  OtherStoreAtHand() noexcept { ++count_; }
  ~OtherStoreAtHand() { --count_; }
  OtherStoreAtHand(const OtherStoreAtHand&) = delete;
  OtherStoreAtHand& operator=(const OtherStoreAtHand&) = delete;

  // For the calling thread.
  [[nodiscard]] static bool is() noexcept { return count_ != 0; }

 private:
  static inline thread_local int count_ = 0;
};

}  // namespace idmint
