#include "advice/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "advice/candidates.h"
#include "advice/capacity.h"
#include "advice/diagnosis.h"
#include "advice/named.h"
#include "advice/odds.h"
#include "base/quantity.h"
#include "idmint/definition.h"
#include "idmint/snowflake.h"
#include "mint/worker.h"

namespace idmint::advice {

namespace {

// The highest acceptable odds of any repeat among all ids for sources without coordination.
constexpr double kAcceptable = 1e-6;
// The highest acceptable fraction of the space for random numbers under a unique key: two draws an
// id.
constexpr double kFullest = 0.5;
// More waiting callers at a time than this are worth a note.
constexpr double kManyCallers = 1000;

// ---- bytes

std::vector<Stored> forms_of(const Candidate& source, const Needs& needs, double space) {
  const Database database = needs.database;
  std::vector<Stored> forms;
  if (source.chars == 0) {
    const bool is_integer = source.id != IdKind::kDigits || needs.digits.value_or(0) <= kMostDigits;
    if (database != Database::kRedis && is_integer) {
      forms.push_back(stored_integer(database, space, source.appends));
    }
    const int chars =
        needs.digits ? *needs.digits : static_cast<int>(std::floor(std::log10(space))) + 1;
    forms.push_back(stored_text(database, chars, source.appends));
    return forms;
  }
  if (database != Database::kRedis && source.bits == 64) {
    forms.push_back(stored_integer(database, space, source.appends));
  } else if (database != Database::kRedis) {
    forms.push_back(
        stored_binary(database, source.bits / 8, source.appends, source.name == "object-id"));
  }
  forms.push_back(stored_text(database, source.chars, source.appends));
  return forms;
}

// ---- why not: the first objection that holds

// "; of the layouts instagram 8,192, sonyflake 65,536": the presets with a worker id for each host
// and time left.
std::string roomier_presets(const Needs& needs, Instant now) {
  std::string text;
  for (const SnowflakePreset& preset : snowflake_presets()) {
    const SnowflakeLayout& layout = preset.layout;
    const double workers = std::exp2(layout.worker_bits);
    const int bits = layout.time_bits + layout.worker_bits + layout.sequence_bits;
    if (const auto ends = end_of(layout); ends && *ends <= now) continue;
    if (workers < needs.hosts || (needs.bits && bits > *needs.bits)) continue;
    text.append(text.empty() ? "; of the layouts " : ", ").append(preset.name);
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
                if (source.id != IdKind::kGapless) return std::string();
                if (needs.database != Database::kMongodb) {
                  return std::string(
                      "a number and the document that bears it are one transaction, for which it "
                      "takes the database mongodb");
                }
                if (!needs.shared_store || needs.shared_url.empty()) {
                  return std::string("it takes MongoDB, which this build left out");
                }
                if (needs.order == Ordering::kGapless) return std::string();
                return std::string(
                    "a number comes only with its document, as that is inserted; where none may be "
                    "missing ask for the order gapless");
              }},
    Objection{"digits",
              [](const Candidate& source, const Needs& needs, const Choice&, Instant) {
                if (source.id == IdKind::kDigits) {
                  return needs.digits ? ""
                                      : std::string("only where a number of digits is asked for");
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
                                  : source.kind == Kind::kWorker ? layout_for(needs).bits
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
                if (source.id == IdKind::kCached) {
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
                return source.id == IdKind::kPermuted
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
                       " hosts reach: if there is one, say so (shared-store)";
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
                       print_count(*choice.batch) + ": give the rate of the calls instead";
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
  std::string_view source;  // empty: each format that no rule names
  bool (*applies)(const Needs& needs);
  std::string_view reason;
};

bool always(const Needs&) { return true; }
bool has_no_shared_store(const Needs& needs) { return needs.hosts > 1 && needs.shared_url.empty(); }

bool has_room_for_time(const Needs& needs) {
  return !needs.digits && needs.bits && *needs.bits >= 53 && *needs.bits < 96;
}

constexpr std::array kRules = {
    // By need:
    Rule{"gapless", "gapless", [](const Needs& n) { return n.order == Ordering::kGapless; },
         "no number may be missing: each is taken in the transaction that inserts the document "
         "which bears it"},
    Rule{"strict", "counter", [](const Needs& n) { return n.order == Ordering::kStrict; },
         "strict order: of one counter every later call gets the larger id, on all hosts, and one "
         "round trip serves all callers that wait"},
    Rule{"unguessable digits, no shared store", "digits",
         [](const Needs& n) { return n.unguessable && n.digits && has_no_shared_store(n); },
         "unguessable: so many random digits that no two meet, and nothing to run"},
    Rule{"unguessable number, no shared store", "random for each host",
         [](const Needs& n) { return n.unguessable && wants_number(n) && has_no_shared_store(n); },
         "unguessable, and no store that all hosts reach: each draws and claims in a block of its "
         "own; a number tells its host, and nothing else"},
    Rule{"unguessable number", "random",
         [](const Needs& n) { return n.unguessable && wants_number(n); },
         "unguessable: each number is drawn by itself, and the claim under a unique key keeps it "
         "from coming twice"},
    Rule{"unguessable", "uuid4", [](const Needs& n) { return n.unguessable; },
         "unguessable: 122 random bits in each id, and nothing to run"},
    Rule{"number, one host", "counter",
         [](const Needs& n) {
           return wants_number(n) && n.hosts == 1 &&
                  callers_at_once(IdKind::kCounter, n) <= kManyCallers;
         },
         "one host: its own store is near, so the plainest source is fast enough, and leaves no "
         "gaps while nothing fails"},
    Rule{"number of 53 bits or more, shared store", "pool",
         [](const Needs& n) { return has_room_for_time(n) && n.hosts > 1 && n.shared_store; },
         "fits the bits, and no host waits for anything: each process leases its worker id from "
         "the store, and none is given out by hand"},
    Rule{"number of 53 bits or more, many hosts", "snowflake", has_room_for_time,
         "fits the bits, and no host waits for anything: each needs only a worker id of its own"},
    Rule{"number, per host, shared store", "counter",
         [](const Needs& n) {
           return wants_number(n) && n.order == Ordering::kPerHost && n.shared_store;
         },
         "order per host: of one counter all ids are in order, and callers are combined"},
    Rule{"number, no shared store", "counter for each host",
         [](const Needs& n) { return wants_number(n) && has_no_shared_store(n); },
         "no store that all hosts reach: each gets a block of the numbers for itself, and counts "
         "in its own store"},
    Rule{"number", "cached", wants_number,
         "no caller waits for the store: a range of about 10 s is in memory, and the next one is "
         "fetched before it ends"},
    Rule{"sqlite, one host", "counter",
         [](const Needs& n) { return n.database == Database::kSqlite && n.hosts == 1; },
         "SQLite: an integer as primary key is the row id, and takes no index of its own"},
    Rule{"mongodb", "object-id",
         [](const Needs& n) {
           return n.database == Database::kMongodb && n.order == Ordering::kNone;
         },
         "MongoDB: its own type for _id, 12 bytes, in order of its seconds, and nothing to run"},
    Rule{"no width", "uuid7", [](const Needs& n) { return !wants_number(n); },
         "nothing to run and nothing to configure, and ids in order of time append to an index"},
    // Others that fit, ordered by what they require:
    Rule{"nothing to run", "uuid7", always,
         "nothing to run and nothing to configure; 16 bytes, in order of time"},
    Rule{"small, leased", "pool", always,
         "half the size of a UUID, in order of time, and no worker ids to give out; asks for a "
         "store"},
    Rule{"small", "snowflake", always,
         "half the size of a UUID, in order of time; asks for a worker id for each generator"},
    Rule{"sortable text", "ulid", always,
         "as uuid7, in 26 characters that sort as text and are easier to read aloud"},
    Rule{"small numbers", "cached", always,
         "the smallest ids, and no caller waits; asks for a store"},
    Rule{"no gaps", "counter", always,
         "in order, without gaps while nothing fails; each call waits for the store once or twice"},
    Rule{"no hot record", "striped", always,
         "calls go to 1000 records instead of one, where a store locks records; each waits for the "
         "store"},
    Rule{"several stores", "interleaved", always,
         "nearly in order, and a counter that is locked does not stop the others"},
    Rule{"looks random", "permuted", always,
         "the numbers look random and never meet: for ids that must not tell how many there are"},
    Rule{"cannot be told", "random", always,
         "the numbers are random: for ids that must not be told from others; costs a claim for "
         "each"},
    Rule{"own block", "counter for each host", always,
         "no host waits for another; the blocks must be given out by hand, once"},
    Rule{"own block, random", "random for each host", always,
         "random, and no host waits for another; the blocks must be given out by hand, once"},
    Rule{"twelve bytes", "object-id", always, "12 bytes; what MongoDB has as its own type"},
    Rule{"formats", "", always, ""},
    Rule{"none missing", "gapless", always,
         "no number is missing; each comes with its document, in a transaction"},
    Rule{"many digits", "digits", always,
         "so many random digits that no two meet, and nothing to run; none of them tells anything"},
    Rule{"no order", "uuid4", always,
         "tells nothing, not even its time; inserts all over the index"},
};

// The smallest first.
std::vector<const Candidate*> formats_without_a_rule() {
  std::vector<const Candidate*> found;
  for (const Candidate& source : candidates()) {
    if (source.format != nullptr && !source.format->plan.reason.empty()) found.push_back(&source);
  }
  std::ranges::sort(found, {},
                    [](const Candidate* source) { return std::pair(source->bits, source->name); });
  return found;
}

// ---- steps

using Verb = Steps::Verb;
using Options = std::vector<Steps::Option>;

void add_width(IdKind id, const Needs& needs, Options& options) {
  if (needs.digits) options.emplace_back("digits", std::to_string(*needs.digits));
  // With more digits, create needs the last value.
  if (needs.digits ? *needs.digits > kMostDigits : needs.bits && *needs.bits < 63)
    options.emplace_back("max", std::to_string(largest_number(id, needs)));
}

// Adds nothing for the default layout.
void add_layout(const Needs& needs, Options& options) {
  const WorkerLayout& layout = layout_for(needs);
  if (layout.bits != 63) options.emplace_back("layout", std::string(layout.preset));
}

struct AllSteps {
  Steps first{};
  Steps next_host{};
  std::string note{};
  Then then = Then::kNothing;
};

AllSteps steps_of(const Candidate& source, const Needs& needs) {
  Steps create{.verb = Verb::kCreate};
  const auto with = [](Steps steps, Options more) {
    std::ranges::move(more, std::back_inserter(steps.options));
    return steps;
  };
  if (source.id == IdKind::kPool) {
    create.options.emplace_back("kind", "pool");
    add_layout(needs, create.options);
  } else {
    add_width(source.id, needs, create.options);
  }
  if (shares_a_store(source, needs)) {
    if (needs.shared_url.empty()) {
      return {.note = "none: it needs a store that all " + print_count(needs.hosts) +
                      " hosts reach, and each store of this build is of one host; made on each "
                      "host, it would repeat ids"};
    }
    create.options.emplace_back("store", std::string(needs.shared_url));
  }
  const bool several = needs.hosts > 1;
  switch (source.id) {
    case IdKind::kSnowflake: {
      Steps next{.verb = Verb::kNext, .format = "snowflake"};
      add_layout(needs, next.options);
      if (!several) return {.first = with(next, {{"worker", "0"}})};
      return {.first = with(next, {{"worker", "0"}}),
              .next_host = with(next, {{"worker", "1"}}),
              .note = "and so on up to " + print_count(layout_for(needs).workers - 1) +
                      ": two hosts with one worker id may repeat ids"};
    }
    case IdKind::kPool:
      return {.first = create, .then = Then::kMintFromPool};
    case IdKind::kCounter:
      return {.first = create};
    case IdKind::kStriped:
      return {.first = with(create, {{"stripes", std::to_string(kStripes)}})};
    case IdKind::kInterleaved:
      return {.first = with(create, {{"strategy", "interleaved"},
                                     {"stripes", std::to_string(kInterleavedStripes)}})};
    case IdKind::kPerHost:
    case IdKind::kRandomPerHost: {
      if (!several) return {};  // there is no second block
      const std::int64_t block = block_of(source.id, needs);
      Steps each{.verb = Verb::kCreate};
      if (needs.digits) each.options.emplace_back("digits", std::to_string(*needs.digits));
      if (source.id == IdKind::kRandomPerHost) each.options.emplace_back("strategy", "random");
      const auto of_block = [&](std::int64_t first) {
        return with(
            each, {{"start", std::to_string(first)}, {"max", std::to_string(first + (block - 1))}});
      };
      return {.first = of_block(0),
              .next_host = of_block(block),
              .note = "and so on, both " + std::to_string(block) +
                      " more for each host: two hosts with one block repeat ids"};
    }
    case IdKind::kDigits:
      return {.first = {.verb = Verb::kNext,
                        .format = "digits",
                        .options = {{"digits", std::to_string(needs.digits.value_or(0))}}}};
    case IdKind::kGapless:
      return {.first = with(create, {{"strategy", "gapless"}}), .then = Then::kInsertWithIt};
    case IdKind::kCached:
    case IdKind::kPermuted:
    case IdKind::kRandom:
      return {.first = with(create, {{"strategy", std::string(source.name)}})};
    default:
      return {.first = {.verb = Verb::kNext, .format = source.name}};
  }
}

// The largest number in use at the end: counters use no more numbers than there are ids.
double largest_of(IdKind id, const Needs& needs, double space) {
  const double most = std::min(space, static_cast<double>(kLargestValue));
  const bool counts_up = id == IdKind::kCounter || id == IdKind::kCached ||
                         id == IdKind::kInterleaved || id == IdKind::kGapless;
  return counts_up ? std::min(needs.count, most) : most;
}

WorkerTerms leased(const Needs& needs) {
  WorkerTerms terms{.origin = "leased",
                    .guarantee = Guarantee::kUnique,
                    .condition = "whatever clocks, pauses and restarts do",
                    .steps = {.verb = Verb::kCreate, .options = {{"kind", "pool"}}}};
  if (needs.hosts <= 1) return terms;
  terms.condition = "in a store that all hosts reach, " + terms.condition;
  terms.steps.options.emplace_back(
      "store", needs.shared_url.empty() ? "URL" : std::string(needs.shared_url));
  return terms;
}

std::vector<WorkerTerms> terms_of(const Needs& needs, double workers) {
  std::vector<WorkerTerms> all = {leased(needs)};
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
  choice.space = space_of(source, needs);
  AllSteps steps = steps_of(source, needs);
  choice.steps = std::move(steps.first);
  choice.of_next_host = std::move(steps.next_host);
  choice.note = std::move(steps.note);
  choice.then = steps.then;
  choice.odds_of_a_repeat = odds_of(source, needs);
  if (source.id == IdKind::kRandom || source.id == IdKind::kRandomPerHost) {  // blocks fill equally
    choice.odds_that_the_last_collides = odds_that_the_last_collides(needs.count, choice.space);
    choice.redraws = expected_redraws(needs.count, choice.space);
  }
  if (source.id == IdKind::kStriped || is_per_host(source.id)) {
    choice.block = std::floor(choice.space / parts_of(source.id, needs));
  }
  choice.seconds_to_count = needs.count / needs.rate;
  choice.seconds_to_end = choice.space / needs.rate;
  choice.time_ends = time_ends(source);
  if (source.kind == Kind::kWorker) {
    choice.workers = layout_for(needs).workers;
  }
  if (source.id == IdKind::kSnowflake) {
    choice.odds_of_shared_worker = odds_of_a_repeat(needs.hosts, *choice.workers);
    choice.worker_terms = terms_of(needs, *choice.workers);
  }
  choice.ids_per_second = ids_per_second(source, needs);
  if (source.kind == Kind::kSequence && source.id != IdKind::kCached) {
    choice.callers = callers_at_once(source.id, needs);
    choice.batch = std::max(1.0, std::ceil(needs.rate / choice.ids_per_second));
  }
  choice.store_writes_per_second = store_writes(source, needs);
  choice.speed = speed_of(source, needs, choice);
  choice.stored = forms_of(source, needs, largest_of(source.id, needs, choice.space));
  choice.index_gigabytes = needs.count * choice.stored.front().index_bytes / 1e9;
  choice.appends = source.appends;
  choice.locality = source.locality;
  choice.clock_goes_back = source.clock_goes_back;
  choice.host_dies = source.host_dies;
  choice.store_down = source.store_down;
  return choice;
}

constexpr std::array kOrderings = {
    Named{"none", Ordering::kNone}, Named{"per-host", Ordering::kPerHost},
    Named{"strict", Ordering::kStrict}, Named{"gapless", Ordering::kGapless}};

}  // namespace

Result<Ordering> ordering_named(std::string_view name) { return value_named(kOrderings, name); }

std::string_view name(Ordering ordering) noexcept {
  return kOrderings[static_cast<std::size_t>(ordering)].name;
}

std::string print_day(std::chrono::sys_seconds time) {
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(time)};
  const auto two = [](unsigned value) { return (value < 10 ? "-0" : "-") + std::to_string(value); };
  return std::to_string(static_cast<int>(day.year())) + two(static_cast<unsigned>(day.month())) +
         two(static_cast<unsigned>(day.day()));
}

Plan make_plan(const Needs& needs, Instant now) {
  Plan plan;
  plan.storage_note = storage_note(needs.database);
  std::set<std::string_view> placed;
  const auto place = [&](const Candidate& source, std::string_view reason) {
    if (!placed.insert(source.name).second) return;
    Choice choice = choice_of(source, needs);
    for (const Objection& objection : kObjections) {
      choice.reason = objection.says(source, needs, choice, now);
      if (!choice.reason.empty()) break;
    }
    if (choice.reason.empty()) {
      choice.reason = reason;
      (choice.steps.verb == Verb::kNone ? plan.lacking_store : plan.fitting)
          .push_back(std::move(choice));
    } else {
      choice.steps = {};
      choice.of_next_host = {};
      choice.note.clear();
      choice.then = Then::kNothing;
      plan.unfitting.push_back(std::move(choice));
    }
  };
  for (const Rule& rule : kRules) {
    if (!rule.applies(needs)) continue;
    if (!rule.source.empty()) {
      place(candidate(rule.source), rule.reason);
    } else {
      for (const Candidate* const source : formats_without_a_rule()) {
        place(*source, source->format->plan.reason);
      }
    }
  }
  return plan;
}

}  // namespace idmint::advice
