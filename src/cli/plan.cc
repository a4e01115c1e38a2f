#include "cli/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "cli/diagnosis.h"
#include "cli/odds.h"
#include "idmint/counter_store.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "mint/worker.h"
#include "terminal/quantity.h"

namespace idmint::cli {

namespace {

using namespace std::chrono_literals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sources that coordinate nothing are refused above these odds of any repeat among all ids.
constexpr double kAcceptable = 1e-6;
// Random numbers under a unique key are refused above this part of the space: two draws an id.
constexpr double kFullest = 0.5;
// More callers than these waiting at a time are no longer a matter of course.
constexpr double kManyCallers = 1000;
// A caller that is combined with others waits for the rest of the round under way, half of it on
// average, and for its own.
constexpr double kRounds = 1.5;
constexpr double kHorizon = 10;  // seconds that a cached range lasts, if it can
constexpr double kRenewal = 5;   // seconds between those of a lease, a third of its window
constexpr std::int64_t kStripes = 1000;
constexpr std::int64_t kInterleavedStripes = 16;
// One id in a call: what 256 callers get of one sequence in a SQLite file, measured (README). The
// same is taken for other stores.
constexpr double kCombined = 224e3;
// Documents that take a number each: what 64 callers get who share transactions, measured
// (docs/stores.md). Of all hosts together: the transactions wait for each other.
constexpr double kGaplessCombined = 6100;

// ---- what there is to choose from

enum class Id : std::uint8_t {
  kUuid7,
  kUuid4,
  kUlid,
  kObjectId,
  kKsuid,
  kXid,
  kSnowflake,
  kPool,
  kCounter,
  kCached,
  kStriped,
  kInterleaved,
  kPerHost,
  kPermuted,
  kRandom,
  kRandomPerHost,
  kGapless,
  kDigits,
};

enum class Kind : std::uint8_t {
  kCoincidence,  // coordinates nothing: random bits, or the identity of the process
  kWorker,       // a worker id that nobody else uses, given or leased
  kSequence,     // numbers of a store
};

struct Candidate {
  Id id;
  std::string_view name;
  std::string_view about;
  Kind kind;
  Guarantee guarantee;
  std::string_view order;
  Ordering holds;  // the strongest that it gives
  int bits;        // of the id in binary; 63 for numbers, which take fewer where fewer are wanted
  int chars;       // as text; 0: decimal
  bool appends;
  bool guessable;
  std::string_view locality;
  std::string_view clock_goes_back;
  std::string_view host_dies;
  std::string_view store_down;
};

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
    Candidate{Id::kUuid7, "uuid7", "UUID version 7: milliseconds, a counter, random bits",
              Kind::kCoincidence, Guarantee::kPractical, "per process", Ordering::kPerHost, 128, 36,
              true, true, kInTimeOrder, kKeepsOn, kNoState, kNoStore},
    Candidate{Id::kUuid4, "uuid4", "UUID version 4: 122 random bits", Kind::kCoincidence,
              Guarantee::kPractical, "none", Ordering::kNone, 128, 36, false, false, kAnywhere,
              kNoClock, kNoState, kNoStore},
    Candidate{Id::kUlid, "ulid", "ULID: milliseconds, 80 random bits", Kind::kCoincidence,
              Guarantee::kPractical, "per process", Ordering::kPerHost, 128, 26, true, true,
              kInTimeOrder, kKeepsOn, kNoState, kNoStore},
    Candidate{Id::kObjectId, "object-id",
              "ObjectId: seconds, 40 random bits of the process, a counter", Kind::kCoincidence,
              Guarantee::kPractical, "by second", Ordering::kNone, 96, 24, true, true, kInTimeOrder,
              "the seconds go back, the random bits and the counter do not: no id comes again",
              kNoState, kNoStore},
    Candidate{Id::kKsuid, "ksuid", "KSUID: seconds, 128 random bits", Kind::kCoincidence,
              Guarantee::kPractical, "by second", Ordering::kNone, 160, 27, true, true,
              kInTimeOrder, "the seconds go back, each id has fresh random bits", kNoState,
              kNoStore},
    Candidate{
        Id::kXid, "xid", "xid: seconds, machine, process, a counter", Kind::kCoincidence,
        Guarantee::kPractical, "by second", Ordering::kNone, 96, 20, true, true, kInTimeOrder,
        "the seconds go back, the counter does not; after a restart it may meet ids of that time",
        kNoState, kNoStore},
    Candidate{
        Id::kSnowflake, "snowflake", "milliseconds since 2015, a worker id, a sequence",
        Kind::kWorker, Guarantee::kUniqueIfConfigured, "per process", Ordering::kPerHost, 63, 0,
        true, true, kInTimeOrder,
        "goes on from the old time, up to 20 s ahead of the clock; past that it refuses until "
        "the clock has caught up",
        "its state file keeps its ids unique after a restart; a new host with its worker id "
        "must not start before the old one's time has passed",
        kNoStore},
    Candidate{
        Id::kPool, "pool", "snowflake ids under a worker id that each process leases from a store",
        Kind::kWorker, Guarantee::kUnique, "per process", Ordering::kPerHost, 63, 0, true, true,
        kInTimeOrder,
        "goes on from the old time, up to 20 s ahead of the clock; past that it refuses until the "
        "clock has caught up",
        "its worker id is nobody else's until its time is over, 15 s; whoever has it next begins "
        "past all its ids",
        "ids go on up to the bound that was granted, 10 to 15 s; then calls fail until it is back, "
        "and none repeats"},
    Candidate{Id::kCounter, "counter", "one counter in a store, callers combined", Kind::kSequence,
              Guarantee::kLinearizable, "all", Ordering::kStrict, 63, 0, true, true, kInTimeOrder,
              kNoClock, kRestIsAGap, kWaits},
    Candidate{Id::kCached, "cached", "one counter; each process holds ranges of it in memory",
              Kind::kSequence, Guarantee::kUnique, "per thread", Ordering::kNone, 63, 0, true, true,
              "nearly in order: each process fills its own range, at a place that stays in memory",
              kNoClock, "the rest of its ranges is a gap, up to about 20 s of its ids",
              "ids go on until the ranges in memory are used up, about 10 s; then calls fail"},
    Candidate{Id::kStriped, "striped", "1000 counters, each with a block of its own",
              Kind::kSequence, Guarantee::kUnique, "none", Ordering::kNone, 63, 0, true, true,
              "1000 places of the index, each filled in order: their pages stay in memory",
              kNoClock, kRestIsAGap, kWaits},
    Candidate{Id::kInterleaved, "interleaved",
              "16 counters that take turns, each with every 16th number", Kind::kSequence,
              Guarantee::kUnique, "none", Ordering::kNone, 63, 0, true, true,
              "nearly in order, as long as the counters go on at one pace", kNoClock, kRestIsAGap,
              kWaits},
    Candidate{Id::kPerHost, "counter for each host",
              "a counter in each host's own store, in a block of its own", Kind::kSequence,
              Guarantee::kUniqueIfConfigured, "per host", Ordering::kPerHost, 63, 0, true, true,
              "as many places of the index as hosts, each filled in order", kNoClock, kBlockIsLost,
              kOnlyThatHost},
    Candidate{Id::kPermuted, "permuted", "one counter; a key gives the order of the numbers",
              Kind::kSequence, Guarantee::kUnique, "none", Ordering::kNone, 63, 0, false, true,
              kAnywhere, kNoClock, kRestIsAGap, kWaits},
    Candidate{Id::kRandom, "random", "drawn at random, claimed under a unique key", Kind::kSequence,
              Guarantee::kUnique, "none", Ordering::kNone, 63, 0, false, false, kAnywhere, kNoClock,
              kClaimsAreLost, kWaits},
    Candidate{Id::kRandomPerHost, "random for each host",
              "drawn at random and claimed in each host's own store, in a block of its own",
              Kind::kSequence, Guarantee::kUniqueIfConfigured, "none", Ordering::kNone, 63, 0,
              false, false, kAnywhere, kNoClock, kBlockIsLost, kOnlyThatHost},
    Candidate{Id::kGapless, "gapless", "one counter; each number with the document that bears it",
              Kind::kSequence, Guarantee::kGapless, "all", Ordering::kGapless, 63, 0, true, true,
              kInTimeOrder, kNoClock, "nothing is lost: number and document are one transaction",
              kWaits},
    Candidate{Id::kDigits, "digits", "random decimal digits, which nobody keeps",
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
    "candidate() wants the rows in the order of Id");

const Candidate& candidate(Id id) { return kCandidates[static_cast<std::size_t>(id)]; }

// ---- arithmetic

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// In the store of each host, in a block that is dealt out by hand.
bool is_per_host(Id id) { return id == Id::kPerHost || id == Id::kRandomPerHost; }

std::chrono::nanoseconds round_trip(Id id, const Needs& needs) {
  return is_per_host(id) ? std::min(needs.round_trip, needs.own_round_trip) : needs.round_trip;
}

bool shares_a_store(const Candidate& source, const Needs& needs) {
  const bool in_store = source.kind == Kind::kSequence || source.id == Id::kPool;
  return in_store && !is_per_host(source.id) && (needs.hosts > 1 || source.id == Id::kGapless);
}

double callers_at_once(Id id, const Needs& needs) {
  return std::ceil(needs.rate * kRounds * seconds(round_trip(id, needs)));
}

bool wants_number(const Needs& needs) { return needs.digits || (needs.bits && *needs.bits < 96); }

constexpr int kMostDigits = 18;  // that 63 bits have room for, whatever the digits are

// The largest number that a sequence may reach: what is counted, and what its command says.
std::int64_t largest_number(Id id, const Needs& needs) {
  // The value after the last one of a stripe must be one that can be written.
  std::int64_t largest = kLargestValue - (id == Id::kInterleaved ? kInterleavedStripes - 1 : 0);
  if (needs.digits && *needs.digits <= kMostDigits) {
    largest = 1;
    for (int i = 0; i < *needs.digits; ++i) largest *= 10;
    --largest;
  }
  if (needs.bits && *needs.bits < 63) largest = (std::int64_t{1} << *needs.bits) - 1;
  return largest;
}

// snowflake, or where 63 bits are too many the preset of 53.
struct WorkerLayout {
  std::string_view preset;
  int bits;
  double workers;
  double per_millisecond;
};
constexpr std::array kLayouts = {WorkerLayout{"sequence-generator", 63, 1024, 4096},
                                 WorkerLayout{"js-safe", 53, 64, 64}};

const WorkerLayout& layout_for(const Needs& needs) {
  return needs.bits && *needs.bits < 63 ? kLayouts[1] : kLayouts[0];
}

// 2015-01-01 and 2^41 - 1 ms.
constexpr std::chrono::sys_seconds kSnowflakeEnds{1420070400s + 2199023255s};
constexpr std::chrono::sys_seconds kUnsignedSecondsEnd{4294967295s};  // ObjectId, xid
constexpr std::chrono::sys_seconds kKsuidEnds{1400000000s + 4294967295s};
constexpr std::chrono::sys_seconds kMillisecondsEnd{281474976710s};  // 2^48 - 1 ms

std::optional<std::chrono::sys_seconds> time_ends(Id id) {
  switch (id) {
    case Id::kUuid7:
    case Id::kUlid:
      return kMillisecondsEnd;
    case Id::kSnowflake:
    case Id::kPool:
      return kSnowflakeEnds;
    case Id::kObjectId:
    case Id::kXid:
      return kUnsignedSecondsEnd;
    case Id::kKsuid:
      return kKsuidEnds;
    default:
      return std::nullopt;
  }
}

// Parts of the numbers, each with a counter or a space of claims.
double parts_of(Id id, const Needs& needs) {
  if (is_per_host(id)) return needs.hosts;
  if (id == Id::kStriped) return double{kStripes};
  return id == Id::kInterleaved ? double{kInterleavedStripes} : 1;
}

// Whole numbers of a block, exact where a double would round.
std::int64_t block_of(Id id, const Needs& needs) {
  const auto hosts = static_cast<std::int64_t>(std::min(needs.hosts, 0x1p62));
  return (largest_number(id, needs) + 1) / hosts;
}

double space_of(Id id, const Needs& needs) {
  switch (id) {
    case Id::kUuid7:
    case Id::kUuid4:
      return std::exp2(122);
    case Id::kUlid:
      return std::exp2(128);
    case Id::kObjectId:
    case Id::kXid:
      return std::exp2(96);
    case Id::kKsuid:
      return std::exp2(160);
    case Id::kSnowflake:
    case Id::kPool:
      return std::exp2(layout_for(needs).bits);
    case Id::kDigits:
      return std::pow(10.0, needs.digits.value_or(0));
    case Id::kPerHost:
    case Id::kRandomPerHost:
      return needs.hosts * static_cast<double>(block_of(id, needs));
    case Id::kStriped:
    case Id::kInterleaved:
    case Id::kPermuted:
    case Id::kRandom:  // with digits, what has no order begins at 0
      return static_cast<double>(largest_number(id, needs)) + (needs.digits ? 1 : 0);
    default:
      return static_cast<double>(largest_number(id, needs));
  }
}

// Of any repeat among all ids, at most: the sum over all pairs of ids that could meet.
std::optional<double> odds_of(Id id, const Needs& needs) {
  // Pairs of one unit of time. Those of one process do not meet, but a host may have many, one
  // after the other: each command is one.
  const auto at_most = [&](double unit, double bits) {
    const double pairs = needs.count * std::min(needs.count - 1, needs.rate * unit) / 2;
    return std::min(1.0, pairs * std::exp2(-bits));
  };
  switch (id) {
    case Id::kUuid4:
    case Id::kDigits:
      return odds_of_a_repeat(needs.count, space_of(id, needs));
    case Id::kUuid7:
      return at_most(1e-3, 22 + 51);
    case Id::kUlid:
      return at_most(1e-3, 80);
    case Id::kKsuid:
      return at_most(1, 128);
    case Id::kObjectId:
      return odds_of_a_repeat(needs.hosts, std::exp2(40));
    case Id::kXid:
      return odds_of_a_repeat(needs.hosts, std::exp2(24));
    default:
      return std::nullopt;
  }
}

double ids_per_second(Id id, const Needs& needs) {
  const double waiting = static_cast<double>(SequenceOptions{}.max_outstanding) /
                         (kRounds * seconds(round_trip(id, needs)));
  switch (id) {
    case Id::kUuid7:
      return needs.hosts * 1e3 * std::exp2(22);
    case Id::kObjectId:
    case Id::kXid:
      return needs.hosts * std::exp2(24);
    case Id::kSnowflake:
    case Id::kPool:
      return needs.hosts * 1e3 * layout_for(needs).per_millisecond;
    case Id::kCounter:
    case Id::kPermuted:
    case Id::kPerHost:
    case Id::kStriped:
    case Id::kInterleaved:
    case Id::kRandom:
    case Id::kRandomPerHost:
      return needs.hosts * std::min(waiting, kCombined);
    case Id::kGapless:
      return std::min(waiting, kGaplessCombined);
    default:
      return kInfinity;  // as fast as the processor
  }
}

// Round trips to the store in a second, at the rate: each open sequence has one under way.
double store_writes(const Candidate& source, const Needs& needs) {
  if (source.id == Id::kPool) return needs.hosts / kRenewal;  // whatever the rate
  if (source.kind != Kind::kSequence) return 0;
  const double rounds = source.id == Id::kCached
                            ? needs.hosts / kHorizon
                            : needs.hosts / seconds(round_trip(source.id, needs));
  return std::min(needs.rate, rounds);
}

// "224,000/s on each host".
std::string most_of_a_host(const Needs& needs, const Choice& choice) {
  return print_rate(choice.ids_per_second / needs.hosts) + (needs.hosts > 1 ? " on each host" : "");
}

std::string speed_of(Id id, const Needs& needs, const Choice& choice) {
  const double local = seconds(round_trip(id, needs));
  const std::string trip = print_duration(local);
  const std::string one = print_rate(1 / local);
  const std::string wait = "; " + print_rate(needs.rate) + " take " +
                           print_count(choice.callers.value_or(0)) +
                           " callers that wait at a time, or batches; one in a call, at most " +
                           most_of_a_host(needs, choice) + ", as measured with SQLite";
  switch (id) {
    case Id::kCounter:
    case Id::kPermuted:
    case Id::kPerHost:
      return "one caller " + one + " with a store that takes " + trip + wait;
    case Id::kStriped:
    case Id::kInterleaved:
      return "one caller " + one + " with a store that takes " + trip +
             "; no record is written by all" + wait;
    case Id::kRandom:
    case Id::kRandomPerHost:
      return "one caller " + one + " with a store that takes " + trip +
             "; each id is an insert of its own" + wait;
    case Id::kGapless:
      return "one caller " + one + " with a store that takes " + trip + " for a transaction; " +
             print_rate(needs.rate) + " take " + print_count(choice.callers.value_or(0)) +
             " callers that wait at a time and share transactions, or larger batches";
    case Id::kCached:
      return "from memory; a range of the store lasts about 10 s, whatever the store takes";
    case Id::kSnowflake:
      return print_count(layout_for(needs).per_millisecond) +
             " in a millisecond for each worker id";
    case Id::kPool:
      return print_count(layout_for(needs).per_millisecond) +
             " in a millisecond for each worker id, from memory; the lease is renewed under way";
    case Id::kObjectId:
    case Id::kXid:
      return "16,777,216 a second for each process";
    default:
      return "as fast as the processor: see idmint bench " + std::string(candidate(id).name);
  }
}

// ---- bytes

double fill_of(double appended, bool appends) { return appends ? appended : kRandomFill; }
double aligned(double bytes) { return std::ceil(bytes / 8) * 8; }

std::string_view note_of(Database database) {
  switch (database) {
    case Database::kPostgresql:
      return "PostgreSQL: an index entry has 8 bytes of header, the key in multiples of 8, and 4 "
             "in "
             "the page; pages 90 % full where ids append";
    case Database::kMysql:
      return "InnoDB: the key of a primary index is the row itself; the index bytes are those that "
             "each further index repeats; pages 15/16 full where ids append";
    case Database::kSqlite:
      return "SQLite: an INTEGER PRIMARY KEY is the row id, without an index of its own; other "
             "keys "
             "have an index with the key, a row id of 4 bytes and 5 of headers";
    case Database::kMongodb:
      return "MongoDB: the row bytes are those of the field _id in BSON; the index bytes come "
             "before "
             "its prefix compression, with 4 of record id, pages 90 % full where ids append";
    case Database::kRedis:
      return "Redis: the row bytes are the key's string with its header, the index bytes its entry "
             "in the hash table";
    case Database::kNone:
      return "the bare values; name a --database for its own overhead";
  }
  return "";
}

std::vector<Stored> forms_of(const Candidate& source, const Needs& needs, double space) {
  const Database database = needs.database;
  std::vector<Stored> forms;
  if (source.chars == 0) {
    const bool is_integer = source.id != Id::kDigits || needs.digits.value_or(0) <= kMostDigits;
    if (database != Database::kRedis && is_integer) {
      forms.push_back(stored_integer(database, space, source.appends));
    }
    const int chars =
        needs.digits ? *needs.digits : static_cast<int>(std::floor(std::log10(space))) + 1;
    forms.push_back(stored_text(database, chars, source.appends));
    return forms;
  }
  if (database != Database::kRedis) {
    forms.push_back(
        stored_binary(database, source.bits / 8, source.appends, source.id == Id::kObjectId));
  }
  forms.push_back(stored_text(database, source.chars, source.appends));
  return forms;
}

// ---- why not: the first that holds

// "; with --layout instagram 8,192, sonyflake 65,536": those that have a worker id for each host
// and time left.
std::string roomier_presets(const Needs& needs, Instant now) {
  std::string text;
  for (const SnowflakePreset& preset : snowflake_presets()) {
    const SnowflakeLayout& layout = preset.layout;
    const double workers = std::exp2(layout.worker_bits);
    const int bits = layout.time_bits + layout.worker_bits + layout.sequence_bits;
    if (const auto ends = end_of(layout); ends && *ends <= now) continue;
    if (workers < needs.hosts || (needs.bits && bits > *needs.bits)) continue;
    text.append(text.empty() ? "; with --layout " : ", ").append(preset.name);
    text += " " + print_count(workers);
  }
  return text;
}

struct Objection {
  std::string_view name;
  // Empty: no objection.
  std::string (*says)(const Candidate& source, const Needs& needs, const Choice& choice,
                      Instant now);
};

constexpr std::array kObjections = {
    Objection{"gapless",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (source.id != Id::kGapless) return std::string();
                if (needs.database != Database::kMongodb) {
                  return std::string(
                      "a number and the document that bears it are one transaction, for which it "
                      "takes --database mongodb");
                }
                if (!needs.shared_store || needs.shared_url.empty()) {
                  return std::string("it takes MongoDB, which this build left out");
                }
                if (needs.order == Ordering::kGapless) return std::string();
                return std::string(
                    "next mints none of it: a number comes with its document, by idmint insert; "
                    "where none may be missing say --order gapless");
              }},
    Objection{"digits",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (source.id == Id::kDigits) {
                  return needs.digits ? "" : std::string("only with --digits");
                }
                if (!needs.digits) return std::string();
                if (source.kind == Kind::kSequence) return std::string();
                return source.kind == Kind::kWorker
                           ? "its numbers grow with time: no number of digits is kept"
                           : "printed with letters, not as " + std::to_string(*needs.digits) +
                                 " decimal digits";
              }},
    Objection{"bits",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (!needs.bits) return std::string();
                const int least = source.kind == Kind::kSequence ? 1
                                  : source.kind == Kind::kWorker ? kLayouts[1].bits
                                                                 : source.bits;
                if (least <= *needs.bits) return std::string();
                return std::to_string(least) + " bits are more than " + std::to_string(*needs.bits);
              }},
    Objection{"parts",
              [](const Candidate& source, const Needs& needs, const Choice& choice, Instant) {
                const double parts = parts_of(source.id, needs);
                if (choice.space > 0 && parts <= choice.space) return std::string();
                return "the numbers are too few for " + print_count(parts) + " blocks";
              }},
    Objection{"space",
              [](const Candidate&, const Needs& needs, const Choice& choice, Instant) {
                if (needs.count <= choice.space) return std::string();
                return "there are only " + print_count(choice.space) + " of them, not " +
                       print_count(needs.count);
              }},
    Objection{"order",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (source.holds >= needs.order) return std::string();
                if (needs.order == Ordering::kGapless) {
                  return std::string("what is taken and not used is missing for ever");
                }
                if (needs.hosts == 1 && is_per_host(source.id)) return std::string();
                if (source.id == Id::kCached) {
                  return std::string(
                      "its ids increase for each thread only: ranges are handed out side by side");
                }
                if (needs.order == Ordering::kStrict && needs.hosts > 1) {
                  return std::string("the ids of two hosts are in no strict order");
                }
                return source.holds == Ordering::kPerHost
                           ? std::string("the ids of two processes are in no strict order")
                           : "ids of one host do not come in their order (" +
                                 std::string(source.order) + ")";
              }},
    Objection{"unguessable",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (!needs.unguessable || !source.guessable) return std::string();
                return source.id == Id::kPermuted
                           ? std::string(
                                 "a permutation hides the order, and is no encryption: who "
                                 "breaks the key knows every id")
                           : std::string("who knows one id can tell others near it");
              }},
    Objection{"workers",
              [](const Candidate& source, const Needs& needs, const Choice& choice, Instant now) {
                if (source.kind != Kind::kWorker || needs.hosts <= *choice.workers) {
                  return std::string();
                }
                return "it has " + print_count(*choice.workers) + " worker ids, for " +
                       print_count(needs.hosts) + " hosts" + roomier_presets(needs, now);
              }},
    Objection{"store",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (!shares_a_store(source, needs) || needs.shared_store) return std::string();
                return "to be made in a store that all " + print_count(needs.hosts) +
                       " hosts reach: say --shared-store if there is one";
              }},
    Objection{"one host",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (!is_per_host(source.id) || needs.hosts > 1) return std::string();
                return std::string("there is one host: its block would be all numbers");
              }},
    Objection{"rate",
              [](const Candidate&, const Needs& needs, const Choice& choice, Instant) {
                if (needs.rate <= choice.ids_per_second) return std::string();
                if (!choice.batch) {
                  return "it mints at most " + print_rate(choice.ids_per_second) + ", not " +
                         print_rate(needs.rate);
                }
                return "one id in a call, it gives at most " + most_of_a_host(needs, choice) +
                       ", as measured; " + print_rate(needs.rate) + " take batches of " +
                       print_count(*choice.batch) + ": give the rate of the calls as --rate";
              }},
    Objection{"time",
              [](const Candidate&, const Needs& needs, const Choice& choice, Instant now) {
                if (!choice.time_ends) return std::string();
                const auto left = static_cast<double>(
                    (*choice.time_ends - std::chrono::floor<std::chrono::seconds>(now)).count());
                const std::string day = print_day(*choice.time_ends);
                if (left <= 0) return "the time ended " + day;
                if (choice.seconds_to_count <= left) return std::string();
                return "the time ends before the last id: " + day + ", in " + print_duration(left) +
                       ", and " + print_count(needs.count) + " ids take " +
                       print_duration(choice.seconds_to_count) + " at " + print_rate(needs.rate);
              }},
    Objection{"odds",
              [](const Candidate&, const Needs& needs, const Choice& choice, Instant) {
                if (!choice.odds_of_a_repeat || *choice.odds_of_a_repeat <= kAcceptable) {
                  return std::string();
                }
                if (*choice.odds_of_a_repeat >= 1) {
                  return "among " + print_count(needs.count) + " of them a repeat is certain";
                }
                return "the odds of a repeat are " + print_odds(*choice.odds_of_a_repeat) +
                       ", above 1 in a million";
              }},
    Objection{"fullness",
              [](const Candidate&, const Needs& needs, const Choice& choice, Instant) {
                if (!choice.redraws || needs.count <= kFullest * choice.space) return std::string();
                return print_percent(needs.count / choice.space) +
                       " of the numbers would be used up: in the end more draws meet one that is "
                       "there than do not";
              }},
};

// ---- which first: the first rule of a source that applies is its place and its reason

struct Rule {
  std::string_view name;
  Id id;
  bool (*applies)(const Needs& needs);
  std::string_view reason;
};

bool always(const Needs&) { return true; }
bool has_no_shared_store(const Needs& needs) { return needs.hosts > 1 && needs.shared_url.empty(); }

bool has_room_for_time(const Needs& needs) {
  return !needs.digits && needs.bits && *needs.bits >= 53 && *needs.bits < 96;
}

constexpr std::array kRules = {
    // By need.
    Rule{"gapless", Id::kGapless, [](const Needs& n) { return n.order == Ordering::kGapless; },
         "no number may be missing: each is taken in the transaction that inserts the document "
         "which bears it"},
    Rule{"strict", Id::kCounter, [](const Needs& n) { return n.order == Ordering::kStrict; },
         "strict order: of one counter every later call gets the larger id, on all hosts, and one "
         "round trip serves all callers that wait"},
    Rule{"unguessable digits, no shared store", Id::kDigits,
         [](const Needs& n) { return n.unguessable && n.digits && has_no_shared_store(n); },
         "unguessable: so many random digits that no two meet, and nothing to run"},
    Rule{"unguessable number, no shared store", Id::kRandomPerHost,
         [](const Needs& n) { return n.unguessable && wants_number(n) && has_no_shared_store(n); },
         "unguessable, and no store that all hosts reach: each draws and claims in a block of its "
         "own; a number tells its host, and nothing else"},
    Rule{"unguessable number", Id::kRandom,
         [](const Needs& n) { return n.unguessable && wants_number(n); },
         "unguessable: each number is drawn by itself, and the claim under a unique key keeps it "
         "from coming twice"},
    Rule{"unguessable", Id::kUuid4, [](const Needs& n) { return n.unguessable; },
         "unguessable: 122 random bits in each id, and nothing to run"},
    Rule{"number, one host", Id::kCounter,
         [](const Needs& n) {
           return wants_number(n) && n.hosts == 1 &&
                  callers_at_once(Id::kCounter, n) <= kManyCallers;
         },
         "one host: its own store is near, so the plainest source is fast enough, and leaves no "
         "gaps while nothing fails"},
    Rule{"number of 53 bits or more, shared store", Id::kPool,
         [](const Needs& n) { return has_room_for_time(n) && n.hosts > 1 && n.shared_store; },
         "fits the bits, and no host waits for anything: each process leases its worker id from "
         "the store, and none is given out by hand"},
    Rule{"number of 53 bits or more, many hosts", Id::kSnowflake, has_room_for_time,
         "fits the bits, and no host waits for anything: each needs only a worker id of its own"},
    Rule{"number, per host, shared store", Id::kCounter,
         [](const Needs& n) {
           return wants_number(n) && n.order == Ordering::kPerHost && n.shared_store;
         },
         "order per host: of one counter all ids are in order, and callers are combined"},
    Rule{"number, no shared store", Id::kPerHost,
         [](const Needs& n) { return wants_number(n) && has_no_shared_store(n); },
         "no store that all hosts reach: each gets a block of the numbers for itself, and counts "
         "in its own store"},
    Rule{"number", Id::kCached, wants_number,
         "no caller waits for the store: a range of about 10 s is in memory, and the next one is "
         "fetched before it ends"},
    Rule{"sqlite, one host", Id::kCounter,
         [](const Needs& n) { return n.database == Database::kSqlite && n.hosts == 1; },
         "SQLite: an integer as primary key is the row id, and takes no index of its own"},
    Rule{"mongodb", Id::kObjectId,
         [](const Needs& n) {
           return n.database == Database::kMongodb && n.order == Ordering::kNone;
         },
         "MongoDB: its own type for _id, 12 bytes, in order of its seconds, and nothing to run"},
    Rule{"no width", Id::kUuid7, [](const Needs& n) { return !wants_number(n); },
         "nothing to run and nothing to configure, and ids in order of time append to an index"},
    // What else fits, in the order of what it asks for.
    Rule{"nothing to run", Id::kUuid7, always,
         "nothing to run and nothing to configure; 16 bytes, in order of time"},
    Rule{"small, leased", Id::kPool, always,
         "half the size of a UUID, in order of time, and no worker ids to give out; asks for a "
         "store"},
    Rule{"small", Id::kSnowflake, always,
         "half the size of a UUID, in order of time; asks for a worker id for each generator"},
    Rule{"sortable text", Id::kUlid, always,
         "as uuid7, in 26 characters that sort as text and are easier to read aloud"},
    Rule{"small numbers", Id::kCached, always,
         "the smallest ids, and no caller waits; asks for a store"},
    Rule{"no gaps", Id::kCounter, always,
         "in order, without gaps while nothing fails; each call waits for the store once or twice"},
    Rule{"no hot record", Id::kStriped, always,
         "calls go to 1000 records instead of one, where a store locks records; each waits for the "
         "store"},
    Rule{"several stores", Id::kInterleaved, always,
         "nearly in order, and a counter that is locked does not stop the others"},
    Rule{"looks random", Id::kPermuted, always,
         "the numbers look random and never meet: for ids that must not tell how many there are"},
    Rule{"cannot be told", Id::kRandom, always,
         "the numbers are random: for ids that must not be told from others; costs a claim for "
         "each"},
    Rule{"own block", Id::kPerHost, always,
         "no host waits for another; the blocks must be given out by hand, once"},
    Rule{"own block, random", Id::kRandomPerHost, always,
         "random, and no host waits for another; the blocks must be given out by hand, once"},
    Rule{"twelve bytes", Id::kObjectId, always, "12 bytes; what MongoDB has as its own type"},
    Rule{"twelve bytes, machine", Id::kXid, always,
         "12 bytes, 20 characters; tells which machine made it"},
    Rule{"most bits", Id::kKsuid, always,
         "the most random bits, 20 bytes, in order of its seconds"},
    Rule{"none missing", Id::kGapless, always,
         "no number is missing; each comes with its document, in a transaction"},
    Rule{"many digits", Id::kDigits, always,
         "so many random digits that no two meet, and nothing to run; none of them tells anything"},
    Rule{"no order", Id::kUuid4, always,
         "tells nothing, not even its time; inserts all over the index"},
};

// ---- commands

std::string width_options(Id id, const Needs& needs) {
  const std::string max = " --max " + std::to_string(largest_number(id, needs));
  if (needs.digits) {
    // Of more, create wants to be told how far the values go.
    return " --digits " + std::to_string(*needs.digits) + (*needs.digits > kMostDigits ? max : "");
  }
  return needs.bits && *needs.bits < 63 ? max : "";
}

std::string pool_options(const Needs& needs) {
  const WorkerLayout& layout = layout_for(needs);
  return " --kind pool" + (layout.bits == 63 ? "" : " --layout " + std::string(layout.preset));
}

struct Commands {
  std::string command{};
  std::string next_host{};
  std::string note{};
};

Commands commands_of(const Candidate& source, const Needs& needs) {
  const bool is_pool = source.id == Id::kPool;
  std::string create =
      "idmint create NAME" + (is_pool ? pool_options(needs) : width_options(source.id, needs));
  if (shares_a_store(source, needs)) {
    if (needs.shared_url.empty()) {
      return {.note = "none: it needs a store that all " + print_count(needs.hosts) +
                      " hosts reach, and each store of this build is of one host; made on each "
                      "host, it would repeat ids"};
    }
    create.append(" --store ").append(needs.shared_url);
  }
  const bool several = needs.hosts > 1;
  switch (source.id) {
    case Id::kSnowflake: {
      const WorkerLayout& layout = layout_for(needs);
      std::string command = "idmint next snowflake";
      if (layout.bits != 63) command += " --layout " + std::string(layout.preset);
      command += " --worker ";
      if (!several) return {.command = command + "0"};
      return {.command = command + "0",
              .next_host = command + "1",
              .note = "and so on up to " + print_count(layout.workers - 1) +
                      ": two hosts with one worker id may repeat ids"};
    }
    case Id::kPool:
      return {.command = create,
              .note = std::string("and then ") + (several ? "on each host " : "") +
                      "idmint next NAME, or open_pool(): each process leases a worker id"};
    case Id::kCounter:
      return {.command = create};
    case Id::kStriped:
      return {.command = create + " --stripes " + std::to_string(kStripes)};
    case Id::kInterleaved:
      return {.command = create + " --strategy interleaved --stripes " +
                         std::to_string(kInterleavedStripes)};
    case Id::kPerHost:
    case Id::kRandomPerHost: {
      if (!several) return {};  // there is no second block
      const std::int64_t block = block_of(source.id, needs);
      std::string command = "idmint create NAME";
      if (needs.digits) command += " --digits " + std::to_string(*needs.digits);
      if (source.id == Id::kRandomPerHost) command += " --strategy random";
      const auto of_block = [&](std::int64_t first) {
        return command + " --start " + std::to_string(first) + " --max " +
               std::to_string(first + (block - 1));
      };
      return {.command = of_block(0),
              .next_host = of_block(block),
              .note = "and so on, both " + std::to_string(block) +
                      " more for each host: two hosts with one block repeat ids"};
    }
    case Id::kDigits:
      return {.command = "idmint next digits --digits " + std::to_string(needs.digits.value_or(0))};
    case Id::kGapless:
      return {.command = create + " --strategy gapless",
              .note =
                  "and then idmint insert COLLECTION --from NAME, or a GaplessInserter, in a "
                  "replica set: next mints none of it"};
    case Id::kCached:
    case Id::kPermuted:
    case Id::kRandom:
      return {.command = create + " --strategy " + std::string(source.name)};
    default:
      return {.command = "idmint next " + std::string(source.name)};
  }
}

// The largest number that is in use in the end: those that count up take no more than there are
// ids.
double largest_of(Id id, const Needs& needs, double space) {
  const double most = std::min(space, static_cast<double>(kLargestValue));
  const bool counts_up =
      id == Id::kCounter || id == Id::kCached || id == Id::kInterleaved || id == Id::kGapless;
  return counts_up ? std::min(needs.count, most) : most;
}

// Of a worker id that is leased.
std::string leased(const Needs& needs) {
  constexpr std::string_view kAlways = "whatever clocks, pauses and restarts do";
  const std::string pool = "idmint create NAME --kind pool";
  if (needs.hosts <= 1) return std::string(kAlways) + ": " + pool;
  return "in a store that all hosts reach, " + std::string(kAlways) + ": " + pool + " --store " +
         std::string(needs.shared_url.empty() ? "URL" : needs.shared_url);
}

std::vector<WorkerTerms> terms_of(const Needs& needs, double workers) {
  std::vector<WorkerTerms> all = {
      {.origin = "leased", .guarantee = Guarantee::kUnique, .condition = leased(needs)}};
  const auto bits = static_cast<int>(std::log2(workers));
  for (const WorkerOrigin& origin : worker_origins()) {
    WorkerTerms terms{
        .origin = origin.name, .guarantee = origin.guarantee, .condition = origin.terms(bits)};
    if (origin.guarantee == Guarantee::kPractical) {
      terms.odds_of_share = odds_of_a_repeat(needs.hosts, workers);
      terms.most_odds_of_share =
          odds_of_a_repeat(needs.hosts, std::max(1.0, std::ldexp(workers, -origin.lost_bits)));
    }
    all.push_back(std::move(terms));
  }
  return all;
}

Choice choice_of(const Candidate& source, const Needs& needs) {
  Choice choice;
  choice.source = source.name;
  choice.about = source.about;
  choice.guarantee = source.guarantee;
  choice.order = source.order;
  choice.space = space_of(source.id, needs);
  Commands commands = commands_of(source, needs);
  choice.command = std::move(commands.command);
  choice.next_host_command = std::move(commands.next_host);
  choice.command_note = std::move(commands.note);
  choice.odds_of_a_repeat = odds_of(source.id, needs);
  if (source.id == Id::kRandom || source.id == Id::kRandomPerHost) {  // blocks fill alike
    choice.odds_that_the_last_collides = odds_that_the_last_collides(needs.count, choice.space);
    choice.redraws = expected_redraws(needs.count, choice.space);
  }
  if (source.id == Id::kStriped || is_per_host(source.id)) {
    choice.block = std::floor(choice.space / parts_of(source.id, needs));
  }
  choice.seconds_to_count = needs.count / needs.rate;
  choice.seconds_to_end = choice.space / needs.rate;
  choice.time_ends = time_ends(source.id);
  if (source.kind == Kind::kWorker) {
    choice.workers = layout_for(needs).workers;
  }
  if (source.id == Id::kSnowflake) {
    choice.odds_of_shared_worker = odds_of_a_repeat(needs.hosts, *choice.workers);
    choice.worker_terms = terms_of(needs, *choice.workers);
  }
  choice.ids_per_second = ids_per_second(source.id, needs);
  if (source.kind == Kind::kSequence && source.id != Id::kCached) {
    choice.callers = callers_at_once(source.id, needs);
    choice.batch = std::max(1.0, std::ceil(needs.rate / choice.ids_per_second));
  }
  choice.store_writes_per_second = store_writes(source, needs);
  choice.speed = speed_of(source.id, needs, choice);
  choice.stored = forms_of(source, needs, largest_of(source.id, needs, choice.space));
  choice.index_gigabytes = needs.count * choice.stored.front().index_bytes / 1e9;
  choice.appends = source.appends;
  choice.locality = source.locality;
  choice.clock_goes_back = source.clock_goes_back;
  choice.host_dies = source.host_dies;
  choice.store_down = source.store_down;
  return choice;
}

// ---- names

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr std::array kOrderings = {
    Named{"none", Ordering::kNone}, Named{"per-host", Ordering::kPerHost},
    Named{"strict", Ordering::kStrict}, Named{"gapless", Ordering::kGapless}};
constexpr std::array kDatabases = {Named{"none", Database::kNone},
                                   Named{"mongodb", Database::kMongodb},
                                   Named{"postgresql", Database::kPostgresql},
                                   Named{"mysql", Database::kMysql},
                                   Named{"sqlite", Database::kSqlite},
                                   Named{"redis", Database::kRedis}};

template <class Value, std::size_t kSize>
Result<Value> value_named(const std::array<Named<Value>, kSize>& values, std::string_view option,
                          std::string_view name) {
  std::string known;
  for (const Named<Value>& row : values) {
    if (row.name == name) return row.value;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return std::unexpected(Error{Code::kInvalidArgument, std::string(option) + " is \"" +
                                                           std::string(name.substr(0, 40)) +
                                                           "\": give one of " + known});
}

}  // namespace

Result<Ordering> ordering_named(std::string_view name) {
  return value_named(kOrderings, "--order", name);
}

std::string_view name(Ordering ordering) noexcept {
  return kOrderings[static_cast<std::size_t>(ordering)].name;
}

Result<Database> database_named(std::string_view name) {
  return value_named(kDatabases, "--database", name);
}

std::string_view name(Database database) noexcept {
  return kDatabases[static_cast<std::size_t>(database)].name;
}

Stored stored_integer(Database database, double largest, bool appends) {
  const double bits = std::floor(std::log2(std::max(largest, 1.0))) + 1;
  switch (database) {
    case Database::kPostgresql:
      return {"bigint", 8, (8 + 8 + 4) / fill_of(0.9, appends)};
    case Database::kMysql:
      return {"BIGINT", 8, 8 / fill_of(15.0 / 16, appends)};
    case Database::kSqlite:  // a varint: 7 bits in each byte, 8 in the ninth
      return {"INTEGER PRIMARY KEY", std::min(9.0, std::ceil(bits / 7)), 0};
    case Database::kMongodb:  // type, "_id", zero, value; in the index a type, the bytes, an end
      return {"int64", 5 + 8, (1 + std::ceil((bits + 1) / 8) + 1 + 4) / fill_of(0.9, appends)};
    case Database::kRedis:
    case Database::kNone:
      return {"int64", 8, 8};
  }
  return {};
}

Stored stored_binary(Database database, int bytes, bool appends, bool object_id) {
  const double n = bytes;
  const std::string size = std::to_string(bytes);
  switch (database) {
    case Database::kPostgresql:
      if (bytes == 16) return {"uuid", 16, (8 + 16 + 4) / fill_of(0.9, appends)};
      return {"bytea", n + 1, (8 + aligned(n + 1) + 4) / fill_of(0.9, appends)};
    case Database::kMysql:
      return {"BINARY(" + size + ")", n, n / fill_of(15.0 / 16, appends)};
    case Database::kSqlite:
      return {"BLOB(" + size + ")", n + 1, (n + 4 + 5) / fill_of(1, appends)};
    case Database::kMongodb:
      if (object_id) return {"ObjectId", 5 + n, (1 + n + 1 + 4) / fill_of(0.9, appends)};
      return {bytes == 16 ? "binary, subtype 4" : "binary", 5 + 4 + 1 + n,
              (3 + n + 1 + 4) / fill_of(0.9, appends)};
    case Database::kRedis:
    case Database::kNone:
      return {"binary, " + size + " bytes", n, n};
  }
  return {};
}

Stored stored_text(Database database, int chars, bool appends) {
  const double n = chars;
  const std::string size = std::to_string(chars);
  switch (database) {
    case Database::kPostgresql:
      return {"text, " + size, n + 1, (8 + aligned(n + 1) + 4) / fill_of(0.9, appends)};
    case Database::kMysql:
      return {"CHAR(" + size + ") ascii", n, n / fill_of(15.0 / 16, appends)};
    case Database::kSqlite:
      return {"TEXT, " + size, n + 1, (n + 4 + 5) / fill_of(1, appends)};
    case Database::kMongodb:
      return {"string, " + size, 5 + 4 + n + 1, (1 + n + 1 + 1 + 4) / fill_of(0.9, appends)};
    case Database::kRedis:  // 3 bytes of header and a zero, in the allocator's steps of 8
      return {"key of " + size, aligned(n + 4), 24 + 8};
    case Database::kNone:
      return {"text, " + size, n, n};
  }
  return {};
}

std::string print_day(std::chrono::sys_seconds time) {
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(time)};
  const auto two = [](unsigned value) { return (value < 10 ? "-0" : "-") + std::to_string(value); };
  return std::to_string(static_cast<int>(day.year())) + two(static_cast<unsigned>(day.month())) +
         two(static_cast<unsigned>(day.day()));
}

Plan make_plan(const Needs& needs, Instant now) {
  Plan plan;
  plan.storage_note = note_of(needs.database);
  std::array<bool, kCandidates.size()> placed{};
  for (const Rule& rule : kRules) {
    bool& done = placed[static_cast<std::size_t>(rule.id)];
    if (done || !rule.applies(needs)) continue;
    done = true;
    const Candidate& source = candidate(rule.id);
    Choice choice = choice_of(source, needs);
    for (const Objection& objection : kObjections) {
      choice.reason = objection.says(source, needs, choice, now);
      if (!choice.reason.empty()) break;
    }
    if (choice.reason.empty()) {
      choice.reason = rule.reason;
      (choice.command.empty() ? plan.lacking_store : plan.fitting).push_back(std::move(choice));
    } else {
      choice.command.clear();
      choice.next_host_command.clear();
      choice.command_note.clear();
      plan.unfitting.push_back(std::move(choice));
    }
  }
  return plan;
}

}  // namespace idmint::cli
