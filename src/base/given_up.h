// Whether anybody still waits for what a thread does.
#pragma once

#include <atomic>

namespace idmint {

// While it lives, the thread that made it may be given up: waiting for servers ends within a second
// after the flag is set, as if the deadline had passed. The flag must outlive it.
class MayBeGivenUp final {
 public:
  explicit MayBeGivenUp(const std::atomic<bool>& flag) noexcept { flag_ = &flag; }
  ~MayBeGivenUp() { flag_ = nullptr; }
  MayBeGivenUp(const MayBeGivenUp&) = delete;
  MayBeGivenUp& operator=(const MayBeGivenUp&) = delete;

  // Asks for the calling thread. False: its call is waited for to the end.
  [[nodiscard]] static bool applies() noexcept { return flag_ != nullptr; }
  // Nobody waits for the calling thread any more.
  [[nodiscard]] static bool happened() noexcept { return flag_ != nullptr && flag_->load(); }

 private:
  inline static constinit thread_local const std::atomic<bool>* flag_ = nullptr;
};

}  // namespace idmint
