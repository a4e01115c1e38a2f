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
#include <climits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"
#include "idmint/clock.h"

namespace idmint::server {

namespace {

using Level = LogSettings::Level;
using std::chrono::steady_clock;

constexpr std::array<std::pair<std::string_view, Level>, 4> kLevels{{{"error", Level::kError},
                                                                     {"warning", Level::kWarning},
                                                                     {"info", Level::kInfo},
                                                                     {"debug", Level::kDebug}}};

// A pipe that poll() calls writable takes so many bytes without waiting.
constexpr std::size_t kLongestLine = PIPE_BUF;
// The most bytes of one value, such as a path. A line with four of them, escaped, fits into
// kLongestLine.
constexpr std::size_t kLongestValue = 500;

std::string_view name_of(Level level) {
  const auto* const found =
      std::ranges::find(kLevels, level, &std::pair<std::string_view, Level>::second);
  return found != kLevels.end() ? found->first : "error";
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

std::string shortened(std::string_view value) {
  if (value.size() <= kLongestValue) return std::string(value);
  return std::string(value.substr(0, kLongestValue)) + "...";
}

std::string line_of(LogSettings::Format format, Level level, std::string_view event,
                    std::initializer_list<LogField> fields) {
  const std::string time = format_time(system_clock().now());
  if (format == LogSettings::Format::kText) {
    std::string line = time + ' ';
    line += name_of(level);
    line += ' ';
    line += event;
    for (const auto& [name, value] : fields) {
      line += ' ';
      line += name;
      line += '=';
      const auto* const number = std::get_if<std::int64_t>(&value);
      line += number != nullptr ? std::to_string(*number)
                                : as_text(shortened(std::get<std::string_view>(value)));
    }
    return line;
  }
  nlohmann::ordered_json json{{"time", time}, {"level", name_of(level)}, {"event", event}};
  for (const auto& [name, value] : fields) {
    const auto* const number = std::get_if<std::int64_t>(&value);
    // A reader may round integers beyond 2^53.
    json[std::string(name)] = number != nullptr
                                  ? std::to_string(*number)
                                  : as_utf8(shortened(std::get<std::string_view>(value)));
  }
  return json.dump();
}

bool takes_messages(std::chrono::milliseconds within) noexcept {
  pollfd error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&error, 1, static_cast<int>(within.count())) > 0;
}

// Standard error, as long as it is read.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(std::atomic<std::int64_t>& lost) : lost_(lost) {}

  // From now on all lines together wait a second at most.
  void end() noexcept { ends_at_.store(steady_clock::now() + kPatience); }

 private:
  static constexpr std::chrono::milliseconds kPatience{1000};

  // NOLINTNEXTLINE(readability-identifier-naming): the name of spdlog
  void sink_it_(const spdlog::details::log_msg& message) override {
    // The first line that nobody takes waits, those behind it do not.
    std::chrono::milliseconds patience = is_read_ ? kPatience : std::chrono::milliseconds{0};
    if (const steady_clock::time_point ends_at = ends_at_; ends_at != steady_clock::time_point{}) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(ends_at - steady_clock::now());
      patience = std::clamp(left, std::chrono::milliseconds{0}, patience);
    }
    is_read_ = takes_messages(patience);
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::size_t size = std::min(line.size(), kLongestLine);
    if (!is_read_ || ::write(STDERR_FILENO, line.data(), size) != static_cast<ssize_t>(line.size()))
      lost_.fetch_add(1, std::memory_order_relaxed);
  }
  // NOLINTNEXTLINE(readability-identifier-naming): likewise
  void flush_() override {}

  std::atomic<std::int64_t>& lost_;
  std::atomic<steady_clock::time_point> ends_at_{};  // the epoch: not yet
  bool is_read_ = true;
};

}  // namespace

bool takes_messages() noexcept { return takes_messages(std::chrono::milliseconds{0}); }

Result<Level> level_named(std::string_view name) {
  const auto* const found =
      std::ranges::find(kLevels, name, &std::pair<std::string_view, Level>::first);
  if (found != kLevels.end()) return found->second;
  return refuse("there is no level " + shown(without_url(name)) +
                ": use error, warning, info or debug");
}

struct Log::Writer {
  // Some megabytes at most; the oldest lines are left out.
  static constexpr std::size_t kMostLines = 8192;

  Writer()
      : sink(std::make_shared<Sink>(lost)),
        threads(std::make_shared<spdlog::details::thread_pool>(kMostLines, 1)),
        logger(std::make_shared<spdlog::async_logger>(
            "idmintd", sink, threads, spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_level(spdlog::level::trace);
    logger->set_pattern("%v");
  }

  // How many lines were left out.
  [[nodiscard]] std::int64_t end() {
    const auto overrun = static_cast<std::int64_t>(threads->overrun_counter());
    sink->end();
    logger.reset();
    threads.reset();  // which writes what is left
    return overrun + lost.load();
  }

  std::atomic<std::int64_t> lost{0};
  std::shared_ptr<Sink> sink;
  std::shared_ptr<spdlog::details::thread_pool> threads;
  std::shared_ptr<spdlog::async_logger> logger;
};

Log::Log(const LogSettings& settings) : settings_(settings) {}
Log::~Log() = default;

void Log::write(Level level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!has(level)) return;
  if (writer_ == nullptr) writer_ = std::make_unique<Writer>();
  // As an argument: the line may have braces.
  writer_->logger->log(spdlog::level::info, "{}", line_of(settings_.format, level, event, fields));
}

void Log::flush() {
  if (writer_ == nullptr) return;
  const std::int64_t lost = writer_->end();
  writer_.reset();
  if (lost != 0) write(Level::kWarning, "lines_left_out", {{"count", lost}});
}

}  // namespace idmint::server
