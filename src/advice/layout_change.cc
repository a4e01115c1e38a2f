#include "advice/layout_change.h"

#include <algorithm>
#include <array>
#include <limits>

namespace idmint::advice {

namespace {

__extension__ using Wide = __int128;

Wide ns(Instant at) { return at.time_since_epoch().count(); }

// ---- which integers are ids

// A field of an integer, and the range of its values.
struct Field {
  int shift;
  int bits;
  std::uint64_t least;
  std::uint64_t most;
};

// From the most significant one; together all 64 bits.
using Fields = std::array<Field, 3>;

int time_shift(const SnowflakeLayout& layout) { return layout.worker_bits + layout.sequence_bits; }

// The ids of these ticks.
Fields fields_of(const LayoutUse& use, std::uint64_t first_tick, std::uint64_t last_tick) {
  const SnowflakeLayout& layout = use.layout;
  const int shift = time_shift(layout);
  const bool worker_first = layout.order == SnowflakeLayout::Order::kWorkerThenSequence;
  const Field worker{worker_first ? layout.sequence_bits : 0, layout.worker_bits, use.workers.least,
                     use.workers.most};
  const Field sequence{worker_first ? 0 : layout.worker_bits, layout.sequence_bits, 0,
                       layout.max_sequence()};
  return {Field{shift, 64 - shift, first_tick, last_tick}, worker_first ? worker : sequence,
          worker_first ? sequence : worker};
}

bool is_empty(const Fields& fields) {
  return std::ranges::any_of(fields, [](const Field& f) { return f.least > f.most; });
}

std::uint64_t end_of_ids(const Fields& fields, std::uint64_t Field::* end) {
  std::uint64_t value = 0;
  for (const Field& field : fields) value |= field.*end << field.shift;
  return value;
}

const Field& field_at(const Fields& fields, int bit) {
  return *std::ranges::find_if(
      fields, [&](const Field& f) { return f.shift <= bit && bit < f.shift + f.bits; });
}

// The smallest, or the largest, integer in both sets. Goes from the top bit down. All that matters
// of the bits chosen so far is whether the present field, on either side, still equals the
// beginning of its least value and of its greatest: 16 states. So the integer is found in 64 steps,
// or proved not to exist.
enum State : unsigned { kAtLeast = 1, kAtMost = 2, kOfOne = 3, kStates = 16 };

// The state after the bit; kStates: the bit cannot be `digit`.
unsigned after(const std::array<const Fields*, 2>& sides, int bit, unsigned state, unsigned digit) {
  unsigned next = 0;
  for (unsigned side = 0; side < 2; ++side) {
    const Field& field = field_at(*sides[side], bit);
    const bool begins = bit == field.shift + field.bits - 1;
    const unsigned its = begins ? kOfOne : state >> 2 * side & kOfOne;
    const unsigned least = field.least >> (bit - field.shift) & 1;
    const unsigned most = field.most >> (bit - field.shift) & 1;
    if (((its & kAtLeast) != 0 && digit < least) || ((its & kAtMost) != 0 && digit > most)) {
      return kStates;
    }
    const unsigned still = ((its & kAtLeast) != 0 && digit == least ? kAtLeast : 0U) |
                           ((its & kAtMost) != 0 && digit == most ? kAtMost : 0U);
    next |= still << 2 * side;
  }
  return next;
}

std::optional<std::uint64_t> in_both(const Fields& a, const Fields& b, bool largest = false) {
  if (is_empty(a) || is_empty(b)) return std::nullopt;
  const std::array sides = {&a, &b};
  // possible[n][s]: the lowest n bits can be completed from state s.
  std::array<std::array<bool, kStates + 1>, 65> possible{};
  std::fill_n(possible[0].begin(), std::size_t{kStates}, true);
  for (int bit = 0; bit < 64; ++bit) {
    for (unsigned state = 0; state < kStates; ++state) {
      const auto& below = possible[static_cast<std::size_t>(bit)];
      possible[static_cast<std::size_t>(bit) + 1][state] =
          below[after(sides, bit, state, 0)] || below[after(sides, bit, state, 1)];
    }
  }
  unsigned state = 0;  // the top bit begins a field on both sides
  if (!possible[64][state]) return std::nullopt;
  std::uint64_t value = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const auto& below = possible[static_cast<std::size_t>(bit)];
    const unsigned wanted = largest ? 1 : 0;
    const unsigned digit = below[after(sides, bit, state, wanted)] ? wanted : 1 - wanted;
    state = after(sides, bit, state, digit);
    value |= std::uint64_t{digit} << bit;
  }
  return value;
}

// ---- and when they are minted

constexpr std::uint64_t kAllOnes = ~std::uint64_t{0};

// The last tick whose beginning is an Instant.
std::uint64_t last_begun(const SnowflakeLayout& layout) {
  const Wide instants = (ns(Instant::max()) - ns(layout.epoch)) / layout.unit.count();
  return static_cast<std::uint64_t>(std::min<Wide>(layout.max_tick(), instants));
}

Wide tick_at(const SnowflakeLayout& layout, Wide time) {
  const Wide since = time - ns(layout.epoch);
  return since < 0 ? -1 : since / layout.unit.count();
}

// A switch at T is unsafe if minted_from(x) <= T < minted_until(x) for an x of both: the old
// generators have minted x, and the new ones will.
class Meeting {
 public:
  explicit Meeting(const LayoutChange& change)
      : change_(change),
        from_first_(static_cast<std::uint64_t>(
            std::max<Wide>(0, tick_at(change.from.layout, ns(change.since))))),
        from_last_(last_begun(change.from.layout)),
        to_last_(last_begun(change.to.layout)),
        from_shift_(time_shift(change.from.layout)),
        to_shift_(time_shift(change.to.layout)) {}

  // The smallest shared id of old ticks from `first` on.
  [[nodiscard]] std::optional<std::uint64_t> smallest(Wide first) const {
    first = std::max<Wide>(first, from_first_);
    if (first > Wide{from_last_}) return std::nullopt;
    return in_both(fields_of(change_.from, static_cast<std::uint64_t>(first), from_last_),
                   fields_of(change_.to, 0, to_last_));
  }

  [[nodiscard]] std::optional<Fields> until(Instant stop) const {
    const Wide last = std::min<Wide>(from_last_, tick_at(change_.from.layout, ns(stop) + ahead()));
    if (last < Wide{from_first_}) return std::nullopt;
    return fields_of(change_.from, from_first_, static_cast<std::uint64_t>(last));
  }

  [[nodiscard]] std::optional<Fields> from(Instant start) const {
    const Wide first = std::max<Wide>(0, tick_at(change_.to.layout, ns(start) - behind()));
    if (first > Wide{to_last_}) return std::nullopt;
    return fields_of(change_.to, static_cast<std::uint64_t>(first), to_last_);
  }

  [[nodiscard]] std::optional<std::uint64_t> shared(Instant stop, Instant start,
                                                    bool largest = false) const {
    const std::optional<Fields> old_ids = until(stop);
    const std::optional<Fields> new_ids = from(start);
    if (!old_ids || !new_ids) return std::nullopt;
    return in_both(*old_ids, *new_ids, largest);
  }

  // The shared ids if time had no start and no end: the bits below the higher of the two time
  // fields repeat, with this smallest and largest value in each period. REQUIRES: some id is of
  // both.
  [[nodiscard]] std::uint64_t residue(bool largest) const {
    const bool to_is_higher = to_shift_ >= from_shift_;
    const std::uint64_t lower = kAllOnes >> std::min(from_shift_, to_shift_);
    return in_both(fields_of(change_.from, 0, to_is_higher ? lower : 0),
                   fields_of(change_.to, 0, to_is_higher ? 0 : lower), largest)
        .value_or(0);
  }

  [[nodiscard]] std::optional<std::uint64_t> largest_of_all() const {
    return in_both(fields_of(change_.from, from_first_, from_last_),
                   fields_of(change_.to, 0, to_last_), true);
  }

  [[nodiscard]] Wide from_tick(std::uint64_t id) const { return id >> from_shift_; }
  [[nodiscard]] Wide to_tick(std::uint64_t id) const { return id >> to_shift_; }
  [[nodiscard]] Wide minted_from(Wide from_tick) const {
    return ns(change_.from.layout.epoch) + from_tick * from_unit() - ahead();
  }
  [[nodiscard]] Wide minted_until(Wide to_tick) const {
    return ns(change_.to.layout.epoch) + (to_tick + 1) * to_unit() + behind();
  }
  // The largest delay between the old and the new minting of the ids of a pair of equal ticks,
  // without the units.
  [[nodiscard]] Wide apart() const {
    return ns(change_.to.layout.epoch) - ns(change_.from.layout.epoch) + ahead() + behind();
  }

  [[nodiscard]] Wide from_unit() const { return change_.from.layout.unit.count(); }
  [[nodiscard]] Wide to_unit() const { return change_.to.layout.unit.count(); }
  [[nodiscard]] int from_shift() const { return from_shift_; }
  [[nodiscard]] int to_shift() const { return to_shift_; }
  // The end of the new layout's time, on a host with a right clock.
  [[nodiscard]] Wide end() const { return minted_until(Wide{to_last_}) - behind(); }

  // How far the latest old timestamp is past the stop of the old generators.
  [[nodiscard]] Wide ahead() const { return change_.drift.count() + behind(); }

 private:
  // How far the earliest new timestamp is before the start of the new generators.
  [[nodiscard]] Wide behind() const { return change_.clock_error.count(); }

  const LayoutChange& change_;
  const std::uint64_t from_first_;
  const std::uint64_t from_last_;
  const std::uint64_t to_last_;
  const int from_shift_;
  const int to_shift_;
};

// The least n from `first` to `last` with n * slope > limit. Nothing: none. REQUIRES: first >= 0.
std::optional<Wide> least_above(Wide first, Wide last, Wide slope, Wide limit) {
  Wide n = first;
  if (slope > 0 && limit >= 0) n = std::max(n, limit / slope + 1);
  if (n > last || (slope <= 0 && n * slope <= limit)) return std::nullopt;
  return n;
}

// Nothing: the new layout has no time left.
std::optional<Instant> instant(const Meeting& meeting, Wide time) {
  if (time >= meeting.end() || time > ns(Instant::max())) return std::nullopt;
  return Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(time)}};
}

}  // namespace

bool can_meet(const LayoutChange& change) { return Meeting(change).largest_of_all().has_value(); }

std::optional<Bounds<Snowflake>> ids_until(const LayoutChange& change, Instant stop) {
  const std::optional<Fields> fields = Meeting(change).until(stop);
  if (!fields) return std::nullopt;
  return Bounds<Snowflake>{Snowflake{end_of_ids(*fields, &Field::least)},
                           Snowflake{end_of_ids(*fields, &Field::most)}};
}

std::optional<Bounds<Snowflake>> ids_from(const LayoutChange& change, Instant start) {
  const std::optional<Fields> fields = Meeting(change).from(start);
  if (!fields) return std::nullopt;
  return Bounds<Snowflake>{Snowflake{end_of_ids(*fields, &Field::least)},
                           Snowflake{end_of_ids(*fields, &Field::most)}};
}

std::optional<SharedId> shared_id(const LayoutChange& change, Instant stop, Instant start) {
  const std::optional<std::uint64_t> id = Meeting(change).shared(stop, start);
  if (!id) return std::nullopt;
  const Snowflake shared{*id};
  return SharedId{.id = shared,
                  .from = change.from.layout.decode(shared).value_or(SnowflakeParts{}),
                  .to = change.to.layout.decode(shared).value_or(SnowflakeParts{})};
}

// A switch becomes safe only when the last blocking id can no longer be minted and the next one
// does not block yet. Within a repeating period (see residue) there is at most one such instant,
// and whether there is one is a linear inequality in the number of the period.
std::optional<Instant> earliest_switch(const LayoutChange& change, Instant from) {
  const Meeting meeting(change);
  const Instant begin = std::max(from, change.to.layout.epoch);
  const std::optional<std::uint64_t> last_in_the_way = meeting.shared(begin, begin, true);
  if (!last_in_the_way) return instant(meeting, ns(begin));
  const std::uint64_t last_of_all = meeting.largest_of_all().value_or(0);
  const Wide apart = meeting.apart();
  Wide to_tick = meeting.to_tick(last_of_all);  // the last blocking one
  if (meeting.to_shift() >= meeting.from_shift()) {
    // Periods are new ticks. After tick n comes the smallest id of n + 1.
    const Wide ticks = Wide{1} << (meeting.to_shift() - meeting.from_shift());
    const auto n =
        least_above(meeting.to_tick(*last_in_the_way) + 1, to_tick,
                    ticks * meeting.from_unit() - meeting.to_unit(),
                    apart - meeting.from_tick(meeting.residue(false)) * meeting.from_unit());
    if (n) to_tick = *n - 1;
  } else {
    // Periods are old ticks. After the largest id of n comes one of n + 1.
    const Wide ticks = Wide{1} << (meeting.from_shift() - meeting.to_shift());
    const Wide last_of_period = meeting.to_tick(meeting.residue(true));
    const auto n =
        least_above(meeting.from_tick(*last_in_the_way), meeting.from_tick(last_of_all) - 1,
                    meeting.from_unit() - ticks * meeting.to_unit(),
                    apart - meeting.from_unit() + (last_of_period + 1) * meeting.to_unit());
    if (n) to_tick = *n * ticks + last_of_period;
  }
  return instant(meeting, meeting.minted_until(to_tick));
}

std::optional<Instant> end_of_safety(const LayoutChange& change, Instant safe) {
  const Meeting meeting(change);
  const Wide next_tick = tick_at(change.from.layout, ns(safe) + meeting.ahead()) + 1;
  const std::optional<std::uint64_t> next = meeting.smallest(next_tick);
  if (!next) return std::nullopt;
  const auto in_the_way = [&](Wide from_tick, Wide to_tick) {
    return meeting.minted_from(from_tick) < meeting.minted_until(to_tick);
  };
  const std::uint64_t last_of_all = meeting.largest_of_all().value_or(0);
  const Wide apart = meeting.apart();
  std::optional<Wide> from_tick;
  if (meeting.to_shift() >= meeting.from_shift()) {
    // The old generators mint the smallest id of a new tick first.
    const Wide ticks = Wide{1} << (meeting.to_shift() - meeting.from_shift());
    const Wide first_of_period = meeting.from_tick(meeting.residue(false));
    if (in_the_way(meeting.from_tick(*next), meeting.to_tick(*next))) {
      from_tick = meeting.from_tick(*next);
    } else if (const auto n =
                   least_above(meeting.to_tick(*next) + 1, meeting.to_tick(last_of_all),
                               meeting.to_unit() - ticks * meeting.from_unit(),
                               first_of_period * meeting.from_unit() - apart - meeting.to_unit())) {
      from_tick = *n * ticks + first_of_period;
    }
  } else {
    // The new generators mint the largest id of an old tick last.
    const Wide ticks = Wide{1} << (meeting.from_shift() - meeting.to_shift());
    const Wide last_of_period = meeting.to_tick(meeting.residue(true));
    const Wide last = meeting.from_tick(last_of_all);
    if (const auto n = least_above(meeting.from_tick(*next), last - 1,
                                   ticks * meeting.to_unit() - meeting.from_unit(),
                                   -apart - (last_of_period + 1) * meeting.to_unit())) {
      from_tick = *n;
    } else if (in_the_way(last, meeting.to_tick(last_of_all))) {
      from_tick = last;
    }
  }
  if (!from_tick) return std::nullopt;
  return instant(meeting, meeting.minted_from(*from_tick));
}

std::optional<Instant> earliest_start(const LayoutChange& change, Instant stop) {
  const Meeting meeting(change);
  const Instant begin = std::max(stop, change.to.layout.epoch);
  const std::optional<std::uint64_t> last = meeting.shared(stop, begin, true);
  return instant(meeting, last ? meeting.minted_until(meeting.to_tick(*last)) : ns(begin));
}

ChangeAnswer answer(const LayoutChange& change, Instant at) {
  ChangeAnswer all{.old_ids = ids_until(change, at),
                   .new_ids = ids_from(change, at),
                   .shared = shared_id(change, at, at),
                   .earliest = earliest_switch(change, at),
                   .start = earliest_start(change, at)};
  if (all.earliest) all.safe_until = end_of_safety(change, *all.earliest);
  return all;
}

}  // namespace idmint::advice
