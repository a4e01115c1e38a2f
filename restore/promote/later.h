// The documents that production wrote since the mistake, in whichever collection had the name. They
// are lost if their collection is set back, unless they are merged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mongo/bson.h"
#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/oplog/entry.h"
#include "restore/promote/record.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Why a later write is lost.
enum class Loss : std::uint8_t {
  kNone,
  kNotMerged,  // nothing is merged
  kMistake,    // the mistake wrote to the document
  kRestored,   // the collection was made anew, and the restored one has a document of this _id
  kOlder,      // another collection that had the name has a later version, which lacks this write
  kGone,       // the collection that it was written to is dropped
  kRefused,    // an index of the restored collection, or its capped size, refuses it
};
[[nodiscard]] std::string_view in_words(Loss loss);

// The index of the holder in LaterDocument::from if the spare's document is taken.
inline constexpr std::uint8_t kFromSpare = 255;

// Terms are bits: bit 0 is the time before the limit, bit N the Nth term of LaterCollection.
struct LaterDocument {
  Op last = Op::kUnknown;  // an insert, an update or a delete
  std::uint32_t writes = 0;
  std::uint32_t by_mistake = 0;  // of these
  std::uint64_t terms = 0;       // in which it was written
  std::uint64_t deleted = 0;     // terms whose last write to it was a delete
  std::uint64_t mistaken = 0;    // in which the mistake wrote to it
  Timestamp first_mistaken{};
  // Written to in the time of the mistake, though only by entries that are not like its own. Such a
  // document counts as mistaken unless LaterSearch::alike.
  bool is_unlike = false;
  bool on_spare = false;  // known for those that were written to a collection made anew
  // Chosen by choose_versions(): the holder whose version a promotion takes, whether it is deleted
  // there, and whether a write is lost by that.
  std::uint8_t from = kFromSpare;
  bool gone = false;
  Loss loss = Loss::kNotMerged;
  std::uint64_t lost = 0;  // the terms whose writes are lost
};

// A collection that had the name. A name goes from one to another by drop and create, by renames,
// and by the swaps of promotions.
struct Holder {
  enum class Kind : std::uint8_t {
    kOriginal,  // had the name at the limit
    kMade,      // was made anew, or emptied, since
    kPromoted,  // came from a spare
  };
  std::string uuid{};  // 32 hex digits
  Kind kind = Kind::kMade;
  std::size_t promotion = 0;  // if kPromoted: the index in LaterWrites::promotions
  std::string now{};          // its name on production; empty: it is dropped
  // If kPromoted: the documents, by id_key(), of which it lacks what was to be merged, as an index
  // refused it or a delete came too late; and whether these are all.
  std::set<std::string, std::less<>> refused{};
  bool lists_refused = true;
};

// A time in which one collection had the name.
struct Term {
  std::uint8_t holder = 0;
  Timestamp begin{};  // of the first write in it
};

struct LaterCollection {
  // By the element _id (id_key()).
  std::map<std::string, LaterDocument, std::less<>> documents{};
  std::vector<Holder> holders{};
  std::vector<Term> terms{};
  std::optional<std::string> at_limit{};  // the UUID at the limit; empty: none; nullopt: unknown
  std::uint64_t commands = 0;  // on the collection: drop, collMod, createIndexes and others
  bool dropped = false;        // or renamed, or emptied; not by a promotion
  bool is_cut = false;         // the next write begins a term: the name was given or taken away
  // A collection that was there at the limit under this name was renamed to it. Which documents it
  // has is unknown. Empty: none was.
  std::string renamed_from{};

  [[nodiscard]] std::uint64_t lost() const;
  // The lost documents that only the mistake wrote to.
  [[nodiscard]] std::uint64_t lost_of_mistake() const;
  // The bits of the terms of a holder.
  [[nodiscard]] std::uint64_t terms_of(std::size_t holder) const;
};

// A promotion since the limit, as its record in the oplog describes it.
struct PastPromotion {
  PromoteState state{};
  Timestamp at{};  // of the last record before its collections got their names
};

struct LaterWrites {
  std::map<std::string, LaterCollection, std::less<>> collections{};
  std::vector<PastPromotion> promotions{};
  std::map<std::string, Timestamp, std::less<>> drops{};  // of collections, by UUID
  std::set<std::string, std::less<>>
      robbed{};           // databases of which something of idmint was deleted
  std::string mistake{};  // MistakeForm::in_words()
  std::uint64_t documents = 0;
  Timestamp last{};  // of the last entry read
};

struct LaterSearch {
  std::string production{};  // its URI; its primary is read
  std::string oplog{};       // a file or a folder, which is read before that; empty: none
  Timestamp limit{};         // the first entry of the mistake
  // The last entry of the mistake. nullopt: unknown; every document counts as mistaken.
  std::optional<Timestamp> mistake_to{};
  bool alike =
      false;  // only entries that are like the first or the last one are of it (MistakeForm)
  std::function<bool(std::string_view ns)> wanted{};
};

// Nobody would read more, and they would take 1 GB.
inline constexpr std::uint64_t kMostLaterDocuments = 5'000'000;

// Reads up to an entry that the primary wrote after the call began. Counts uncommitted transactions
// too; their documents are unchanged. `progress` gets entries. Errors:
// - kOutOfRange: the oplog begins after the limit, or production's after the end of the file.
// - kResourceExhausted: there are more than kMostLaterDocuments, or a name went from one collection
//   to another more than 60 times.
[[nodiscard]] Result<LaterWrites> find_later(const LaterSearch& search,
                                             const TakeProgress& progress);

// Calls take(id, uuid) for each delete after the entry `after` in production's oplog: the element
// _id, and the UUID of the collection in hex digits. kOutOfRange: the oplog begins after that
// entry.
[[nodiscard]] Result<void> each_delete_since(
    const std::string& production, Timestamp after,
    const std::function<Result<void>(std::string_view id, const std::string& uuid)>& take);

// The documents in the order of their _ids: numbers by their values, texts by their bytes. Types
// follow each other as BSON numbers them, the numbers first.
[[nodiscard]] std::vector<const std::pair<const std::string, LaterDocument>*> in_order_of_id(
    const LaterCollection& collection);

// {_id: ...} from an element in LaterCollection::documents.
[[nodiscard]] Bson only_id_of(std::string_view element);

}  // namespace idmint::restore
