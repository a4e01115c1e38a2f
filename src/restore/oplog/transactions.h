// Multi-document transactions of the oplog: their operations are kept until one commits.
//
// An entry is of one where it has lsid and txnNumber and is an applyOps, a commitTransaction or an
// abortTransaction (Entry::in_transaction). partialTxn: more follow. prepare: a commit or an abort
// follows. An applyOps with neither commits itself and all before it. prevOpTime leads from each to
// the one before, and to {0:0, -1} from the first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// One operation of an entry or transaction, and which it is, from 0. Nested applyOps are unwrapped:
// none is given.
using TakeOperation = std::function<Result<void>(const Operation& operation, std::uint32_t index)>;

// Those of an entry that is of no transaction: itself, or what its applyOps has. kDataLoss: what
// is in it is none.
[[nodiscard]] Result<void> for_each_operation(const Entry& entry, const TakeOperation& take);

// A transaction that has begun and not ended.
struct OpenTransaction {
  Timestamp first{};
  Timestamp last{};
  bool prepared = false;
  std::uint64_t operations = 0;
};

// Entries are given in the order of the oplog; one that was given before (as the slice of a base
// and an oplog overlap) is passed over. Up to `memory` bytes are kept in memory, more go to a file
// in $TMPDIR that is gone with the process. For one thread.
class Transactions {
 public:
  static constexpr std::size_t kMemory = std::size_t{64} << 20;

  explicit Transactions(std::size_t memory = kMemory);
  ~Transactions();
  Transactions(const Transactions&) = delete;
  Transactions& operator=(const Transactions&) = delete;

  // REQUIRES: entry.in_transaction(). Gives the operations of the whole transaction where `entry`
  // commits it, in their order, and `take` is not empty. kOutOfRange: it commits one of which an
  // earlier entry was never given. kResourceExhausted: no room for the file.
  [[nodiscard]] Result<void> add(const Entry& entry, const TakeOperation& take);

  // In the order of their first entries. Without those of which a part is missing.
  [[nodiscard]] std::vector<OpenTransaction> open() const;

 private:
  struct Pending;
  class Store;

  [[nodiscard]] Result<void> keep(Pending& pending, const Entry& entry);
  [[nodiscard]] Result<void> give(const Pending& pending, const TakeOperation& take);

  std::map<std::string, Pending, std::less<>> pending_;  // by the bytes of lsid
  std::unique_ptr<Store> store_;
};

}  // namespace idmint::restore
