// A table of leases whose calls fail as a test tells them to, and a store that has no other.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/store.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::fakes {

// The memory store's table, or that of another.
class FaultyTable final : public LeaseTable {
 public:
  struct Fault {
    Error error;
    bool applied = false;
  };

  explicit FaultyTable(std::unique_ptr<Store> store = Store::open("memory:").value())
      : store_(std::move(store)), table_(*store_->leases()) {}
  [[nodiscard]] Store& store() noexcept { return *store_; }

  // The next acquires and extends, one each.
  void fail_next(Code code, bool applied = false) {
    const std::lock_guard lock(mutex_);
    faults_.push_back({{code, "as the test says"}, applied});
  }
  void fail_all(std::optional<Code> code) {
    const std::lock_guard lock(mutex_);
    all_ = code;
  }
  // Returns when so many extends were answered.
  void wait_for_extends(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return extends_ >= n; });
  }
  [[nodiscard]] std::vector<LeaseRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  [[nodiscard]] std::size_t calls() const {
    const std::lock_guard lock(mutex_);
    return requests_.size() + extends_;
  }
  struct Extension {
    Lease lease;
    std::int64_t to;
    Uuid nonce;
    SteadyTime until;
  };
  [[nodiscard]] std::vector<Extension> extensions() const {
    const std::lock_guard lock(mutex_);
    return extensions_;
  }
  // Until told otherwise, a call comes to the table and stays there.
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void wait_until_one_is_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return holding_ > 0; });
  }
  // As restoring an old backup does: from now on every row shows less than was acknowledged.
  void go_back() { gone_back_ = true; }

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    return table_.create_pool(pool, workers);
  }
  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime until) override {
    const std::optional<Fault> fault = begin();
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    return faulty(fault, [&] { return table_.acquire(pool, request, until); });
  }
  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) override {
    const std::optional<Fault> fault = begin();
    {
      std::unique_lock lock(mutex_);
      extensions_.push_back({lease, to, nonce, until});
      ++holding_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !held_; });
      --holding_;
    }
    const Result<Lease> done = faulty(fault, [&]() -> Result<Lease> {
      Lease known = lease;
      if (gone_back_) known.to += std::int64_t{1} << 40;
      return table_.extend(pool, known, std::max(known.to, to), nonce, terms, until);
    });
    const std::lock_guard lock(mutex_);
    ++extends_;
    changed_.notify_all();
    return done;
  }
  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime until) override {
    return table_.release(pool, worker, token, generation, until);
  }
  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    return table_.raise_floor(pool, floor);
  }
  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime until) override {
    return table_.workers(pool, until);
  }

 private:
  std::optional<Fault> begin() {
    const std::lock_guard lock(mutex_);
    if (all_) return Fault{{*all_, "as the test says"}};
    if (faults_.empty()) return std::nullopt;
    Fault fault = std::move(faults_.front());
    faults_.pop_front();
    return fault;
  }
  static Result<Lease> faulty(const std::optional<Fault>& fault,
                              const std::function<Result<Lease>()>& call) {
    if (fault && !fault->applied) return std::unexpected(fault->error);
    Result<Lease> done = call();
    if (fault) return std::unexpected(fault->error);
    return done;
  }

  std::unique_ptr<Store> store_;
  LeaseTable& table_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Fault> faults_;
  std::optional<Code> all_;
  std::vector<LeaseRequest> requests_;
  std::vector<Extension> extensions_;
  std::size_t extends_ = 0;  // answered
  bool held_ = false;
  int holding_ = 0;
  std::atomic<bool> gone_back_{false};
};

// The rest of it is the memory store's.
class FaultyLeases final : public Store {
 public:
  [[nodiscard]] FaultyTable& table() noexcept { return table_; }

  [[nodiscard]] const Uuid& id() const noexcept override { return rest_.id(); }
  [[nodiscard]] std::string_view url() const noexcept override { return rest_.url(); }
  [[nodiscard]] CounterStore* counters() noexcept override { return rest_.counters(); }
  [[nodiscard]] Catalog* catalog() noexcept override { return rest_.catalog(); }
  [[nodiscard]] UniqueIndex* unique_index() noexcept override { return rest_.unique_index(); }
  [[nodiscard]] LeaseTable* leases() noexcept override { return &table_; }

 private:
  FaultyTable table_;
  Store& rest_ = table_.store();
};

}  // namespace idmint::fakes
