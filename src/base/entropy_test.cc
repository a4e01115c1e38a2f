#include "idmint/entropy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/in_child.h"

namespace {

// Records the library's requests to the kernel, for each thread, and scripts the kernel's answers.
struct Kernel {
  int draws = 0;
  std::size_t bytes = 0;
  bool fails = false;
  bool grudging = false;  // every other call is interrupted, and the others give one byte
  bool repeats = false;   // always the same bytes, as in two copies of a machine
  bool wipes = true;      // pages in a child of fork(); otherwise a child is a copy like any other
  std::int64_t steady = 1'000'000'000;  // what the coarse clocks show, ns
  std::int64_t wall = 1'700'000'000'000'000'000;
};
thread_local Kernel kernel;

}  // namespace

// Instead of the C library's.
extern "C" ssize_t getrandom(void* out, size_t size, unsigned flags) {
  if (kernel.fails) {
    errno = ENOSYS;
    return -1;
  }
  if (kernel.grudging && kernel.draws++ % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  if (kernel.grudging) size = 1;
  kernel.draws += !kernel.grudging;
  kernel.bytes += size;
  if (kernel.repeats) {
    std::memset(out, 0x5a, size);
    return static_cast<ssize_t>(size);
  }
  return ::syscall(SYS_getrandom, out, size, flags);
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  if (clock != CLOCK_MONOTONIC_COARSE && clock != CLOCK_REALTIME_COARSE)
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  const std::int64_t ns = clock == CLOCK_MONOTONIC_COARSE ? kernel.steady : kernel.wall;
  *time = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  return 0;
}

extern "C" int madvise(void* pages, size_t size, int advice) {
  if (advice == MADV_WIPEONFORK && !kernel.wipes) return 0;
  return static_cast<int>(::syscall(SYS_madvise, pages, size, advice));
}

namespace idmint {
namespace {

using fakes::in_child;

using Block = std::array<std::byte, 16>;

std::vector<std::byte> draw(std::size_t size) {
  std::vector<std::byte> bytes(size);
  system_entropy().fill(bytes);
  return bytes;
}

Block draw_block() {
  Block block;
  system_entropy().fill(block);
  return block;
}

void in_new_thread(const std::function<void()>& what) { std::thread(what).join(); }

// Past the first bytes, which come from the kernel, into the cipher's.
void draw_past_the_start() {
  for (int i = 0; i < 20; ++i) draw_block();
}

// ---- what is drawn from the kernel

TEST(SystemEntropy, FirstBytesOfAThreadCostOneDrawAndNoCipher) {
  in_new_thread([] {
    for (int i = 0; i < 16; ++i) draw_block();
    EXPECT_EQ(kernel.draws, 1);
    EXPECT_EQ(kernel.bytes, 256U);
    draw_block();
    EXPECT_EQ(kernel.draws, 2);
    EXPECT_EQ(kernel.bytes, 256U + 32U);
  });
}

TEST(SystemEntropy, IsKeyedAnewAfterOneMebibyte) {
  in_new_thread([] {
    draw(std::size_t{1} << 20);
    EXPECT_EQ(kernel.draws, 1);
    draw(512);
    EXPECT_EQ(kernel.draws, 2);
    draw(std::size_t{3} << 20);
    EXPECT_EQ(kernel.draws, 5);
  });
}

TEST(SystemEntropy, SmallDrawsAreKeyedAnewToo) {
  in_new_thread([] {
    for (int i = 0; i < 5 * 65536; ++i) draw_block();  // 5 MiB
    EXPECT_GE(kernel.draws, 1 + 5);
    EXPECT_LE(kernel.draws, 1 + 6);
  });
}

TEST(SystemEntropy, IsKeyedAnewAfterTenMillisecondsOfEitherClock) {
  in_new_thread([] {
    draw(4096);
    int expected = 1;
    const auto keys_after = [&](std::int64_t steady, std::int64_t wall) {
      kernel.steady += steady;
      kernel.wall += wall;
      draw(512);
      return kernel.draws;
    };
    EXPECT_EQ(keys_after(10'000'000, 10'000'000), expected);
    EXPECT_EQ(keys_after(1, 0), ++expected) << "by age";
    EXPECT_EQ(keys_after(0, 3'600'000'000'000), ++expected) << "a restored machine's clock was set";
    EXPECT_EQ(keys_after(0, -3'600'000'000'000), ++expected) << "an older time is as strange";
    EXPECT_EQ(keys_after(0, 0), expected);
  });
}

TEST(SystemEntropy, SmallDrawsAreKeyedAnewWithTheNextBuffer) {
  in_new_thread([] {
    draw_past_the_start();
    const int before = kernel.draws;
    kernel.steady += 10'000'001;
    for (int i = 0; i < 256; ++i) draw_block();
    EXPECT_EQ(kernel.draws, before + 1);
  });
}

TEST(SystemEntropy, CompletesWhatAnInterruptedKernelGivesInPieces) {
  in_new_thread([] {
    kernel.grudging = true;
    const Block block = draw_block();
    EXPECT_EQ(kernel.bytes, 256U);
    EXPECT_NE(block, Block{});
    std::set<Block> seen{block};
    for (int i = 0; i < 15; ++i) EXPECT_TRUE(seen.insert(draw_block()).second);
  });
}

TEST(SystemEntropyDeathTest, EndsTheProcessWithoutRandomness) {
  EXPECT_DEATH(in_new_thread([] {
                 kernel.fails = true;
                 draw_block();
               }),
               "getrandom failed");
  EXPECT_DEATH(in_new_thread([] {
                 draw(std::size_t{1} << 20);
                 kernel.fails = true;  // when the next key is due
                 draw(512);
               }),
               "getrandom failed");
}

// ---- nobody gets another's bytes

std::vector<Block> draw_blocks() {
  std::vector<Block> blocks(64);
  for (Block& block : blocks) block = draw_block();
  return blocks;
}

// Children and parent draw turn by turn; all blocks differ.
void expect_children_differ(const std::function<pid_t()>& spawn) {
  std::set<Block> seen;
  for (int round = 0; round < 5; ++round) {
    const std::vector<Block> of_child = in_child(draw_blocks, spawn);
    ASSERT_EQ(of_child.size(), 64U);
    for (const Block& block : of_child) EXPECT_TRUE(seen.insert(block).second);
    for (const Block& block : draw_blocks()) EXPECT_TRUE(seen.insert(block).second);
  }
}

pid_t bare_clone() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

TEST(SystemEntropyFork, ChildrenDiffer) {
  draw_past_the_start();
  expect_children_differ([] { return ::fork(); });
}

TEST(SystemEntropyFork, ChildrenOfAnotherThreadDiffer) {
  in_new_thread([] {
    draw_past_the_start();
    expect_children_differ([] { return ::fork(); });
  });
}

TEST(SystemEntropyFork, ChildrenOfAThreadThatOnlyBeganDiffer) {
  in_new_thread([] {
    draw_block();
    expect_children_differ([] { return ::fork(); });
  });
}

TEST(SystemEntropyFork, ChildrenMadePastTheCLibraryDiffer) {
  draw_past_the_start();
  expect_children_differ(&bare_clone);
}

TEST(SystemEntropyFork, GrandchildrenDiffer) {
  draw_past_the_start();
  expect_children_differ([] {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const pid_t grandchild = ::fork();
    if (grandchild == 0) return grandchild;
    int status = -1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(status == 0 ? 0 : 1);
  });
}

TEST(SystemEntropyFork, AChildIsKeyedByTheKernel) {
  draw_past_the_start();
  in_child([] {
    kernel = {};
    draw(4096);
    EXPECT_EQ(kernel.draws, 1);
    EXPECT_EQ(kernel.bytes, 32U);
  });
}

TEST(SystemEntropy, ThreadsDiffer) {
  constexpr std::size_t kEach = 2000;
  std::vector<std::vector<Block>> drawn(8);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) {
    threads.emplace_back([&mine] {
      for (std::size_t i = 0; i < kEach; ++i) mine.push_back(draw_block());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<Block> seen;
  for (const auto& mine : drawn) seen.insert(mine.begin(), mine.end());
  EXPECT_EQ(seen.size(), drawn.size() * kEach);
}

// ---- copies of the process that nobody notices

// How many of the blocks that this process draws, after `before`, its copy draws too. Each draw is
// followed by `pause` ns.
std::size_t drawn_by_both(std::size_t blocks, std::int64_t pause) {
  const auto draw_all = [&] {
    std::vector<Block> drawn(blocks);
    for (Block& block : drawn) {
      block = draw_block();
      kernel.steady += pause;
      kernel.wall += pause;
    }
    return drawn;
  };
  const std::vector<Block> of_copy = in_child(draw_all);
  EXPECT_EQ(of_copy.size(), blocks);
  const std::vector<Block> own = draw_all();
  const std::set<Block> drawn(own.begin(), own.end());
  std::size_t both = 0;
  for (const Block& block : of_copy) both += drawn.count(block);
  return both;
}

constexpr std::size_t kBuffered = 253;  // blocks

TEST(SystemEntropyCopy, WithinTenMillisecondsCopiesAgree) {
  in_new_thread([] {
    kernel.wipes = false;
    draw_past_the_start();
    EXPECT_EQ(drawn_by_both(2000, 0), 2000U) << "or what follows tests nothing";
  });
}

TEST(SystemEntropyCopy, AfterTenMillisecondsCopiesAgreeOnWhatWasBufferedOnly) {
  in_new_thread([] {
    kernel.wipes = false;
    for (std::size_t i = 0; i < 3 * kBuffered; ++i) draw_block();
    kernel.steady += 10'000'001;
    EXPECT_LE(drawn_by_both(2000, 0), kBuffered);
  });
}

TEST(SystemEntropyCopy, OfAThreadThatDrawsSlowlyCopiesAgreeOnSixteen) {
  in_new_thread([] {
    kernel.wipes = false;
    for (int i = 0; i < 100; ++i) {
      draw_block();
      kernel.steady += 5'000'000;
    }
    EXPECT_LE(drawn_by_both(200, 5'000'000), 16U);
  });
}

TEST(SystemEntropyCopy, CopiedRandomnessOfTheKernelMakesNoDifference) {
  in_new_thread([] {
    kernel.wipes = false;
    kernel.repeats = true;
    for (std::size_t i = 0; i < 3 * kBuffered; ++i) draw_block();
    kernel.wall += 10'000'001;
    EXPECT_LE(drawn_by_both(2000, 0), kBuffered);
  });
  std::set<Block> seen;
  for (int copy = 0; copy < 100; ++copy) {
    in_new_thread([&] {
      kernel.repeats = true;
      for (int i = 0; i < 16; ++i) EXPECT_TRUE(seen.insert(draw_block()).second);
    });
  }
}

// ---- the bytes themselves

RC_GTEST_PROP(SystemEntropy, FillsExactlyWhatItIsGivenAndNothingTwice, ()) {
  const auto sizes = *rc::gen::container<std::vector<int>>(
      rc::gen::oneOf(rc::gen::elementOf(std::vector{0, 1, 7, 8, 9, 15, 16, 17, 511, 512, 513, 4079,
                                                    4080, 4081, 10000}),
                     rc::gen::inRange(0, 600)));
  std::vector<std::byte> all;
  for (const int size : sizes) {
    const auto count = static_cast<std::size_t>(size);
    std::vector<std::byte> bytes(count + 32, std::byte{0x5a});
    system_entropy().fill(std::span(bytes).subspan(16, count));
    RC_ASSERT(std::count(bytes.begin(), bytes.begin() + 16, std::byte{0x5a}) == 16);
    RC_ASSERT(std::count(bytes.end() - 16, bytes.end(), std::byte{0x5a}) == 16);
    all.insert(all.end(), bytes.begin() + 16, bytes.end() - 16);
  }
  // Runs of 8 bytes at every place: a repeat by chance has odds below 10^-9.
  std::vector<std::uint64_t> runs;
  for (std::size_t i = 0; i + 8 <= all.size(); ++i) {
    std::uint64_t run;
    std::memcpy(&run, all.data() + i, 8);
    runs.push_back(run);
  }
  std::sort(runs.begin(), runs.end());
  RC_ASSERT(std::adjacent_find(runs.begin(), runs.end()) == runs.end());
}

// Compares how often each byte came with all equally often: 255 +- 22.6, if they are random.
double chi_square(const std::vector<std::byte>& bytes) {
  std::array<double, 256> counts{};
  for (const std::byte byte : bytes) ++counts[static_cast<std::size_t>(byte)];
  const double expected = static_cast<double>(bytes.size()) / 256;
  return std::accumulate(counts.begin(), counts.end(), 0.0, [expected](double sum, double count) {
    return sum + (count - expected) * (count - expected) / expected;
  });
}

TEST(SystemEntropy, EveryByteIsAsLikely) {
  std::vector<std::byte> small;
  for (std::size_t size = 0; small.size() < 1'000'000; size = (size + 1) % 40) {
    const auto some = draw(size);
    small.insert(small.end(), some.begin(), some.end());
  }
  for (const auto& bytes : {small, draw(1'000'000)}) {
    EXPECT_GT(chi_square(bytes), 255 - 6 * 22.6);
    EXPECT_LT(chi_square(bytes), 255 + 6 * 22.6);
  }
}

// ---- the end of a thread

std::atomic<bool> drew_at_the_end{false};

struct DrawsWhenDestroyed {
  Block before{};
  ~DrawsWhenDestroyed() {
    const Block first = draw_block();
    const Block second = draw_block();
    drew_at_the_end = first != Block{} && first != second && first != before &&
                      draw(1000) != std::vector<std::byte>(1000);
  }
};

TEST(SystemEntropy, WorksToTheVeryEndOfAThread) {
  in_new_thread([] {
    // Made before the thread's first draw, so destroyed after what that made.
    static thread_local DrawsWhenDestroyed last;
    last.before = draw_block();
  });
  EXPECT_TRUE(drew_at_the_end);
}

std::size_t pages_of_this_process() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages;
  return pages;
}

TEST(SystemEntropy, AThreadGivesItsMemoryBack) {
  const auto threads = [](int count) {
    for (int i = 0; i < count; ++i) in_new_thread(draw_past_the_start);
  };
  threads(50);
  const std::size_t before = pages_of_this_process();
  threads(2000);
  EXPECT_LT(pages_of_this_process(), before + 1000);
}

}  // namespace
}  // namespace idmint
