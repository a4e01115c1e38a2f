// Log: what happens, one line each on standard error, as text or as JSON. It never waits for
// whoever reads it: what does not fit is left out, and counted.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "idmint/result.h"

namespace idmint::server {

struct LogSettings {
  enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };
  enum class Format : std::uint8_t { kText, kJson };
  // kInfo: also each range of ids that a call takes; kDebug: each single id too.
  Level level = Level::kWarning;
  Format format = Format::kText;
};

// kInvalidArgument, with the names that there are.
[[nodiscard]] Result<LogSettings::Level> level_named(std::string_view name);

struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t> value;
};

// Whether standard error takes a few lines now. Whoever may not wait asks before it writes there.
[[nodiscard]] bool takes_messages() noexcept;

// One thread at a time.
class Log final {
 public:
  explicit Log(const LogSettings& settings = {});
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void set(const LogSettings& settings) noexcept { settings_ = settings; }
  [[nodiscard]] bool has(LogSettings::Level level) const noexcept {
    return level >= settings_.level;
  }
  // One line: the time, the level, the event and its fields. In text, values are quoted where they
  // have a blank or a quote; control characters are escaped,
  // and what is longer than 500 characters is cut.
  void write(LogSettings::Level level, std::string_view event,
             std::initializer_list<LogField> fields = {});
  // Waits until the lines are written, a second at most for those that nobody reads. How many were
  // left out is the last line.
  void flush();

 private:
  struct Writer;
  LogSettings settings_;
  std::unique_ptr<Writer> writer_;  // none before the first line
};

}  // namespace idmint::server
