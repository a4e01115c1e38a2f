#include "ids/last_issued.h"

#include <utility>

namespace idmint {
namespace {

// The list of all stores. Elements are added and never removed.
constinit std::atomic<StoreIssued*> all_stores{nullptr};

// Whether it was lower.
bool raise_to(std::atomic<std::int64_t>& value, std::int64_t least) noexcept {
  std::int64_t before = value.load(std::memory_order_relaxed);
  while (before < least) {
    if (value.compare_exchange_weak(before, least, std::memory_order_acq_rel)) return true;
  }
  return false;
}

}  // namespace

LastIssued::LastIssued(StoreIssued& of, std::string_view name, Kind kind)
    : of_(of),
      name_(name),
      kind_(kind),
      claims_(kind == Kind::kClaim ? std::make_unique<Claims>() : nullptr) {
  if (claims_ == nullptr) return;
  for (auto& claim : *claims_) claim.store(kNothing, std::memory_order_relaxed);
}

void LastIssued::raise(std::int64_t last, std::int64_t settled) noexcept {
  if (kind_ == Kind::kBound) raised_at_.store(of_.raises_.fetch_add(1) + 1);
  raise_to(settled_, settled);
  if (raise_to(last_, last)) of_.changed();
}

std::int64_t LastIssued::known_settled() const noexcept { return of_.settled(); }

void LastIssued::add_claim(std::int64_t value, std::int64_t settled) noexcept {
  if (raise_to(settled_, settled))
    for (auto& claim : *claims_) claim.store(kNothing);
  (*claims_)[next_claim_.fetch_add(1) % claims_->size()].store(value);
  last_.store(value);
  of_.changed();
}

void LastIssued::drop_claim(std::int64_t value) noexcept {
  for (auto& claim : *claims_) {
    std::int64_t there = value;
    claim.compare_exchange_strong(there, kNothing);
  }
}

std::vector<std::int64_t> LastIssued::claims(std::int64_t settled) const {
  std::vector<std::int64_t> known;
  if (settled_.load() < settled) return known;
  const std::size_t next = next_claim_.load();
  for (std::size_t i = 0; i < claims_->size(); ++i) {
    const std::int64_t claim = (*claims_)[(next + i) % claims_->size()].load();
    if (claim != kNothing) known.push_back(claim);
  }
  return known;
}

void LastIssued::lose_claims(std::int64_t settled) noexcept {
  if (raise_to(lost_within_, settled)) of_.changed();
}

StoreIssued& StoreIssued::of(std::string_view store) {
  StoreIssued* made = nullptr;
  StoreIssued* first = all_stores.load();
  for (;;) {
    for (StoreIssued* at = first; at != nullptr; at = at->next_) {
      if (at->store_ != store) continue;
      delete made;
      return *at;
    }
    if (made == nullptr) made = new StoreIssued(store);
    made->next_ = first;
    if (all_stores.compare_exchange_strong(first, made)) return *made;
  }
}

void StoreIssued::know_settled(std::int64_t settled) noexcept { raise_to(settled_, settled); }

LastIssued& StoreIssued::counter(std::string_view name, LastIssued::Kind kind) {
  std::atomic<LastIssued*>& bucket =
      buckets_[std::hash<std::string_view>{}(name) % buckets_.size()];
  LastIssued* made = nullptr;
  LastIssued* first = bucket.load();
  for (;;) {
    for (LastIssued* at = first; at != nullptr; at = at->next_) {
      if (at->kind_ != kind || at->name_ != name) continue;
      delete made;
      return *at;
    }
    if (made == nullptr) made = new LastIssued(*this, name, kind);
    made->next_ = first;
    if (bucket.compare_exchange_strong(first, made)) return *made;
  }
}

void StoreIssued::for_each(const std::function<void(const LastIssued&)>& act) const {
  for (const auto& bucket : buckets_)
    for (const LastIssued* at = bucket.load(); at != nullptr; at = at->next_) act(*at);
}

}  // namespace idmint
