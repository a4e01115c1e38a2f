// FirstDefinition: a definition that was read in the command that opened its store.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace idmint::stores {

// The first call of the catalog takes it; find() of that name then asks nobody. Any thread may call
// it at any time.
class FirstDefinition {
 public:
  // Called once, before anything else.
  void remember(std::string_view name, std::string_view json) {
    const std::lock_guard lock(mutex_);
    first_.emplace(name, json);
  }
  // Name and text, once; nothing: there is none, or it was taken.
  std::optional<std::pair<std::string, std::string>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(first_, std::nullopt);
  }

 private:
  std::mutex mutex_;  // guards first_
  std::optional<std::pair<std::string, std::string>> first_;
};

}  // namespace idmint::stores
