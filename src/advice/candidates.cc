#include "advice/candidates.h"

#include <algorithm>
#include <array>

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
constexpr std::string_view kKeepsOn =
    "goes on from the old time, up to 20 s ahead of the clock; past that it starts afresh, and "
    "order is lost once";

constexpr std::array kCandidates = {
    Candidate{IdKind::kUuid7, "uuid7", "UUID version 7: milliseconds, a counter, random bits",
              Kind::kCoincidence, Guarantee::kPractical, "per process", Ordering::kPerHost, 128, 36,
              true, true, kInTimeOrder, kKeepsOn, kNoState, kNoStore},
    Candidate{IdKind::kUuid4, "uuid4", "UUID version 4: 122 random bits", Kind::kCoincidence,
              Guarantee::kPractical, "none", Ordering::kNone, 128, 36, false, false, kAnywhere,
              kNoClock, kNoState, kNoStore},
    Candidate{IdKind::kUlid, "ulid", "ULID: milliseconds, 80 random bits", Kind::kCoincidence,
              Guarantee::kPractical, "per process", Ordering::kPerHost, 128, 26, true, true,
              kInTimeOrder, kKeepsOn, kNoState, kNoStore},
    Candidate{IdKind::kObjectId, "object-id",
              "ObjectId: seconds, 40 random bits of the process, a counter", Kind::kCoincidence,
              Guarantee::kPractical, "by second", Ordering::kNone, 96, 24, true, true, kInTimeOrder,
              "the seconds go back, the random bits and the counter do not: no id comes again",
              kNoState, kNoStore},
    Candidate{IdKind::kKsuid, "ksuid", "KSUID: seconds, 128 random bits", Kind::kCoincidence,
              Guarantee::kPractical, "by second", Ordering::kNone, 160, 27, true, true,
              kInTimeOrder, "the seconds go back, each id has fresh random bits", kNoState,
              kNoStore},
    Candidate{
        IdKind::kXid, "xid", "xid: seconds, machine, process, a counter", Kind::kCoincidence,
        Guarantee::kPractical, "by second", Ordering::kNone, 96, 20, true, true, kInTimeOrder,
        "the seconds go back, the counter does not; after a restart it may meet ids of that time",
        kNoState, kNoStore},
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

static_assert(
    [] {
      std::size_t row = 0;
      return std::ranges::all_of(kCandidates, [&](const Candidate& candidate) {
        return static_cast<std::size_t>(candidate.id) == row++;
      });
    }(),
    "candidate() wants the rows in the order of IdKind");

}  // namespace

const Candidate& candidate(IdKind id) noexcept { return kCandidates[static_cast<std::size_t>(id)]; }

}  // namespace idmint::advice
