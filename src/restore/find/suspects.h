// The suspects that an analysis keeps: the likeliest, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/find/answer.h"
#include "restore/find/habits.h"
#include "restore/find/namespace_counts.h"
#include "restore/oplog/operation_text.h"

namespace idmint::restore {

// Where in the oplog an operation stands.
struct Place {
  Timestamp at{};             // of its entry
  std::int64_t wall = 0;      // milliseconds since 1970
  bool in_span = false;       // not before the span that was asked for
  std::uint64_t changes = 0;  // operations up to this one, with it
  std::uint64_t changes_before_entry = 0;
  std::uint64_t session = 0;  // a hash of the session, or of the transaction; 0: none
  // The last entry before that changes anything: its first operation, and how many it has.
  std::optional<Timestamp> previous_at{};
  Remembered previous{};
  std::uint64_t previous_operations = 0;
};

// A suspect of one operation. `first` is its first operation.
[[nodiscard]] Suspect suspect_at(const Place& place, Reason reason, std::string ns,
                                 const Remembered& first);
[[nodiscard]] Suspect suspect_at(const Place& place, Reason reason, std::string ns,
                                 const Operation& first);

// Many operations at once.
[[nodiscard]] constexpr bool is_run(Reason reason) {
  return reason == Reason::kMassDelete || reason == Reason::kMassUpdate ||
         reason == Reason::kUnsetWave;
}
// base + step * log10(count), `most` at most.
[[nodiscard]] double log_score(double base, double step, std::uint64_t count, double most);
// Lowers the score of a suspect that happened `times` times.
void weigh_repeats(Suspect& suspect, std::uint64_t times);
// "1 document", "2,000 documents".
[[nodiscard]] std::string plural(std::uint64_t count, std::string_view one);

class Suspects {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kAlike = 4;  // of one key: the first, and the likeliest

  explicit Suspects(const NamespaceCounts& counts) : counts_(counts) {}

  // Waits for the next entry if the suspect does not know it yet.
  void keep(Suspect suspect);
  // False: the suspect continued one that was kept before.
  bool keep_now(Suspect suspect);
  // The next entry that changes anything, for those that wait for it.
  void next_entry(Timestamp at);
  // Removes the drops of collections of `database` from that entry on.
  void remove_drops(std::string_view database, Timestamp from);

  // At the end: no entry follows.
  void end();
  [[nodiscard]] std::vector<Suspect>& all() { return all_; }
  // All that was ever kept, by key, but falls.
  [[nodiscard]] Habits& habits() { return habits_; }
  [[nodiscard]] const NamespaceCounts& counts() const { return counts_; }
  // At the end, once: the likeliest first.
  [[nodiscard]] std::vector<Suspect> take();
  // Suspects that gave way to likelier ones of another key.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  const NamespaceCounts& counts_;
  Habits habits_{std::size_t{1} << 12};
  std::vector<Suspect> all_;
  std::vector<Suspect> waiting_;  // for the next entry
  std::uint64_t left_out_ = 0;
};

}  // namespace idmint::restore
