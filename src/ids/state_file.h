// StateFile: an IdTimeLease kept in a local file, for one worker id of one layout.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "idmint/entropy.h"
#include "idmint/result.h"
#include "ids/id_time_lease.h"

namespace idmint {

// What a format keeps beside its bound; the file stores it and does not read it.
using OwnersWords = std::array<std::uint64_t, 2>;

struct StateFileOptions {
  static constexpr std::size_t kMaxIdSpace = 256;

  std::filesystem::path path;
  // What the bound is about (layout and worker), 1 to kMaxIdSpace characters; a file that says
  // otherwise is refused.
  std::string id_space;
  std::chrono::nanoseconds lock_wait{};
  SteadyTime until = SteadyTime::max();  // the lock is waited for until then at most
  std::int64_t window = 1;  // ticks; the most that one extend() reaches ahead; at least 1
  OwnersWords words{};      // those of a file that was never used; written by the first extend()
  std::string_view owner = "worker id";  // what the file is of, for its errors
};

// Four pages of 4096 bytes, all written when the file is made and in place from then on:
//
//   slot 0 | slot 1 | slot 0 again | slot 1 again
//
// The slots take turns; each is written twice, and synced, before extend() returns. A page holds
// one record, below 512 bytes (so it lies in one sector), little-endian:
//
//   magic 8 | version 4 | size of the id space 4 | serial 8 | generation 8 | minted until 8
//   | token 16 | owner's words 16 | id space 256 | CRC-64/XZ of all that 8
//
// The serial numbers the writes, the generation the owners; the token is the owner's, random. The
// readable record with the largest serial counts. Why that is safe:
//   - A write that was cut short was not acknowledged, so no id lies beyond the bound of the other
//     slot, which that write did not touch.
//   - An acknowledged record lies on the disk twice. One page that rots, or two neighbours, leave
//     the other copy.
//   - If both pages of one slot are unreadable, an acknowledged bound may be gone: kDataLoss.
//
// The file is locked (flock) while open. Each extend() checks under the lock that the path still
// names this file and that the newest record is the one this object read or wrote last. The first
// extend() takes the file over (a new token, the next generation) and reaches one tick ahead, each
// further one twice as far, up to the window: a run of one id costs one write and one tick, a long
// run is synced seldom.
//
// Not usable in a child of fork(): there extend() is kFailedPrecondition, and destroying it leaves
// the parent's lock alone. A child that lives on keeps the lock of a parent that was killed.
class StateFile final : public IdTimeLease {
 public:
  // Makes the file if it is not there, readable and writable by its owner only; its folder must
  // exist. Of two that make it at once, one does and both use that one. Waits up to lock_wait,
  // and until `until`, for another holder. Writes nothing to a file that is there. Errors as
  // SnowflakeGenerator::open; on any of them the file is as it was.
  [[nodiscard]] static Result<std::unique_ptr<StateFile>> open(const StateFileOptions& options,
                                                               Entropy& entropy);
  ~StateFile() override;
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // The bound found when the file was opened: nothing below it may be minted. 0 in a new file.
  [[nodiscard]] std::int64_t minted_until() const noexcept;
  // Those found when the file was opened, or set since.
  [[nodiscard]] const OwnersWords& words() const noexcept;
  // What the next extend() writes beside its bound. They say nothing of the id space.
  void set_words(const OwnersWords& words) noexcept;
  // Whether open() made the file, or found one that nobody had used yet.
  [[nodiscard]] bool made() const noexcept;

  // As IdTimeLease. REQUIRES: tick >= minted_until(). kResourceExhausted, kPermissionDenied,
  // kUnavailable: the bound did not move, asking again is fine. kUnknown: the write or its sync
  // failed; from then on every extend() is kUnavailable, and the file must be opened again.
  // kDataLoss: the file was removed, replaced, damaged or written by somebody else.
  [[nodiscard]] Result<std::int64_t> extend(std::int64_t tick,
                                            SteadyTime until = SteadyTime::max()) override;

  // Begins a new bound, above `tick`, which may be below the one before: under other words no id is
  // one of those minted so far. Both are durable, together, before it returns. Errors as extend();
  // on any of them the words and the bound from before still hold here, and which of the two a
  // crash would leave in the file is not known.
  // REQUIRES: these words were never set before in this file.
  [[nodiscard]] Result<std::int64_t> set_apart(const OwnersWords& words, std::int64_t tick);

 private:
  struct State;
  [[nodiscard]] Result<void> usable(std::int64_t tick) const;
  [[nodiscard]] Result<std::int64_t> write(std::int64_t minted_until, const OwnersWords& words);
  explicit StateFile(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

struct StateFileContent {
  std::string id_space;
  std::int64_t minted_until = 0;  // ticks
  OwnersWords words{};
};

// What a state file says, for people and monitoring: neither locked nor written, so that it does
// not disturb whoever holds it, who may have moved on since. kDataLoss, kFailedPrecondition,
// kPermissionDenied, kUnknown: as open().
[[nodiscard]] IDMINT_EXPORT Result<StateFileContent> read_state_file(
    const std::filesystem::path& path, std::string_view owner = "worker id");

}  // namespace idmint
