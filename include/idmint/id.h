// Id: a value of any format, and all readings of a text as an id.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "idmint/clock.h"
#include "idmint/digits.h"
#include "idmint/form.h"
#include "idmint/ksuid.h"
#include "idmint/nanoid.h"
#include "idmint/object_id.h"
#include "idmint/print.h"
#include "idmint/snowflake.h"
#include "idmint/tsid.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"
#include "idmint/xid.h"

namespace idmint {

// The integer alternative is a value of a sequence. A TypeID is a UUID in a form (form.h).
using Id =
    std::variant<std::int64_t, Snowflake, Uuid, Ulid, ObjectId, Ksuid, Xid, Digits, Tsid, Nanoid>;

// The name of the alternative: "integer", "snowflake", "uuid", "ulid", "object-id", "ksuid", "xid",
// "digits", "tsid", "nanoid".
[[nodiscard]] IDMINT_EXPORT std::string_view format_of(const Id& id) noexcept;

inline constexpr std::size_t kMaxIdChars = 36;

// Writes the canonical text, at most kMaxIdChars characters without a terminating zero. Returns the
// end.
IDMINT_EXPORT char* to_chars(const Id& id, char* out) noexcept;
[[nodiscard]] IDMINT_EXPORT std::string to_string(const Id& id);
// Writes to_string(id). The caller includes <ostream>.
template <std::same_as<Id> T>
std::ostream& operator<<(std::ostream& out, const T& id) {
  return out << to_string(id);
}

// ---- in a form

inline constexpr std::size_t kMaxFormChars = 128;

// Writes at most kMaxFormChars characters without a terminating zero. Returns the end. REQUIRES:
// the form is valid for the id's format; an integer is 0 to largest_integer(form).
IDMINT_EXPORT char* to_chars(const Id& id, const Form& form, char* out) noexcept;
[[nodiscard]] IDMINT_EXPORT std::string to_string(const Id& id, const Form& form);

// The exact inverse: accepts only the spelling that to_chars() writes. kInvalidArgument: not an id
// of this format in this form; the message names the fault (prefix, width, character, check
// symbol).
[[nodiscard]] IDMINT_EXPORT Result<Id> parse(std::string_view text, std::string_view format,
                                             const Form& form = {});

// ---- the order of ids

// The ids of a source that increase in the order in which they are asked for.
enum class Order : std::uint8_t {
  kNone,
  kBySecond,    // those of different seconds
  kPerThread,   // those of one thread
  kPerProcess,  // those of one process
  kAll,
};
// "none", "by second", "per thread", "per process", "all".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Order order) noexcept;

// ---- what a text can be

struct Field {
  std::string name;
  std::string value;
};

// One way to read a text as an id.
struct Reading {
  std::string format;     // a name that `next` takes, or another one: "uuid3", "integer"
  std::string canonical;  // the text as this format prints it
  std::optional<Instant> time;
  std::vector<Field> fields;  // in the order of the layout, including the time; for a Snowflake
                              // first "layout", the name of its preset
  double likelihood = 0;      // 0 to 1; only for sorting readings
};

// All readings of the text, the likeliest first; empty if there are none. `now` is the reference
// for plausible times. Never fails.
[[nodiscard]] IDMINT_EXPORT std::vector<Reading> inspect(std::string_view text, Instant now);

}  // namespace idmint

#ifdef __cpp_lib_format
// As of the types of one id.
template <>
struct std::formatter<idmint::Id, char> : std::formatter<std::string_view, char> {
  template <class Context>
  auto format(const idmint::Id& id, Context& context) const {
    return std::formatter<std::string_view, char>::format(idmint::to_string(id), context);
  }
};
#endif
