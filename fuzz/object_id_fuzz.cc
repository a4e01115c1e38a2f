// Every text that is read as an ObjectId prints as one canonical text, which reads as the same id.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/object_id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::ObjectId;
  using idmint::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const idmint::Result<ObjectId> id = ObjectId::parse(text);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  const std::string printed = id->to_string();
  require(printed.size() == ObjectId::kChars);
  require(ObjectId::parse(printed) == *id);
  require(ObjectId::parse(printed)->to_string() == printed);
  const idmint::Instant time{std::chrono::seconds{id->seconds()}};
  const auto bounds = idmint::object_id_bounds(time);
  require(bounds && bounds->smallest <= *id && *id <= bounds->largest);
  return 0;
}
