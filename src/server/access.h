// Access: tokens, their rights on sources, and their limits.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/entropy.h"
#include "idmint/result.h"

namespace idmint::server {

// What a call does with a source. Rights are given for each.
enum class Verb : std::uint8_t { kNext, kPeek, kRaise, kCreate, kExtend, kRetire, kMetrics };

// "next", "peek", "raise", "create", "extend", "retire", "metrics".
[[nodiscard]] std::string_view name(Verb verb) noexcept;

// The right to some verbs on the sources whose names match a pattern of *, ? and [...].
struct Scope {
  std::uint8_t verbs = 0;  // bit 1 << verb
  std::string pattern{};
};

// "next orders*", "next,peek *", "all eu/*": verbs, a blank and a pattern; "metrics" alone has no
// pattern. kInvalidArgument, with the verbs that there are.
[[nodiscard]] Result<Scope> scope_of(std::string_view text);

// What somebody may do with which sources. A value: a copy stays as it was, and any thread may ask
// it.
struct Rights {
  bool all = false;  // everything
  std::vector<Scope> allow{};

  [[nodiscard]] bool may(Verb verb, std::string_view source) const;
  // Whether anything can be done with the source, so that it may be known of.
  [[nodiscard]] bool sees(std::string_view source) const;
  // Whether a source of this store could be seen; empty: the store whose sources have none before
  // their names. Says yes where patterns leave it open.
  [[nodiscard]] bool sees_in(std::string_view store) const;
};

// A token as the settings have it: never the token itself.
struct TokenSettings {
  using Hash = std::array<unsigned char, 32>;  // SHA-256

  std::string name{};
  Hash hash{};
  std::vector<Scope> allow{};
  // Nothing: without limit.
  std::optional<std::int64_t> ids_per_second{};
  std::optional<std::int64_t> ids_per_day{};
  std::optional<std::int64_t> largest_count{};
};

// A new token: "idmint_" and 258 random bits in base64url. It is shown once, and only its hash is
// kept. The hash needs no salt and no stretching, as nobody guesses so many bits.
[[nodiscard]] std::string new_token(Entropy& entropy = system_entropy());
[[nodiscard]] TokenSettings::Hash hash_of(std::string_view token);

// One token, or anybody where there are none. All calls come on the loop, but is_revoked(), which
// any thread may call.
class Caller final {
 public:
  // May do everything.
  Caller() : rights_{.all = true} {}
  explicit Caller(TokenSettings settings) { set(std::move(settings)); }

  // The name of its token; empty if there is none.
  [[nodiscard]] const std::string& name() const noexcept { return settings_.name; }
  [[nodiscard]] bool is_revoked() const noexcept { return revoked_; }

  // Those of its token, which a reload of the settings may change.
  [[nodiscard]] const Rights& rights() const noexcept { return rights_; }
  // As its rights have it; nothing once it is revoked.
  [[nodiscard]] bool may(Verb verb, std::string_view source) const {
    return !revoked_ && rights_.may(verb, source);
  }
  [[nodiscard]] bool sees(std::string_view source) const {
    return !revoked_ && rights_.sees(source);
  }
  [[nodiscard]] bool sees_in(std::string_view store) const {
    return !revoked_ && rights_.sees_in(store);
  }
  // kPermissionDenied, with the same message whether there is such a source or not.
  [[nodiscard]] Result<void> check(Verb verb, std::string_view source) const;

  // Whether charge() has anything to count. If not, callers save reading the clock.
  [[nodiscard]] bool has_limits() const noexcept {
    return settings_.largest_count || settings_.ids_per_second || settings_.ids_per_day;
  }
  // Why a call may not be made.
  struct Excess {
    Error error;
    std::chrono::seconds retry_after{0};  // 0: never
  };
  // Counts the ids of a call against the limits, or refuses them all:
  //   kInvalidArgument    more than one call may ever ask for
  //   kResourceExhausted  more than are left of this second or this day
  [[nodiscard]] std::optional<Excess> charge(std::int64_t count,
                                             std::chrono::steady_clock::time_point now);
  // Uncounts ids that charge() counted and that no store has taken.
  void refund(std::int64_t count) noexcept;

 private:
  friend class Access;
  void set(TokenSettings settings);
  std::atomic<bool> revoked_{false};
  Rights rights_{};
  TokenSettings settings_{};
  // The token bucket of ids_per_second: ids that may be taken now, at most those of one second.
  double at_hand_ = 0;
  // When the bucket was filled last.
  std::optional<std::chrono::steady_clock::time_point> counted_{};
  // When the present day of ids_per_day began: with its first id. The next one begins with the
  // first id that comes 24 hours later or more.
  std::optional<std::chrono::steady_clock::time_point> day_began_{};
  std::int64_t of_this_day_ = 0;
};

// Of a call whose token was revoked before it was carried out.
[[nodiscard]] inline Error token_is_gone() {
  return {Code::kUnauthenticated, "the token is not known any more; nothing was done"};
}

// On the loop.
class Access final {
 public:
  // Without a token everybody may do everything.
  explicit Access(std::vector<TokenSettings> tokens = {});

  [[nodiscard]] bool is_open() const noexcept { return callers_.empty(); }
  // The caller of requests without a token; null where a token is needed.
  [[nodiscard]] std::shared_ptr<Caller> anybody() const noexcept {
    return is_open() ? anybody_ : nullptr;
  }
  // Null if there is no such token. Compares all hashes, each in constant time.
  [[nodiscard]] std::shared_ptr<Caller> find(std::string_view token) const;

  // Replaces the tokens. A token of the same name and hash keeps its counts and gets its new
  // rights; one that is gone is revoked, and its connections have no rights any more. One that
  // comes back has the counts that it had.
  void replace(std::vector<TokenSettings> tokens);

 private:
  std::shared_ptr<Caller> anybody_ = std::make_shared<Caller>();
  std::vector<std::shared_ptr<Caller>> callers_{};
  std::vector<std::shared_ptr<Caller>> gone_{};  // revoked ones with counts
};

}  // namespace idmint::server
