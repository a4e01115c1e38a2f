// JSON objects as the values of keys: how they are written, and read with nothing missing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint::stores::key_value {

using Object = nlohmann::ordered_json;

[[nodiscard]] inline std::string dumped(const Object& object) {
  return object.dump(-1, ' ', false, Object::error_handler_t::replace);
}

// The members of an object, all of which must be there.
class Reader {
 public:
  explicit Reader(std::string_view text) : object_(Object::parse(text, nullptr, false)) {
    whole_ = object_.is_object();
  }
  [[nodiscard]] bool whole() const { return whole_; }

  std::int64_t integer(const char* name) {
    const Object* const value = find(name);
    if (value == nullptr || !value->is_number_integer()) return missing<std::int64_t>();
    if (value->is_number_unsigned() && !std::in_range<std::int64_t>(value->get<std::uint64_t>()))
      return missing<std::int64_t>();
    return value->get<std::int64_t>();
  }
  bool boolean(const char* name) {
    const Object* const value = find(name);
    if (value == nullptr || !value->is_boolean()) return missing<bool>();
    return value->get<bool>();
  }
  std::string text(const char* name) {
    const Object* const value = find(name);
    if (value == nullptr || !value->is_string()) return missing<std::string>();
    return value->get<std::string>();
  }
  // "": it is not there.
  std::string text_or_nothing(const char* name) {
    return find(name) != nullptr ? text(name) : std::string();
  }
  // "": the nil UUID.
  Uuid uuid(const char* name) {
    const std::string digits = text(name);
    if (digits.empty()) return {};
    const Result<Uuid> id = Uuid::parse(digits);
    return id ? *id : missing<Uuid>();
  }

 private:
  const Object* find(const char* name) {
    if (!whole_) return nullptr;
    const auto at = object_.find(name);
    return at != object_.end() ? &*at : nullptr;
  }
  template <class T>
  T missing() {
    whole_ = false;
    return {};
  }

  Object object_;
  bool whole_;
};

// "" for the nil UUID.
[[nodiscard]] inline std::string text_or_none(const Uuid& id) {
  return id == Uuid{} ? std::string() : id.to_string();
}

}  // namespace idmint::stores::key_value
