// GaplessStore: a store that can write a counter and documents in one transaction.
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

// One transaction after another, each of which inserts documents with the next values of a counter.
class GaplessTransactions {
 public:
  using Documents = std::vector<std::vector<std::byte>>;  // of one call
  struct Refused {
    Error error;
    bool retry_others;                // those of other calls may be possible
    std::optional<std::size_t> call;  // the one that is to blame, where that is known
  };
  struct First {
    std::int64_t first;  // number, of the first document of the first call
  };

  virtual ~GaplessTransactions() = default;
  // kInvalidArgument: never possible.
  [[nodiscard]] virtual Result<void> check(std::span<const std::byte> document) const = 0;
  // All of them or none. Answers by `until`. kDataLoss, and nothing is inserted: the counter's next
  // number is below `floor`, so the store has gone back.
  [[nodiscard]] virtual std::expected<First, Refused> insert(
      std::vector<std::shared_ptr<const Documents>> calls, std::int64_t floor,
      SteadyTime until) = 0;
};

// What is wrong with the document at a position among those of a call.
[[nodiscard]] inline Error of_document(std::size_t position, const Error& why) {
  const std::string number = std::to_string(position + 1);
  return {why.code, "document " + number + ": " + why.message, {Remedy::kMendDocument, number}};
}

// What a store offers for gapless numbers. Threads may share it.
class GaplessStore {
 public:
  virtual ~GaplessStore() = default;

  // kFailedPrecondition: not as the store is set up.
  [[nodiscard]] virtual Result<void> has_transactions(SteadyTime until) = 0;

  // For documents of the collection, whose number is in the field. kInvalidArgument: no such names
  // are possible. The entropy, for jitter, must outlive them.
  [[nodiscard]] virtual Result<std::unique_ptr<GaplessTransactions>> transactions(
      const SequenceDefinition& definition, std::string_view collection, std::string_view field,
      std::chrono::milliseconds deadline, Entropy& entropy) = 0;
};

}  // namespace idmint
