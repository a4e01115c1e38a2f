// What a production set handed out, as far as an oplog tells it: how far each counter of idmint,
// each pool and each counter document came.
//
// An oplog has the values that fields came to, and not the increments. All of an oplog counts, what
// is before the limit of a restore too, and what a transaction wrote whether or not it committed: a
// gap is cheap.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idmint/definition.h"
#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/oplog/fields.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// ---- stores of idmint

// A record of idmint.counters.
struct HandedOutCounter {
  std::int64_t next = 0;  // the largest that it came to; of an adopted one it is in its document
  // The largest of the others, falling, a few: where `next` was written by a hand and is none that
  // idmint hands out from, one of these is.
  std::vector<std::int64_t> lower{};
  std::int64_t first = 0;
  std::int64_t last = 0;  // the largest
  std::int64_t stride = 1;
  std::string numbers{};  // of a gapless one: DATABASE.COLLECTION:FIELD; empty: not known

  void reach(std::int64_t value);
};

// Where an adopted counter has its value, in the database of the store.
struct AdoptedPlace {
  std::string counter{};
  std::string collection{};
  std::string id{};
  std::string field{};
  bool holds_last = false;

  // What the next value is, where the field holds `number`. It does not overflow.
  [[nodiscard]] std::int64_t next_of(std::int64_t number) const {
    return holds_last && number < INT64_MAX ? number + 1 : number;
  }
  friend bool operator==(const AdoptedPlace&, const AdoptedPlace&) = default;
};

// A database that has a store of idmint.
struct HandedOutStore {
  std::map<std::string, Definition> definitions{};     // as they were last
  std::map<std::string, std::string> unreadable{};     // by name: why
  std::set<std::string> redefined{};                   // more than an end or retiring changed
  std::map<std::string, HandedOutCounter> counters{};  // by name
  std::map<std::string, AdoptedPlace> adopted{};       // by the name of the counter
  // By collection, as names.h calls them: the largest minted_until of a pool, the claims of a
  // random sequence in any order (8 bytes of memory each).
  std::map<std::string, std::int64_t> bounds{};
  std::map<std::string, std::vector<std::int64_t>> claims{};

  void take_definition(const std::string& name, std::string_view json);
};

using HandedOutStores = std::map<std::string, HandedOutStore, std::less<>>;  // by database

// Whether idmint itself may have made one of the other: an end that moved up, a tombstone.
[[nodiscard]] bool is_same_source(const Definition& one, const Definition& other);

// ---- counter documents

// A field that counts: of the document that `id` finds.
struct CountedField {
  std::string ns{};
  std::string field{};
  std::string id{};  // the bytes of {_id: ID}

  friend auto operator<=>(const CountedField&, const CountedField&) = default;
};

// What became of the field.
struct FieldHistory {
  std::int64_t last = 0;     // the value it had last
  std::int64_t largest = 0;  // of all
  std::int64_t largest_step = 0;
  std::uint64_t rises = 0;
  std::uint64_t falls = 0;       // before the limit
  std::uint64_t late_falls = 0;  // from the limit on: they may be the mistake
  std::string odd{};             // the type of a value that is no number; empty: there was none
  std::string made{};            // the bytes of the document as it was inserted last
};

// A number that rises in documents that are not counted in as the recipes do.
struct RisingField {
  std::string ns{};
  std::string field{};
  std::uint64_t rises = 0;
  std::uint64_t falls = 0;
  std::uint64_t documents = 0;

  // Each step was up, and there are a few.
  [[nodiscard]] bool only_rose() const { return rises >= 3 && falls == 0; }
};

struct HandedOut {
  HandedOutStores stores{};  // by database
  std::map<CountedField, FieldHistory> fields{};
  std::vector<RisingField> rising{};  // only_rose(), the most rises first
  // DATABASE.COLLECTION.FIELD with more documents than counters have: no history is kept of them.
  std::set<std::string> too_many{};
  std::map<std::string, std::string> uuids{};  // of collections by namespace, 16 bytes
  Timestamp first{};
  OpTime last{};  // {0:0, -1}: there was no entry
  std::uint64_t entries = 0;
  bool rising_left_out = false;  // there was no room for more of them
};

// Fields whose history is kept whatever the document looks like, by namespace.
using WatchedFields = std::map<std::string, std::set<std::string, std::less<>>, std::less<>>;

// What retiring a pool makes of its bounds: no bound that was granted, which are all below.
inline constexpr std::int64_t kClosedBound = std::int64_t{1} << 62;

// Reads an oplog, entry by entry. For one thread.
class HandedOutReader {
 public:
  static constexpr std::size_t kMostDocuments = 100'000;  // of one field that is not watched
  static constexpr std::size_t kMostRising = std::size_t{1} << 18;

  // Falls from `limit` on are late ones, and definitions before it are passed over, as the target
  // has those of the limit. Nothing: no limit is known; none is late, and none is passed over.
  HandedOutReader(WatchedFields watched, std::optional<Timestamp> limit,
                  std::size_t most_documents = kMostDocuments);

  // In the order of the oplog. kDataLoss: out of order, or an applyOps is damaged; the message says
  // what, and not where.
  [[nodiscard]] Result<void> add(const Entry& entry);

  // Fields that counters were adopted from, and that were not watched: what came before was not
  // seen. Empty: none. With these too, all is to be read again.
  [[nodiscard]] const WatchedFields& missed() const { return missed_; }
  [[nodiscard]] HandedOut finish();

 private:
  void take(const Operation& operation);
  void take_of_idmint(const Operation& operation, std::string_view collection);
  void take_counter(const Operation& operation, HandedOutStore& store);
  void take_fields(const Operation& operation);
  void counted(const Operation& operation, std::string_view name, const Field& value, bool insert);
  void rising(const Operation& operation, std::string_view path, const Field& value);
  [[nodiscard]] bool is_watched(std::string_view ns, std::string_view field) const;
  [[nodiscard]] bool may_count(std::string_view ns, std::string_view field) const;

  const WatchedFields watched_;
  const std::optional<Timestamp> limit_;
  const std::size_t most_documents_;
  HandedOut found_{};
  WatchedFields missed_{};
  Timestamp at_{};
  std::map<std::string, std::size_t, std::less<>> documents_{};  // by DATABASE.COLLECTION.FIELD
  std::unordered_map<std::string, long double> latest_{};        // by namespace, path and _id
  std::map<std::string, RisingField, std::less<>> rising_{};
};

// The largest of a store, out of two reports of it. Definitions are those of `newer`, where it has
// them.
void unite(HandedOutStore& store, const HandedOutStore& newer);

}  // namespace idmint::restore
