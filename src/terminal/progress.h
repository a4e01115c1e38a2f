// Progress of long work: a changing line on a terminal, or lines without one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/clock.h"

namespace idmint {

// When results are printed. kFlow hides the line on a terminal that shows the results.
enum class Results : bool { kFlow, kAtEnd };

// Visible only if standard error is a terminal: four times a second after the first second; erased
// at the end.
class Progress {
 public:
  // `what` is the unit, "ids", and must outlive this. No total: unknown.
  explicit Progress(std::string_view what, std::optional<std::int64_t> total = {},
                    Results results = Results::kFlow);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Reads the clock, so not for every single id.
  void show(std::int64_t done);

 private:
  const std::string_view what_;
  const std::optional<std::int64_t> total_;
  const bool wanted_;
  bool shown_ = false;
  const SteadyTime begin_;
  SteadyTime next_;
};

// For a file or a pipe: a line every 10 seconds, across all steps of the work. Any thread may call
// any method.
class ProgressLines {
 public:
  // `tell` receives each line; `now` returns the time.
  explicit ProgressLines(std::function<void(std::string_view line)> tell,
                         std::function<SteadyTime()> now = std::chrono::steady_clock::now);

  // Starts the next step. `what` is its unit ("MB of documents"), or its work ("starting the
  // server") if show() is never called. No total: unknown.
  void begin(std::string_view what, std::optional<std::int64_t> total);
  void show(std::int64_t done);
  // Called as time passes, so that a long step without show() is reported too.
  void tick();
  // No step is running.
  void end();

 private:
  void tell_if_due();

  const std::function<void(std::string_view line)> tell_;
  const std::function<SteadyTime()> now_;
  std::mutex mutex_;  // guards the members below
  bool working_ = false;
  std::string what_;
  std::optional<std::int64_t> total_;
  std::optional<std::int64_t> done_;
  SteadyTime begin_;  // of the step
  SteadyTime next_;
};

}  // namespace idmint
