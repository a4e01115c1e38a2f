// A record that adopted_from_text() reads is written as one text, which reads as the same and fits
// a definition. The text that a person writes names such a record, too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/definition.h"
#include "src/engines/mongodb/adopted_record.h"
#include "src/engines/mongodb/adoption.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  namespace mongodb = idmint::stores::mongodb;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = mongodb::adopted_from_text(text);
  const auto named = mongodb::kAdoption.read(text, false);
  if (!record) {
    require(record.error().code == idmint::Code::kInvalidArgument);
    if (!named) return 0;
    require(mongodb::adopted_from_text(named->record).has_value());
    return 0;
  }
  const std::string written = mongodb::to_text(*record);
  require(mongodb::adopted_from_text(written) == *record);
  require(named.has_value() || text.starts_with("ids:"));  // the name of a recipe
  const bool striped = mongodb::has_stripes(*record);
  require((mongodb::of_stripe(*record, 7) != *record) == striped);
  const idmint::SequenceDefinition definition{
      .name = "a",
      .strategy = striped ? idmint::Strategy::kStriped : idmint::Strategy::kCounter,
      .stripes = striped ? 2 : 1,
      .adopted = written};
  require(idmint::validate(definition).has_value());
  require(mongodb::kAdoption.check(definition).has_value());
  require(mongodb::kAdoption.place_of(written) == record->collection);
  return 0;
}
