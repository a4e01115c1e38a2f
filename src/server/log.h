// Log: one line per event on standard error, as text or JSON. It never waits for the reader: lines
// that do not fit are dropped and counted.
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

// kInvalidArgument: no such level; the message lists the names.
[[nodiscard]] Result<LogSettings::Level> level_named(std::string_view name);

struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t> value;
};

// Whether standard error takes a few lines now. Ask before writing there if you must not wait.
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
  // Writes one line: the time, the level, the event and its fields. In text, values with a blank or
  // a quote are quoted. Control characters are escaped, and values longer than 500 characters are
  // cut.
  void write(LogSettings::Level level, std::string_view event,
             std::initializer_list<LogField> fields = {});
  // Waits until the lines are written, at most a second if nobody reads them. The last line has the
  // number of dropped lines.
  void flush();

 private:
  struct Writer;
  LogSettings settings_;
  std::unique_ptr<Writer> writer_;  // none before the first line
};

}  // namespace idmint::server
