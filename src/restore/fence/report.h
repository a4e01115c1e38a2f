// What a fence found, and what it does or did about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "restore/fence/handed_out.h"
#include "restore/timestamp.h"

namespace idmint::restore {

enum class FenceOutcome : std::uint8_t {
  kAsItWas,  // nothing came from it that the target does not know of
  kRaised,   // past what was handed out
  kMade,     // it was gone, and was made again past what was handed out
  kRetired,  // as production retired it
  kLeftOut,  // by --exclude: what was handed out can come again
  kRefused,  // `why` says what is to be done first
};

// Numbers from `first` to `last`, both included.
struct NumberSpan {
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const NumberSpan&, const NumberSpan&) = default;
};

// A counter of a sequence: the next value that it had on the target, and that it has afterwards.
struct FencedCounter {
  std::string name{};
  std::optional<std::int64_t> from{};  // nothing: it was gone
  std::int64_t to = 0;
};

// A sequence or a pool of idmint.
struct FencedSource {
  std::string database{};
  std::string name{};
  std::string strategy{};  // "counter", ..., "pool"
  FenceOutcome outcome = FenceOutcome::kAsItWas;
  std::vector<FencedCounter> counters{};  // those that move; of a permuted one by index
  std::int64_t skipped = 0;               // values that are passed over
  std::int64_t claims = 0;                // that the target lacked
  std::string past{};                     // of a pool: the time that its ids begin after
  std::vector<NumberSpan> lost{};         // of a gapless one: numbers that no document has
  std::string note{};                     // what it is to know besides
  std::string why{};                      // it is refused; or left out

  [[nodiscard]] std::string label() const { return database + "/" + name; }
};

// A counter document of a program that does without idmint.
struct FencedDocument {
  std::string ns{};
  std::string id{};  // as people read it
  std::string field{};
  std::string recipe{};  // the classic one, or "--counter"
  FenceOutcome outcome = FenceOutcome::kAsItWas;
  std::optional<std::int64_t> from{};  // on the target; nothing: the document is gone there
  std::int64_t to = 0;
  std::int64_t largest_step = 0;  // that the oplog shows; 0: none
  std::uint64_t rises = 0;        // steps that the oplog shows
  std::string note{};
  std::string why{};

  [[nodiscard]] std::string label() const { return ns + "/" + id; }
};

struct FenceReport {
  std::string target{};  // without a password, as `oplog` and `live`
  std::string oplog{};   // the file; empty: none was given
  std::string live{};    // the URI; likewise
  std::optional<Timestamp> limit{};
  std::optional<Timestamp> first{};         // of the oplog
  std::optional<Timestamp> last{};          // what came later is not known
  std::vector<FencedSource> sources{};      // by database and name; retired ones are left out
  std::vector<FencedDocument> documents{};  // by namespace and _id
  std::vector<RisingField> left_alone{};    // the most rises first, a few
  std::vector<std::string> notes{};         // what cannot be known, each a sentence
  bool carried_out = false;

  // "shop/invoices: WHY", for all that is refused.
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
