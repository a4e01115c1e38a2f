#include "restore/commands/on_terminal.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/errors.h"
#include "restore/commands/options.h"
#include "terminal/output.h"
#include "terminal/stop.h"

namespace idmint::restore {

Result<void> unless_stopped() {
  if (stop_signal() == 0) return {};
  return fail(Code::kUnavailable, "stopped by a signal");
}

Result<void> or_stopped(Result<void> done, Context& context, std::string_view notice) {
  if (done || !was_stopped(done.error())) return done;
  context.stopped_by = stop_signal();
  if (!notice.empty()) report_notice(notice, context.json);
  return {};
}

OnTerminal::OnTerminal(const Context& context, Hooks hooks)
    : json_(context.json),
      hooks_(std::move(hooks)),
      lines_([json = json_](std::string_view line) { report_notice(line, json); }) {}

OnTerminal::OnTerminal(const Context& context, WithoutTerminal without)
    : OnTerminal(context, Hooks{}) {
  if (without == WithoutTerminal::kNothing || ::isatty(STDERR_FILENO) == 1) return;
  ticking_ = std::jthread([this](const std::stop_token& over) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock hold(mutex);
    while (!changed.wait_for(hold, over, std::chrono::seconds{1}, [] { return false; }) &&
           !over.stop_requested())
      lines_.tick();
  });
}

void OnTerminal::begin(std::string_view what, std::optional<std::uint64_t> total) {
  progress_.reset();
  what_ = what;
  total_ = total ? std::optional(static_cast<std::int64_t>(*total)) : std::nullopt;
  if (ticking_.joinable()) {
    lines_.begin(what_, total_);
  } else {
    progress_.emplace(what_, total_, Results::kAtEnd);
  }
}

Result<void> OnTerminal::advance(std::optional<std::uint64_t> done) {
  if (done && ticking_.joinable()) {
    lines_.show(static_cast<std::int64_t>(*done));
  } else if (done) {
    if (!progress_) progress_.emplace(what_, total_, Results::kAtEnd);  // after a notice
    progress_->show(static_cast<std::int64_t>(*done));
  }
  return unless_stopped();
}

Result<void> OnTerminal::about_to(std::string_view change) {
  if (hooks_.about_to)
    if (Result<void> told = hooks_.about_to(change); !told) return told;
  return unless_stopped();
}

void OnTerminal::notice(std::string_view what) {
  progress_.reset();
  if (hooks_.notice) return hooks_.notice(what);
  report_notice(what, json_);
}

bool OnTerminal::stopped() const { return stop_signal() != 0; }

void OnTerminal::end() {
  progress_.reset();
  lines_.end();
}

}  // namespace idmint::restore
