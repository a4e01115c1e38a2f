// Executor: runs tasks that no caller waits for. MoveOnlyFunction: such a task, and what submit()
// calls back.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include "idmint/result.h"

namespace idmint {

template <class Signature>
class MoveOnlyFunction;

namespace detail {

template <class Callable>
inline constexpr bool kIsFunctionObject = false;
template <class Signature>
inline constexpr bool kIsFunctionObject<std::function<Signature>> = true;
template <class Signature>
inline constexpr bool kIsFunctionObject<MoveOnlyFunction<Signature>> = true;

}  // namespace detail

// A callable that can be moved but not copied, like std::move_only_function, which libc++ lacks.
// A callable of up to three pointers is kept inside, a larger one on the heap. Empty after a move
// and if made of nothing, of a null pointer or of an empty function; calling an empty one is
// undefined.
template <class R, class... Arguments>
class MoveOnlyFunction<R(Arguments...)> final {
 public:
  MoveOnlyFunction() noexcept = default;
  // Implicit, as those of std::move_only_function are: a lambda is given where a function is taken.
  // NOLINTNEXTLINE(google-explicit-constructor)
  MoveOnlyFunction(std::nullptr_t) noexcept {}

  template <class Callable, class Kept = std::decay_t<Callable>>
    requires(!std::same_as<Kept, MoveOnlyFunction> && std::is_constructible_v<Kept, Callable> &&
             std::is_invocable_r_v<R, Kept&, Arguments...>)
  // NOLINTNEXTLINE(google-explicit-constructor): likewise
  MoveOnlyFunction(Callable&& given) {
    if constexpr (std::is_pointer_v<Kept> || std::is_member_pointer_v<Kept>) {
      const Kept pointer = given;
      if (pointer == nullptr) return;
    } else if constexpr (detail::kIsFunctionObject<Kept>) {
      if (!given) return;
    }
    if constexpr (kInside<Kept>) {
      ::new (static_cast<void*>(place_)) Kept(std::forward<Callable>(given));
    } else {
      ::new (static_cast<void*>(place_)) Kept*(new Kept(std::forward<Callable>(given)));
    }
    call_ = [](std::byte* place, Arguments... arguments) -> R {
      return std::invoke_r<R>(kept<Kept>(place), std::forward<Arguments>(arguments)...);
    };
    move_ = [](std::byte* from, std::byte* to) noexcept {
      if constexpr (kInside<Kept>) {
        Kept& callable = kept<Kept>(from);
        if (to != nullptr) ::new (static_cast<void*>(to)) Kept(std::move(callable));
        callable.~Kept();  // NOLINT(bugprone-use-after-move): what was moved from is destroyed
      } else if (to != nullptr) {
        ::new (static_cast<void*>(to)) Kept*(&kept<Kept>(from));
      } else {
        delete &kept<Kept>(from);
      }
    };
  }

  MoveOnlyFunction(MoveOnlyFunction&& other) noexcept { take(other); }
  MoveOnlyFunction& operator=(MoveOnlyFunction&& other) noexcept {
    if (this != &other) {
      // What is destroyed may reach this object, so it is whole by then.
      MoveOnlyFunction old{std::move(*this)};
      take(other);
    }
    return *this;
  }
  MoveOnlyFunction(const MoveOnlyFunction&) = delete;
  MoveOnlyFunction& operator=(const MoveOnlyFunction&) = delete;
  ~MoveOnlyFunction() {
    if (move_ != nullptr) move_(place_, nullptr);
  }

  R operator()(Arguments... arguments) {
    return call_(place_, std::forward<Arguments>(arguments)...);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return call_ != nullptr; }
  [[nodiscard]] friend bool operator==(const MoveOnlyFunction& function, std::nullptr_t) noexcept {
    return function.call_ == nullptr;
  }

 private:
  static constexpr std::size_t kSize = 3 * sizeof(void*);

  template <class Kept>
  static constexpr bool kInside = sizeof(Kept) <= kSize && alignof(Kept) <= alignof(void*) &&
                                  std::is_nothrow_move_constructible_v<Kept>;

  template <class Kept>
  static Kept& kept(std::byte* place) noexcept {
    if constexpr (kInside<Kept>) {
      return *std::launder(reinterpret_cast<Kept*>(place));
    } else {
      return **std::launder(reinterpret_cast<Kept**>(place));
    }
  }

  // This one is empty.
  void take(MoveOnlyFunction& other) noexcept {
    if (other.move_ != nullptr) other.move_(other.place_, place_);
    call_ = std::exchange(other.call_, nullptr);
    move_ = std::exchange(other.move_, nullptr);
  }

  alignas(void*) std::byte place_[kSize];
  R (*call_)(std::byte* place, Arguments... arguments) = nullptr;
  // Moves to an empty place, or destroys if there is none.
  void (*move_)(std::byte* from, std::byte* to) noexcept = nullptr;
};

// A task blocks on a store or a clock only, at most for the deadline of the object that posted it.
// Tasks do not wait for each other, so one thread serves any number of sequences; n threads allow n
// such waits at a time. An executor must outlive everything that it was given to. It must run or
// destroy each task that it accepted.
class IDMINT_EXPORT Executor {
 public:
  virtual ~Executor() = default;

  // Queues the task, which runs in another thread or in a later event of the same thread. post()
  // must neither run it nor call back into the caller, who may hold a lock. On an error the task
  // never runs. Tasks do not throw. Any thread may call it.
  [[nodiscard]] virtual Result<void> post(MoveOnlyFunction<void()> task) = 0;

  // How long a task keeps serving requests that arrive meanwhile. Then it posts a new task, so that
  // the tasks of others get their turn. 0: it ends after one round trip to the store.
  [[nodiscard]] virtual std::chrono::nanoseconds turn() const noexcept {
    return std::chrono::milliseconds{5};
  }
};

// The default for the process: at most 16 threads, each started when all others are busy. A child
// of fork() has its own. kResourceExhausted from post(): the system can start no thread, and none
// runs yet.
[[nodiscard]] IDMINT_EXPORT Executor& shared_executor();

}  // namespace idmint
