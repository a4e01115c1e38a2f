// Gapless: numbers and numbered documents in transactions of MongoDB.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/mongodb/database.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "store/backend.h"
#include "store/gapless_store.h"

namespace idmint::stores::mongodb {

class Gapless final : public GaplessStore {
 public:
  // `url` includes passwords. `database` must outlive it.
  Gapless(const Database& database, std::string url) : database_(database), url_(std::move(url)) {}

  [[nodiscard]] Result<void> has_transactions(SteadyTime until) override;
  [[nodiscard]] Result<std::unique_ptr<GaplessTransactions>> transactions(
      const SequenceDefinition& definition, std::string_view collection, std::string_view field,
      bool make_index, std::chrono::milliseconds deadline, Entropy& entropy) override;

 private:
  // A field of numbers.
  struct Place {
    NumberField target{};
    std::string name{};          // "app.invoices:number"
    std::optional<Uuid> uuid{};  // of the collection; nothing: the user may not ask for it
  };

  Result<void> bind(const SequenceDefinition& definition, Place& place, SteadyTime until);
  void unbind(const SequenceDefinition& definition, const Place& place, SteadyTime until);
  Result<std::optional<std::string>> rival_of(const SequenceDefinition& definition,
                                              const Place& place, SteadyTime until);
  bool find_uuid(Place& place, SteadyTime until);

  const Database& database_;
  const std::string url_;
};

}  // namespace idmint::stores::mongodb
