// How far a promotion is, kept on production: so that the same command goes on after a kill, and
// the way back stays open until it is finished.
//
// One document, idmint_restore.promote {_id: "promote", owner, ...}. It is written by majority
// before each step, under the condition that its owner is still this run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "mongo/bson.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// In their order; each begins when the one before is done.
enum class PromoteStep : std::uint8_t {
  kBlock,   // writers are refused
  kFence,   // counters are raised past every live value
  kLoad,    // collections are copied under other names
  kVerify,  // the copies are compared with the spare
  kMerge,   // later writes are taken over
  kSwap,    // names are exchanged
  kOpen,    // writers are let in
  kOpened,  // programs go on; the old collections are kept
};
[[nodiscard]] std::string_view name(PromoteStep step);

struct PromoteItem {
  std::string ns{};
  // A collection with counters: raised where it is, never copied, never renamed.
  bool in_place = false;
  // A view that production lacks: it is made again at the end.
  bool view = false;
  // Production had none: the block makes one, empty, so that nobody else does.
  bool missing = false;
  std::string old_uuid{};             // 32 hex digits; empty: not blocked yet
  Bson old_options = Bson::none();    // what the block took away; none: not blocked yet
  Bson final_options = Bson::none();  // validator and the like, as the spare has them
  std::string new_uuid{};             // of the copy; empty: not loaded yet

  // It is copied and renamed.
  [[nodiscard]] bool is_replaced() const { return !in_place && !view; }
  [[nodiscard]] std::string database() const { return ns.substr(0, ns.find('.')); }
  [[nodiscard]] std::string collection() const { return ns.substr(ns.find('.') + 1); }
};

struct PromoteState {
  std::string id{};           // "20261122-175426", a part of the names
  std::string fingerprint{};  // what was asked for; another promotion has another one
  std::string from{};         // the spare, without a password
  Timestamp limit{};
  std::optional<Timestamp> mistake_to{};
  bool merge_later = false;
  bool leave_gap = false;
  std::vector<std::string> counters{};  // of programs, DATABASE.COLLECTION.FIELD
  PromoteStep step = PromoteStep::kBlock;
  bool undoing = false;
  bool was_opened = false;               // programs may have written to the copies
  std::vector<std::string> databases{};  // those with counters of idmint
  std::vector<PromoteItem> items{};

  // The names of a collection, with its database.
  [[nodiscard]] std::string old_name(const PromoteItem& item) const;       // after the swap
  [[nodiscard]] std::string copy_name(const PromoteItem& item) const;      // before it
  [[nodiscard]] std::string promoted_name(const PromoteItem& item) const;  // after an undo
};

inline constexpr std::string_view kOldSuffix = ".before-restore-";
inline constexpr std::string_view kCopySuffix = ".restored-";
inline constexpr std::string_view kPromotedSuffix = ".promoted-";

// For one thread; `production` outlives it.
class PromoteRecord {
 public:
  // What is there, read only. Nothing: no promotion is under way.
  [[nodiscard]] static Result<std::optional<PromoteState>> look(Server& production);
  // Makes it, for this run. kAlreadyExists: there is one.
  [[nodiscard]] static Result<PromoteRecord> begin(Server& production, PromoteState state);
  // Makes the one that is there this run's. kNotFound: there is none. kDataLoss: it is damaged.
  [[nodiscard]] static Result<PromoteRecord> take_over(Server& production);

  [[nodiscard]] PromoteState& state() { return state_; }
  [[nodiscard]] const PromoteState& state() const { return state_; }
  // What state() is now. kUnavailable: another run has taken it over.
  [[nodiscard]] Result<void> write();
  [[nodiscard]] Result<void> reach(PromoteStep step);
  // Takes the database idmint_restore away.
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
