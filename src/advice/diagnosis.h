// What is to be thought of a sequence, a pool, a state file, a clock or a disk: one finding each.
// Arithmetic and words only; whoever asks has looked at them.
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
  std::string text{};             // what is so, and what to do where it is not ok
  Advice advice{};                // the next step; the text ends where its words can follow
  std::optional<double> left{};   // the part that is left, 0 to 1
  std::optional<Instant> ends{};  // when it runs out, as far as that is known
  bool matters = true;            // here, or soon: listed without --all
};

struct Limits {
  double least_left = 0.1;                                   // below it a sequence is a warning
  std::chrono::nanoseconds horizon = std::chrono::days{90};  // what ends sooner is a warning
};

// A sequence. `rate`: values in a second, where somebody knows it.
[[nodiscard]] Finding diagnose(const SequenceStatus& status, std::optional<double> rate,
                               const Limits& limits, Instant now);

// A pool: how many of its worker ids are owned, and how far ahead of the clock ids may have been
// minted. `workers`: all of them, where status.error has nothing.
[[nodiscard]] Finding diagnose_pool(const SequenceStatus& status,
                                    std::span<const LeaseState> workers, const Limits& limits,
                                    Instant now);

struct FieldInUse {
  std::string collection{};
  std::string field{};

  friend bool operator==(const FieldInUse&, const FieldInUse&) = default;
};

// The same of a sequence or pool that does not know of a value which was given: it holds less than
// it did, and what it gave comes again. `evidence`: how it is known that the value was given, to
// stand before "and the store does not know of it". `field`: where its values are in use; nothing:
// not known.
[[nodiscard]] Finding diagnose_lost(Finding finding, const Definition& definition,
                                    std::int64_t value, std::string_view evidence,
                                    const std::optional<FieldInUse>& field = {});

// From when on a free worker id of a pool can be leased, by who opens it with the usual options;
// nothing: at once, or none is free. Instant::max(): after 2262.
[[nodiscard]] std::optional<Instant> leased_from(const SnowflakeLayout& layout,
                                                 std::span<const LeaseState> workers, Instant now);

// The last instant of a layout; nothing where it lies past the year 2262.
[[nodiscard]] std::optional<Instant> end_of(const SnowflakeLayout& layout) noexcept;

enum class Use : std::uint8_t {
  kNo,
  kPerhaps,  // it is minted without a trace: judged as if it were used
  kYes,      // a state file on this host is of it
};

// A format or preset whose timestamps end.
[[nodiscard]] Finding diagnose_end(std::string_view subject, std::optional<Instant> ends, Use use,
                                   const Limits& limits, Instant now);

// What a state file says its ids are of, as the generator wrote it; nothing where that is not
// known. Only what a time is made of; its width is not part of the text.
struct IdSpace {
  Instant epoch{};
  std::chrono::nanoseconds unit{};
  int time_bits = 0;  // of the layout that minted last; 0: none yet
  std::uint32_t worker = 0;
};
[[nodiscard]] std::optional<IdSpace> parse_id_space(std::string_view text);

// A state file: how far its bound is ahead of the clock. Ahead by more than a generator allows,
// nothing is minted until the clock has caught up.
[[nodiscard]] Finding diagnose_state(std::string_view path, const IdSpace& space,
                                     std::int64_t minted_until, const Limits& limits, Instant now);

// The same of a UUID of version 1, which never refuses, or 2; nothing where `id_space`, as the
// generator wrote it, is of neither.
[[nodiscard]] std::optional<Finding> diagnose_uuid_state(std::string_view path,
                                                         std::string_view id_space,
                                                         std::int64_t minted_until, Instant now);

// The kernel's word on its clock: synchronised, and to how many microseconds.
[[nodiscard]] Finding diagnose_clock(bool synchronised, std::chrono::microseconds largest_error);

// The disk that a store lies on. `file_system`: as statfs has it.
[[nodiscard]] Finding diagnose_disk(std::string_view path, double free_bytes, long file_system);

}  // namespace idmint::advice
