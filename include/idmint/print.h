// Ids as text in a stream, and for std::format() where the library has it.
//
//   std::cout << uuid << '\n';
//   std::format("{:>40}", uuid)
#pragma once

#include <concepts>
#include <iosfwd>
#include <string_view>

#if __has_include(<format>)
#include <version>
#ifdef __cpp_lib_format
#include <format>
#endif
#endif

namespace idmint {

class Digits;
class Ksuid;
class Nanoid;
class ObjectId;
class Snowflake;
class Tsid;
class TypeId;
class Ulid;
class Uuid;
class Xid;

// The types of one id. An Id, which is one of several types, is printed in the same ways (id.h).
template <class T>
concept PrintableId =
    std::same_as<T, Digits> || std::same_as<T, Ksuid> || std::same_as<T, Nanoid> ||
    std::same_as<T, ObjectId> || std::same_as<T, Snowflake> || std::same_as<T, Tsid> ||
    std::same_as<T, TypeId> || std::same_as<T, Ulid> || std::same_as<T, Uuid> ||
    std::same_as<T, Xid>;

// Writes id.to_string(), with the width and the fill of the stream. The caller includes <ostream>.
template <PrintableId T>
std::ostream& operator<<(std::ostream& out, const T& id) {
  return out << id.to_string();
}

}  // namespace idmint

#ifdef __cpp_lib_format
// The options of a string_view, such as {:>40}.
template <idmint::PrintableId T>
struct std::formatter<T, char> : std::formatter<std::string_view, char> {
  template <class Context>
  auto format(const T& id, Context& context) const {
    return std::formatter<std::string_view, char>::format(id.to_string(), context);
  }
};
#endif
