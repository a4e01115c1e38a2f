#include "advice/candidates.h"

#include <algorithm>
#include <array>
#include <vector>

namespace idmint::advice {

namespace {

constexpr std::string_view kNoClock = "no matter: it uses no clock";
constexpr std::string_view kNoStore = "no matter: it uses no store";
constexpr std::string_view kNoState = "nothing is lost, nothing is to be done";
constexpr std::string_view kRestIsAGap =
    "what it had taken and not used is a gap, and never comes again";
constexpr std::string_view kClaimsAreLost = "what it had claimed and not used never comes again";
constexpr std::string_view kBlockIsLost =
    "if its store is lost, so is the rest of its block: no other may ever begin in that block";
constexpr std::string_view kOnlyThatHost = "each host has a store of its own: only that host stops";
constexpr std::string_view kWaits =
    "no ids until it is back: calls fail after the deadline, 5 s; none repeats";
constexpr std::string_view kInTimeOrder =
    "new ids go to the right-hand edge of the index, whose pages stay in memory";
constexpr std::string_view kAnywhere =
    "each new id goes to any page of the index: once it outgrows the memory, an insert costs a "
    "read from the disk, and split pages stay about 69 % full";
// The candidate of a format that needs nothing but a clock and random bits.
Candidate candidate_of(const Format& format) {
  const Format::Plan& plan = format.plan;
  const bool timed = format.ends.has_value();
  return {.id = IdKind::kFormat,
          .name = format.name,
          .about = plan.about,
          .kind = Kind::kCoincidence,
          .guarantee = Guarantee::kPractical,
          .order = name(format.order),
          .holds = format.order == Order::kPerProcess ? Ordering::kPerHost : Ordering::kNone,
          .bits = static_cast<int>(find_kind(format.kind)->bytes) * 8,
          .chars = plan.chars,
          .appends = timed,
          .guessable = timed,
          .locality = timed ? kInTimeOrder : kAnywhere,
          .clock_goes_back = timed ? plan.clock_goes_back : kNoClock,
          .host_dies = kNoState,
          .store_down = kNoStore,
          .format = &format};
}

constexpr std::array kOthers = {
    Candidate{
        IdKind::kSnowflake, "snowflake", "milliseconds since 2015, a worker id, a sequence",
        Kind::kWorker, Guarantee::kUniqueIfConfigured, "per process", Ordering::kPerHost, 63, 0,
        true, true, kInTimeOrder,
        "goes on from the old time, up to 20 s ahead of the clock; past that it refuses until "
        "the clock has caught up",
        "its state file keeps its ids unique after a restart; a new host with its worker id "
        "must not start before the old one's time has passed",
        kNoStore},
    Candidate{
        IdKind::kPool, "pool",
        "snowflake ids under a worker id that each process leases from a store", Kind::kWorker,
        Guarantee::kUnique, "per process", Ordering::kPerHost, 63, 0, true, true, kInTimeOrder,
        "goes on from the old time, up to 20 s ahead of the clock; past that it refuses until the "
        "clock has caught up",
        "its worker id is nobody else's until its time is over, 15 s; whoever has it next begins "
        "past all its ids",
        "ids go on up to the bound that was granted, 10 to 15 s; then calls fail until it is back, "
        "and none repeats"},
    Candidate{IdKind::kCounter, "counter", "one counter in a store, callers combined",
              Kind::kSequence, Guarantee::kLinearizable, "all", Ordering::kStrict, 63, 0, true,
              true, kInTimeOrder, kNoClock, kRestIsAGap, kWaits},
    Candidate{IdKind::kCached, "cached", "one counter; each process holds ranges of it in memory",
              Kind::kSequence, Guarantee::kUnique, "per thread", Ordering::kNone, 63, 0, true, true,
              "nearly in order: each process fills its own range, at a place that stays in memory",
              kNoClock, "the rest of its ranges is a gap, up to about 20 s of its ids",
              "ids go on until the ranges in memory are used up, about 10 s; then calls fail"},
    Candidate{IdKind::kStriped, "striped", "1000 counters, each with a block of its own",
              Kind::kSequence, Guarantee::kUnique, "none", Ordering::kNone, 63, 0, true, true,
              "1000 places of the index, each filled in order: their pages stay in memory",
              kNoClock, kRestIsAGap, kWaits},
    Candidate{IdKind::kInterleaved, "interleaved",
              "16 counters that take turns, each with every 16th number", Kind::kSequence,
              Guarantee::kUnique, "none", Ordering::kNone, 63, 0, true, true,
              "nearly in order, as long as the counters go on at one pace", kNoClock, kRestIsAGap,
              kWaits},
    Candidate{IdKind::kPerHost, "counter for each host",
              "a counter in each host's own store, in a block of its own", Kind::kSequence,
              Guarantee::kUniqueIfConfigured, "per host", Ordering::kPerHost, 63, 0, true, true,
              "as many places of the index as hosts, each filled in order", kNoClock, kBlockIsLost,
              kOnlyThatHost},
    Candidate{IdKind::kPermuted, "permuted", "one counter; a key gives the order of the numbers",
              Kind::kSequence, Guarantee::kUnique, "none", Ordering::kNone, 63, 0, false, true,
              kAnywhere, kNoClock, kRestIsAGap, kWaits},
    Candidate{IdKind::kRandom, "random", "drawn at random, claimed under a unique key",
              Kind::kSequence, Guarantee::kUnique, "none", Ordering::kNone, 63, 0, false, false,
              kAnywhere, kNoClock, kClaimsAreLost, kWaits},
    Candidate{IdKind::kRandomPerHost, "random for each host",
              "drawn at random and claimed in each host's own store, in a block of its own",
              Kind::kSequence, Guarantee::kUniqueIfConfigured, "none", Ordering::kNone, 63, 0,
              false, false, kAnywhere, kNoClock, kBlockIsLost, kOnlyThatHost},
    Candidate{IdKind::kGapless, "gapless",
              "one counter; each number with the document that bears it", Kind::kSequence,
              Guarantee::kGapless, "all", Ordering::kGapless, 63, 0, true, true, kInTimeOrder,
              kNoClock, "nothing is lost: number and document are one transaction", kWaits},
    Candidate{IdKind::kDigits, "digits", "random decimal digits, which nobody keeps",
              Kind::kCoincidence, Guarantee::kPractical, "none", Ordering::kNone, 0, 0, false,
              false, kAnywhere, kNoClock, kNoState, kNoStore},
};

}  // namespace

std::span<const Candidate> candidates() {
  static const std::vector<Candidate> all = [] {
    std::vector<Candidate> rows(kOthers.begin(), kOthers.end());
    for (const Format* const format : formats()) {
      if (!format->plan.about.empty()) rows.push_back(candidate_of(*format));
    }
    return rows;
  }();
  return all;
}

const Candidate& candidate(std::string_view name) {
  return *std::ranges::find(candidates(), name, &Candidate::name);
}

}  // namespace idmint::advice
