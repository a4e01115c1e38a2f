// Service: what every protocol serves from, and what is counted of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/connection.h"
#include "server/counts.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/sources.h"
#include "server/survey.h"

namespace idmint::server {

// The largest count of one request for ids whose reply is made whole.
inline constexpr std::int64_t kMostIds = 10'000;

// Calls that wait for their stores at a time, in all. One more is refused at once: those that wait
// would only wait longer, and the memory has an end.
inline constexpr std::size_t kMostWaitingCalls = 100'000;
// Streams of ids over HTTP at a time. Each has some hundred kilobytes.
inline constexpr std::size_t kMostStreams = 256;

// On the loop.
struct Service {
  Loop& loop;
  Sources& sources;
  Access& access;
  Log& log;
  Survey& survey;
  std::string version{};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  Instant started_at = system_clock().now();
  std::int64_t most_connections = 0;

  // Those with new answers, whose replies are written once all answers of a batch have been given.
  std::vector<Conversation*> settling{};
  // When the answers of this batch were given.
  std::chrono::steady_clock::time_point answered_at{};

  // Since the start.
  std::uint64_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
  std::uint64_t ids = 0;
  Counts counts{};
  // Now.
  std::uint64_t open_connections = 0;
  Unsent unsent{};
  std::size_t waiting_calls = 0;  // for their stores
  std::size_t streams = 0;        // of ids over HTTP
  bool draining = false;

  // A call was answered with an error.
  void count_error(Code code) noexcept {
    ++errors;
    ++counts.errors[static_cast<std::size_t>(code)];
  }
  void count_error(const OpenSource& source, Code code) noexcept {
    ++source.counts->errors;
    count_error(code);
  }
  // A call was answered with so many ids. `further`: it was counted with those before.
  void count_ids(const OpenSource& source, std::size_t count, bool further = false) noexcept {
    ids += count;
    source.counts->ids += count;
    if (!further) ++source.counts->calls;
  }

  // The error in the words of a terminal, as Sources::told(). Where there are tokens, an error
  // about a source that is not there does not tell of others, nor of the store.
  [[nodiscard]] Error told(Error error, std::string_view source = {}) const {
    if (error.code == Code::kNotFound && !access.is_open())
      return {Code::kNotFound, "there is no such source"};
    return sources.told(std::move(error), source);
  }

  // kUnavailable: too many calls wait already.
  [[nodiscard]] Result<void> admit() const {
    if (waiting_calls < kMostWaitingCalls) return {};
    return std::unexpected(
        Error{Code::kUnavailable, std::to_string(kMostWaitingCalls) +
                                      " calls wait for the store already; nothing was taken for "
                                      "this one; ask again"});
  }

  // Logs values of a sequence that a client was given: `count` of them, `first` and `last` among
  // them. Of one value only where single ids are wanted.
  void log_taken(const Caller* caller, const Connection& connection, const OpenSource& source,
                 std::int64_t first, std::int64_t last, std::int64_t count) const {
    const LogSettings::Level level =
        count == 1 ? LogSettings::Level::kDebug : LogSettings::Level::kInfo;
    if (!log.has(level)) return;
    log.write(level, "taken",
              {{"source", source.name},
               {"first", first},
               {"last", last},
               {"count", count},
               {"token", caller != nullptr ? std::string_view(caller->name()) : ""},
               {"peer", connection.peer()}});
  }
};

}  // namespace idmint::server
