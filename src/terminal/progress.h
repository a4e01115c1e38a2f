// Progress of work that takes long: a line on the terminal that changes, or lines where there is no
// terminal.
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

// When results are printed: kFlow keeps the line from a terminal that shows them.
enum class Results : bool { kFlow, kAtEnd };

// Shows itself only while standard error is a terminal, four times a second after the first second,
// and is wiped at the end.
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
  const SteadyTime begin_;
  SteadyTime next_;
};

// For a file or a pipe: a line every 10 seconds, over all steps of the work. Any thread may call
// any of it.
class ProgressLines {
 public:
  // `tell` is given each line; `now` is the time.
  explicit ProgressLines(std::function<void(std::string_view line)> tell,
                         std::function<SteadyTime()> now = std::chrono::steady_clock::now);

  // The next step, of which that is counted ("MB of documents"), or which is done ("starting the
  // server") where show() is never called. No total: it is not known.
  void begin(std::string_view what, std::optional<std::int64_t> total);
  void show(std::int64_t done);
  // Time has passed, if nothing else: what takes long within a step is told too.
  void tick();
  // No step is at work.
  void end();

 private:
  void tell_if_due();

  const std::function<void(std::string_view line)> tell_;
  const std::function<SteadyTime()> now_;
  std::mutex mutex_;  // guards what follows
  bool working_ = false;
  std::string what_;
  std::optional<std::int64_t> total_;
  std::optional<std::int64_t> done_;
  SteadyTime begin_;  // of the step
  SteadyTime next_;
};

}  // namespace idmint
