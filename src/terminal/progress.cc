#include "terminal/progress.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/quantity.h"

namespace idmint {

namespace {

constexpr std::chrono::seconds kBetweenLines{10};

void draw(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // decoration only
}

// "3 of 8 ids, 5 s left".
std::string progress_text(std::string_view what, std::int64_t done,
                          std::optional<std::int64_t> total, std::chrono::duration<double> spent) {
  std::string text = std::to_string(done);
  if (total) text += " of " + std::to_string(*total);
  text += " " + std::string(what);
  if (total && done > 0 && done < *total)
    text += ", " +
            print_duration(spent.count() * static_cast<double>(*total - done) /
                           static_cast<double>(done)) +
            " left";
  return text;
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
  draw("\r\x1b[K" + std::string(program_invocation_short_name) + ": " +
       progress_text(what_, done, total_, now - begin_));
}

ProgressLines::ProgressLines(std::function<void(std::string_view line)> tell,
                             std::function<SteadyTime()> now)
    : tell_(std::move(tell)), now_(std::move(now)), begin_(now_()), next_(begin_ + kBetweenLines) {}

void ProgressLines::begin(std::string_view what, std::optional<std::int64_t> total) {
  const std::lock_guard hold(mutex_);
  // A long question to the user may lie between two steps.
  const SteadyTime now = now_();
  if (!working_) next_ = now + kBetweenLines;
  working_ = true;
  what_ = what;
  total_ = total;
  done_.reset();
  begin_ = now;
}

void ProgressLines::show(std::int64_t done) {
  const std::lock_guard hold(mutex_);
  done_ = done;
  tell_if_due();
}

void ProgressLines::tick() {
  const std::lock_guard hold(mutex_);
  tell_if_due();
}

void ProgressLines::end() {
  const std::lock_guard hold(mutex_);
  working_ = false;
}

void ProgressLines::tell_if_due() {
  const SteadyTime now = now_();
  if (!working_ || now < next_) return;
  next_ = now + kBetweenLines;
  const std::chrono::duration<double> spent = now - begin_;
  tell_(done_ ? progress_text(what_, *done_, total_, spent)
              : what_ + ", for " + print_duration(spent));
}

}  // namespace idmint
