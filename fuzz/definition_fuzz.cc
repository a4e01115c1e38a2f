// A definition that definition_from_json() reads is valid, and is written as one text, which reads
// as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/definition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<idmint::Definition> definition = idmint::definition_from_json(text);
  if (!definition) {
    require(definition.error().code == idmint::Code::kUnimplemented ||
            definition.error().code == idmint::Code::kDataLoss);
    return 0;
  }
  require(idmint::validate(*definition).has_value());
  const std::string json = idmint::to_json(*definition);
  require(json.find('\n') == std::string::npos);
  require(idmint::definition_from_json(json) == *definition);
  // A definition that no store would keep is not read either.
  if (const auto* const sequence = std::get_if<idmint::SequenceDefinition>(&*definition)) {
    require(sequence->strategy != idmint::Strategy::kPermuted || sequence->key.size() == 32);
    require(idmint::strategy_named(name(sequence->strategy)) == sequence->strategy);
  } else {
    require(std::get<idmint::PoolDefinition>(*definition).workers > 0);
  }
  return 0;
}
