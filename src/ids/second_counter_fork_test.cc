// A fork() while a thread makes the counter that the generators of a process share. It asks for
// memory then, so that is where this one forks. A program of its own: the counter is made once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "ids/second_counter.h"

namespace {

bool forks_next = false;
pid_t child = -1;

// As a child of a fork() by another thread: nobody will finish what is under way.
[[noreturn]] void make_another() {
  ::alarm(60);  // ends it where it would wait for ever
  const auto own = idmint::counter_over(idmint::seconds_clock(), idmint::system_entropy());
  ::_exit(own->take(1) ? 0 : 1);
}

}  // namespace

// Not inlined: where only one of new and delete is, the compiler takes them for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (std::exchange(forks_next, false)) {
    child = ::fork();
    if (child == 0) make_another();
  }
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace idmint {
namespace {

TEST(SecondCounterFork, AChildDoesNotWaitForWhatItsParentWasMaking) {
  forks_next = true;
  const auto counter = counter_over(seconds_clock(), system_entropy());
  ASSERT_FALSE(forks_next);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(counter->take(1));
}

}  // namespace
}  // namespace idmint
