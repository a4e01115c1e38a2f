// From needs to a source: what fits, what does not, and why. Rules and arithmetic only; nothing is
// opened and nothing is printed.
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
  kPerHost,  // of two ids of one host the later one is the larger
  kStrict,   // of any two ids, on all hosts
  kGapless,  // and none is missing
};
// "none", "per-host", "strict", "gapless". kInvalidArgument, with the names there are.
[[nodiscard]] Result<Ordering> ordering_named(std::string_view name);
[[nodiscard]] std::string_view name(Ordering ordering) noexcept;

struct Needs {
  std::optional<int> digits{};  // exactly that many printed decimal digits, 1 to 36
  std::optional<int> bits{};    // at most that many bits, 1 to 160
  double count = 1e9;           // ids in all
  double hosts = 1;             // with one generating process each
  double rate = 1000;           // ids in a second, of all hosts together
  Ordering order = Ordering::kNone;
  Database database = Database::kNone;  // of which they will be the key
  bool unguessable = false;             // who knows some ids cannot tell others
  bool shared_store = false;            // there is a store that all hosts reach
  std::string_view shared_url{};        // of one that this build can open; empty: it can open none
  std::chrono::nanoseconds round_trip = std::chrono::milliseconds{25};  // of that store, durable
  // Of a host's own store, where there are several hosts; not above round_trip.
  std::chrono::nanoseconds own_round_trip = std::chrono::milliseconds{1};
};

// How ids are come by, as values: each front end has its own words for them, whose names of options
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
// What comes after them.
enum class Then : std::uint8_t { kNothing, kMintFromPool, kInsertWithIt };

// Where worker ids can come from, and when no two hosts have the same one.
struct WorkerTerms {
  std::string_view origin{};  // "leased", or as --worker has it: "env:NAME", "mac"
  Guarantee guarantee = Guarantee::kPractical;
  std::string condition{};  // "if ...", "whatever ..."; where practical how they are come by
  Steps steps{};            // of leased ones
  // If practical: the odds that at least two hosts have the same one, and the odds of hosts as
  // similar as hosts may be (WorkerOrigin::lost_bits).
  std::optional<double> odds_of_share{};
  std::optional<double> most_odds_of_share{};
};

struct Choice {
  std::string source{};  // "uuid7", "cached"
  std::string about{};
  std::string reason{};  // why this one, or why not
  Guarantee guarantee = Guarantee::kPractical;
  std::string order{};
  // That make it; or make one id, where nothing is to be made. None: this build has no store for
  // it, or it does not fit.
  Steps steps{};
  Steps of_next_host{};  // the same for the second host; none: as on the first
  std::string note{};    // for the hosts after that; or why there are no steps
  Then then = Then::kNothing;

  double space = 0;  // how many ids there are
  // Of sources that coordinate nothing: of any repeat among all ids; at most that.
  std::optional<double> odds_of_a_repeat{};
  // Of random ids under a unique key: that the last one meets another, and how often all do.
  std::optional<double> odds_that_the_last_collides{};
  std::optional<double> redraws{};
  double seconds_to_count = 0;    // until Needs::count is reached, at the rate
  double seconds_to_end = 0;      // until all ids are used up, at the rate
  std::optional<double> block{};  // numbers for each host, or for each stripe
  // The last second of the timestamps. UUIDv7 and ULID go past what an Instant holds.
  std::optional<std::chrono::sys_seconds> time_ends{};
  std::optional<double> workers{};  // worker ids there are, each for one generator
  // Where they are not leased: if they were hashed from hardware addresses; each origin there is.
  std::optional<double> odds_of_shared_worker{};
  std::vector<WorkerTerms> worker_terms{};

  // Possible, of all hosts together; of a sequence whose callers wait: one id in a call, as
  // measured.
  double ids_per_second = 0;
  std::optional<double> callers{};     // that must wait at a time to reach the rate; or batches
  std::optional<double> batch{};       // ids in a call, without which the rate cannot be reached
  double store_writes_per_second = 0;  // at the rate
  std::string speed{};

  std::vector<Stored> stored{};
  double index_gigabytes = 0;  // of Needs::count ids, in the first of these forms
  bool appends = false;        // whether new ids go to a few places of an index, or to all of it
  std::string locality{};
  std::string clock_goes_back{};
  std::string host_dies{};
  std::string store_down{};
};

struct Plan {
  // What fits, the recommended one first; empty when nothing does.
  std::vector<Choice> fitting{};
  // What would, in a store that all hosts reach, of which this build has none.
  std::vector<Choice> lacking_store{};
  std::vector<Choice> unfitting{};
  std::string storage_note{};  // what the bytes of the database rest on
};

[[nodiscard]] Plan make_plan(const Needs& needs, Instant now);

// "2084-09-06"; also past the year 9999.
[[nodiscard]] std::string print_day(std::chrono::sys_seconds time);

}  // namespace idmint::advice
