#include "mint/records.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_wiped.h"
#include "base/url.h"
#include "idmint/clock.h"
#include "idmint/executor.h"
#include "ids/last_issued.h"
#include "mint/seen.h"

namespace idmint {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kAtMostOnceIn{1};

// Absolute: the process may change its working directory.
SeenStore seen_store(const Store& store) { return {store.name_on_host(), place_of(store.url())}; }

// Writes the record of one store. Lives as long as the process: a change may come from a sequence
// that was opened without a mint.
class Recorder final : public StoreIssued::Observer {
 public:
  Recorder(StoreIssued& issued, SeenStore store) : issued_(issued), store_(std::move(store)) {}

  [[nodiscard]] bool is_owned() const noexcept { return static_cast<bool>(owner_); }

  void changed() noexcept override {
    changed_.store(true);
    const auto now = steady_clock::now().time_since_epoch().count();
    auto due = due_.load(std::memory_order_relaxed);
    if (now < due || !owner_) return;
    if (!due_.compare_exchange_strong(due, now + kInterval)) return;
    try {
      // Not posted: the next change tries again.
      [[maybe_unused]] const Result<void> posted =
          shared_executor().post([this] { look_and_write(); });
    } catch (const std::exception&) {
      return;
    }
  }

  // An open store with this record, from add() to remove(), which waits while it is asked.
  void add(Store& store) {
    const std::lock_guard lock(stores_mutex_);
    stores_.push_back(&store);
  }
  void remove(Store& store) noexcept {
    if (!owner_) return;
    const std::lock_guard lock(stores_mutex_);
    std::erase(stores_, &store);
  }

  // Values that the process is given after an operator has settled the store are noted within the
  // new settle count, whether or not the calls that give them read it.
  void look_and_write() noexcept try {
    if (!owner_ || !changed_.load()) return;
    {
      const std::lock_guard lock(stores_mutex_);
      const Result<std::int64_t> settled =
          stores_.empty() ? Result<std::int64_t>(0)
                          : stores_.back()->read_settle_count(steady_clock::now() + kLongestLook);
      if (settled) issued_.know_settled(*settled);
    }
    write();
  } catch (const std::exception&) {
    return;
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
      const auto noted = noted_.find({each.name(), each.kind()});
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
      noted_[{each.source, *each.kind}] = {each.settled, each.value, each.lost_claims};
    }
  } catch (const std::exception&) {
    return;
  }

 private:
  static constexpr auto kInterval = steady_clock::duration(kAtMostOnceIn).count();
  static constexpr std::chrono::milliseconds kLongestLook{200};
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
  std::map<std::pair<std::string, LastIssued::Kind>, Noted> noted_;
  std::mutex stores_mutex_;
  std::vector<Store*> stores_;  // guarded by stores_mutex_
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

// The recorder of this process; made if there is none. Two threads that meet here may both make
// one, and the later one is used.
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
  if (*kind != LastIssued::Kind::kClaim) return counter.raise(seen.value, seen.settled);
  counter.add_claim(seen.value, seen.settled);
  if (seen.lost_claims) counter.lose_claims(seen.settled);
}

// Whether a value was noted after the store was settled, and of a state from before that: what was
// settled was a copy, which has taken the place of the state that gave the value. A process that
// was idle may note a value late. That does no harm, since a store that was raised gives only
// larger ones.
bool came_after(const Seen& seen, std::int64_t settled) {
  constexpr std::chrono::seconds kMargin{2};
  // A count that is a time (Store::settle_count()), within what an Instant can be.
  constexpr std::int64_t kFirst = 1'000'000'000;
  constexpr std::int64_t kLast = 9'000'000'000;
  return settled >= kFirst && settled <= kLast &&
         (seen.kind == LastIssued::Kind::kValue || seen.kind == LastIssued::Kind::kIndex) &&
         seen.at > Instant{std::chrono::seconds{settled}} + kMargin;
}

// A store with its record.
struct Kept {
  Kept(std::shared_ptr<Store> its_store, Recorder& its_recorder)
      : store(std::move(its_store)), recorder(its_recorder) {
    recorder.add(*store);
  }
  ~Kept() {
    recorder.remove(*store);
    recorder.write();
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  const std::shared_ptr<Store> store;
  Recorder& recorder;
};

// A store that is gone with the process has none.
bool has_record(const Store& store) {
  const StoreKind* const kind = store_kind(store.url());
  return kind != nullptr && kind->lasts;
}

StoreIssued& issued_of(const Store& store) { return StoreIssued::of(store.name_on_host()); }

}  // namespace

std::shared_ptr<Store> with_record(std::shared_ptr<Store> store) {
  if (!has_record(*store)) return store;
  StoreIssued& issued = issued_of(*store);
  const std::int64_t settled = store->settle_count();
  issued.know_settled(settled);
  for (const Seen& each : read_seen(seen_store(*store))) {
    if (!each.kind) continue;
    // A later count: the store was settled since it was opened, or has gone back. Which of them
    // shows when something is taken.
    issued.know_settled(each.settled);
    if (each.settled >= settled || came_after(each, settled)) remember(issued, each);
  }
  Recorder& recorder = recorder_of(issued, *store);
  const auto kept = std::make_shared<Kept>(std::move(store), recorder);
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
  for (const Listed* at = all_recorders.load(); at != nullptr; at = at->next)
    at->recorder->look_and_write();
}

}  // namespace idmint
