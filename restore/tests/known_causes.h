// Oplogs of mistakes whose place is known: they judge whether `find` names the right limit.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "mongo/document.h"
#include "restore/timestamp.h"

namespace idmint::restore {

enum class Setting : std::uint8_t {
  kQuiet,  // a shop at night: an order a second
  kBusy,   // 60 operations a second of 24 sessions, routine drops, $out, TTL deletes, a deploy
};

struct Shop;

struct KnownCause {
  const char* name;
  // Makes the mistake and returns the limit before it: the time of its first entry.
  Timestamp (*make)(Shop& shop);
  // The document that an operator asks for, in what is found by nothing else; 0: none.
  std::int64_t id = 0;
  // Milliseconds between two updates that programs make of the field that the mistake changes, in
  // the busy setting; 0: none.
  double own_updates = 0;
};
extern const std::array<KnownCause, 20> kKnownCauses;

// Writes the oplog of the mistake, with the usual work before it and after it. Returns the limit.
Timestamp write_oplog(const KnownCause& cause, Setting setting,
                      const std::function<void(mongo::Document)>& take);

}  // namespace idmint::restore
