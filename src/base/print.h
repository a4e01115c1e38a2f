// Printing of ids: what to_chars() of each format calls, and the ways there are to do it, so that a
// test and a benchmark can call each. All ways write the same characters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "idmint/clock.h"
#include "idmint/result.h"

namespace idmint::detail {

// 36, 26, 26, 24 and at most 20 characters, no terminating zero; they return the end. All but the
// last choose the fastest way on this processor. Declared in the formats' headers too, but for
// print_type_id(), which prints what follows the prefix.
IDMINT_EXPORT char* print_uuid(const std::uint8_t* bytes, char* out) noexcept;
IDMINT_EXPORT char* print_ulid(const std::uint8_t* bytes, char* out) noexcept;
char* print_type_id(const std::uint8_t* bytes, char* out) noexcept;
IDMINT_EXPORT char* print_object_id(const std::uint8_t* bytes, char* out) noexcept;
// May write any of the 20 characters that the longest value takes, whatever the value.
IDMINT_EXPORT char* print_decimal(std::uint64_t value, char* out) noexcept;

// As format_time(): exactly kTimeChars characters, no terminating zero; returns the end.
inline constexpr std::size_t kTimeChars = 24;
IDMINT_EXPORT char* print_time(Instant time, char* out) noexcept;

// Exactly `width` digits, 1 to 20, with leading zeros. REQUIRES: value < 10^width.
char* print_padded(std::uint64_t value, std::size_t width, char* out) noexcept;

// Whether the *_ssse3 functions may be called on this processor.
[[nodiscard]] bool has_ssse3() noexcept;

char* print_uuid_portable(const std::uint8_t* bytes, char* out) noexcept;
char* print_object_id_portable(const std::uint8_t* bytes, char* out) noexcept;
char* print_ulid_portable(const std::uint8_t* bytes, char* out) noexcept;
char* print_type_id_portable(const std::uint8_t* bytes, char* out) noexcept;

// REQUIRES: has_ssse3().
char* print_uuid_ssse3(const std::uint8_t* bytes, char* out) noexcept;
char* print_object_id_ssse3(const std::uint8_t* bytes, char* out) noexcept;
char* print_ulid_ssse3(const std::uint8_t* bytes, char* out) noexcept;
char* print_type_id_ssse3(const std::uint8_t* bytes, char* out) noexcept;

}  // namespace idmint::detail
