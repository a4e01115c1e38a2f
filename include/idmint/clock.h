// Where time comes from. Nothing in idmint asks the operating system for the time but through a
// Clock.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// UTC without leap seconds, 1677 to 2262.
using Instant = std::chrono::sys_time<std::chrono::nanoseconds>;

// When a call must have answered, by a clock that nobody sets. SteadyTime::max(): only the deadline
// of the options counts.
using SteadyTime = std::chrono::steady_clock::time_point;

// A wall clock. It may jump either way, or stand still; every user must be right whatever it shows.
// Any thread may call any method at any time. A clock must outlive everything that was given it.
class IDMINT_EXPORT Clock {
 public:
  [[nodiscard]] virtual Instant now() noexcept = 0;

  // Returns when this clock shows `when` or later, or earlier for a reason of its own (a signal, a
  // clock set meanwhile): ask now() again. `at_most`: how far ahead `when` lay by the reading that
  // it was reckoned from. About so long is slept, no longer, though the clock was set back by an
  // hour since that reading.
  virtual void sleep_until(Instant when, std::chrono::nanoseconds at_most) noexcept = 0;

 protected:
  ~Clock() = default;
};

// The clocks of this host. All show CLOCK_REALTIME; they differ in cost and staleness. None has a
// thread of its own. Costs as measured on a 2.6 GHz EPYC in a virtual machine.
[[nodiscard]] IDMINT_EXPORT Clock& system_clock() noexcept;  // precise; 22 ns
[[nodiscard]] IDMINT_EXPORT Clock&
coarse_clock() noexcept;  // at most one kernel tick (4 ms) stale; 5 ns
[[nodiscard]] IDMINT_EXPORT Clock& seconds_clock() noexcept;  // whole seconds, as time(); 2 ns

// At most 1 ms stale, and the right millisecond as long as the clock is not being set; 10 ns. Reads
// the processor's time stamp counter and asks CLOCK_REALTIME once in a millisecond and thread.
// Where there is no invariant time stamp counter it is system_clock().
[[nodiscard]] IDMINT_EXPORT Clock& tsc_clock() noexcept;

// The ids of one instant, for range queries by time on a column of ids. Both ends belong to it:
// smallest <= id <= largest for every id of that instant's time unit.
template <class T>
struct Bounds {
  T smallest;
  T largest;

  friend constexpr bool operator==(const Bounds&, const Bounds&) = default;
};

// ---- instants as text

// "2018-06-09T10:00:00.000Z": to the millisecond, UTC.
[[nodiscard]] IDMINT_EXPORT std::string format_time(Instant time);
// As format_time, with the digits of a fraction that it takes, to the nanosecond, or none:
// "2018-06-09T10:00:00Z". parse_time() reads the same instant back.
[[nodiscard]] IDMINT_EXPORT std::string format_exact_time(Instant time);

// Accepts, and nothing else, blanks included:
//   2026-01-01                         midnight UTC
//   2026-01-01T08:30:00.5+01:00        RFC 3339: 1 to 9 digits of a fraction or none; T may be t or
//                                      a blank; Z (or z), +hh:mm or -hh:mm must be there
//   2026-01-01T08:30Z, +0100, +01      and what ISO 8601 allows to be left out of that
//   @1700000000, @1700000000123ms      seconds and milliseconds since 1970; @-1 is before
// kInvalidArgument: it is none of these, or no such day or time exists; an Instant knows no leap
// seconds. kOutOfRange: it lies outside 1677-09-21 to 2262-04-11.
[[nodiscard]] IDMINT_EXPORT Result<Instant> parse_time(std::string_view text);

}  // namespace idmint
