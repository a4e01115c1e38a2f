// Whether `find` names the right limit: on 40 oplogs of mistakes whose place is known.
#include "restore/tests/known_causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "restore/find/analysis.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr double kShown = 20;  // the score of a suspect that is printed

OplogAnswer analyse(const KnownCause& cause, Setting setting, FindFilter filter, Timestamp& limit) {
  OplogAnalysis analysis(std::move(filter));
  limit = write_oplog(cause, setting, [&](mongo::Document document) {
    const Result<Entry> entry = parse_entry(document);
    ASSERT_TRUE(entry) << entry.error().message();
    const Result<void> added = analysis.add(*entry);
    ASSERT_TRUE(added) << added.error().message();
  });
  return analysis.finish();
}

// The place of the right limit among those that are printed, from 1. 0: it is not among them.
std::size_t rank_of(const OplogAnswer& answer, Timestamp limit) {
  for (std::size_t i = 0; i < answer.suspects.size(); ++i) {
    const Suspect& each = answer.suspects[i];
    if (each.score < kShown) break;
    if (each.limit == limit) return i + 1;
  }
  return 0;
}

std::string in_lines(const OplogAnswer& answer, Timestamp limit) {
  std::string lines = "the limit is " + print_timestamp(limit) + "\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(6, answer.suspects.size()); ++i) {
    const Suspect& each = answer.suspects[i];
    lines += "  " + std::to_string(each.score) + " " + print_timestamp(each.limit) + " " +
             std::string(text_of(each.reason).name) + " " + each.ns + ": " + each.why + "\n";
  }
  return lines;
}

TEST(KnownCauses, TheRightLimitIsFirstIn38OplogsAndAmongTheFirstThreeInAll40) {
  std::size_t first = 0;
  std::string others;
  for (const KnownCause& cause : kKnownCauses) {
    for (const Setting setting : {Setting::kQuiet, Setting::kBusy}) {
      FindFilter filter;
      if (cause.id != 0) filter.id = IdFilter::of(std::to_string(cause.id)).value();
      Timestamp limit{};
      const OplogAnswer answer = analyse(cause, setting, std::move(filter), limit);
      const std::size_t rank = rank_of(answer, limit);
      const std::string told = std::string(cause.name) +
                               (setting == Setting::kQuiet ? ", quiet, " : ", busy, ") +
                               std::to_string(answer.entries) + " entries: place " +
                               std::to_string(rank) + ", " + in_lines(answer, limit);
      EXPECT_TRUE(rank >= 1 && rank <= 3) << told;
      if (rank == 1) {
        ++first;
      } else {
        others += told;
      }
    }
  }
  EXPECT_GE(first, 38U) << others;
  RecordProperty("first", static_cast<int>(first));
}

}  // namespace
}  // namespace idmint::restore
