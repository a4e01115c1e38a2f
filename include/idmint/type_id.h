// TypeID 0.3.0: a UUID with a type for a prefix, specification at github.com/jetify-com/typeid.
//
//   prefix | _ | the 128 bits in Crockford's base32, lower case, 26 characters
//
// As a Form of a UUID: {.prefix = "user_", .encoding = Encoding::kBase32Lower}.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

#include "idmint/export.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint {

class TypeId {
 public:
  static constexpr std::size_t kMaxPrefix = 63;
  static constexpr std::size_t kSuffixChars = 26;
  static constexpr std::size_t kMaxChars = kMaxPrefix + 1 + kSuffixChars;

  // kInvalidArgument: the prefix is not ^([a-z]([a-z_]{0,61}[a-z])?)?$. Any UUID is fine; the
  // specification recommends version 7.
  [[nodiscard]] IDMINT_EXPORT static Result<TypeId> make(std::string_view prefix, const Uuid& uuid);
  // Split at the last underscore. kInvalidArgument: the prefix as above, an underscore without a
  // prefix, or a suffix that is not 26 characters of 0-9a-z without i l o u beginning with 0 to 7.
  [[nodiscard]] IDMINT_EXPORT static Result<TypeId> parse(std::string_view text);

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }

  [[nodiscard]] IDMINT_EXPORT std::string to_string() const;

  // By prefix, then by UUID, which is not the order of the texts where one prefix begins another.
  friend auto operator<=>(const TypeId&, const TypeId&) noexcept = default;

 private:
  TypeId(std::string_view prefix, const Uuid& uuid) : prefix_(prefix), uuid_(uuid) {}

  std::string prefix_;
  Uuid uuid_;
};

// The rule for prefixes alone.
[[nodiscard]] IDMINT_EXPORT Result<void> validate_type_prefix(std::string_view prefix);

}  // namespace idmint
