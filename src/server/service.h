// Service: the state that the sessions of all protocols share.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/access.h"
#include "server/connection.h"
#include "server/counts.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/sources.h"
#include "server/store_probe.h"

namespace idmint::server {

// The largest count of one request for ids with a complete reply.
inline constexpr std::int64_t kMostIds = 10'000;

// Likewise while all connections together hold much unsent data: such a reply has some 16 KiB.
inline constexpr std::int64_t kMostIdsOfMany = 256;

// The most calls that wait for stores, in total. A further one is refused at once, so that the
// queue and its memory stay bounded.
inline constexpr std::size_t kMostWaitingCalls = 100'000;
// The most concurrent streams of ids over HTTP. Each takes some hundred kilobytes.
inline constexpr std::size_t kMostStreams = 256;

// The authorized view of a caller: the sources that it may see, as of the time at which it is made.
// Any thread may use it.
struct AuthorizedView {
  const Sources& sources;
  std::vector<std::string> stores;  // with sources that may be visible
  Rights rights;

  // As Sources::each(), limited to visible sources; with a verb, to those on which it is allowed.
  [[nodiscard]] Result<void> each(const ListOptions& options, std::optional<Verb> verb,
                                  SteadyTime until, const Sources::Act& act) const;
};

// Wraps `work` for another thread: if the token was revoked meanwhile, `work` does not run and the
// result is kUnauthenticated.
template <class Work>
[[nodiscard]] auto unless_revoked(std::shared_ptr<const Caller> caller, Work work) {
  return [caller = std::move(caller), work = std::move(work)](
             SteadyTime until) mutable -> std::invoke_result_t<Work&, SteadyTime> {
    if (caller->is_revoked()) return std::unexpected(token_is_gone());
    return work(until);
  };
}

// Use it on the loop.
struct Service {
  Loop& loop;
  Sources& sources;
  Access& access;
  Log& log;
  StoreProbe& probe;
  std::string version{};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  Instant started_at = system_clock().now();
  std::int64_t most_connections = 0;
  // The setting `integers`: clients that have not said what they are hold 64 bits.
  bool all_hold_64_bits = false;

  // Conversations with new answers. Their replies are written once for each batch of answers.
  std::vector<Conversation*> settling{};
  // When the current batch of answers arrived.
  std::chrono::steady_clock::time_point answered_at{};

  // Since the start.
  std::uint64_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
  std::uint64_t ids = 0;
  Counts counts{};
  // At present.
  std::uint64_t open_connections = 0;
  Unsent unsent{};
  std::size_t waiting_calls = 0;  // for their stores
  std::size_t streams = 0;        // of ids over HTTP
  bool draining = false;

  SteadyTime told_at{};  // when `store_error` was logged last

  // Logs that clients gave tokens that are not known (`unknown_token`): at most one line a second,
  // with their number. tell_repeated() is to be called every second, for those that wait for it.
  void note_guess(const Connection& connection);
  void tell_repeated();
  SteadyTime guesses_told_at{};
  std::int64_t guesses = 0;    // that are not logged yet
  std::string guesses_from{};  // the last of their clients

  // Likewise that clients hold leases against what the store shows (`lease_contradicted`).
  void note_contradiction(const Connection& connection, const std::string& pool);
  SteadyTime contradictions_told_at{};
  std::int64_t contradictions = 0;
  std::pair<std::string, std::string> last_contradiction{};  // the pool, and the client

  // Counts a call answered with an error.
  void count_error(Code code) noexcept {
    ++errors;
    ++counts.errors[static_cast<std::size_t>(code)];
  }
  void count_error(const OpenSource& source, Code code) noexcept {
    ++source.counts->errors;
    count_error(code);
  }
  // Counts a call answered with `count` ids. `further`: more ids of a call that was counted
  // already.
  void count_ids(const OpenSource& source, std::size_t count, bool further = false) noexcept {
    ids += count;
    source.counts->ids += count;
    if (!further) ++source.counts->calls;
  }

  // The error of a call for the source, worded by Sources::for_client(). With tokens, the message
  // names no other source, no host and no file, and the full message is logged (`store_error`) at
  // most once a second. An empty `source` stands for all.
  [[nodiscard]] Error for_client(Error error, std::string_view source = {});
  // Likewise for a caller whose token may have been revoked; see unless_revoked().
  [[nodiscard]] Error told_to(const Caller& caller, Error error, std::string_view source);
  // The authorized view of the caller now.
  [[nodiscard]] AuthorizedView view_of(const Caller& caller) const;

  // kUnavailable: too many calls wait.
  [[nodiscard]] Result<void> admit() const {
    if (waiting_calls < kMostWaitingCalls) return {};
    return std::unexpected(
        Error{Code::kUnavailable, std::to_string(kMostWaitingCalls) +
                                      " calls wait for the store already; nothing was taken for "
                                      "this one; ask again"});
  }

  // kUnavailable: so much is unsent that a reply with so many ids is too large.
  [[nodiscard]] Result<void> admit_whole(std::int64_t count, const Connection& connection) const {
    if (count <= kMostIdsOfMany || !connection.is_tight()) return {};
    return std::unexpected(Error{Code::kUnavailable,
                                 "clients leave too many replies unread; nothing was taken: ask "
                                 "again, or for at most " +
                                     std::to_string(kMostIdsOfMany) + " ids at a time"});
  }

  // The definitions of pools that were leased from: their layouts never change. Null: not known.
  void know_pool(const std::string& name, const PoolDefinition& pool);
  [[nodiscard]] std::shared_ptr<const PoolDefinition> known_pool(const std::string& name) const;
  std::unordered_map<std::string, std::shared_ptr<const PoolDefinition>> pools{};

  // The lane of calls to the store of this source; see Loop::elsewhere().
  [[nodiscard]] std::string_view bulkhead_of(std::string_view source) const noexcept {
    const std::size_t slash = source.find('/');
    const std::string_view store =
        slash == std::string_view::npos ? std::string_view() : source.substr(0, slash);
    return sources.is_store(store) ? store : std::string_view();
  }

  // Likewise of leases, which come as often as their holders need them, and wait for nobody else.
  [[nodiscard]] std::string lease_lane_of(std::string_view source) const {
    return "leases " + std::string(bulkhead_of(source));
  }

  // Logs that a client received `count` values of a sequence, from `first` to `last`. The level is
  // info, or debug for a single value.
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
