// Access: tokens, their rights on sources, and their limits.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idmint/entropy.h"
#include "idmint/result.h"
#include "server/held_leases.h"

namespace idmint::server {

// The action of a call on a source. Each has its own right.
enum class Verb : std::uint8_t {
  kNext,
  kPeek,
  kRaise,
  kCreate,
  kExtend,
  kRetire,
  kLease,
  kMetrics
};

// "next", "peek", "raise", "create", "extend", "retire", "lease", "metrics".
[[nodiscard]] std::string_view name(Verb verb) noexcept;

// The right to some verbs on the sources whose names match a pattern of *, ? and [...].
struct Scope {
  std::uint8_t verbs = 0;  // bit 1 << verb
  std::string pattern{};
};

// Parses "next orders*", "next,peek *" or "all eu/*": verbs, a blank and a pattern. "metrics" alone
// has no pattern. kInvalidArgument: the text is no scope; the message lists the verbs.
[[nodiscard]] Result<Scope> scope_of(std::string_view text);

// The allowed verbs by source. It is a value: a copy does not change, and any thread may use it.
struct Rights {
  bool all = false;  // every verb on every source
  std::vector<Scope> allow{};

  [[nodiscard]] bool may(Verb verb, std::string_view source) const;
  // Whether any verb is allowed on the source, so that its existence may be revealed.
  [[nodiscard]] bool sees(std::string_view source) const;
  // Whether a source of this store may be visible. Empty: the store whose sources have no prefix.
  // True if the patterns leave it open.
  [[nodiscard]] bool sees_in(std::string_view store) const;
};

// A token in the settings. They have its hash, never the token itself.
struct TokenSettings {
  using Hash = std::array<unsigned char, 32>;  // SHA-256

  std::string name{};
  Hash hash{};
  std::vector<Scope> allow{};
  // nullopt: no limit.
  std::optional<std::int64_t> ids_per_second{};
  std::optional<std::int64_t> ids_per_day{};
  std::optional<std::int64_t> largest_count{};
  // nullopt: the server's own.
  std::optional<std::int64_t> max_sources{};
  std::optional<std::int64_t> max_stripes{};
  std::optional<std::int64_t> max_leases{};
};

// How many sources a caller may create, and how many stripes they may have in all. The worker ids
// of a pool count as stripes, as each is a record in the store, and a single counter as one.
struct MostCreated {
  std::int64_t sources = 1000;
  std::int64_t stripes = 100'000;
  // How many worker ids it may lease at a time.
  std::int64_t leases = 1000;
};

// The number of sources that a caller has created since this process began. Any thread may use it.
class Quota final {
 public:
  void limit(const MostCreated& most);
  // Counts a source that is about to be created; one of this name that was counted before counts
  // once. kResourceExhausted, with the figures: there are too many, and it is not counted. `whose`:
  // "the token web", for the message.
  [[nodiscard]] Result<void> begin(const std::string& source, std::int64_t stripes,
                                   std::string_view whose);
  // To be called once after each begin(), with the same stripes. If not `made`, for certain, and in
  // no other call either, they are not counted any more.
  void end(const std::string& source, std::int64_t stripes, bool made);
  [[nodiscard]] bool is_empty() const;

 private:
  struct Created {
    std::int64_t stripes = 0;  // the most of those made and those under way
    std::int64_t made = 0;     // 0: it was not made yet
    int under_way = 0;
  };
  mutable std::mutex mutex_;
  MostCreated most_{};
  std::unordered_map<std::string, Created> created_{};
  std::int64_t stripes_ = 0;
};

// A new token: "idmint_" and 258 random bits in base64url. It is shown once; only its hash is
// stored. The hash needs no salt and no stretching, because so many bits cannot be guessed.
[[nodiscard]] std::string new_token(Entropy& entropy = system_entropy());
[[nodiscard]] TokenSettings::Hash hash_of(std::string_view token);

// A token, or the anonymous caller if no tokens are configured. Call everything on the loop, except
// is_revoked(), which any thread may call.
class Caller final {
 public:
  // The anonymous caller: every verb is allowed.
  Caller() : rights_{.all = true} {}
  explicit Caller(TokenSettings settings, const MostCreated& most = {}) {
    set(std::move(settings), most);
  }

  // The name of its token; empty if there is none.
  [[nodiscard]] const std::string& name() const noexcept { return settings_.name; }
  [[nodiscard]] bool is_revoked() const noexcept { return revoked_; }

  // The rights of its token. A reload of the settings may change them.
  [[nodiscard]] const Rights& rights() const noexcept { return rights_; }
  // As rights(), but false once the token is revoked.
  [[nodiscard]] bool may(Verb verb, std::string_view source) const {
    return !revoked_ && rights_.may(verb, source);
  }
  [[nodiscard]] bool sees(std::string_view source) const {
    return !revoked_ && rights_.sees(source);
  }
  [[nodiscard]] bool sees_in(std::string_view store) const {
    return !revoked_ && rights_.sees_in(store);
  }
  // kPermissionDenied: not allowed; the message does not reveal whether the source exists.
  [[nodiscard]] Result<void> check(Verb verb, std::string_view source) const;

  // Whether charge() has anything to count. If not, callers save reading the clock.
  [[nodiscard]] bool has_limits() const noexcept {
    return settings_.largest_count || settings_.ids_per_second || settings_.ids_per_day;
  }
  // Why a call is refused.
  struct Excess {
    Error error;
    std::chrono::seconds retry_after{0};  // 0: never
  };
  // Counts the ids of a call against the limits, or refuses all of them:
  // - kInvalidArgument: they are more than a call may ever request.
  // - kResourceExhausted: they are more than this second or this day allows.
  [[nodiscard]] std::optional<Excess> charge(std::int64_t count,
                                             std::chrono::steady_clock::time_point now);
  // Returns ids that charge() counted and that no store handed out.
  void refund(std::int64_t count) noexcept;

  // Any thread may use it.
  [[nodiscard]] const std::shared_ptr<Quota>& quota() const noexcept { return quota_; }
  [[nodiscard]] const std::shared_ptr<HeldLeases>& leases() const noexcept { return leases_; }
  // For messages: "the token web", or "callers without a token".
  [[nodiscard]] std::string spoken_of() const;

 private:
  friend class Access;
  // `most`: for limits that the token does not have.
  void set(TokenSettings settings, const MostCreated& most);
  [[nodiscard]] bool has_counts() const {
    return counted_ || day_began_ || !quota_->is_empty() || !leases_->is_empty();
  }
  // Copies what `other` has counted.
  void count_as(const Caller& other) noexcept;
  std::atomic<bool> revoked_{false};
  Rights rights_{};
  TokenSettings settings_{};
  // The token bucket of ids_per_second: ids available now, at most one second's.
  double at_hand_ = 0;
  // When the bucket was last filled.
  std::optional<std::chrono::steady_clock::time_point> counted_{};
  // The beginning of the current day of ids_per_day: its first id. The next day begins with the
  // first id at least 24 hours later.
  std::optional<std::chrono::steady_clock::time_point> day_began_{};
  std::int64_t of_this_day_ = 0;
  std::shared_ptr<Quota> quota_ = std::make_shared<Quota>();
  std::shared_ptr<HeldLeases> leases_ = std::make_shared<HeldLeases>();
};

// The error of a call whose token was revoked before it was carried out.
[[nodiscard]] inline Error token_is_gone() {
  return {Code::kUnauthenticated, "the token is not known any more; nothing was done"};
}

// Call it on the loop.
class Access final {
 public:
  // Without tokens, everybody may do everything.
  explicit Access(std::vector<TokenSettings> tokens = {}, const MostCreated& most = {});

  [[nodiscard]] bool is_open() const noexcept { return callers_.empty(); }
  // The caller of requests without a token; null: a token is required.
  [[nodiscard]] std::shared_ptr<Caller> anybody() const noexcept {
    return is_open() ? anybody_ : nullptr;
  }
  // Null if there is no such token. Compares all hashes, each in constant time.
  [[nodiscard]] std::shared_ptr<Caller> find(std::string_view token) const;

  // Replaces the tokens. A token with the same hash keeps its counts and its connections, and gets
  // its new name and rights. A missing one is revoked, and its connections lose all rights for
  // ever. If it returns, it has its old counts. `most`: for tokens without limits of their own, and
  // for anybody().
  void replace(std::vector<TokenSettings> tokens, const MostCreated& most = {});

 private:
  std::shared_ptr<Caller> anybody_ = std::make_shared<Caller>();
  std::vector<std::shared_ptr<Caller>> callers_{};
  std::vector<std::shared_ptr<Caller>> gone_{};  // revoked ones with counts
};

}  // namespace idmint::server
