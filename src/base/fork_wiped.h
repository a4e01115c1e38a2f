// Memory that is zero in a child of fork(), so that a child inherits nothing that mints.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace idmint {

// Whole zeroed pages that the kernel wipes in every child of fork(), vfork() without shared memory,
// or clone() (MADV_WIPEONFORK, Linux 4.14). Ends the process if the kernel does not offer it,
// because ids would repeat. Under an older qemu-user, which only says that it does, they are
// wiped by a handler of fork(): not in a child of _Fork() or of a bare clone(). Throws
// std::bad_alloc without memory.
[[nodiscard]] void* map_fork_wiped(std::size_t size);
void unmap_fork_wiped(void* pages, std::size_t size) noexcept;

// A T on such pages. In a child all of its bytes are zero, so T must read all-zero as "not
// started"; this check costs nothing. In a child the destructor of T is not run.
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

// A number of this process: never 0, and different from those of its ancestors by fork(). Threads
// may share it. Safe in the only thread of a child, since it takes no lock. Throws std::bad_alloc
// without memory.
[[nodiscard]] std::uint64_t number_of_this_process();

// True in the process that made it, false in every child of fork(). Owners of locks, handles or
// values check it first and touch none of them if it is false. Costs two loads, and one page for
// the whole process.
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
  // On a page that is wiped in a child: 0 until the child asks for its number. Null: nobody has
  // asked yet.
  static constinit std::atomic<std::atomic<std::uint64_t>*> number_;

  const std::uint64_t owner_;
};

}  // namespace idmint
