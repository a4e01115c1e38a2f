#include "idmint/clock.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <thread>

namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMs;
constexpr std::int64_t kTick = 4 * kMs;

// A machine whose clocks go on only when they are read or slept on.
struct Machine {
  std::int64_t realtime = 1'700'000'000 * kSecond + 123'456'789;
  std::int64_t read_takes = 40;
  std::int64_t waking_takes = 50'000;
  bool stands_still = false;
  std::function<void(Machine&)> while_asleep = [](Machine&) {};

  int sleeps = 0;
  std::int64_t longest_sleep = 0;
  std::int64_t slept = 0;

  void pass(std::int64_t ns) {
    if (!stands_still) realtime += ns;
  }
};

thread_local Machine* machine = nullptr;  // null: the real one

}  // namespace

// Instead of the C library's, as libfaketime does it.
extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  if (machine == nullptr) return static_cast<int>(::syscall(SYS_clock_gettime, clock, out));
  machine->pass(machine->read_takes);
  const std::int64_t ns = clock == CLOCK_REALTIME_COARSE
                              ? machine->realtime - machine->realtime % kTick
                              : machine->realtime;
  *out = {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
  return 0;
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

extern "C" int clock_nanosleep(clockid_t clock, int flags, const timespec* request,
                               timespec* rest) {
  if (machine == nullptr) {
    return static_cast<int>(::syscall(SYS_clock_nanosleep, clock, flags, request, rest));
  }
  EXPECT_EQ(clock, CLOCK_MONOTONIC);
  EXPECT_EQ(flags, 0);
  const std::int64_t ns = request->tv_sec * kSecond + request->tv_nsec;
  ++machine->sleeps;
  machine->longest_sleep = std::max(machine->longest_sleep, ns);
  machine->slept += ns;
  machine->pass(ns + machine->waking_takes);
  machine->while_asleep(*machine);
  return 0;
}

namespace idmint {
namespace {

std::int64_t ns_of(Instant instant) { return instant.time_since_epoch().count(); }
Instant instant(std::int64_t ns) { return Instant{std::chrono::nanoseconds{ns}}; }

std::int64_t real_ns(clockid_t clock) {
  timespec t;
  ::syscall(SYS_clock_gettime, clock, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

// ---- the real clocks

TEST(Clocks, AreAsStaleAsPromisedAndNeverAhead) {
  struct Case {
    const char* name;
    Clock& clock;
    clockid_t source;  // how late the kernel's own ticks come is not for a test to say
    std::int64_t stale;
  };
  for (const Case& c : {Case{"system", system_clock(), CLOCK_REALTIME, 0},
                        Case{"coarse", coarse_clock(), CLOCK_REALTIME_COARSE, 0},
                        Case{"seconds", seconds_clock(), CLOCK_REALTIME_COARSE, kSecond},
                        Case{"tsc", tsc_clock(), CLOCK_REALTIME, kMs}}) {
    for (int i = 0; i < 100'000; ++i) {
      const std::int64_t before = real_ns(c.source);
      const std::int64_t shown = ns_of(c.clock.now());
      const std::int64_t after = real_ns(c.source);
      ASSERT_GE(shown, before - c.stale) << c.name;
      ASSERT_LE(shown, after) << c.name;
    }
  }
}

// On one thread and on another that begins while the first one's rate is known. It is read until
// one reading was kept, as the thread may lack a processor for most of the time.
TEST(TscClock, ShowsTheRightMillisecondAndKeepsIt) {
  const auto look = [] {
    std::set<std::int64_t> shown;
    std::size_t reads = 0;
    const std::int64_t start = real_ns(CLOCK_MONOTONIC);
    const auto goes_on = [&] {
      const std::int64_t passed = real_ns(CLOCK_MONOTONIC) - start;
      const bool kept = shown.size() < reads || &tsc_clock() == &system_clock();
      return passed < 50 * kMs || (!kept && passed < 10 * kSecond);
    };
    while (goes_on()) {
      const std::int64_t before = real_ns(CLOCK_REALTIME) / kMs;
      const std::int64_t now = ns_of(tsc_clock().now());
      const std::int64_t after = real_ns(CLOCK_REALTIME) / kMs;
      ASSERT_GE(now / kMs, before);
      ASSERT_LE(now / kMs, after);
      shown.insert(now);
      ++reads;
    }
    if (&tsc_clock() != &system_clock()) {
      EXPECT_LT(shown.size(), reads);
    }
  };
  look();
  std::thread(look).join();
}

TEST(SecondsClock, ShowsWholeSeconds) { EXPECT_EQ(ns_of(seconds_clock().now()) % kSecond, 0); }

// ---- waiting, on a machine of the test's own

class Waiting : public testing::TestWithParam<Clock& (*)() noexcept> {
 protected:
  Waiting() { ::machine = &machine_; }
  ~Waiting() override { ::machine = nullptr; }

  Clock& clock() { return GetParam()(); }
  std::int64_t realtime() const { return machine_.realtime; }
  void sleep(std::int64_t ns) {
    clock().sleep_until(instant(realtime() + ns), std::chrono::nanoseconds{ns});
  }

  Machine machine_;
};

TEST_P(Waiting, EndsWhenTheClockShowsTheInstant) {
  for (const std::int64_t ahead : {std::int64_t{1}, std::int64_t{5'000}, std::int64_t{70'000},
                                   3 * kMs, 25 * kMs, 2 * kSecond}) {
    const Instant when = instant(realtime() + ahead);
    clock().sleep_until(when, std::chrono::nanoseconds{ahead});
    EXPECT_GE(clock().now(), when);
    // As late as the clock is stale, and the last looks.
    const std::int64_t stale = &clock() == &seconds_clock()  ? kSecond + kTick
                               : &clock() == &coarse_clock() ? kTick
                                                             : 0;
    EXPECT_LE(realtime(), ns_of(when) + stale + kMs);
  }
}

TEST_P(Waiting, DoesNotSleepForThePast) {
  sleep(-2 * kSecond);
  EXPECT_EQ(machine_.sleeps, 0);
}

TEST_P(Waiting, SleepsInPiecesOfTenMilliseconds) {
  sleep(kSecond);
  EXPECT_GE(machine_.sleeps, 90);
  EXPECT_LE(machine_.longest_sleep, 10 * kMs);
}

TEST_P(Waiting, EndsSoonWhenTheClockIsSetForward) {
  machine_.while_asleep = [](Machine& m) {
    if (m.sleeps == 3) m.realtime += 3600 * kSecond;
  };
  const Instant when = instant(realtime() + 60 * kSecond);
  sleep(60 * kSecond);
  EXPECT_EQ(machine_.sleeps, 3);
  EXPECT_GE(clock().now(), when);
}

TEST_P(Waiting, EndsSoonWhenTheClockIsSetBack) {
  machine_.while_asleep = [](Machine& m) {
    if (m.sleeps == 3) m.realtime -= 3600 * kSecond;
  };
  sleep(60 * kSecond);
  EXPECT_LE(machine_.slept, 100 * kMs);
}

TEST_P(Waiting, EndsSoonWhereTheClockWasSetBackSinceItWasRead) {
  const Instant when = instant(realtime() + 5 * kMs);
  machine_.realtime -= 3600 * kSecond;
  clock().sleep_until(when, std::chrono::nanoseconds{5 * kMs});
  EXPECT_GT(machine_.slept, 0) << "whoever asks again at once is soon out of attempts";
  EXPECT_LE(machine_.slept, 5 * kMs + kSecond + 20 * kMs);
}

TEST_P(Waiting, EndsWhenTheClockStandsStill) {
  machine_.stands_still = true;
  for (const std::int64_t ahead : {std::int64_t{1000}, std::int64_t{61'000}, kMs, kSecond}) {
    machine_.slept = 0;
    sleep(ahead);
    EXPECT_LE(machine_.slept, ahead + kSecond + 20 * kMs);
  }
}

INSTANTIATE_TEST_SUITE_P(Clocks, Waiting,
                         testing::Values(&system_clock, &coarse_clock, &seconds_clock, &tsc_clock),
                         [](const auto& of) {
                           return std::string(of.param == &system_clock    ? "System"
                                              : of.param == &coarse_clock  ? "Coarse"
                                              : of.param == &seconds_clock ? "Seconds"
                                                                           : "Tsc");
                         });

TEST(SystemClock, WakesInTimeToBeExact) {
  Machine own;
  ::machine = &own;
  const Instant when = instant(own.realtime + 7 * kMs);
  system_clock().sleep_until(when, std::chrono::nanoseconds{7 * kMs});
  EXPECT_GE(own.realtime, ns_of(when));
  EXPECT_LE(own.realtime, ns_of(when) + 100);
  ::machine = nullptr;
}

}  // namespace
}  // namespace idmint
