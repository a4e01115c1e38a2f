#include "mint/records.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork_wiped.h"
#include "base/url.h"
#include "idmint/clock.h"
#include "idmint/executor.h"
#include "ids/last_issued.h"
#include "mint/seen.h"
#include "stores/spi/name_on_host.h"

namespace idmint {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kAtMostOnceIn{1};

// Absolute: the process may change its working directory.
SeenStore seen_store(const Store& store) { return {store.id(), place_of(store.url())}; }

// Writes the record of one store. Lives as long as the process: a change may come from a sequence
// that was opened without a mint.
class Recorder final : public StoreIssued::Observer {
 public:
  Recorder(StoreIssued& issued, SeenStore store) : issued_(issued), store_(std::move(store)) {}

  [[nodiscard]] bool is_owned() const noexcept { return static_cast<bool>(owner_); }

  void changed() noexcept override {
    if (!changed_.load(std::memory_order_relaxed)) changed_.store(true);
    const auto now = steady_clock::now().time_since_epoch().count();
    auto due = due_.load(std::memory_order_relaxed);
    if (now < due || !owner_) return;
    if (!due_.compare_exchange_strong(due, now + kInterval)) return;
    try {
      // Not posted: the next change tries again.
      [[maybe_unused]] const Result<void> posted = shared_executor().post([this] { write(); });
    } catch (const std::exception&) {
      return;
    }
  }

  void write(const Seen* printed = nullptr) noexcept try {
    if (!owner_) return;
    const std::lock_guard lock(mutex_);
    if (!changed_.exchange(false) && printed == nullptr) return;
    const Instant now = system_clock().now();
    std::vector<Seen> seen;
    issued_.for_each([&](const LastIssued& each) {
      const std::int64_t settled = each.settled();
      const Noted is{settled, each.last(), each.has_lost_claims(settled)};
      const auto noted = noted_.find(each.name());
      if (is.last == LastIssued::kNothing || (noted != noted_.end() && noted->second == is)) return;
      seen.push_back({.source = each.name(),
                      .at = now,
                      .value = is.last,
                      .kind = each.kind(),
                      .settled = is.settled,
                      .lost_claims = is.lost_claims});
    });
    if (printed != nullptr) seen.push_back(*printed);
    if (seen.empty()) return;
    if (!note_seen(store_, seen)) {  // another process writes at this moment, or nobody can
      changed_.store(true);
      return;
    }
    for (const Seen& each : seen) {
      if (!each.kind) continue;
      noted_[each.source] = {each.settled, each.value, each.lost_claims};
    }
  } catch (const std::exception&) {
    return;
  }

 private:
  static constexpr auto kInterval = steady_clock::duration(kAtMostOnceIn).count();
  struct Noted {
    std::int64_t settled = 0;
    std::int64_t last = 0;
    bool lost_claims = false;
    friend bool operator==(const Noted&, const Noted&) = default;
  };

  const OwnedByProcess owner_;
  StoreIssued& issued_;
  const SeenStore store_;
  std::atomic<bool> changed_{false};
  // A short command writes only at its end.
  std::atomic<steady_clock::rep> due_{
      (steady_clock::now() + kAtMostOnceIn).time_since_epoch().count()};
  std::mutex mutex_;
  std::unordered_map<std::string, Noted> noted_;
};

// All recorders of this process and its ancestors. Elements are added and never removed.
struct Listed {
  Recorder* recorder;
  Listed* next;
};
constinit std::atomic<Listed*> all_recorders{nullptr};

void list(Recorder& recorder) {
  auto* const listed = new Listed{&recorder, all_recorders.load()};
  while (!all_recorders.compare_exchange_weak(listed->next, listed)) {
  }
}

// Of this process; made if there is none. Two threads that meet here may both make one, and the
// later one is used.
Recorder& recorder_of(StoreIssued& issued, const Store& store) {
  auto* const there = static_cast<Recorder*>(issued.observer());
  if (there != nullptr && there->is_owned()) return *there;
  auto* const made = new Recorder(issued, seen_store(store));
  list(*made);
  issued.set_observer(made);
  return *made;
}

void remember(StoreIssued& issued, const Seen& seen) {
  const std::optional<LastIssued::Kind>& kind = seen.kind;
  if (!kind) return;
  LastIssued& counter = issued.counter(seen.source, *kind);
  if (counter.kind() != *kind) return;
  if (*kind != LastIssued::Kind::kClaim) return counter.raise(seen.value, seen.settled);
  counter.add_claim(seen.value, seen.settled);
  if (seen.lost_claims) counter.lose_claims(seen.settled);
}

// A store with its record.
struct Kept {
  explicit Kept(std::shared_ptr<Store> its_store) : store(std::move(its_store)) {}
  ~Kept() { write_record(*store); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  const std::shared_ptr<Store> store;
};

// A store that is gone with the process has none.
bool has_record(const Store& store) {
  const StoreKind* const kind = store_kind(store.url());
  return kind != nullptr && kind->lasts;
}

StoreIssued& issued_of(const Store& store) {
  return StoreIssued::of(stores::name_on_host(store.id(), store.url()));
}

}  // namespace

std::shared_ptr<Store> with_record(std::shared_ptr<Store> store) {
  if (!has_record(*store)) return store;
  StoreIssued& issued = issued_of(*store);
  const std::int64_t settled = store->settle_count();
  for (const Seen& each : read_seen(seen_store(*store))) {
    if (!each.kind) continue;
    // A later count: the store was settled since it was opened, or has gone back. Which of them
    // shows when something is taken.
    issued.know_settled(each.settled);
    if (each.settled >= settled) remember(issued, each);
  }
  [[maybe_unused]] const Recorder& recorder = recorder_of(issued, *store);
  const auto kept = std::make_shared<Kept>(std::move(store));
  return {kept, kept->store.get()};
}

void write_record(const Store& store, const Seen* printed) noexcept try {
  if (!has_record(store)) return;
  if (auto* const recorder = static_cast<Recorder*>(issued_of(store).observer()))
    recorder->write(printed);
} catch (const std::exception&) {
  return;
}

void write_all_records() noexcept {
  for (const Listed* at = all_recorders.load(); at != nullptr; at = at->next) at->recorder->write();
}

}  // namespace idmint
