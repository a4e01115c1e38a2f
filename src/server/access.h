// Access: who may ask for what, and for how much of it.
#pragma once

#include <array>
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

// What can be done with a source.
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

// A new token: "idmint_" and 256 random bits in base64url. Whoever has it is let in, so it is shown
// once, and kept by its hash only. That needs no salt and no slow hash: nobody guesses 256 bits.
[[nodiscard]] std::string new_token(Entropy& entropy = system_entropy());
[[nodiscard]] TokenSettings::Hash hash_of(std::string_view token);

// Who asks. On the loop.
class Caller final {
 public:
  // Somebody who may do everything.
  Caller() : unlimited_(true) {}
  explicit Caller(TokenSettings settings) : settings_(std::move(settings)) {}

  // The name of its token; empty: there is none.
  [[nodiscard]] const std::string& name() const noexcept { return settings_.name; }
  [[nodiscard]] bool is_revoked() const noexcept { return revoked_; }

  [[nodiscard]] bool may(Verb verb, std::string_view source) const noexcept;
  // Whether it may do anything with the source, and so may know of it.
  [[nodiscard]] bool sees(std::string_view source) const noexcept;
  // kPermissionDenied, in words that do not tell whether there is such a source.
  [[nodiscard]] Result<void> check(Verb verb, std::string_view source) const;

  // Whether charge() has anything to count: it needs the time.
  [[nodiscard]] bool has_limits() const noexcept {
    return settings_.largest_count || settings_.ids_per_second || settings_.ids_per_day;
  }
  // A call for so many ids that is not made.
  struct Excess {
    Error error;
    std::chrono::seconds retry_after{0};  // 0: never
  };
  // Counts them, or refuses them all: kInvalidArgument for more than one call may ever ask for,
  // kResourceExhausted for more than are left of this second or this day.
  [[nodiscard]] std::optional<Excess> charge(std::int64_t count,
                                             std::chrono::steady_clock::time_point now);

 private:
  friend class Access;
  bool unlimited_ = false;
  bool revoked_ = false;
  TokenSettings settings_{};
  // Ids that may be had now: as many as a second brings, at most.
  double at_hand_ = 0;
  // When ids_per_second was looked at last.
  std::optional<std::chrono::steady_clock::time_point> counted_{};
  // With the first id that ids_per_day counts, and again with the first one 24 hours later.
  std::optional<std::chrono::steady_clock::time_point> day_began_{};
  std::int64_t of_this_day_ = 0;
};

// On the loop.
class Access final {
 public:
  // Without a token everybody may do everything.
  explicit Access(std::vector<TokenSettings> tokens = {});

  [[nodiscard]] bool is_open() const noexcept { return callers_.empty(); }
  // Who asks without a token. Null: nobody may.
  [[nodiscard]] std::shared_ptr<Caller> anybody() const noexcept {
    return is_open() ? anybody_ : nullptr;
  }
  // Null: there is no such token. Takes the same time whichever it is.
  [[nodiscard]] std::shared_ptr<Caller> find(std::string_view token) const;

  // Other tokens from now on. A token of the same name and hash keeps what it has used; connections
  // of one that is gone have no rights any more.
  void replace(std::vector<TokenSettings> tokens);

 private:
  std::shared_ptr<Caller> anybody_ = std::make_shared<Caller>();
  std::vector<std::shared_ptr<Caller>> callers_{};
};

}  // namespace idmint::server
