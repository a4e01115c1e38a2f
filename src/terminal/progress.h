// Progress: a line on the terminal for work that takes longer than a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace idmint {

// When results are printed: kFlow keeps the line from a terminal that shows them.
enum class Results : bool { kFlow, kAtEnd };

// Shows itself only while standard error is a terminal, four times a second, and is wiped at the
// end.
class Progress {
 public:
  // `what` is counted: "ids"; it must outlive this. No total: it is not known.
  explicit Progress(std::string_view what, std::optional<std::int64_t> total = {},
                    Results results = Results::kFlow);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Costs a look at the clock: not for every single id.
  void show(std::int64_t done);

 private:
  const std::string_view what_;
  const std::optional<std::int64_t> total_;
  const bool wanted_;
  bool shown_ = false;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace idmint
