// How commands watch long work: progress on the terminal, and an end at the first signal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "restore/observer.h"
#include "terminal/command.h"
#include "terminal/progress.h"

namespace idmint::restore {

// kUnavailable: a signal asked for the end.
[[nodiscard]] Result<void> unless_stopped();
// Turns a failure that a signal caused into success: sets Context::stopped_by, and prints the
// notice unless it is empty.
[[nodiscard]] Result<void> or_stopped(Result<void> done, Context& context, std::string_view notice);

// The output if standard error is no terminal: nothing, or a line every 10 seconds.
enum class WithoutTerminal : bool { kNothing, kLines };

class OnTerminal final : public Observer {
 public:
  struct Hooks {
    std::function<Result<void>(std::string_view change)> about_to{};
    std::function<void(std::string_view what)> notice{};  // empty: prints it on standard error
  };

  explicit OnTerminal(const Context& context, WithoutTerminal without = WithoutTerminal::kNothing);
  OnTerminal(const Context& context, Hooks hooks);

  void begin(std::string_view what, std::optional<std::uint64_t> total) override;
  Result<void> advance(std::optional<std::uint64_t> done) override;
  Result<void> about_to(std::string_view change) override;
  void notice(std::string_view what) override;
  bool stopped() const override;
  // No step is running.
  void end();

 private:
  const bool json_;
  const Hooks hooks_{};
  std::string what_{};
  std::optional<std::int64_t> total_{};
  std::optional<Progress> progress_{};  // its unit is what_
  ProgressLines lines_;
  std::jthread ticking_{};  // of lines_; destroyed first
};

}  // namespace idmint::restore
