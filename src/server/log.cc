#include "server/log.h"

#define SPDLOG_FMT_EXTERNAL
#define FMT_HEADER_ONLY
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/text.h"

namespace idmint::server {

namespace {

using Level = LogSettings::Level;

constexpr std::array<std::pair<std::string_view, Level>, 4> kLevels{{{"error", Level::kError},
                                                                     {"warning", Level::kWarning},
                                                                     {"info", Level::kInfo},
                                                                     {"debug", Level::kDebug}}};

spdlog::level::level_enum theirs(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      break;
  }
  return spdlog::level::err;
}

std::string as_text(std::string_view value) {
  if (!value.empty() && value.find_first_of(" \"=\n") == std::string_view::npos)
    return escaped(value);
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return escaped(quoted + "\"");
}

std::string line_of(LogSettings::Format format, std::string_view event,
                    std::initializer_list<LogField> fields) {
  if (format == LogSettings::Format::kText) {
    std::string line(event);
    for (const auto& [name, value] : fields) {
      line += ' ';
      line += name;
      line += '=';
      const auto* const number = std::get_if<std::int64_t>(&value);
      line +=
          number != nullptr ? std::to_string(*number) : as_text(std::get<std::string_view>(value));
    }
    return line;
  }
  nlohmann::ordered_json json{{"event", event}};
  for (const auto& [name, value] : fields) {
    const auto* const number = std::get_if<std::int64_t>(&value);
    // A reader may round integers beyond 2^53.
    json[std::string(name)] =
        number != nullptr ? std::to_string(*number) : as_utf8(std::get<std::string_view>(value));
  }
  std::string line = json.dump();
  return line.substr(1, line.size() - 2);
}

}  // namespace

Result<Level> level_named(std::string_view name) {
  const auto* const found =
      std::ranges::find(kLevels, name, &std::pair<std::string_view, Level>::first);
  if (found != kLevels.end()) return found->second;
  return refuse("there is no level " + shown(name) + ": use error, warning, info or debug");
}

struct Log::Writer {
  // Some megabytes at most; the oldest lines are left out.
  static constexpr std::size_t kMostLines = 8192;

  explicit Writer(LogSettings::Format format)
      : threads(std::make_shared<spdlog::details::thread_pool>(kMostLines, 1)),
        logger(std::make_shared<spdlog::async_logger>(
            "idmintd", std::make_shared<spdlog::sinks::stderr_sink_mt>(), threads,
            spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_level(spdlog::level::trace);
    logger->set_pattern(format == LogSettings::Format::kJson
                            ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                            : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                        spdlog::pattern_time_type::utc);
  }

  std::shared_ptr<spdlog::details::thread_pool> threads;
  std::shared_ptr<spdlog::async_logger> logger;
};

Log::Log(const LogSettings& settings) : settings_(settings) {}
Log::~Log() = default;

void Log::set(const LogSettings& settings) {
  if (settings.format != settings_.format) flush();
  settings_ = settings;
}

void Log::write(Level level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!has(level)) return;
  if (writer_ == nullptr) writer_ = std::make_unique<Writer>(settings_.format);
  // As an argument: the line may have braces.
  writer_->logger->log(theirs(level), "{}", line_of(settings_.format, event, fields));
}

void Log::flush() {
  if (writer_ == nullptr) return;
  const auto lost = static_cast<std::int64_t>(writer_->threads->overrun_counter());
  writer_.reset();  // its thread writes what it has
  if (lost != 0) write(Level::kWarning, "lines_left_out", {{"count", lost}});
}

}  // namespace idmint::server
