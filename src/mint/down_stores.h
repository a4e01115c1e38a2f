// Which stores did not answer lately, as the data folder remembers for the commands that follow.
#pragma once

#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>

#include "idmint/clock.h"

namespace idmint {

// A hint, which decides only how long a store is waited for once another one has answered: never
// whether it is used. What cannot be written is not remembered. Any thread may use it.
class DownStores final {
 public:
  // How long a store is remembered after it did not answer.
  static constexpr std::chrono::seconds kRemembered{60};

  // With an empty file in `folder` for each store that is down; it has the time at which the store
  // did not answer. Empty: nothing is remembered. The clock must outlive it.
  DownStores(std::filesystem::path folder, Clock& clock)
      : folder_(std::move(folder)), clock_(clock) {}

  // `url`: of the store, with or without its password.
  [[nodiscard]] bool has(std::string_view url) const;
  void add(std::string_view url) const;
  void remove(std::string_view url) const;

 private:
  [[nodiscard]] std::filesystem::path file_of(std::string_view url) const;

  const std::filesystem::path folder_;
  Clock& clock_;
};

}  // namespace idmint
