#include "terminal/progress.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/quantity.h"

namespace idmint {

namespace {

void draw(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // decoration only
}

}  // namespace

Progress::Progress(std::string_view what, std::optional<std::int64_t> total, Results results)
    : what_(what),
      total_(total),
      wanted_(::isatty(STDERR_FILENO) == 1 &&
              (results == Results::kAtEnd || ::isatty(STDOUT_FILENO) == 0)),
      begin_(std::chrono::steady_clock::now()),
      next_(begin_ + std::chrono::seconds{1}) {}

Progress::~Progress() {
  if (shown_) draw("\r\x1b[K");
}

void Progress::show(std::int64_t done) {
  if (!wanted_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds{250};
  shown_ = true;
  std::string line = "\r\x1b[K";
  line += program_invocation_short_name;
  line += ": " + std::to_string(done);
  if (total_) line += " of " + std::to_string(*total_);
  line += " " + std::string(what_);
  if (total_ && done > 0 && done < *total_) {
    const std::chrono::duration<double> spent = now - begin_;
    line += ", " +
            print_duration(spent.count() * static_cast<double>(*total_ - done) /
                           static_cast<double>(done)) +
            " left";
  }
  draw(line);
}

}  // namespace idmint
