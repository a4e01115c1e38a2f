// Last issued: what this process was given of each counter, by store, for its life.
//
// It stays through every closing and opening of a source, a sequence, a store or a mint: a store
// that has gone back meanwhile is noticed by the next take. Nothing here takes a lock, so a child
// of fork() starts with a copy, which is true of the child's counters too.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint {

class StoreIssued;

// One counter of one store. Any thread may call any method at any time.
class IDMINT_EXPORT LastIssued {
 public:
  enum class Kind : char {
    kValue = 'v',  // the largest value of a counter, a stripe or gapless numbers
    kIndex = 'i',  // the largest index of a permuted sequence
    kClaim = 'c',  // the latest claimed value of a random sequence, which has no order
    kBound = 'b',  // the largest bound of a worker id, NAME/WORKER, exclusive, in units of its pool
  };
  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  // kNothing: this process was given nothing.
  [[nodiscard]] std::int64_t last() const noexcept { return last_.load(std::memory_order_acquire); }
  // Notes what the store has acknowledged. Never goes down. `settled`: the store's settle count.
  // REQUIRES: not kClaim.
  void raise(std::int64_t last, std::int64_t settled) noexcept;
  // The latest settle count of its store that is known now.
  [[nodiscard]] std::int64_t known_settled() const noexcept;
  // The store's settle count when it was noted last.
  [[nodiscard]] std::int64_t settled() const noexcept { return settled_.load(); }

  // ---- kClaim

  // Claims from before the store was settled are void: a raise brings no claim back.

  // Notes a claim that the store has acknowledged.
  void add_claim(std::int64_t value, std::int64_t settled) noexcept;
  // The claim proves nothing any more: an insert of unknown outcome may have made it again.
  void drop_claim(std::int64_t value) noexcept;
  // The latest claims within this settle count, the newest at the back; few.
  [[nodiscard]] std::vector<std::int64_t> claims(std::int64_t settled) const;
  // Whether claims were found missing within this settle count: the sequence gives nothing.
  [[nodiscard]] bool has_lost_claims(std::int64_t settled) const noexcept {
    return lost_within_.load() >= settled;
  }
  void lose_claims(std::int64_t settled) noexcept;

  // ---- kBound

  // Whether the bound was acknowledged before `ticket` was drawn (StoreIssued::ticket()).
  [[nodiscard]] bool was_before(std::uint64_t ticket) const noexcept {
    return raised_at_.load() <= ticket;
  }

 private:
  friend class StoreIssued;
  LastIssued(StoreIssued& of, std::string_view name, Kind kind);

  StoreIssued& of_;
  const std::string name_;
  const Kind kind_;
  std::atomic<std::int64_t> last_{kNothing};
  std::atomic<std::uint64_t> raised_at_{0};
  std::atomic<std::int64_t> settled_{0};
  std::atomic<std::int64_t> lost_within_{-1};  // a settle count
  using Claims = std::array<std::atomic<std::int64_t>, 8>;
  const std::unique_ptr<Claims> claims_;  // null: not kClaim
  std::atomic<std::size_t> next_claim_{0};
  LastIssued* next_ = nullptr;  // in its bucket
};

// All counters of one store. Lives as long as the process. Any thread may call any method at any
// time. Takes memory for each counter that was used.
class IDMINT_EXPORT StoreIssued {
 public:
  // `store`: Store::name_on_host().
  [[nodiscard]] static StoreIssued& of(std::string_view store);

  [[nodiscard]] const std::string& store() const noexcept { return store_; }
  // The latest settle count that is known (Store::settle_count()); 0: none.
  [[nodiscard]] std::int64_t settled() const noexcept { return settled_.load(); }
  void know_settled(std::int64_t settled) noexcept;
  // A name may have one of each kind: a sequence may have been made again as another one.
  [[nodiscard]] LastIssued& counter(std::string_view name, LastIssued::Kind kind);
  void for_each(const std::function<void(const LastIssued&)>& act) const;

  // Orders acknowledgements: the number of bounds that were raised so far.
  [[nodiscard]] std::uint64_t ticket() const noexcept { return raises_.load(); }

  // Told of each change, on the thread that made it. Must not block, and lives as long as the
  // process.
  class Observer {
   public:
    virtual void changed() noexcept = 0;

   protected:
    ~Observer() = default;
  };
  // Null: none.
  [[nodiscard]] Observer* observer() const noexcept { return observer_.load(); }
  void set_observer(Observer* observer) noexcept { observer_.store(observer); }

 private:
  friend class LastIssued;
  explicit StoreIssued(std::string_view store) : store_(store) {}

  void changed() noexcept {
    if (Observer* const told = observer_.load(std::memory_order_acquire)) told->changed();
  }

  const std::string store_;
  std::atomic<std::int64_t> settled_{0};
  std::atomic<std::uint64_t> raises_{0};
  std::atomic<Observer*> observer_{nullptr};
  std::array<std::atomic<LastIssued*>, 1024> buckets_{};
  StoreIssued* next_ = nullptr;  // of all stores
};

}  // namespace idmint
