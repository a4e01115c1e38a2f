#include "advice/capacity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "advice/odds.h"
#include "base/quantity.h"
#include "idmint/definition.h"
#include "idmint/sequence.h"

namespace idmint::advice {

namespace {

using namespace std::chrono_literals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// With group commit, a caller waits for the rest of the round under way, half of it on average, and
// for its own round.
constexpr double kRounds = 1.5;
constexpr double kHorizon = 10;  // seconds that a cached range lasts, if it can
constexpr double kRenewal = 5;   // seconds between renewals of a lease, a third of its window
// One id in a call: the rate of 256 callers of one sequence in a SQLite file, measured (README).
// Assumed for other stores too.
constexpr double kCombined = 224e3;
// Gapless documents: the rate of 64 callers that share transactions, measured (docs/stores.md). For
// all hosts together, since the transactions wait for each other.
constexpr double kGaplessCombined = 6100;

double seconds_in(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::chrono::nanoseconds round_trip(IdKind id, const Needs& needs) {
  return is_per_host(id) ? std::min(needs.round_trip, needs.own_round_trip) : needs.round_trip;
}

constexpr std::array kLayouts = {WorkerLayout{"sequence-generator", 63, 1024, 4096},
                                 WorkerLayout{"js-safe", 53, 64, 64}};

// 2015-01-01 and 2^41 - 1 ms.
constexpr std::chrono::sys_seconds kSnowflakeEnds{1420070400s + 2199023255s};
// A generator that makes more ids is limited by the processor only.
constexpr double kMostOfAProcessor = 1e9;

}  // namespace

bool is_per_host(IdKind id) { return id == IdKind::kPerHost || id == IdKind::kRandomPerHost; }

bool shares_a_store(const Candidate& source, const Needs& needs) {
  const bool in_store = source.kind == Kind::kSequence || source.id == IdKind::kPool;
  return in_store && !is_per_host(source.id) && (needs.hosts > 1 || source.id == IdKind::kGapless);
}

double callers_at_once(IdKind id, const Needs& needs) {
  return std::ceil(needs.rate * kRounds * seconds_in(round_trip(id, needs)));
}

bool wants_number(const Needs& needs) { return needs.digits || (needs.bits && *needs.bits < 96); }

std::int64_t largest_number(IdKind id, const Needs& needs) {
  // The value after the last one of a stripe must be storable.
  std::int64_t largest = kLargestValue - (id == IdKind::kInterleaved ? kInterleavedStripes - 1 : 0);
  if (needs.digits && *needs.digits <= kMostDigits) {
    largest = 1;
    for (int i = 0; i < *needs.digits; ++i) largest *= 10;
    --largest;
  }
  if (needs.bits && *needs.bits < 63) largest = (std::int64_t{1} << *needs.bits) - 1;
  return largest;
}

const WorkerLayout& layout_for(const Needs& needs) {
  return needs.bits && *needs.bits < 63 ? kLayouts[1] : kLayouts[0];
}

std::optional<std::chrono::sys_seconds> time_ends(const Candidate& source) {
  if (source.format != nullptr) return source.format->ends;
  if (source.kind == Kind::kWorker) return kSnowflakeEnds;
  return std::nullopt;
}

double parts_of(IdKind id, const Needs& needs) {
  if (is_per_host(id)) return needs.hosts;
  if (id == IdKind::kStriped) return double{kStripes};
  return id == IdKind::kInterleaved ? double{kInterleavedStripes} : 1;
}

std::int64_t block_of(IdKind id, const Needs& needs) {
  const auto hosts = static_cast<std::int64_t>(std::min(needs.hosts, 0x1p62));
  return (largest_number(id, needs) + 1) / hosts;
}

double space_of(const Candidate& source, const Needs& needs) {
  const IdKind id = source.id;
  switch (id) {
    case IdKind::kFormat:
      return std::exp2(source.format->plan.value_bits);
    case IdKind::kSnowflake:
    case IdKind::kPool:
      return std::exp2(layout_for(needs).bits);
    case IdKind::kDigits:
      return std::pow(10.0, needs.digits.value_or(0));
    case IdKind::kPerHost:
    case IdKind::kRandomPerHost:
      return needs.hosts * static_cast<double>(block_of(id, needs));
    case IdKind::kStriped:
    case IdKind::kInterleaved:
    case IdKind::kPermuted:
    case IdKind::kRandom:  // with digits, values without an order begin at 0
      return static_cast<double>(largest_number(id, needs)) + (needs.digits ? 1 : 0);
    default:
      return static_cast<double>(largest_number(id, needs));
  }
}

std::optional<double> odds_of(const Candidate& source, const Needs& needs) {
  if (source.id == IdKind::kDigits) return odds_of_a_repeat(needs.count, space_of(source, needs));
  if (source.format == nullptr) return std::nullopt;
  const Format::Plan& plan = source.format->plan;
  const double space = std::exp2(plan.apart_bits);
  if (plan.apart_by_process) return odds_of_a_repeat(needs.hosts, space);
  if (plan.apart_in == 0ms) return odds_of_a_repeat(needs.count, space);
  // Pairs within one unit of time. Ids of one process do not collide, but a host may have many
  // processes, one after the other: each command is one.
  const double pairs =
      needs.count * std::min(needs.count - 1, needs.rate * seconds_in(plan.apart_in)) / 2;
  return std::min(1.0, pairs / space);
}

double ids_per_second(const Candidate& source, const Needs& needs) {
  const IdKind id = source.id;
  const double waiting = static_cast<double>(SequenceOptions{}.max_outstanding) /
                         (kRounds * seconds_in(round_trip(id, needs)));
  switch (id) {
    case IdKind::kFormat:
      return source.format->plan.per_second == 0 ? kInfinity
                                                 : needs.hosts * source.format->plan.per_second;
    case IdKind::kSnowflake:
    case IdKind::kPool:
      return needs.hosts * 1e3 * layout_for(needs).per_millisecond;
    case IdKind::kCounter:
    case IdKind::kPermuted:
    case IdKind::kPerHost:
    case IdKind::kStriped:
    case IdKind::kInterleaved:
    case IdKind::kRandom:
    case IdKind::kRandomPerHost:
      return needs.hosts * std::min(waiting, kCombined);
    case IdKind::kGapless:
      return std::min(waiting, kGaplessCombined);
    default:
      return kInfinity;  // limited by the processor only
  }
}

double store_writes(const Candidate& source, const Needs& needs) {
  if (source.id == IdKind::kPool) return needs.hosts / kRenewal;  // independent of the rate
  if (source.kind != Kind::kSequence) return 0;
  const double rounds = source.id == IdKind::kCached
                            ? needs.hosts / kHorizon
                            : needs.hosts / seconds_in(round_trip(source.id, needs));
  return std::min(needs.rate, rounds);
}

std::string most_of_a_host(const Needs& needs, const Choice& choice) {
  return print_rate(choice.ids_per_second / needs.hosts) + (needs.hosts > 1 ? " on each host" : "");
}

std::string speed_of(const Candidate& source, const Needs& needs, const Choice& choice) {
  const IdKind id = source.id;
  const double local = seconds_in(round_trip(id, needs));
  const std::string trip = print_duration(local);
  const std::string one = print_rate(1 / local);
  const std::string wait = "; " + print_rate(needs.rate) + " take " +
                           print_count(choice.callers.value_or(0)) +
                           " callers that wait at a time, or batches; one in a call, at most " +
                           most_of_a_host(needs, choice) + ", as measured with SQLite";
  switch (id) {
    case IdKind::kCounter:
    case IdKind::kPermuted:
    case IdKind::kPerHost:
      return "one caller " + one + " with a store that takes " + trip + wait;
    case IdKind::kStriped:
    case IdKind::kInterleaved:
      return "one caller " + one + " with a store that takes " + trip +
             "; no record is written by all" + wait;
    case IdKind::kRandom:
    case IdKind::kRandomPerHost:
      return "one caller " + one + " with a store that takes " + trip +
             "; each id is an insert of its own" + wait;
    case IdKind::kGapless:
      return "one caller " + one + " with a store that takes " + trip + " for a transaction; " +
             print_rate(needs.rate) + " take " + print_count(choice.callers.value_or(0)) +
             " callers that wait at a time and share transactions, or larger batches";
    case IdKind::kCached:
      return "from memory; a range of the store lasts about 10 s, whatever the store takes";
    case IdKind::kSnowflake:
      return print_count(layout_for(needs).per_millisecond) +
             " in a millisecond for each worker id";
    case IdKind::kPool:
      return print_count(layout_for(needs).per_millisecond) +
             " in a millisecond for each worker id, from memory; the lease is renewed under way";
    default: {
      const double most = source.format != nullptr ? source.format->plan.per_second : 0;
      return most != 0 && most < kMostOfAProcessor
                 ? print_count(most) + " a second for each process"
                 : "as fast as the processor: see idmint bench " + std::string(source.name);
    }
  }
}

}  // namespace idmint::advice
