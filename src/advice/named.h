// Values with names on a command line.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "idmint/result.h"

namespace idmint::advice {

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

template <class Value, std::size_t kSize>
Result<Value> value_named(const std::array<Named<Value>, kSize>& values, std::string_view name) {
  std::string known;
  for (const Named<Value>& row : values) {
    if (row.name == name) return row.value;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return refuse("there is no \"" + std::string(name.substr(0, 40)) + "\": give one of " + known);
}

}  // namespace idmint::advice
