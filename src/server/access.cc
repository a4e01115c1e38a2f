#include "server/access.h"

#include <fnmatch.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/text.h"

namespace idmint::server {

using std::chrono::steady_clock;

namespace {

constexpr std::array<std::string_view, 8> kVerbs{"next",   "peek",   "raise", "create",
                                                 "extend", "retire", "lease", "metrics"};
constexpr std::uint8_t kAll = 0xff;
constexpr std::uint8_t kOfSources = kAll & ~(1U << static_cast<unsigned>(Verb::kMetrics));

// No source has a longer name, and matching takes longer the longer it is.
constexpr std::size_t kLongestName = 200;

bool matches(const Scope& scope, const std::string& source) {
  return source.size() <= kLongestName && !source.contains('\0') &&
         ::fnmatch(scope.pattern.c_str(), source.c_str(), FNM_NOESCAPE) == 0;
}

constexpr std::uint8_t bit(Verb verb) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(verb));
}

}  // namespace

std::string_view name(Verb verb) noexcept { return kVerbs[static_cast<std::size_t>(verb)]; }

Result<Scope> scope_of(std::string_view text) {
  constexpr std::string_view how =
      R"(: write verbs and a pattern, as in "next orders*" or "next,peek *"; the verbs are next, )"
      "peek, raise, create, extend, retire, lease, metrics and all";
  const std::size_t blank = text.find(' ');
  std::string_view verbs = text.substr(0, blank);
  Scope scope{.pattern =
                  blank == std::string_view::npos ? "" : std::string(text.substr(blank + 1))};
  while (!verbs.empty()) {
    const std::size_t comma = std::min(verbs.find(','), verbs.size());
    const std::string_view verb = verbs.substr(0, comma);
    verbs.remove_prefix(std::min(comma + 1, verbs.size()));
    const auto* const found = std::ranges::find(kVerbs, verb);
    if (verb == "all") {
      scope.verbs = kAll;
    } else if (found != kVerbs.end()) {
      scope.verbs |= bit(static_cast<Verb>(found - kVerbs.begin()));
    } else {
      return refuse("there is no verb " + shown(verb) + std::string(how));
    }
  }
  if (scope.verbs == 0) return refuse("the verb is missing" + std::string(how));
  if (scope.pattern.empty() && scope.verbs != bit(Verb::kMetrics))
    return refuse("the pattern is missing in " + shown(text) + std::string(how));
  if (scope.pattern.find_first_of(" \t,") != std::string::npos)
    return refuse("the pattern in " + shown(text) + " has a blank or a comma" + std::string(how));
  return scope;
}

std::string new_token(Entropy& entropy) {
  constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<std::byte, 43> bytes{};
  entropy.fill(bytes);
  std::string token = "idmint_";
  for (const std::byte each : bytes) token += alphabet[std::to_integer<std::size_t>(each) % 64];
  return token;
}

TokenSettings::Hash hash_of(std::string_view token) {
  TokenSettings::Hash hash;
  ::SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

// ---- Rights

bool Rights::may(Verb verb, std::string_view source) const {
  if (all) return true;
  if (verb == Verb::kMetrics) {
    return std::ranges::any_of(
        allow, [](const Scope& scope) { return (scope.verbs & bit(Verb::kMetrics)) != 0; });
  }
  const std::string text(source);
  return std::ranges::any_of(allow, [&](const Scope& scope) {
    return (scope.verbs & bit(verb)) != 0 && matches(scope, text);
  });
}

bool Rights::sees(std::string_view source) const {
  if (all) return true;
  const std::string text(source);
  return std::ranges::any_of(allow, [&](const Scope& scope) {
    return (scope.verbs & kOfSources) != 0 && matches(scope, text);
  });
}

bool Rights::sees_in(std::string_view store) const {
  if (all) return true;
  const std::string before = store.empty() ? "" : std::string(store) + "/";
  return std::ranges::any_of(allow, [&](const Scope& scope) {
    if ((scope.verbs & kOfSources) == 0) return false;
    const std::string_view pattern = scope.pattern;
    const std::size_t fixed = std::min(pattern.find_first_of("*?["), pattern.size());
    const std::size_t both = std::min(fixed, before.size());
    return pattern.substr(0, both) == before.substr(0, both) &&
           (both == before.size() || fixed < pattern.size());
  });
}

// ---- Caller

void Caller::set(TokenSettings settings, const MostCreated& most) {
  quota_->limit({.sources = settings.max_sources.value_or(most.sources),
                 .stripes = settings.max_stripes.value_or(most.stripes)});
  leases_->limit(settings.max_leases.value_or(most.leases));
  rights_ = {.allow = settings.allow};
  settings_ = std::move(settings);
}

void Caller::count_as(const Caller& other) noexcept {
  at_hand_ = other.at_hand_;
  counted_ = other.counted_;
  day_began_ = other.day_began_;
  of_this_day_ = other.of_this_day_;
  quota_ = other.quota_;
  leases_ = other.leases_;
}

std::string Caller::spoken_of() const {
  return name().empty() ? "callers without a token" : "the token " + name();
}

Result<void> Caller::check(Verb verb, std::string_view source) const {
  if (may(verb, source)) return {};
  const std::string on = verb == Verb::kMetrics ? "" : " on " + shown(source);
  return std::unexpected(Error{Code::kPermissionDenied, "the token " + name() + " does not allow " +
                                                            std::string(server::name(verb)) + on});
}

std::optional<Caller::Excess> Caller::charge(std::int64_t count, steady_clock::time_point now) {
  const auto& [its_name, hash, allow, per_second, per_day, largest, sources, stripes, leases] =
      settings_;
  const auto too_many = [&](std::int64_t most, std::string_view limit) {
    return Excess{{Code::kInvalidArgument, "the token " + its_name + " may ask for at most " +
                                               std::to_string(most) + " ids in one call, its " +
                                               std::string(limit)}};
  };
  if (largest && count > *largest) return too_many(*largest, "largest_count");
  if (per_second && count > *per_second) return too_many(*per_second, "ids_per_second");
  if (per_day && count > *per_day) return too_many(*per_day, "ids_per_day");
  constexpr std::chrono::hours day{24};
  if (per_day) {
    if (day_began_ && now - *day_began_ >= day) {
      day_began_.reset();
      of_this_day_ = 0;
    }
    if (count > *per_day - of_this_day_)
      return Excess{{Code::kResourceExhausted, "the token " + its_name + " has had its " +
                                                   std::to_string(*per_day) +
                                                   " ids_per_day; nothing was taken"},
                    std::chrono::ceil<std::chrono::seconds>(day_began_.value_or(now) + day - now)};
  }
  if (per_second) {
    const auto rate = static_cast<double>(*per_second);
    const double passed = counted_ ? std::chrono::duration<double>(now - *counted_).count() : 1;
    at_hand_ = std::min(rate, at_hand_ + passed * rate);
    counted_ = now;
    const double missing = static_cast<double>(count) - at_hand_;
    if (missing > 0)
      return Excess{{Code::kResourceExhausted,
                     "the token " + its_name + " has had its " + std::to_string(*per_second) +
                         " ids_per_second; nothing was taken: ask again in a moment"},
                    std::chrono::seconds(
                        static_cast<std::int64_t>(std::max(1.0, std::ceil(missing / rate))))};
    at_hand_ -= static_cast<double>(count);
  }
  if (per_day) {
    if (!day_began_) day_began_ = now;
    of_this_day_ += count;
  }
  return std::nullopt;
}

void Caller::refund(std::int64_t count) noexcept {
  if (const auto rate = settings_.ids_per_second)
    at_hand_ = std::min(static_cast<double>(*rate), at_hand_ + static_cast<double>(count));
  of_this_day_ = std::max<std::int64_t>(0, of_this_day_ - count);
}

// ---- Quota

void Quota::limit(const MostCreated& most) {
  const std::lock_guard lock(mutex_);
  most_ = most;
}

Result<void> Quota::begin(const std::string& source, std::int64_t stripes, std::string_view whose) {
  const std::lock_guard lock(mutex_);
  const auto found = created_.find(source);
  const std::int64_t before = found != created_.end() ? found->second.stripes : 0;
  const auto too_many = [&](std::string_view what, std::int64_t most, std::int64_t now,
                            std::string_view key) {
    return fail(Code::kResourceExhausted,
                std::string(whose) + " may create at most " + std::to_string(most) + " " +
                    std::string(what) + " (" + std::string(key) + "), and has created " +
                    std::to_string(now) +
                    "; nothing was created. Create it with idmint create, or "
                    "set a larger " +
                    std::string(key));
  };
  if (found == created_.end() && std::ssize(created_) >= most_.sources)
    return too_many("sources", most_.sources, std::ssize(created_), "max_sources");
  if (stripes > before && stripes - before > most_.stripes - stripes_)
    return too_many("stripes and worker ids", most_.stripes, stripes_, "max_stripes");
  Created& created = created_[source];
  created.stripes = std::max(before, stripes);
  stripes_ += created.stripes - before;
  ++created.under_way;
  return {};
}

void Quota::end(const std::string& source, std::int64_t stripes, bool made) {
  const std::lock_guard lock(mutex_);
  const auto found = created_.find(source);
  Created& created = found->second;
  if (made) created.made = std::max(created.made, stripes);
  if (--created.under_way > 0) return;
  stripes_ -= created.stripes - created.made;
  created.stripes = created.made;
  if (created.made == 0) created_.erase(found);
}

bool Quota::is_empty() const {
  const std::lock_guard lock(mutex_);
  return created_.empty();
}

// ---- Access

Access::Access(std::vector<TokenSettings> tokens, const MostCreated& most) {
  replace(std::move(tokens), most);
}

std::shared_ptr<Caller> Access::find(std::string_view token) const {
  const TokenSettings::Hash hash = hash_of(token);
  std::shared_ptr<Caller> found;
  for (const std::shared_ptr<Caller>& caller : callers_) {
    if (::CRYPTO_memcmp(caller->settings_.hash.data(), hash.data(), hash.size()) == 0)
      found = caller;
  }
  return found;
}

void Access::replace(std::vector<TokenSettings> tokens, const MostCreated& most) {
  std::vector<std::shared_ptr<Caller>> before = std::exchange(callers_, {});
  std::vector<std::shared_ptr<Caller>> gone = std::exchange(gone_, {});
  const auto with_hash_of = [](std::vector<std::shared_ptr<Caller>>& callers,
                               const TokenSettings& token) {
    return std::ranges::find_if(callers, [&](const std::shared_ptr<Caller>& caller) {
      return caller != nullptr && caller->settings_.hash == token.hash;
    });
  };
  // Without tokens everybody was let in. From now on those callers need a token.
  anybody_->revoked_ = !tokens.empty();
  anybody_->quota_->limit(most);
  anybody_->leases_->limit(most.leases);
  for (TokenSettings& token : tokens) {
    if (const auto same = with_hash_of(before, token); same != before.end()) {
      (*same)->set(std::move(token), most);
      callers_.push_back(std::move(*same));
      continue;
    }
    const auto returned = with_hash_of(gone, token);
    callers_.push_back(std::make_shared<Caller>());
    callers_.back()->rights_.all = false;
    if (returned != gone.end()) callers_.back()->count_as(**returned);
    callers_.back()->set(std::move(token), most);
    if (returned == gone.end()) continue;
    returned->reset();
  }
  std::ranges::move(before, std::back_inserter(gone));
  for (std::shared_ptr<Caller>& caller : gone) {
    if (caller == nullptr) continue;
    caller->revoked_ = true;
    if (caller->has_counts()) gone_.push_back(std::move(caller));
  }
  constexpr std::size_t kMostGone = 1000;
  if (gone_.size() > kMostGone)
    gone_.erase(gone_.begin(), gone_.end() - static_cast<std::ptrdiff_t>(kMostGone));
}

}  // namespace idmint::server
