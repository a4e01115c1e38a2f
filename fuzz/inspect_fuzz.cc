// inspect() takes any text; its readings are in order, and each reads its own canonical text again.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "idmint/id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::Reading;
  using idmint::fuzz::require;
  constexpr idmint::Instant now{std::chrono::seconds{1'800'000'000}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<Reading> readings = idmint::inspect(text, now);
  require(std::ranges::is_sorted(readings, std::ranges::greater{}, &Reading::likelihood));
  for (const Reading& reading : readings) {
    require(!reading.format.empty() && reading.likelihood > 0 && reading.likelihood < 1);
    require(reading.format.size() <= 24 && reading.fields.size() <= 10);  // as Reader promises
    for (const idmint::Field& field : reading.fields) {
      require(!field.name.empty() && field.name.size() <= 24 && field.value.size() <= 96);
    }
    if (reading.time) require(!idmint::format_time(*reading.time).empty());
    const std::vector<Reading> again = idmint::inspect(reading.canonical, now);
    // Several layouts are one format.
    require(std::ranges::any_of(again, [&](const Reading& same) {
      return same.format == reading.format && same.canonical == reading.canonical &&
             same.time == reading.time;
    }));
  }
  return 0;
}
