// The progress of a replay, kept on the server to which it writes.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "mongo/driver.h"
#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/replay/apply_ops.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The position of an operation: the timestamp of its entry, or of the entry that commits its
// transaction, and its index there.
struct Position {
  Timestamp ts{};
  std::uint32_t index = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct Counts {
  std::int64_t inserts = 0;
  std::int64_t updates = 0;
  std::int64_t deletes = 0;
  std::int64_t commands = 0;
  std::int64_t missed = 0;
  std::int64_t replaced = 0;

  // The count of an operation that did what it says. Null: none.
  [[nodiscard]] static std::int64_t Counts::* of(Op op);
  void add(Op op) { add(of(op)); }
  void add(std::int64_t Counts::* count) {
    if (count != nullptr) ++(this->*count);
  }
};

struct CountField {
  const char* name;
  std::int64_t Counts::* count;
};
inline constexpr std::array kCountFields = {
    CountField{"replaced", &Counts::replaced}, CountField{"inserts", &Counts::inserts},
    CountField{"updates", &Counts::updates},   CountField{"deletes", &Counts::deletes},
    CountField{"commands", &Counts::commands}, CountField{"missed", &Counts::missed},
};

// The counts in a document of the record.
[[nodiscard]] Counts counts_of(Document document);

// A sequence of documents in the record. Each batch also replaces the latest document by the next
// one, and fails as a whole if the latest is missing. So no batch is applied twice, by two replays
// at once, or without its predecessor, which a killed server may lose after it has answered.
class Chain {
 public:
  Chain(std::string prefix, std::uint64_t number) : prefix_(std::move(prefix)), number_(number) {}

  [[nodiscard]] std::string id() const { return prefix_ + std::to_string(number_); }

  // Appends an operation that fails if the latest document is missing.
  void append_check(Operations& operations) const;
  // Appends the operations that replace the latest document by the next one, which also has the
  // fields of `more`.
  void append_next(Operations& operations, const Position& to, const Counts& totals,
                   const Bson& more = {}) const;
  void advance() { ++number_; }

  Position position{};
  Counts counts{};

 private:
  std::string prefix_;
  std::uint64_t number_;
};

// kUnavailable: the server no longer has the chain's latest document, or did not answer.
[[nodiscard]] Result<void> is_there(Server& server, const Chain& chain);

}  // namespace idmint::restore
