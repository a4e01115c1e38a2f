// From needs to a source: what fits, what does not, and why. Rules and arithmetic only; opens
// nothing and prints nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "advice/storage.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/source.h"

namespace idmint::advice {

enum class Ordering : std::uint8_t {
  kNone,
  kPerHost,  // of two ids of one host, the later one is larger
  kStrict,   // the same for any two ids, on all hosts
  kGapless,  // also, none is missing
};
// "none", "per-host", "strict", "gapless". kInvalidArgument: none of these; the message lists them.
[[nodiscard]] Result<Ordering> ordering_named(std::string_view name);
[[nodiscard]] std::string_view name(Ordering ordering) noexcept;

struct Needs {
  std::optional<int> digits{};  // exactly this many printed decimal digits, 1 to 36
  std::optional<int> bits{};    // at most this many bits, 1 to 160
  double count = 1e9;           // ids in all
  double hosts = 1;             // with one generating process each
  double rate = 1000;           // ids per second, of all hosts together
  Ordering order = Ordering::kNone;
  Database database = Database::kNone;  // the ids will be its keys
  bool unguessable = false;             // known ids do not reveal others
  bool shared_store = false;            // there is a store that all hosts reach
  std::string_view shared_url{};        // of a store that this build can open; empty: none
  std::chrono::nanoseconds round_trip = std::chrono::milliseconds{25};  // of that store, durable
  // For a host's own store, if there are several hosts; at most round_trip.
  std::chrono::nanoseconds own_round_trip = std::chrono::milliseconds{1};
};

// The steps to get ids, as values. Each front end has its own words for them; the names of options
// are these.
struct Steps {
  enum class Verb : std::uint8_t { kNone, kCreate, kNext };  // a sequence or a pool; ids
  struct Option {
    std::string_view name;  // "digits", "strategy", "kind", "store"
    std::string value;
    friend bool operator==(const Option&, const Option&) = default;
  };
  Verb verb = Verb::kNone;
  std::string_view format{};  // of kNext
  std::vector<Option> options{};

  friend bool operator==(const Steps&, const Steps&) = default;
};
// The step after them.
enum class Then : std::uint8_t { kNothing, kMintFromPool, kInsertWithIt };

// An origin of worker ids, and the condition under which no two hosts have the same one.
struct WorkerTerms {
  std::string_view origin{};  // "leased", or as in --worker: "env:NAME", "mac"
  Guarantee guarantee = Guarantee::kPractical;
  std::string condition{};  // "if ...", "whatever ..."; if practical: the way they are made
  Steps steps{};            // for leased ones
  // If practical: the odds that at least two hosts share one, and the same for the most similar
  // hosts (WorkerOrigin::lost_bits).
  std::optional<double> odds_of_share{};
  std::optional<double> most_odds_of_share{};
};

struct Choice {
  std::string source{};  // "uuid7", "cached"
  std::string about{};
  std::string reason{};  // why this one, or why not
  Guarantee guarantee = Guarantee::kPractical;
  std::string order{};
  // The steps to create it, or to make one id if nothing is to be created. None: this build has no
  // store for it, or it does not fit.
  Steps steps{};
  Steps of_next_host{};  // the same for the second host; none: as for the first
  std::string note{};    // for further hosts; or why there are no steps
  Then then = Then::kNothing;

  double space = 0;  // the number of ids
  // For sources without coordination: an upper bound for the odds of any repeat among all ids.
  std::optional<double> odds_of_a_repeat{};
  // For random ids under a unique key: the odds that the last one collides, and the expected
  // redraws of all.
  std::optional<double> odds_that_the_last_collides{};
  std::optional<double> redraws{};
  double seconds_to_count = 0;    // until Needs::count is reached, at the rate
  double seconds_to_end = 0;      // until all ids are used up, at the rate
  std::optional<double> block{};  // numbers of each host, or of each stripe
  // The last second of the timestamps. UUIDv7 and ULID exceed the range of an Instant.
  std::optional<std::chrono::sys_seconds> time_ends{};
  std::optional<double> workers{};  // the number of worker ids, each for one generator
  // If they are not leased: the odds if they were hashed from hardware addresses, and all origins.
  std::optional<double> odds_of_shared_worker{};
  std::vector<WorkerTerms> worker_terms{};

  // The possible rate of all hosts together. For a sequence whose callers wait: one id in a call,
  // as measured.
  double ids_per_second = 0;
  std::optional<double> callers{};     // that must wait at a time to reach the rate; or batches
  std::optional<double> batch{};       // ids in a call, required to reach the rate
  double store_writes_per_second = 0;  // at the rate
  std::string speed{};

  std::vector<Stored> stored{};
  double index_gigabytes = 0;  // for Needs::count ids in the first of these forms
  bool appends = false;        // whether new ids go to a few places of an index, or everywhere
  std::string locality{};
  std::string clock_goes_back{};
  std::string host_dies{};
  std::string store_down{};
};

struct Plan {
  // Sources that fit, the recommended one first; may be empty.
  std::vector<Choice> fitting{};
  // Sources that would fit with a store that all hosts reach, which this build lacks.
  std::vector<Choice> lacking_store{};
  std::vector<Choice> unfitting{};
  std::string storage_note{};  // the assumptions behind the bytes of the database
};

[[nodiscard]] Plan make_plan(const Needs& needs, Instant now);

// "2084-09-06"; also past the year 9999.
[[nodiscard]] std::string print_day(std::chrono::sys_seconds time);

}  // namespace idmint::advice
