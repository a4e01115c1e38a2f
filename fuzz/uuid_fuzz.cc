// Every text that is read as a UUID prints in each spelling as one text, which reads as the same
// UUID; every input that is read as BSON is written as the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/uuid.h"
#include "idmint/uuid_time.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Uuid;
  using idmint::fuzz::require;
  if (const idmint::Result<Uuid> id = Uuid::from_bson({data, size})) {
    const Uuid::Bson payload = id->bson();
    require(std::equal(payload.begin(), payload.end(), data, data + size));
  } else {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<Uuid> id = Uuid::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  const std::string printed = id->to_string();
  require(printed.size() == Uuid::kChars);
  require(Uuid::parse(printed) == *id);
  require(Uuid::parse(printed)->to_string() == printed);
  for (int i = 0; i <= static_cast<int>(idmint::UuidSpelling::kNoDashes); ++i) {
    const std::string spelling = id->to_string(static_cast<idmint::UuidSpelling>(i));
    require(spelling.size() <= Uuid::kMaxChars && Uuid::parse(spelling) == *id);
  }
  require(Uuid::from_bson(id->bson()) == *id);
  require(Uuid::from_microsoft_bytes(id->microsoft_bytes()) == *id);
  require(idmint::uuid_namespace(text) == *id);
  const auto parts1 = idmint::decode_uuid1(*id);
  require(!parts1 || (id->has_rfc_variant() && id->version() == 1));
  const auto parts2 = idmint::decode_uuid2(*id);
  require(!parts2 || (id->has_rfc_variant() && id->version() == 2));
  if (const auto parts = idmint::decode_uuid6(*id)) {
    require(id->has_rfc_variant() && id->version() == 6);
    const auto bounds = idmint::uuid6_bounds(parts->time);
    require(bounds.smallest <= *id && *id <= bounds.largest);
  }
  if (const auto parts = idmint::decode_uuid7(*id)) {
    require(id->has_rfc_variant() && id->version() == 7);
    const auto bounds = idmint::uuid7_bounds(parts->time);
    require(bounds && bounds->smallest <= *id && *id <= bounds->largest);
  }
  return 0;
}
