// Adoption in Redis: string keys that hold an integer, which other programs count up with INCR.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"
#include "store/adoption.h"

namespace idmint::stores::redis {

// The name of the key in the text of a record, "key:NAME". kInvalidArgument: another text, or a key
// that cannot be adopted.
[[nodiscard]] Result<std::string> key_from_text(std::string_view text);
// "the key \"orders\"", for messages. REQUIRES: key_from_text() accepts the text.
[[nodiscard]] std::string place_of(std::string_view record);

class KeyAdoption final : public Adoption {
 public:
  Result<Adoptable> read(std::string_view text, bool guarded) const override;
  Result<void> check(const SequenceDefinition& definition) const override;
  // The key.
  std::string place_of(std::string_view record) const override;
};

extern const KeyAdoption kAdoption;

}  // namespace idmint::stores::redis
