#include "cli/progress.h"

#include <unistd.h>

#include <string>

namespace idmint::cli {

namespace {

void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // decoration only
}

}  // namespace

Progress::Progress(std::string_view what, std::optional<std::int64_t> total)
    : what_(what),
      total_(total),
      wanted_(::isatty(STDERR_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 0),
      next_(std::chrono::steady_clock::now() + std::chrono::seconds{1}) {}

Progress::~Progress() {
  if (shown_) say("\r\x1b[K");
}

void Progress::show(std::int64_t done) {
  if (!wanted_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds{250};
  shown_ = true;
  say("\r\x1b[Kidmint: " + std::to_string(done) +
      (total_ ? " of " + std::to_string(*total_) + " " : " ") + std::string(what_));
}

}  // namespace idmint::cli
