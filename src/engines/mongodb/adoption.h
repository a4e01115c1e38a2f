// Adoption in MongoDB: documents of the classic recipes, or others.
#pragma once

#include "store/adoption.h"

namespace idmint::stores::mongodb {

class DocumentAdoption final : public Adoption {
 public:
  // "counter", "counters" or "ids:NAME" (the classic recipes), or the text of a record
  // (adopted_record.h).
  Result<Adoptable> read(std::string_view text, bool guarded) const override;
  Result<void> check(const SequenceDefinition& definition) const override;
  // The collection.
  std::string place_of(std::string_view record) const override;
  Result<std::string> with_query(std::string_view text, std::string_view query) const override;
  bool makes_missing() const noexcept override { return true; }
  bool shares_floors() const noexcept override { return true; }
};

extern const DocumentAdoption kAdoption;

}  // namespace idmint::stores::mongodb
