// The progress of a promotion, kept on production, so that the same command continues after a kill
// and the promotion can be undone until it is finished.
//
// One document: idmint_restore.promote {_id: "promote", owner, ...}. It is written with write
// concern majority before each step, on condition that this run still owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/bson.h"
#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// In order; each begins when the one before is done.
enum class PromoteStep : std::uint8_t {
  kBlock,   // writers are blocked
  kFence,   // counters are raised past every live value
  kLoad,    // collections are copied under other names
  kVerify,  // the copies are compared with the spare's collections
  kMerge,   // later writes are merged
  kSwap,    // names are exchanged
  kOpen,    // writers are let in again
  kOpened,  // programs continue; the old collections are kept
};
[[nodiscard]] std::string_view name(PromoteStep step);

// The outcome of an error after which a promotion cannot go on, as something has changed meanwhile.
inline constexpr std::string_view kUndoFirst = "--undo opens what was closed; then promote again";
[[nodiscard]] inline std::unexpected<Error> must_be_undone(Code code, std::string what) {
  return std::unexpected(
      Error{.code = code, .what = std::move(what), .outcome = std::string(kUndoFirst)});
}

// A later document that is lost.
struct LostDocument {
  std::string id{};               // by id_key()
  std::string why{};              // in words
  std::vector<std::string> in{};  // collections that have what is lost, after the swap
};

// The room of a record for the documents of one list, over all items: a document of the server has
// 16 MB.
class ListRoom {
 public:
  // Whether one more fits. Once one does not, none does.
  [[nodiscard]] bool take(const LostDocument& lost);

 private:
  std::size_t bytes_ = std::size_t{4} << 20;
};

struct PromoteItem {
  std::string ns{};
  // A collection with counters: they are raised in place; it is never copied or renamed.
  bool in_place = false;
  // A view that production lacks: it is created at the end.
  bool view = false;
  // Production lacked it. The block creates an empty one, so that nobody else does.
  bool missing = false;
  std::string old_uuid{};             // 32 hex digits; empty: not blocked yet
  Bson old_options = Bson::none();    // before the block; none: not blocked yet
  Bson final_options = Bson::none();  // validation (or view) on the spare
  std::string new_uuid{};             // of the copy; empty: not loaded yet
  // Later documents that the copy refused; a thousand at most, of unmerged_count.
  std::vector<LostDocument> unmerged{};
  std::uint64_t unmerged_count = 0;
  // Documents that programs deleted while it was loaded, and that stay, as the restored versions
  // were taken; by id_key(), a thousand at most.
  std::vector<std::string> undeleted{};
  bool lists_undeleted = true;  // false: there may be more, which are unknown
  // Documents lost since the plan was shown, as programs went on; a thousand at most, of
  // unlisted_count.
  std::vector<LostDocument> unlisted{};
  std::uint64_t unlisted_count = 0;

  // Whether the old collection has documents that are nowhere else, and that no plan listed.
  [[nodiscard]] bool keeps_old() const { return unmerged_count + unlisted_count != 0; }
  // Whether it is copied and renamed.
  [[nodiscard]] bool is_replaced() const { return !in_place && !view; }
  [[nodiscard]] std::string database() const { return database_of(ns); }
  [[nodiscard]] std::string collection() const { return collection_of(ns); }
};

struct PromoteState {
  std::string id{};           // "20261122-175426"; part of the names
  std::string fingerprint{};  // of the request; another promotion has another one
  std::string from{};         // the spare, without a password
  Timestamp limit{};
  std::optional<Timestamp> mistake_to{};
  bool alike = false;  // LaterSearch::alike
  bool merge_later = false;
  bool leave_gap = false;
  Timestamp noted{};  // the last entry whose writes are noted to be merged; 0: none yet
  std::vector<std::string> counters{};  // of programs, DATABASE.COLLECTION.FIELD
  PromoteStep step = PromoteStep::kBlock;
  bool undoing = false;
  bool finishing = false;
  bool was_opened = false;               // programs may have written to the promoted collections
  std::vector<std::string> databases{};  // with stores of idmint
  std::vector<std::string> put_back{};  // sequences and pools that production lacked: DATABASE/NAME
  std::vector<PromoteItem> items{};

  // Names of the item's collection, with the database.
  [[nodiscard]] std::string old_name(const PromoteItem& item) const;       // after the swap
  [[nodiscard]] std::string copy_name(const PromoteItem& item) const;      // before the swap
  [[nodiscard]] std::string promoted_name(const PromoteItem& item) const;  // after an undo
};

// The state in such a document. nullopt: it has none that is whole.
[[nodiscard]] std::optional<PromoteState> promote_state_of(Document document);

inline constexpr std::string_view kPromoteNamespace = "idmint_restore.promote";

// For one thread. `production` must outlive it.
class PromoteRecord {
 public:
  // Reads the record only. nullopt: no promotion is under way.
  [[nodiscard]] static Result<std::optional<PromoteState>> look(Server& production);
  // Creates the record, owned by this run. kAlreadyExists: there is one.
  [[nodiscard]] static Result<PromoteRecord> begin(Server& production, PromoteState state);
  // Makes this run the owner of the record. kNotFound: there is none. kDataLoss: it is damaged.
  [[nodiscard]] static Result<PromoteRecord> take_over(Server& production);

  [[nodiscard]] PromoteState& state() { return state_; }
  [[nodiscard]] const PromoteState& state() const { return state_; }
  // Writes state(). kUnavailable: another run has taken the record over.
  [[nodiscard]] Result<void> write();
  [[nodiscard]] Result<void> reach(PromoteStep step);
  // Drops the database idmint_restore.
  [[nodiscard]] Result<void> forget();

  [[nodiscard]] Server& production() { return *production_; }

 private:
  PromoteRecord(Server& production, PromoteState state, std::string owner)
      : production_(&production), state_(std::move(state)), owner_(std::move(owner)) {}

  Server* production_;
  PromoteState state_;
  std::string owner_;
};

}  // namespace idmint::restore
