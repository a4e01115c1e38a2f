// Printing of ids: the functions behind to_chars() of each format, and each of their
// implementations, for tests and benchmarks. All implementations write the same characters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "idmint/clock.h"
#include "idmint/result.h"

namespace idmint::detail {

// They write 36, 26, 26, 24 and at most 20 characters without a terminating zero, and return the
// end. All but the last use the fastest implementation on this processor. The formats' headers
// declare them too, except print_type_id(), which prints the part after the prefix.
IDMINT_EXPORT char* print_uuid(const std::uint8_t* bytes, char* out) noexcept;
IDMINT_EXPORT char* print_ulid(const std::uint8_t* bytes, char* out) noexcept;
char* print_type_id(const std::uint8_t* bytes, char* out) noexcept;
IDMINT_EXPORT char* print_object_id(const std::uint8_t* bytes, char* out) noexcept;
// May overwrite all 20 characters, whatever the value.
IDMINT_EXPORT char* print_decimal(std::uint64_t value, char* out) noexcept;

// Like format_time(): writes exactly kTimeChars characters without a terminating zero. Returns the
// end.
inline constexpr std::size_t kTimeChars = 24;
IDMINT_EXPORT char* print_time(Instant time, char* out) noexcept;

// Writes exactly `width` digits, 1 to 20, with leading zeros. REQUIRES: value < 10^width.
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
