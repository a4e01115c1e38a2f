// Keeps the likeliest suspects of an analysis, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/find/answer.h"
#include "restore/find/namespace_counts.h"
#include "restore/find/recurring_events.h"
#include "restore/oplog/operation_text.h"

namespace idmint::restore {

// The place of an operation in the oplog.
struct Place {
  Timestamp at{};             // of its entry
  std::int64_t wall = 0;      // milliseconds since 1970
  bool in_span = false;       // not before the requested span
  std::uint64_t changes = 0;  // operations up to and including this one
  std::uint64_t changes_before_entry = 0;
  std::uint64_t session = 0;  // a hash of the session, or of the transaction; 0: none
  // The previous entry that changes anything: its first operation, and its number of operations.
  std::optional<Timestamp> previous_at{};
  Remembered previous{};
  std::uint64_t previous_operations = 0;
};

// A suspect with one operation, its first.
[[nodiscard]] Suspect suspect_at(const Place& place, Reason reason, std::string ns,
                                 const Remembered& first);
[[nodiscard]] Suspect suspect_at(const Place& place, Reason reason, std::string ns,
                                 const Operation& first);

// Whether the reason is one of many operations at once.
[[nodiscard]] constexpr bool is_run(Reason reason) {
  return reason == Reason::kMassDelete || reason == Reason::kMassUpdate ||
         reason == Reason::kUnsetWave;
}
// min(most, base + step * log10(count)).
[[nodiscard]] double log_score(double base, double step, std::uint64_t count, double most);
// Lowers the score of a suspect that happened `times` times.
void weigh_repeats(Suspect& suspect, std::uint64_t times);
// "1 document", "2,000 documents".
[[nodiscard]] std::string plural(std::uint64_t count, std::string_view one);

class Suspects {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kAlike = 4;  // per key: the first, and the likeliest

  explicit Suspects(const NamespaceCounts& counts) : counts_(counts) {}

  // Keeps the suspect when the next entry is known, or at once if the suspect has it already.
  void keep(Suspect suspect);
  // Keeps the suspect at once. False: it continued one that was kept before.
  bool keep_now(Suspect suspect);
  // The next entry that changes anything; completes the suspects that wait for it.
  void next_entry(Timestamp at);
  // Removes the drops of collections of `database` that began at `from` or later.
  void remove_drops(std::string_view database, Timestamp from);

  // At the end: there is no next entry.
  void end();
  [[nodiscard]] std::vector<Suspect>& all() { return all_; }
  // All suspects ever kept, by key, except falls.
  [[nodiscard]] RecurringEvents& recurring_events() { return recurring_events_; }
  [[nodiscard]] const NamespaceCounts& counts() const { return counts_; }
  // At the end, once. Sorted, the likeliest first.
  [[nodiscard]] std::vector<Suspect> take();
  // Suspects that were replaced by likelier ones with other keys.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  const NamespaceCounts& counts_;
  RecurringEvents recurring_events_{std::size_t{1} << 12};
  std::vector<Suspect> all_;
  std::vector<Suspect> waiting_;  // for the next entry
  std::uint64_t left_out_ = 0;
};

}  // namespace idmint::restore
