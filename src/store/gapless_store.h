// GaplessStore: a store that writes a counter and documents in one transaction.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/result.h"

namespace idmint {

// A series of transactions, each of which inserts documents with the next values of a counter.
class GaplessTransactions {
 public:
  using Documents = std::vector<std::vector<std::byte>>;  // the documents of one call
  struct Refused {
    Error error;
    bool retry_others;                // a retry without the failed call may succeed
    std::optional<std::size_t> call;  // the failed call, if known
  };
  struct First {
    std::int64_t first;  // the number of the first document of the first call
  };

  virtual ~GaplessTransactions() = default;
  // kInvalidArgument: the document can never be inserted.
  [[nodiscard]] virtual Result<void> check(std::span<const std::byte> document) const = 0;
  // Inserts all of them or none. Returns by `until`. kDataLoss: the counter's next number is below
  // `floor`, so the store has gone back; nothing is inserted.
  [[nodiscard]] virtual std::expected<First, Refused> insert(
      std::vector<std::shared_ptr<const Documents>> calls, std::int64_t floor,
      SteadyTime until) = 0;
};

// The error of one document. `position`: its zero-based index in the call.
[[nodiscard]] inline Error of_document(std::size_t position, const Error& why) {
  const std::string number = std::to_string(position + 1);
  return {why.code, "document " + number + ": " + why.message(), {Remedy::kMendDocument, number}};
}

// The gapless numbers of a store. Threads may share it.
class GaplessStore {
 public:
  virtual ~GaplessStore() = default;

  // kFailedPrecondition: the setup of the store does not allow transactions.
  [[nodiscard]] virtual Result<void> has_transactions(SteadyTime until) = 0;

  // For documents of the collection, with the number in the field. `make_index`: makes a unique
  // index on the field if it is missing. The entropy is for jitter and must outlive the result.
  // - kInvalidArgument: the name of the collection or the field is not valid.
  // - kFailedPrecondition: another sequence numbers the field and can give the same numbers, and no
  //   unique index guards it.
  [[nodiscard]] virtual Result<std::unique_ptr<GaplessTransactions>> transactions(
      const SequenceDefinition& definition, std::string_view collection, std::string_view field,
      bool make_index, std::chrono::milliseconds deadline, Entropy& entropy) = 0;
};

}  // namespace idmint
