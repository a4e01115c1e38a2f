// The findings and the actions of a fence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "restore/fence/handed_out.h"
#include "restore/timestamp.h"

namespace idmint::restore {

enum class FenceOutcome : std::uint8_t {
  kAsItWas,  // production handed out nothing that the target does not know
  kRaised,   // raised past what was handed out
  kMade,     // was missing; created again past what was handed out
  kRetired,  // retired, as in production
  kLeftOut,  // excluded (--exclude): values can be repeated
  kRefused,  // `why` says what to do first
};

// The numbers from `first` to `last`, inclusive.
struct NumberSpan {
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const NumberSpan&, const NumberSpan&) = default;
};

// A counter of a sequence: its next value on the target before and after the fence.
struct FencedCounter {
  std::string name{};
  std::optional<std::int64_t> from{};  // nullopt: it was missing
  std::int64_t to = 0;
};

// A sequence or a pool of idmint.
struct FencedSource {
  std::string database{};
  std::string name{};
  std::string strategy{};  // "counter", ..., "pool"
  FenceOutcome outcome = FenceOutcome::kAsItWas;
  std::vector<FencedCounter> counters{};  // those that are raised; indices for a permuted sequence
  std::int64_t skipped = 0;               // values skipped
  std::int64_t claims = 0;                // claims that the target lacked
  std::string past{};                     // for a pool: the time after which its ids begin
  std::vector<NumberSpan> lost{};         // for a gapless sequence: numbers without a document
  std::string note{};                     // what else a person should know
  std::string why{};                      // why it is refused or excluded

  [[nodiscard]] std::string label() const { return database + "/" + name; }
};

// A counter document of a program without idmint.
struct FencedDocument {
  std::string ns{};
  std::string id{};  // in readable form
  std::string field{};
  std::string recipe{};  // the recipe's name, or "--counter"
  FenceOutcome outcome = FenceOutcome::kAsItWas;
  std::optional<std::int64_t> from{};  // on the target; nullopt: the document is missing there
  std::int64_t to = 0;
  std::int64_t largest_step = 0;  // in the oplog; 0: none
  std::uint64_t rises = 0;        // in the oplog
  std::string note{};
  std::string why{};

  [[nodiscard]] std::string label() const { return ns + "/" + id; }
};

struct FenceReport {
  std::string target{};  // without a password; so are `oplog` and `live`
  std::string oplog{};   // the file; empty: none was given
  std::string live{};    // the URI; likewise
  std::optional<Timestamp> limit{};
  std::optional<Timestamp> first{};         // of the oplog
  std::optional<Timestamp> last{};          // the last known entry
  std::vector<FencedSource> sources{};      // by database and name; without retired ones
  std::vector<FencedDocument> documents{};  // by namespace and _id
  std::vector<RisingField> left_alone{};    // a few, the most rises first
  std::vector<std::string> notes{};         // what remains unknown, each a sentence
  bool carried_out = false;

  // "shop/invoices: WHY" for each refused row.
  [[nodiscard]] std::vector<std::string> refused() const {
    std::vector<std::string> all;
    for (const FencedSource& each : sources)
      if (each.outcome == FenceOutcome::kRefused) all.push_back(each.label() + ": " + each.why);
    for (const FencedDocument& each : documents)
      if (each.outcome == FenceOutcome::kRefused) all.push_back(each.label() + ": " + each.why);
    return all;
  }
};

}  // namespace idmint::restore
