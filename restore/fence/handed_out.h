// The ids that a production set handed out, according to an oplog: the progress of each idmint
// counter, each pool and each counter document.
//
// An oplog has the resulting values of fields, not the increments. All entries count, including
// those before the limit of a restore and those of transactions that did not commit: a gap does no
// harm.
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
  std::int64_t next = 0;  // the largest value; an adopted counter has it in its document
  // A few next smaller values of `next`, in descending order. If somebody set `next` to a value
  // that idmint cannot hand out from, one of these is valid.
  std::vector<std::int64_t> lower{};
  std::int64_t first = 0;
  std::int64_t last = 0;  // the largest
  std::int64_t stride = 1;
  std::string numbers{};  // gapless: DATABASE.COLLECTION:FIELD; empty: unknown

  void reach(std::int64_t value);
};

// The place of an adopted counter's value in the database of the store.
struct AdoptedPlace {
  std::string counter{};
  std::string collection{};
  std::string id{};  // the bytes of {_id: ID}
  std::string field{};
  bool holds_last = false;

  // The next value if the field holds `number`. Does not overflow.
  [[nodiscard]] std::int64_t next_of(std::int64_t number) const {
    return holds_last && number < INT64_MAX ? number + 1 : number;
  }
  friend bool operator==(const AdoptedPlace&, const AdoptedPlace&) = default;
};

// The place in `adopted` of a record of idmint.counters.
[[nodiscard]] AdoptedPlace place_in(const std::string& counter, Document adopted);

// A database with a store of idmint.
struct HandedOutStore {
  std::map<std::string, Definition> definitions{};     // the latest ones
  std::map<std::string, std::string> unreadable{};     // the reason, by name
  std::set<std::string> redefined{};                   // changed in more than the end or retirement
  std::map<std::string, HandedOutCounter> counters{};  // by name
  std::map<std::string, AdoptedPlace> adopted{};       // by counter
  // By collection (names.h): the largest minted_until of a pool; the claims of a random sequence,
  // unsorted (8 bytes of memory each).
  std::map<std::string, std::int64_t> bounds{};
  std::map<std::string, std::vector<std::int64_t>> claims{};

  void take_definition(const std::string& name, std::string_view json);
};

using HandedOutStores = std::map<std::string, HandedOutStore, std::less<>>;  // by database
// Null: there is no store in this database.
[[nodiscard]] inline const HandedOutStore* find_store(const HandedOutStores& stores,
                                                      std::string_view database) {
  const auto at = stores.find(database);
  return at == stores.end() ? nullptr : &at->second;
}

// Whether idmint itself may have changed one into the other: a raised end, a tombstone.
[[nodiscard]] bool is_same_source(const Definition& one, const Definition& other);

// ---- counter documents

// A counting field, in the document with this _id.
struct CountedField {
  std::string ns{};
  std::string field{};
  std::string id{};  // the bytes of {_id: ID}

  friend auto operator<=>(const CountedField&, const CountedField&) = default;
};

// The history of the field.
struct FieldHistory {
  std::int64_t last = 0;     // the latest value
  std::int64_t largest = 0;  // of all
  std::int64_t largest_step = 0;
  std::uint64_t rises = 0;
  std::uint64_t falls = 0;       // before the limit
  std::uint64_t late_falls = 0;  // from the limit on: they may be the mistake
  std::string odd{};             // the type of a non-numeric value; empty: there was none
  std::string made{};            // the bytes of the document as last inserted
};

// A rising number in documents that do not count as the recipes do.
struct RisingField {
  std::string ns{};
  std::string field{};
  std::uint64_t rises = 0;
  std::uint64_t falls = 0;
  std::uint64_t documents = 0;

  // Whether it rose several times and never fell.
  [[nodiscard]] bool only_rose() const { return rises >= 3 && falls == 0; }
};

struct HandedOut {
  HandedOutStores stores{};  // by database
  std::map<CountedField, FieldHistory> fields{};
  std::vector<RisingField> rising{};  // only_rose(), the most rises first
  // DATABASE.COLLECTION.FIELD with more documents than counters have; their history is not kept.
  std::set<std::string> too_many{};
  std::map<std::string, std::string> uuids{};  // of collections by namespace, 16 bytes
  Timestamp first{};
  OpTime last{};  // {0:0, -1}: there was no entry
  std::uint64_t entries = 0;
  bool rising_left_out = false;  // more fields exist than there was room for
};

// Fields whose history is kept whatever their documents look like, by namespace.
using WatchedFields = std::map<std::string, std::set<std::string, std::less<>>, std::less<>>;

// Adds the fields of adopted counters to `watched`.
void watch_adopted(const HandedOutStores& stores, WatchedFields& watched);

// The entries that a reader takes.
enum class HandedOutScope : std::uint8_t {
  kAll,
  // Only stores of idmint, with the claims from the limit on, and watched fields. Fast: it skips
  // any other operation.
  kStores,
};

// The bound that retiring a pool writes. All granted bounds are smaller.
inline constexpr std::int64_t kClosedBound = std::int64_t{1} << 62;

// Reads an oplog entry by entry. For one thread.
class HandedOutReader {
 public:
  static constexpr std::size_t kMostDocuments = 100'000;  // per field that is not watched
  static constexpr std::size_t kMostRising = std::size_t{1} << 18;

  // Falls from `limit` on count as late. Definitions before `limit` are ignored, because the target
  // has those of the limit. nullopt: the limit is unknown; no fall is late, and no definition is
  // ignored.
  HandedOutReader(WatchedFields watched, std::optional<Timestamp> limit,
                  std::size_t most_documents = kMostDocuments,
                  HandedOutScope scope = HandedOutScope::kAll);

  // Takes entries in the order of the oplog. kDataLoss: they are out of order, or an applyOps is
  // damaged; the message does not say where.
  [[nodiscard]] Result<void> add(const Entry& entry);

  // Fields from which counters were adopted, and which were not watched, so their earlier values
  // are unknown. If there are any, watch them too and read the whole oplog again.
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
  const HandedOutScope scope_;
  HandedOut found_{};
  WatchedFields missed_{};
  Timestamp at_{};
  std::map<std::string, std::size_t, std::less<>> documents_{};  // by DATABASE.COLLECTION.FIELD
  std::unordered_map<std::string, long double> latest_{};        // by namespace, path and _id
  std::map<std::string, RisingField, std::less<>> rising_{};
};

// Takes the larger values of two reports of one store into `store`. Definitions in `newer` take
// precedence.
void unite(HandedOutStore& store, const HandedOutStore& newer);
// Adds to `into` how far the adopted counters of `stores` have come in the oplog: their values are
// in documents.
void take_adopted(const HandedOut& oplog, const HandedOutStores& stores, HandedOutStores& into);

}  // namespace idmint::restore
