// Memory that a child of fork() finds zeroed, so that nothing that mints is inherited.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace idmint {

// Whole zeroed pages that the kernel wipes in every child of fork(), vfork() without sharing, or
// clone() (MADV_WIPEONFORK, Linux 4.14). Ends the process where the kernel does not offer it,
// because ids would repeat; throws std::bad_alloc when there is no memory.
[[nodiscard]] void* map_fork_wiped(std::size_t size);
void unmap_fork_wiped(void* pages, std::size_t size) noexcept;

// A T on such pages. In a child every byte of it is zero: T must read all-zero as "not started",
// and costs nothing to check that way. Destroying it in a child runs no destructor of T.
template <class T>
class ForkWiped {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  ForkWiped() : value_(new(map_fork_wiped(sizeof(T))) T{}) {}
  ~ForkWiped() { unmap_fork_wiped(value_, sizeof(T)); }
  ForkWiped(const ForkWiped&) = delete;
  ForkWiped& operator=(const ForkWiped&) = delete;

  T* operator->() const noexcept { return value_; }
  T& operator*() const noexcept { return *value_; }

 private:
  T* value_;
};

// The number of this process among those that it is a fork() of: never 0, and none of theirs.
// Threads may share it, and so may the only thread of a child, as it takes no lock. Throws
// std::bad_alloc when there is no memory.
[[nodiscard]] std::uint64_t number_of_this_process();

// True in the process that made it, false in every child of fork(): what holds locks, handles or
// values asks this first, and touches none of them when it is false. Two loads; one page for all of
// a process.
class OwnedByProcess {
 public:
  OwnedByProcess() : owner_(number_of_this_process()) {}
  OwnedByProcess(const OwnedByProcess&) = delete;
  OwnedByProcess& operator=(const OwnedByProcess&) = delete;

  explicit operator bool() const noexcept {
    return number_.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) == owner_;
  }

 private:
  friend std::uint64_t number_of_this_process();
  // On a page that a child finds wiped: 0, until it asks for its number. Null: nobody has asked.
  static constinit std::atomic<std::atomic<std::uint64_t>*> number_;

  const std::uint64_t owner_;
};

}  // namespace idmint
