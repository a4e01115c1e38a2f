// A Snowflake has one spelling; and in any layout, what decode() tells encode() makes the same id.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/snowflake.h"

namespace {

using idmint::Snowflake;
using idmint::SnowflakeLayout;
using idmint::fuzz::require;

void check_layout(const SnowflakeLayout& layout, Snowflake id) {
  if (!layout.validate()) return;
  const auto parts = layout.decode(id);
  if (!parts) {
    require(parts.error().code == idmint::Code::kInvalidArgument);
    return;
  }
  require(parts->worker <= layout.max_worker() && parts->sequence <= layout.max_sequence());
  require(layout.encode(*parts) == id);
  const auto bounds = layout.bounds(parts->time);
  require(bounds && bounds->smallest <= id && id <= bounds->largest);
}

// The layout that the first bytes spell, valid or not.
SnowflakeLayout layout_of(const std::uint8_t* bytes) {
  std::int64_t epoch_ms = 0;
  std::memcpy(&epoch_ms, bytes, 5);
  std::uint32_t unit_us = 0;
  std::memcpy(&unit_us, bytes + 5, 3);
  return {.epoch = idmint::Instant{std::chrono::milliseconds{epoch_ms}},
          .unit = std::chrono::microseconds{unit_us},
          .time_bits = bytes[8] % 70,
          .worker_bits = bytes[9] % 40,
          .sequence_bits = bytes[10] % 30,
          .order = bytes[11] % 2 == 0 ? SnowflakeLayout::Order::kWorkerThenSequence
                                      : SnowflakeLayout::Order::kSequenceThenWorker};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto id = Snowflake::parse(text)) {
    require(id->to_string() == text);
    for (const auto& preset : idmint::snowflake_presets()) check_layout(preset.layout, *id);
  }
  constexpr std::size_t kLayoutBytes = 12;
  if (size >= kLayoutBytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, data + kLayoutBytes, std::min(size - kLayoutBytes, sizeof value));
    check_layout(layout_of(data), Snowflake{value});
  }
  return 0;
}
