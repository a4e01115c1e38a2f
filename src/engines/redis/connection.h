// One connection to a server of Redis: scripts that are answered within a deadline, and what a
// failure says of what was done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/redis/address.h"
#include "engines/redis/reply.h"
#include "engines/redis/stream.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "store/sessions.h"

namespace idmint::stores::redis {

// A script in Lua, which Redis runs as one atomic step. scripts.h has what all begin with.
struct Script {
  const char* text;
  Kind kind;
};

using Values = std::vector<std::string>;

inline std::string text_of(std::int64_t value) { return std::to_string(value); }
inline std::string text_of(const Uuid& id) { return id.to_string(); }
inline std::string text_of(std::string_view text) { return std::string(text); }
[[nodiscard]] Values values_of(const auto&... values) { return {text_of(values)...}; }

// The result of a script: texts, of which the first says how it ended.
class Answer {
 public:
  Answer() = default;
  // A reply that none of our scripts returns becomes an answer without texts.
  explicit Answer(Reply&& reply);

  [[nodiscard]] std::string_view outcome() const { return text(0); }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }
  // Empty past the end.
  [[nodiscard]] std::string_view text(std::size_t at) const;
  // Nothing: it is not the text of a number of 64 bits.
  [[nodiscard]] std::optional<std::int64_t> integer(std::size_t at) const;
  // The nil UUID: it is not the text of one.
  [[nodiscard]] Uuid uuid(std::size_t at) const;

 private:
  std::vector<std::string> texts_{};
};

// The settings that decide whether a crash, or a lack of memory, loses acknowledged writes.
struct Settings {
  std::map<std::string, std::string, std::less<>> of{};  // CONFIG GET

  // As the server has it; empty: it did not tell.
  [[nodiscard]] std::string_view get(std::string_view name) const;
};

// The first of the settings under which a value may be lost: kFailedPrecondition, naming the one
// that would do.
[[nodiscard]] std::optional<Error> refused_settings(const Settings& settings);

// Used by one thread at a time.
class Connection {
 public:
  // Connects, logs in, and looks at the server. Fails if it would not keep what is written to it:
  // its settings, its version, or that it is a replica or one of a cluster. A store that such a
  // server has read from a dump is put in doubt, unless `access` is to read: the setting alone
  // would keep an older state.
  static std::expected<std::unique_ptr<Connection>, Failure> open(const Host& host,
                                                                  const Address& address,
                                                                  Access access, SteadyTime until);

  // Writes are on the server's disk when it returns an answer.
  std::expected<Answer, Failure> run(const Script& script, const Values& values, SteadyTime until);

  // Later requests have no answer after that time.
  void answer_by(SteadyTime by) noexcept { answer_by_ = by; }
  // False: a failure left it in a state in which nothing more can be sent, or the server has closed
  // it meanwhile.
  [[nodiscard]] bool is_usable();

 private:
  explicit Connection(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  std::expected<void, Failure> log_in(const Address& address, Access access, SteadyTime until);
  Error without_log(Error refused, SteadyTime until);
  std::expected<std::vector<Reply>, Failure> exchange(const std::string& request,
                                                      std::size_t replies, Kind kind,
                                                      SteadyTime until);
  std::expected<Answer, Failure> answer_in(std::span<Reply> replies, Kind kind);
  Failure refused(std::string_view error);
  Failure broken(Kind kind, std::string why);

  std::unique_ptr<Stream> stream_;
  ReplyReader reader_{};
  SteadyTime answer_by_ = SteadyTime::max();
  bool usable_ = true;
  std::map<const char*, std::string> hashes_{};  // of the texts of scripts, as EVALSHA has them
};

}  // namespace idmint::stores::redis
