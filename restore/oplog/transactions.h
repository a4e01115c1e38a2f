// Multi-document transactions in the oplog: their operations are kept until they commit.
//
// An entry belongs to one if it has lsid and txnNumber and is an applyOps, a commitTransaction or
// an abortTransaction (Entry::in_transaction()). With partialTxn, more entries follow. With
// prepare, a commit or an abort follows. An applyOps with neither commits itself and all before it.
// prevOpTime is the entry before in the transaction; {0:0, -1} in the first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// One operation of an entry or a transaction, and its zero-based index. A nested applyOps is not an
// operation; its elements are.
using TakeOperation = std::function<Result<void>(const Operation& operation, std::uint32_t index)>;

// The operations of an entry outside of transactions: the entry itself, or the elements of its
// applyOps. kDataLoss: an element is no operation.
[[nodiscard]] Result<void> for_each_operation(const Entry& entry, const TakeOperation& take);

// A transaction that has begun and not ended.
struct OpenTransaction {
  Timestamp first{};
  Timestamp last{};
  bool prepared = false;
  std::uint64_t operations = 0;
};

// Takes entries in the order of the oplog. Ignores entries that it has already, because the slice
// of a base and an oplog overlap. Keeps up to `memory` bytes in memory and the rest in an unlinked
// file in $TMPDIR. For one thread.
class Transactions {
 public:
  static constexpr std::size_t kMemory = std::size_t{64} << 20;

  explicit Transactions(std::size_t memory = kMemory);
  ~Transactions();
  Transactions(const Transactions&) = delete;
  Transactions& operator=(const Transactions&) = delete;

  // REQUIRES: entry.in_transaction(). If `entry` commits the transaction and `take` is not empty,
  // calls `take` with each of its operations in their order. Errors:
  // - kOutOfRange: an earlier entry of the committed transaction was never added.
  // - kResourceExhausted: there is no room for the file.
  [[nodiscard]] Result<void> add(const Entry& entry, const TakeOperation& take);

  // Sorted by their first entries. Omits transactions of which a part is missing.
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
