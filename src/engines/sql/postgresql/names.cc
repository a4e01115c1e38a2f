#include "engines/sql/postgresql/names.h"

#include "base/text.h"

namespace idmint::stores::postgresql {

std::string stored_name(std::string_view name) {
  if (is_utf8(name) && name.find('\0') == std::string_view::npos && !name.starts_with(kHexName))
    return std::string(name);
  return std::string(kHexName) + hex(name);
}

std::string name_of(std::string_view stored) {
  if (!stored.starts_with(kHexName)) return std::string(stored);
  return unhex(stored.substr(kHexName.size()));
}

}  // namespace idmint::stores::postgresql
