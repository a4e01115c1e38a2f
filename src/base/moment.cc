#include "base/moment.h"

#include <bit>

#include "base/posix_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace idmint {
namespace {

#if defined(__x86_64__)

bool has_rdseed() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 18)) != 0;
}

[[gnu::target("rdseed")]] std::uint64_t from_processor() noexcept {
  static const bool there = has_rdseed();
  constexpr int kTries = 10;  // it may have none ready while other processors draw
  unsigned long long value = 0;
  for (int i = 0; there && i < kTries; ++i)
    if (_rdseed64_step(&value) != 0) return value;
  return 0;
}

std::uint64_t ticks_now() noexcept { return __rdtsc(); }

#elif defined(__aarch64__)

std::uint64_t from_processor() noexcept {
  constexpr unsigned long kRandom = 1UL << 16;  // HWCAP2_RNG
  if ((getauxval(AT_HWCAP2) & kRandom) == 0) return 0;
  std::uint64_t value = 0;
  asm volatile("mrs %0, s3_3_c2_c4_0" : "=r"(value) : : "cc");  // RNDR; 0: it failed
  return value;
}

std::uint64_t ticks_now() noexcept {
  std::uint64_t value = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}

#else

std::uint64_t from_processor() noexcept { return 0; }
std::uint64_t ticks_now() noexcept { return 0; }

#endif

}  // namespace

Moment this_moment() noexcept {
  return {.processor = from_processor(),
          .ticks = ticks_now(),
          .wall = static_cast<std::uint64_t>(read_ns(CLOCK_REALTIME)),
          .boot = static_cast<std::uint64_t>(read_ns(CLOCK_BOOTTIME))};
}

std::array<std::uint64_t, 2> digest_of(const Moment& moment) noexcept {
  // Each half is a bijection of any one word while the other words are fixed.
  std::uint64_t low = 0;
  std::uint64_t high = 0x9e3779b97f4a7c15;
  for (const std::uint64_t word : {moment.processor, moment.ticks, moment.wall, moment.boot}) {
    low = scatter(low + word);
    high = scatter(std::rotl(high, 23) ^ word ^ low);
  }
  return {low, high};
}

}  // namespace idmint
