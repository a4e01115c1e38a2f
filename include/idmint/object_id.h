// ObjectId: MongoDB's 96-bit id. Specification: github.com/mongodb/specifications (objectid.md).
//
//   seconds since 1970, unsigned 32 | random, one value for each process 40 | counter 24
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
class ObjectId {
 public:
  using Bytes = std::array<std::uint8_t, 12>;
  static constexpr std::size_t kChars = 24;

  constexpr ObjectId() noexcept = default;
  constexpr explicit ObjectId(const Bytes& bytes) noexcept : bytes_(bytes) {}

  // Accepts 24 hexadecimal digits in either case, bare or in the shell's spelling ObjectId("...")
  // with either quote. Anything else is kInvalidArgument.
  [[nodiscard]] static constexpr Result<ObjectId> parse(std::string_view text);

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }
  // Seconds since 1970, unsigned: 0x80000000 is in 2038, 0xffffffff in 2106.
  [[nodiscard]] constexpr std::uint32_t seconds() const noexcept {
    return std::uint32_t{bytes_[0]} << 24 | std::uint32_t{bytes_[1]} << 16 |
           std::uint32_t{bytes_[2]} << 8 | bytes_[3];
  }
  // The random value and the counter have no accessors: the specification forbids them, because
  // older ids have another layout.

  // Writes exactly kChars characters, lower case, no terminating zero; returns the end.
  constexpr char* to_chars(char* out) const noexcept;
  [[nodiscard]] std::string to_string() const {
    std::string text(kChars, '\0');
    to_chars(text.data());
    return text;
  }

  friend constexpr auto operator<=>(const ObjectId&, const ObjectId&) noexcept = default;

 private:
  Bytes bytes_{};
};

// The smallest and the largest ObjectId of the second of `at`. kInvalidArgument: the time lies
// outside 1970 to 2106-02-07T06:28:15Z.
[[nodiscard]] IDMINT_EXPORT Result<Bounds<ObjectId>> object_id_bounds(Instant at);

// The counter starts at a random value and grows by one for each id. After every 2^24 ids the 40
// random bits are drawn again, so with the same bits no id comes twice, whatever the clock and the
// rate. Ids are ordered by second only. Threads may share it; neither copied nor moved. A child of
// fork() draws its own random value. Guarantee: practical. Two generators repeat an id only if they
// draw the same 40 bits and reach the same counter in the same second.
class IDMINT_EXPORT ObjectIdGenerator final {
 public:
  explicit ObjectIdGenerator(Clock& clock = seconds_clock(), Entropy& entropy = system_entropy());
  ~ObjectIdGenerator();
  ObjectIdGenerator(const ObjectIdGenerator&) = delete;
  ObjectIdGenerator& operator=(const ObjectIdGenerator&) = delete;

  // kOutOfRange: the clock shows a time outside 1970 to 2106. Nothing was handed out.
  [[nodiscard]] Result<ObjectId> next();
  // Fills all of `out`; on an error its content is unspecified.
  [[nodiscard]] Result<void> next(std::span<ObjectId> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ObjectIds in their layout before 2018, for databases that have many of them:
//
//   seconds since 1970, unsigned 32 | machine 24 | process id 16 | counter 24
//
// Has the rules, the guarantee and the counter of XidGenerator (xid.h), and like it fails in a
// child of fork(). Threads may share it; neither copied nor moved.
class IDMINT_EXPORT ClassicObjectIdGenerator final {
 public:
  explicit ClassicObjectIdGenerator(const ProcessIdentity& identity = classic_object_id_identity(),
                                    Clock& clock = seconds_clock(),
                                    Entropy& entropy = system_entropy());
  ~ClassicObjectIdGenerator();
  ClassicObjectIdGenerator(const ClassicObjectIdGenerator&) = delete;
  ClassicObjectIdGenerator& operator=(const ClassicObjectIdGenerator&) = delete;

  // Nothing is handed out on an error.
  // - kOutOfRange: the clock shows a time outside 1970 to 2106.
  // - kUnavailable: the clock stands still after 2^24 ids in its second, or went back by more than
  //   20 s to a time before the last 2^24 ids.
  [[nodiscard]] Result<ObjectId> next();
  // Fills all of `out`; on an error its content is unspecified.
  [[nodiscard]] Result<void> next(std::span<ObjectId> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- implementation of the constexpr parts

namespace detail {

IDMINT_EXPORT char* print_object_id(const std::uint8_t* bytes, char* out) noexcept;

}  // namespace detail

constexpr char* ObjectId::to_chars(char* out) const noexcept {
  if consteval {
    constexpr std::string_view digits = "0123456789abcdef";
    for (const std::uint8_t byte : bytes_) {
      *out++ = digits[byte >> 4];
      *out++ = digits[byte & 15];
    }
    return out;
  } else {
    return detail::print_object_id(bytes_.data(), out);
  }
}

constexpr Result<ObjectId> ObjectId::parse(std::string_view text) {
  const auto refuse = [] {
    return std::unexpected(
        Error{Code::kInvalidArgument, "not an ObjectId: expected 24 hexadecimal digits"});
  };
  constexpr std::string_view open = "ObjectId(";
  if (text.size() == kChars + open.size() + 3 && text.starts_with(open) && text.ends_with(')')) {
    const char quote = text[open.size()];
    if ((quote != '"' && quote != '\'') || text[text.size() - 2] != quote) return refuse();
    text = text.substr(open.size() + 1, kChars);
  }
  if (text.size() != kChars) return refuse();
  ObjectId id;
  for (std::size_t i = 0; i < id.bytes_.size(); ++i) {
    int value = 0;
    for (const char c : text.substr(2 * i, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return refuse();
      value = value << 4 | digit;
    }
    id.bytes_[i] = static_cast<std::uint8_t>(value);
  }
  return id;
}

}  // namespace idmint

template <>
struct std::hash<idmint::ObjectId> {
  std::size_t operator()(const idmint::ObjectId& id) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size()});
  }
};
