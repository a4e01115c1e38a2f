// Clocks. idmint reads the time through a Clock only, never from the operating system directly.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// UTC without leap seconds, 1677 to 2262.
using Instant = std::chrono::sys_time<std::chrono::nanoseconds>;

// The deadline of a call, on the monotonic clock. SteadyTime::max(): only the deadline of the
// options holds.
using SteadyTime = std::chrono::steady_clock::time_point;

// A wall clock. It may jump either way or stand still, and its users must stay correct. Any thread
// may call any method at any time. A clock must outlive everything that uses it.
class IDMINT_EXPORT Clock {
 public:
  [[nodiscard]] virtual Instant now() noexcept = 0;

  // Sleeps until this clock shows `when` or later. May return earlier (a signal, a clock that was
  // set meanwhile): check now() again. Sleeps at most about `at_most`, the distance to `when` at
  // the caller's last reading, even if the clock is set back meanwhile.
  virtual void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept = 0;

 protected:
  ~Clock() = default;
};

// The clocks of this host. All show CLOCK_REALTIME; they differ in cost and staleness. None runs a
// thread. The costs were measured on a 2.6 GHz EPYC in a virtual machine.
[[nodiscard]] IDMINT_EXPORT Clock& system_clock() noexcept;  // precise; 22 ns
[[nodiscard]] IDMINT_EXPORT Clock&
coarse_clock() noexcept;  // at most one kernel tick (4 ms) stale; 5 ns
[[nodiscard]] IDMINT_EXPORT Clock& seconds_clock() noexcept;  // whole seconds, like time(); 2 ns

// At most 1 ms stale; 10 ns. Shows the right millisecond unless the clock is being set. Reads the
// processor's time stamp counter; each thread reads CLOCK_REALTIME a few times a millisecond. On a
// host without an invariant time stamp counter it is system_clock().
[[nodiscard]] IDMINT_EXPORT Clock& tsc_clock() noexcept;

// The bounds of the ids of one instant, for range queries by time on a column of ids. Both are
// inclusive: smallest <= id <= largest for every id of that instant's time unit.
template <class T>
struct Bounds {
  T smallest;
  T largest;

  friend constexpr bool operator==(const Bounds&, const Bounds&) = default;
};

// ---- instants as text

// "2018-06-09T10:00:00.000Z": to the millisecond, UTC.
[[nodiscard]] IDMINT_EXPORT std::string format_time(Instant time);
// Like format_time, with as many fraction digits as needed, up to nanoseconds, or none:
// "2018-06-09T10:00:00Z". parse_time() returns exactly the same instant.
[[nodiscard]] IDMINT_EXPORT std::string format_exact_time(Instant time);

// Accepts these forms only, without surrounding blanks:
//   2026-01-01                         midnight UTC
//   2026-01-01T08:30:00.5+01:00        RFC 3339. The fraction has 1 to 9 digits and is optional;
//                                      T may be t or a blank; Z, z, +hh:mm or -hh:mm is required
//   2026-01-01T08:30Z, +0100, +01      the shorter forms of ISO 8601
//   @1700000000, @1700000000123ms      seconds or milliseconds since 1970; @-1 is before 1970
// Errors:
// - kInvalidArgument: another form, or a day or time that does not exist. An Instant has no leap
//   seconds.
// - kOutOfRange: the time lies outside 1677-09-21 to 2262-04-11.
[[nodiscard]] IDMINT_EXPORT Result<Instant> parse_time(std::string_view text);

}  // namespace idmint
