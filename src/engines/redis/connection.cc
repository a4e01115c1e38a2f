#include "engines/redis/connection.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/errors.h"
#include "base/text.h"
#include "engines/redis/errors.h"
#include "engines/redis/record.h"
#include "engines/redis/scripts.h"

namespace idmint::stores::redis {
namespace {

constexpr auto kSettings =
    std::to_array<std::string_view>({"CONFIG", "GET", "appendonly", "appendfsync",
                                     "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy"});

constexpr std::string_view kReplica = "READONLY";

constexpr int kOldest = 7;  // major version; the tests run 7.0

void append(std::string* request, std::initializer_list<std::string_view> words) {
  append_command(request, std::span(words.begin(), words.size()));
}

// The text of INFO behind "name:" on a line of its own.
std::string_view field_of(std::string_view info, std::string_view name) {
  for (std::size_t at = info.find(name); at != std::string_view::npos;
       at = info.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins_line = at == 0 || info[at - 1] == '\n';
    if (!begins_line || end >= info.size() || info[end] != ':') continue;
    const std::string_view rest = info.substr(end + 1);
    return rest.substr(0, rest.find_first_of("\r\n"));
  }
  return "";
}

Settings settings_in(Reply&& reply) {
  Settings settings;
  for (std::size_t i = 0; i + 1 < reply.items.size(); i += 2)
    settings.of.insert_or_assign(std::move(reply.items[i].text),
                                 std::move(reply.items[i + 1].text));
  return settings;
}

Failure failed_precondition(std::string why) {
  return {.error = {Code::kFailedPrecondition, std::move(why)}};
}

// Why a server that says so of itself is not used.
std::optional<Failure> refused_server(std::string_view info) {
  const std::string version(field_of(info, "redis_version"));
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  if (major < kOldest)
    return failed_precondition("the server is Redis " + version + ", and idmint needs version " +
                               std::to_string(kOldest) + " or later");
  if (field_of(info, "cluster_enabled") != "0")
    return failed_precondition(
        "the server is one of a cluster, whose fail-overs lose values that were handed out; name "
        "a server that is not (cluster-enabled no)");
  if (field_of(info, "role") != "master")
    return Failure{.error = {Code::kFailedPrecondition,
                             "the server is a replica, which can lag behind; name the primary, or "
                             "all servers"},
                   .reason = std::string(kReplica)};
  // Until its first file is complete, the server keeps what it is told in one that is not read when
  // it starts.
  if (field_of(info, "aof_enabled") == "1" && field_of(info, "aof_base_size") == "0" &&
      (field_of(info, "aof_rewrite_in_progress") != "0" ||
       field_of(info, "aof_rewrite_scheduled") != "0" ||
       field_of(info, "aof_last_bgrewrite_status") != "ok"))
    return Failure{.error = {Code::kUnavailable,
                             "appendonly was switched on, and the first append-only file is not "
                             "complete; ask again when it is"},
                   .passing = true};
  return std::nullopt;
}

}  // namespace

// ---- answers

Answer::Answer(Reply&& reply) {
  for (Reply& item : reply.items) texts_.push_back(std::move(item.text));
}

std::string_view Answer::text(std::size_t at) const {
  return at < texts_.size() ? std::string_view(texts_[at]) : std::string_view();
}

std::optional<std::int64_t> Answer::integer(std::size_t at) const {
  const std::string_view digits = text(at);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
    return std::nullopt;
  return number;
}

Uuid Answer::uuid(std::size_t at) const { return Uuid::parse(text(at)).value_or(Uuid{}); }

// ---- settings

std::string_view Settings::get(std::string_view name) const {
  const auto at = of.find(name);
  return at != of.end() ? std::string_view(at->second) : std::string_view();
}

std::optional<Error> refused_settings(const Settings& settings) {
  const auto refuse = [](const std::string& why, const std::string& set) {
    return Error{Code::kFailedPrecondition, "the server " + why + "; run CONFIG SET " + set +
                                                ", and write it into redis.conf"};
  };
  const std::string appendonly(settings.get("appendonly"));
  const std::string appendfsync(settings.get("appendfsync"));
  const std::string on_rewrite(settings.get("no-appendfsync-on-rewrite"));
  const std::string maxmemory(settings.get("maxmemory"));
  const std::string policy(settings.get("maxmemory-policy"));
  if (appendonly != "yes") {
    Error error = refuse("runs with appendonly " + appendonly +
                             ", and loses values that were handed out when it stops",
                         "appendonly yes");
    add_outcome(
        error,
        "but where a store was in it before it was started so, it has not read its append-only "
        "file, and CONFIG SET would overwrite that: start it again with appendonly yes");
    return error;
  }
  if (appendfsync != "always")
    return refuse("runs with appendfsync " + appendfsync +
                      ", and loses values that were handed out when its host stops",
                  "appendfsync always");
  if (on_rewrite != "no")
    return refuse("runs with no-appendfsync-on-rewrite " + on_rewrite +
                      ", and syncs nothing while it rewrites its file",
                  "no-appendfsync-on-rewrite no");
  // The keys of idmint have no time to live: the policies volatile-* never remove them.
  if (maxmemory != "0" && policy != "noeviction" && !policy.starts_with("volatile-"))
    return refuse(
        "runs with maxmemory-policy " + policy + ", and removes counters where memory is short",
        "maxmemory-policy noeviction");
  return std::nullopt;
}

// ---- connecting

std::expected<std::unique_ptr<Connection>, Failure> Connection::open(const Host& host,
                                                                     const Address& address,
                                                                     Access access,
                                                                     SteadyTime until) {
  auto stream = Stream::open(host, address, until);
  if (!stream) return std::unexpected(std::move(stream.error()));
  std::unique_ptr<Connection> connection(new Connection(*std::move(stream)));
  if (auto done = connection->log_in(address, access, until); !done) {
    Failure& failure = done.error();
    failure.passing |= failure.reason == kReplica && address.servers.size() > 1;
    return std::unexpected(std::move(failure));
  }
  return connection;
}

// All in one round trip. The first command that is refused is the answer.
std::expected<void, Failure> Connection::log_in(const Address& address, Access access,
                                                SteadyTime until) {
  std::string request;
  std::size_t needed = 0;
  const auto need = [&](std::initializer_list<std::string_view> words) {
    append(&request, words);
    ++needed;
  };
  if (!address.user.empty())
    need({"AUTH", address.user, address.password});
  else if (!address.password.empty())
    need({"AUTH", address.password});
  if (address.database != 0) need({"SELECT", std::to_string(address.database)});
  for (const std::string_view section : {"server", "cluster", "replication", "persistence"})
    need({"INFO", section});
  append_command(&request, kSettings);
  ++needed;
  append(&request, {"CLIENT", "SETNAME", "idmint"});  // for operators; it may be refused
  auto replies = exchange(request, needed + 1, Kind::kRead, until);
  if (!replies) return std::unexpected(std::move(replies.error()));
  const std::span<Reply> all = std::span(*replies).first(needed);
  std::string info;
  for (const Reply& reply : all) {
    if (reply.is_error()) return std::unexpected(refused(reply.text));
    info += reply.text + "\r\n";
  }
  if (auto failure = refused_server(info)) return std::unexpected(*std::move(failure));
  const Settings settings = settings_in(std::move(all.back()));
  std::optional<Error> error = refused_settings(settings);
  if (!error) return {};
  if (settings.get("appendonly") != "yes" && access == Access::kReadWrite)
    error = without_log(*std::move(error), until);
  return std::unexpected(Failure{.error = *std::move(error)});
}

// The error for a server that runs without its append-only file.
Error Connection::without_log(Error refused, SteadyTime until) {
  const auto marked = run(kMarkUnlogged, {}, until);
  if (!marked || marked->outcome() != "marked") return refused;
  refused.outcome.clear();
  refused.what =
      "the server was started with appendonly no, and has read a dump, which may be older than the "
      "store: start it again with appendonly yes, and write that into redis.conf";
  return refused;
}

// ---- scripts

bool Connection::is_usable() { return usable_ && !reader_.has_more() && stream_->is_quiet(); }

Failure Connection::broken(Kind kind, std::string why) {
  usable_ = false;
  if (why.empty()) why = "the connection broke";
  return unanswered(kind, std::move(why));
}

Failure Connection::refused(std::string_view error) {
  Failure failure = failure_of(error);
  if (is_another_state(failure)) usable_ = false;
  return failure;
}

// If a request was not sent to its end, its first command may have been sent.
std::expected<std::vector<Reply>, Failure> Connection::exchange(const std::string& request,
                                                                std::size_t replies, Kind kind,
                                                                SteadyTime until) {
  until = std::min(until, answer_by_);
  std::size_t sent = 0;
  const Stream::Outcome outgoing = stream_->send(request, until, &sent);
  if (outgoing != Stream::Outcome::kDone) {
    usable_ = false;
    const Kind as_far = sent == 0 ? Kind::kRead : kind;
    Failure failure =
        outgoing == Stream::Outcome::kLate ? late(as_far) : broken(as_far, stream_->problem());
    failure.passing = failure.passing && !stream_->is_distrusted();
    return std::unexpected(std::move(failure));
  }
  std::vector<Reply> all;
  while (all.size() < replies) {
    const ReplyReader::State state = reader_.read();
    if (state == ReplyReader::State::kReply) {
      all.push_back(std::move(reader_.reply()));
      continue;
    }
    if (state == ReplyReader::State::kBroken)
      return std::unexpected(broken(kind, "what answers does not speak the protocol of Redis"));
    std::string bytes;
    const Stream::Outcome outcome = stream_->receive(&bytes, until);
    if (outcome == Stream::Outcome::kDone) {
      reader_.add(bytes);
      continue;
    }
    // A server that lets nobody in says why, and closes the connection.
    if (!all.empty() && all.front().is_error()) {
      usable_ = false;
      return std::unexpected(refused(all.front().text));
    }
    if (outcome == Stream::Outcome::kBroken)
      return std::unexpected(broken(kind, stream_->problem()));
    usable_ = false;
    return std::unexpected(late(kind));
  }
  return all;
}

// The settings are asked for with each script that writes: they hold for its own sync. They can be
// changed while the server runs, and an open connection does not learn that.
std::expected<Answer, Failure> Connection::run(const Script& script, const Values& values,
                                               SteadyTime until) {
  std::string& hash = hashes_[script.text];
  const std::string_view text = script.text;
  if (hash.empty()) {
    const Result<DigestBytes> digest = digest_of(Digest::kSha1, {std::as_bytes(std::span(text))});
    constexpr std::size_t kSha1Bytes = 20;
    if (digest) hash = hex({reinterpret_cast<const char*>(digest->data()), kSha1Bytes});
  }
  const bool asks_settings = script.kind != Kind::kRead;
  // Without its text first: most servers know it.
  for (bool with_text = hash.empty();; with_text = true) {
    std::vector<std::string_view> words = {with_text ? "EVAL" : "EVALSHA", with_text ? text : hash,
                                           "1", kStoreKey};
    words.insert(words.end(), values.begin(), values.end());
    std::string request;
    append_command(&request, words);
    if (asks_settings) append_command(&request, kSettings);
    auto replies = exchange(request, asks_settings ? 2 : 1, script.kind, until);
    if (!replies) return std::unexpected(std::move(replies.error()));
    if (!with_text && replies->front().is_error() && replies->front().text.starts_with("NOSCRIPT"))
      continue;
    return answer_in(*replies, script.kind);
  }
}

std::expected<Answer, Failure> Connection::answer_in(std::span<Reply> replies, Kind kind) {
  Reply& first = replies.front();
  if (first.is_error()) {
    Failure failure = refused(first.text);
    failure.begun = failure.begun && kind != Kind::kRead;
    return std::unexpected(std::move(failure));
  }
  if (first.kind != Reply::Kind::kArray)
    return std::unexpected(broken(kind, "the server sent no answer of a script"));
  if (replies.size() == 1) return Answer(std::move(first));
  Reply& settings = replies.back();
  if (settings.is_error()) {
    Failure failure = failure_of(settings.text);
    failure.error.code = Code::kFailedPrecondition;
    failure.error = in_context("its settings cannot be read any more", std::move(failure.error));
    failure.passing = false;  // the script has run
    return std::unexpected(std::move(failure));
  }
  if (auto error = refused_settings(settings_in(std::move(settings))))
    return std::unexpected(Failure{.error = *std::move(error)});
  return Answer(std::move(first));
}

}  // namespace idmint::stores::redis
