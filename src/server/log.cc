#include "server/log.h"

#include <poll.h>
#include <unistd.h>

#define SPDLOG_FMT_EXTERNAL
#define FMT_HEADER_ONLY
#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
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

bool takes_messages(std::chrono::milliseconds within) noexcept {
  pollfd error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&error, 1, static_cast<int>(within.count())) > 0;
}

// Standard error, as long as it is read. A pipe that can be written takes 4096 bytes at least, and
// no line is as long.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(std::atomic<std::int64_t>& lost) : lost_(lost) {}

 private:
  // NOLINTNEXTLINE(readability-identifier-naming): the name of spdlog
  void sink_it_(const spdlog::details::log_msg& message) override {
    // The first line that nobody takes waits a second, those behind it do not.
    is_read_ = takes_messages(std::chrono::milliseconds{is_read_ ? 1000 : 0});
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (!is_read_ || ::write(STDERR_FILENO, line.data(), line.size()) < 0)
      lost_.fetch_add(1, std::memory_order_relaxed);
  }
  // NOLINTNEXTLINE(readability-identifier-naming): likewise
  void flush_() override {}

  std::atomic<std::int64_t>& lost_;
  bool is_read_ = true;
};

}  // namespace

bool takes_messages() noexcept { return takes_messages(std::chrono::milliseconds{0}); }

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
        logger(
            std::make_shared<spdlog::async_logger>("idmintd", std::make_shared<Sink>(lost), threads,
                                                   spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_level(spdlog::level::trace);
    logger->set_pattern(format == LogSettings::Format::kJson
                            ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                            : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                        spdlog::pattern_time_type::utc);
  }

  // How many lines were left out.
  [[nodiscard]] std::int64_t end() {
    const auto overrun = static_cast<std::int64_t>(threads->overrun_counter());
    logger.reset();
    threads.reset();  // which writes what is left
    return overrun + lost.load();
  }

  std::atomic<std::int64_t> lost{0};
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
  const std::int64_t lost = writer_->end();
  writer_.reset();
  if (lost != 0) write(Level::kWarning, "lines_left_out", {{"count", lost}});
}

}  // namespace idmint::server
