// UUID versions 1, 2 and 6: time in steps of 100 ns since 1582-10-15 (the first day of the
// Gregorian calendar), a clock sequence and a node. RFC 9562 sections 5.1, 5.2 and 5.6; version 2
// is from DCE 1.1. New tables should use version 7 (uuid.h).
//
//   version 1   time, low 32 | time, middle 16 | 0001 | time, high 12 | 10 | clock_seq 14 | node 48
//   version 2   local id 32 | time, middle 16 | 0010 | time, high 12
//               | 10 | clock 6 | domain 8 | node 48
//   version 6   time, high 48 | 0110 | time, low 12 | 10 | clock_seq 14 | node 48
//
// Only version 6 is ordered by time, by its bytes and by its text.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/host.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint {

// The fields of a UUID of version 1 or 6.
struct UuidTimeParts {
  Instant time;             // to 100 ns
  std::uint16_t clock_seq;  // 14 bits
  // A hardware address, or random if the lowest bit of the first byte is 1 (multicast).
  HardwareAddress node;

  friend bool operator==(const UuidTimeParts&, const UuidTimeParts&) = default;
};

// Nothing if the variant or the version is another one, or if the time is outside the range of an
// Instant, 1677 to 2262 (the format: 1582 to 5236).
[[nodiscard]] IDMINT_EXPORT std::optional<UuidTimeParts> decode_uuid1(const Uuid& id) noexcept;
[[nodiscard]] IDMINT_EXPORT std::optional<UuidTimeParts> decode_uuid6(const Uuid& id) noexcept;

// The smallest and the largest version 6 UUID of the 100 ns of `at`. There is no uuid1_bounds():
// version 1 is not ordered by time, so no two ids enclose a time span.
[[nodiscard]] IDMINT_EXPORT Bounds<Uuid> uuid6_bounds(Instant at) noexcept;

// ---- version 1

struct Uuid1Options {
  // A hardware address of this host, such as host_address(). Empty: 47 random bits and the
  // multicast bit.
  std::optional<HardwareAddress> node{};
  // The file of the clock sequence, the node and the high-water mark of the times used. Its folder
  // must exist. Empty: nothing is kept.
  std::string state_file{};
  // The longest that open() waits for another process that holds the state file.
  std::chrono::nanoseconds lock_wait = std::chrono::seconds{5};
  // open() also ends by then.
  SteadyTime until = SteadyTime::max();
  // How far ids run ahead of a clock that was set back; then the clock sequence changes.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  // How far ahead of the ids the state file is written, as in SnowflakeOptions; at most max_drift.
  std::chrono::nanoseconds window = std::chrono::seconds{15};
};

// Version 1. The first id of a millisecond has the clock's time, and each further id adds 100 ns.
// The limit is 10 million ids a second; beyond it calls wait for the next millisecond. Threads may
// share it; neither copied nor moved. No two ids of one generator are equal.
//
// Unique if configured so, with a hardware address and a state file: no generator without that file
// may have the node. Each id's time is below a bound that was synced before. After a restart, times
// continue above the bound with the same clock sequence. If the clock is further behind than
// max_drift, at a restart or between two ids, the next clock sequence is synced and then used.
// Copying or losing the file cannot be detected.
//
// Otherwise practical. With a random node, two generators repeat an id only if they drew the same
// node: odds of about n^2 / 2^48 among n generators. With a hardware address and no state file, the
// clock sequence starts at random and grows by one each time the clock goes back too far. Two runs
// or two processes on one node then have the same clock sequence with odds of 1 in 16384, and
// repeat ids if they use the same 100 ns.
//
// A child of fork() draws another clock sequence and random node. With a state file every call in
// the child fails with kFailedPrecondition.
class IDMINT_EXPORT Uuid1Generator final {
 public:
  // Errors of the state file are as for SnowflakeGenerator::open(). Other errors:
  // - kInvalidArgument: a negative duration, or a window beyond max_drift.
  // - kOutOfRange: with a state file, the clock shows a time before 1970; or the clock sequence was
  //   changed 16383 times.
  [[nodiscard]] static Result<std::unique_ptr<Uuid1Generator>> open(
      const Uuid1Options& options = {}, Clock& clock = system_clock(),
      Entropy& entropy = system_entropy());
  ~Uuid1Generator();  // releases the state file; no other call may be under way
  Uuid1Generator(const Uuid1Generator&) = delete;
  Uuid1Generator& operator=(const Uuid1Generator&) = delete;

  // Nothing is handed out on an error.
  // - kUnavailable: the clock stands still, or the state file could not be written now.
  // - kOutOfRange: the clock shows a time before 1970; or all clock sequences were used: open it
  //   with another node and file.
  // - kDataLoss, kUnknown, kResourceExhausted, kPermissionDenied: errors of the state file.
  // - kFailedPrecondition: the generator was inherited through fork().
  [[nodiscard]] Result<Uuid> next();
  // Fills all of `out`, no two equal; on an error its content is unspecified. Times increase until
  // the clock sequence changes.
  [[nodiscard]] Result<void> next(std::span<Uuid> out);

  // Whether open() created the state file. Ids of earlier runs are then unknown to it.
  [[nodiscard]] bool made_state_file() const noexcept;

 private:
  struct State;
  explicit Uuid1Generator(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// ---- version 2

// The kind of the local id: on POSIX, kPerson is a user id and kGroup a group id.
enum class DceDomain : std::uint8_t { kPerson = 0, kGroup = 1, kOrg = 2 };

// The fields of a version 2 UUID.
struct Uuid2Parts {
  Instant time;        // the start of its tick of 2^32 times 100 ns (7 min 9.4967296 s)
  std::uint8_t clock;  // 6 bits
  std::uint8_t domain;
  std::uint32_t local_id;
  HardwareAddress node;

  friend bool operator==(const Uuid2Parts&, const Uuid2Parts&) = default;
};

// Nothing in the same cases as decode_uuid1(). Any domain is accepted: DCE leaves the others to
// sites.
[[nodiscard]] IDMINT_EXPORT std::optional<Uuid2Parts> decode_uuid2(const Uuid& id) noexcept;

struct Uuid2Options {
  DceDomain domain = DceDomain::kPerson;
  std::uint32_t local_id = 0;
  // As Uuid1Options.
  std::optional<HardwareAddress> node{};
  // Required; one for each node, domain and local id. Its folder must exist.
  std::string state_file{};
  std::chrono::nanoseconds lock_wait = std::chrono::seconds{5};
  SteadyTime until = SteadyTime::max();
};

// Version 2: one node, domain and local id have 64 ids in each tick of 7 min 9.5 s. The generator
// mints no more, across restarts too: each id is one durable write to the state file. If that is
// too few, use another version.
//
// Threads may share it; neither copied nor moved. Unique if configured so, as Uuid1Generator with a
// state file; practical with a random node. In a child of fork() every call fails with
// kFailedPrecondition.
class IDMINT_EXPORT Uuid2Generator final {
 public:
  // kInvalidArgument: no state file, a negative duration, or another domain. Errors of the state
  // file are as for SnowflakeGenerator::open().
  [[nodiscard]] static Result<std::unique_ptr<Uuid2Generator>> open(
      const Uuid2Options& options, Clock& clock = system_clock(),
      Entropy& entropy = system_entropy());
  ~Uuid2Generator();  // releases the state file; no other call may be under way
  Uuid2Generator(const Uuid2Generator&) = delete;
  Uuid2Generator& operator=(const Uuid2Generator&) = delete;

  // Nothing is handed out on an error. Besides errors of the state file:
  // - kResourceExhausted: the 64 ids of this tick are used up; the message says how long to wait.
  // - kUnavailable: the clock shows an earlier tick than the last id has; the message says how long
  //   to wait.
  [[nodiscard]] Result<Uuid> next();
  // Fills all of `out`, with one durable write for each id. On an error its content is unspecified,
  // and the ids that were minted for it are lost.
  [[nodiscard]] Result<void> next(std::span<Uuid> out);

  // Whether open() created the state file. Ids of earlier runs are then unknown to it.
  [[nodiscard]] bool made_state_file() const noexcept;

 private:
  struct State;
  explicit Uuid2Generator(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// ---- version 6

struct Uuid6Options {
  // As Uuid7Options.
  std::chrono::nanoseconds max_drift = std::chrono::seconds{20};
  bool strict = false;
};

// Version 6, strictly increasing within one generator, across its threads and in bulk. Six bits of
// the clock sequence count the ids of 100 ns; its other eight bits and the node (multicast bit set)
// are random in every id.
//
//   time, high 48 | 0110 | time, low 12 | 10 | counter 6 | random 15 | 1 | random 40
//
// The first id of a millisecond has the clock's time and a random counter of 0 to 31. Each further
// one increments the counter, which carries into the time: there is room for 640 ids in a
// microsecond. Threads may share it; neither copied nor moved; a child of fork() starts afresh.
// Guarantee: practical. Two generators repeat an id only if they reach the same count in the same
// 100 ns and draw the same 55 bits.
class IDMINT_EXPORT Uuid6Generator final {
 public:
  explicit Uuid6Generator(const Uuid6Options& options = {}, Clock& clock = system_clock(),
                          Entropy& entropy = system_entropy());
  ~Uuid6Generator();
  Uuid6Generator(const Uuid6Generator&) = delete;
  Uuid6Generator& operator=(const Uuid6Generator&) = delete;

  // As Uuid7Generator.
  [[nodiscard]] Result<Uuid> next();
  [[nodiscard]] Result<void> next(std::span<Uuid> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace idmint
