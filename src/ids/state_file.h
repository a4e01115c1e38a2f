// StateFile: an IdTimeLease in a local file, for one worker id of one layout.
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

// Data that a format stores beside its bound; opaque to the file.
using OwnersWords = std::array<std::uint64_t, 2>;

struct StateFileOptions {
  static constexpr std::size_t kMaxIdSpace = 256;

  std::filesystem::path path;
  // The subject of the bound (layout and worker), 1 to kMaxIdSpace characters. A file with another
  // one is rejected.
  std::string id_space;
  std::chrono::nanoseconds lock_wait{};
  SteadyTime until = SteadyTime::max();  // the wait for the lock also ends by then
  std::int64_t window = 1;  // in ticks, at least 1: how far ahead one extend() reaches at most
  OwnersWords words{};      // those of an unused file; written by the first extend()
  std::string_view owner = "worker id";  // the subject of the file, for errors
};

// Four pages of 4096 bytes, all written when the file is created and in place from then on:
//
//   slot 0 | slot 1 | slot 0 again | slot 1 again
//
// The slots alternate; each is written twice, and synced, before extend() returns. A page has one
// record of less than 512 bytes, so it lies in one sector. Little-endian:
//
//   magic 8 | version 4 | size of the id space 4 | serial 8 | generation 8 | minted until 8
//   | token 16 | owner's words 16 | id space 256 | CRC-64/XZ of all that 8
//
// The serial numbers the writes, and the generation numbers the owners. The token is the owner's
// and random. The readable record with the largest serial is valid. Why this is safe:
//   - An interrupted write was not acknowledged, so no id is beyond the bound of the other slot,
//     which that write did not touch.
//   - An acknowledged record is on the disk twice. If one page or two neighbours rot, the other
//     copy remains.
//   - If both pages of one slot are unreadable, an acknowledged bound may be lost: kDataLoss.
//
// The file is locked (flock) while open. Each extend() checks under the lock that the path still
// names this file, and that the newest record is the one that this object read or wrote last. The
// first extend() takes the file over with a new token and the next generation, and reaches one tick
// ahead. Each further one reaches twice as far, up to the window. So a run of one id costs one
// write and one tick, and a long run is rarely synced.
//
// Not usable in a child of fork(): extend() fails there with kFailedPrecondition, and the
// destructor leaves the parent's lock alone. A surviving child keeps the lock of a parent that was
// killed.
class StateFile final : public IdTimeLease {
 public:
  // Creates the file if it does not exist, readable and writable by its owner only; its folder must
  // exist. If two processes create it at once, both use the same file. Waits for another holder up
  // to lock_wait, and until `until`. Writes nothing to an existing file. Errors as
  // SnowflakeGenerator::open(); the file is then unchanged.
  [[nodiscard]] static Result<std::unique_ptr<StateFile>> open(const StateFileOptions& options,
                                                               Entropy& entropy);
  ~StateFile() override;
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // The bound at opening: nothing below it may be minted. 0 in a new file.
  [[nodiscard]] std::int64_t minted_until() const noexcept;
  // The words at opening, or those set since.
  [[nodiscard]] const OwnersWords& words() const noexcept;
  // Sets the words that the next extend() writes beside its bound. They do not affect the id space.
  void set_words(const OwnersWords& words) noexcept;
  // Whether open() created the file, or found one that was never used.
  [[nodiscard]] bool made() const noexcept;

  // As IdTimeLease. REQUIRES: tick >= minted_until().
  // - kResourceExhausted, kPermissionDenied, kUnavailable: the bound did not move; it can be
  //   repeated.
  // - kUnknown: the write or its sync failed. From then on every extend() fails with kUnavailable,
  //   and the file must be opened again.
  // - kDataLoss: the file was removed, replaced, damaged or written by another process.
  [[nodiscard]] Result<std::int64_t> extend(std::int64_t tick,
                                            SteadyTime until = SteadyTime::max()) override;

  // Starts a new bound above `tick`, perhaps below the previous one: with other words no id equals
  // one minted so far. Both are made durable together before it returns. Errors as extend(); then
  // the previous words and bound still hold here, and it is unknown which of the two the file has
  // after a crash. REQUIRES: these words were never set before in this file.
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

// Reads a state file for operators and monitoring. Neither locks nor writes it, so it does not
// disturb the holder, who may have moved on since. kDataLoss, kFailedPrecondition,
// kPermissionDenied, kUnknown: as open().
[[nodiscard]] IDMINT_EXPORT Result<StateFileContent> read_state_file(
    const std::filesystem::path& path, std::string_view owner = "worker id");

}  // namespace idmint
