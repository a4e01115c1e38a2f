// The health of a sequence, a pool, a state file, a clock or a disk: one finding for each.
// Arithmetic and texts only; the caller reads the facts.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "ids/lease_table.h"

namespace idmint::advice {

enum class Health : std::uint8_t { kOk, kWarn, kFail };
[[nodiscard]] std::string_view name(Health health) noexcept;  // "ok", "warn", "fail"

struct Finding {
  Health health = Health::kOk;
  std::string kind{};             // "sequence", "pool", "layout", "state file", ...
  std::string subject{};          // its name
  std::string text{};             // the state, and what to do if it is not ok
  Advice advice{};                // the next step; the text is worded so that the advice can follow
  std::optional<double> left{};   // the fraction that is left, 0 to 1
  std::optional<Instant> ends{};  // when it runs out, if known
  bool matters = true;            // relevant here, or soon: listed without --all
};

struct Limits {
  double least_left = 0.1;                                   // a smaller fraction is a warning
  std::chrono::nanoseconds horizon = std::chrono::days{90};  // an earlier end is a warning
};

// A sequence. `rate`: values per second, if known.
[[nodiscard]] Finding diagnose(const SequenceStatus& status, std::optional<double> rate,
                               const Limits& limits, Instant now);

// A pool: the number of owned worker ids, and how far ahead of the clock ids may have been minted.
// `workers`: all of them, if status.error is empty.
[[nodiscard]] Finding diagnose_pool(const SequenceStatus& status,
                                    std::span<const LeaseState> workers, const Limits& limits,
                                    Instant now);

struct FieldInUse {
  std::string collection{};
  std::string field{};

  friend bool operator==(const FieldInUse&, const FieldInUse&) = default;
};

// The same for a sequence or pool that lacks a value that it handed out: it holds less than it did,
// and its values can repeat. `evidence`: the proof that the value was handed out, worded to precede
// "and the store does not know of it". `field`: the place where its values are used; nothing:
// unknown.
[[nodiscard]] Finding diagnose_lost(Finding finding, const Definition& definition,
                                    std::int64_t value, std::string_view evidence,
                                    const std::optional<FieldInUse>& field = {});

// The time from which a free worker id of a pool can be leased with the default options; nothing:
// at once, or none is free. Instant::max(): after 2262.
[[nodiscard]] std::optional<Instant> leased_from(const SnowflakeLayout& layout,
                                                 std::span<const LeaseState> workers, Instant now);

// The last instant of a layout; nothing: later than the year 2262.
[[nodiscard]] std::optional<Instant> end_of(const SnowflakeLayout& layout) noexcept;

enum class Use : std::uint8_t {
  kNo,
  kPerhaps,  // minting leaves no trace: judged as used
  kYes,      // a state file on this host belongs to it
};

// A format or preset whose timestamps end.
[[nodiscard]] Finding diagnose_end(std::string_view subject, std::optional<Instant> ends, Use use,
                                   const Limits& limits, Instant now);

// The id space of a state file, parsed from the generator's text; nothing: unknown. Only the parts
// that determine a time; the text lacks the width of the time.
struct IdSpace {
  Instant epoch{};
  std::chrono::nanoseconds unit{};
  int time_bits = 0;  // of the layout that minted last; 0: none yet
  std::uint32_t worker = 0;
};
[[nodiscard]] std::optional<IdSpace> parse_id_space(std::string_view text);

// A state file: the distance of its bound from the clock. If a generator does not allow this much,
// it mints nothing until the clock has caught up.
[[nodiscard]] Finding diagnose_state(std::string_view path, const IdSpace& space,
                                     std::int64_t minted_until, const Limits& limits, Instant now);

// The same for a UUID of version 1, which never refuses, or of version 2; nothing: `id_space`, the
// generator's text, is of neither.
[[nodiscard]] std::optional<Finding> diagnose_uuid_state(std::string_view path,
                                                         std::string_view id_space,
                                                         std::int64_t minted_until, Instant now);

// The kernel's statement on its clock: whether it is synchronised, and its largest error.
[[nodiscard]] Finding diagnose_clock(bool synchronised, std::chrono::microseconds largest_error);

// The disk of a store. `file_system`: f_type of statfs.
[[nodiscard]] Finding diagnose_disk(std::string_view path, double free_bytes, long file_system);

}  // namespace idmint::advice
