// How far a replay came, kept by the server that it writes to.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "idmint/result.h"
#include "mongo/driver.h"
#include "restore/oplog/entry.h"
#include "restore/replay/apply_ops.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Of an operation: its entry, or the one that commits its transaction, and which it is of those.
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

  void add(Op op);
};

struct CountField {
  const char* name;
  std::int64_t Counts::* count;
};
inline constexpr std::array kCountFields = {
    CountField{"inserts", &Counts::inserts}, CountField{"updates", &Counts::updates},
    CountField{"deletes", &Counts::deletes}, CountField{"commands", &Counts::commands},
    CountField{"missed", &Counts::missed},
};

// Those of a document of the record.
[[nodiscard]] Counts counts_of(Document document);

// Documents of the record that follow each other: each batch has what takes the last one away and
// makes the next, and fails as a whole where the last is not there. So none is applied twice, none
// without the one before (which a server that was killed may lose after it has answered), and not
// by two replays at once.
class Chain {
 public:
  Chain(std::string prefix, std::uint64_t number) : prefix_(std::move(prefix)), number_(number) {}

  [[nodiscard]] std::string id() const { return prefix_ + std::to_string(number_); }

  // The last one is there.
  void append_check(Operations& operations) const;
  // The next one, which has also `more`, comes in its place.
  void append_next(Operations& operations, const Position& to, const Counts& totals,
                   const bson_t* more) const;
  void advance() { ++number_; }

  Position position{};
  Counts counts{};

 private:
  std::string prefix_;
  std::uint64_t number_;
};

// That it is still the one that the server has. kUnavailable: it is not, or could not be asked.
[[nodiscard]] Result<void> is_there(Server& server, const Chain& chain);

}  // namespace idmint::restore
