// Xid: 96 bits, compatible with github.com/rs/xid. Printed in base32hex, lower case, 20 characters.
//
//   seconds since 1970, unsigned 32 | machine 24 | process id 16 | counter 24
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/host.h"
#include "idmint/print.h"
#include "idmint/result.h"

namespace idmint {

// Big-endian. Ordered by its bytes, which is also the order of its text.
class Xid {
 public:
  using Bytes = std::array<std::uint8_t, 12>;
  static constexpr std::size_t kChars = 20;

  constexpr Xid() noexcept = default;
  constexpr explicit Xid(const Bytes& bytes) noexcept : bytes_(bytes) {}

  // Accepts 20 characters of 0-9a-v; the last one is 0 or g, as it holds one bit. Anything else is
  // kInvalidArgument.
  [[nodiscard]] IDMINT_EXPORT static Result<Xid> parse(std::string_view text);

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }
  [[nodiscard]] constexpr std::uint32_t seconds() const noexcept {
    return std::uint32_t{bytes_[0]} << 24 | std::uint32_t{bytes_[1]} << 16 |
           std::uint32_t{bytes_[2]} << 8 | bytes_[3];
  }
  [[nodiscard]] constexpr std::uint32_t machine() const noexcept {
    return std::uint32_t{bytes_[4]} << 16 | std::uint32_t{bytes_[5]} << 8 | bytes_[6];
  }
  [[nodiscard]] constexpr std::uint16_t process() const noexcept {
    return static_cast<std::uint16_t>(bytes_[7] << 8 | bytes_[8]);
  }
  [[nodiscard]] constexpr std::uint32_t counter() const noexcept {
    return std::uint32_t{bytes_[9]} << 16 | std::uint32_t{bytes_[10]} << 8 | bytes_[11];
  }

  // Writes exactly kChars characters, no terminating zero; returns the end.
  IDMINT_EXPORT char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const Xid&, const Xid&) noexcept = default;

 private:
  Bytes bytes_{};
};

// The smallest and the largest Xid of the second of `at`. kInvalidArgument: the time lies outside
// 1970 to 2106-02-07T06:28:15Z.
[[nodiscard]] IDMINT_EXPORT Result<Bounds<Xid>> xid_bounds(Instant at);

// The counter starts at a random value and grows by one for each id. All generators of a process
// that use seconds_clock() and system_entropy(), of xids and of classic ObjectIds, share one
// counter; others have their own. One counter never repeats an id, whatever the clock does: a
// counter value that comes again after 2^24 ids has a later second. So generators that share a
// counter mint at most 2^24 ids a second, one in 60 ns; beyond that calls wait for the next second.
// Ids are ordered by second only. Threads may share it; neither copied nor moved. In a child of
// fork() every call fails with kFailedPrecondition, because the process id has changed; make a new
// generator. Guarantee: practical. Two processes repeat an id only if they have the same machine
// and process id and reach the same counter in one second.
class IDMINT_EXPORT XidGenerator final {
 public:
  explicit XidGenerator(const ProcessIdentity& identity = xid_identity(),
                        Clock& clock = seconds_clock(), Entropy& entropy = system_entropy());
  ~XidGenerator();
  XidGenerator(const XidGenerator&) = delete;
  XidGenerator& operator=(const XidGenerator&) = delete;

  // Nothing is handed out on an error.
  // - kOutOfRange: the clock shows a time outside 1970 to 2106.
  // - kUnavailable: the clock stands still after 2^24 ids in its second, or went back by more than
  //   20 s to a time before the last 2^24 ids.
  [[nodiscard]] Result<Xid> next();
  // Fills all of `out`; on an error its content is unspecified.
  [[nodiscard]] Result<void> next(std::span<Xid> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace idmint

template <>
struct std::hash<idmint::Xid> {
  std::size_t operator()(const idmint::Xid& id) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()});
  }
};
