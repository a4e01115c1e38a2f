// A call of a store's counter, noted for the check of histories.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "base/outcome.h"
#include "store/counter_store.h"
#include "tests/e2e/counter_history.h"

namespace idmint::e2e {

// Nanoseconds of the clock that all processes of the host share.
inline std::int64_t shared_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Takes `count` values. How long a call may take is another test's: see deadlines_test. An error of
// kWrong is written to stderr.
inline Note noted_take(CounterStore& counters, const std::string& counter, std::int64_t count,
                       int caller) {
  Note note{.invoked = shared_now(),
            .answered = 0,
            .longest = std::numeric_limits<std::int64_t>::max(),
            .first = 0,
            .count = count,
            .outcome = Outcome::kTaken,
            .caller = caller};
  const Result<Range> range = counters.advance(counter, count, Take::kAll);
  note.answered = shared_now();
  if (range) {
    note.first = range->first;
    if (range->count != count || range->stride != 1) note.outcome = Outcome::kWrong;
  } else if (outcome_unknown(range.error().code)) {
    note.outcome = Outcome::kUnknown;
  } else if (was_not_applied(range.error().code)) {
    note.outcome = Outcome::kRefused;
  } else {
    note.outcome = Outcome::kWrong;
    std::fprintf(stderr, "%s\n", range.error().message().c_str());
  }
  return note;
}

}  // namespace idmint::e2e
