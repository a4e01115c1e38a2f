// Format: the descriptor of one format, all that idmint knows of it. The source of each format has
// its own; formats.cc lists them, and nothing else has a list. All code that mints, reads,
// converts, bounds, plans and completes goes by these rows.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "idmint/clock.h"
#include "idmint/encoding.h"
#include "idmint/entropy.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "idmint/snowflake.h"
#include "ids/readings.h"

namespace idmint {

// ---- ids as big-endian numbers of a fixed size, in the order of the ids

struct IdBytes {
  std::array<std::uint8_t, kMaxIdBytes> bytes;
  std::size_t size;
  [[nodiscard]] std::span<const std::uint8_t> span() const noexcept {
    return std::span(bytes).first(size);
  }
};
[[nodiscard]] IDMINT_EXPORT IdBytes bytes_of(const Id& id) noexcept;
[[nodiscard]] inline Uint128 number_of(std::span<const std::uint8_t> bytes) noexcept {
  Uint128 number = 0;
  for (const std::uint8_t byte : bytes) number = number << 8 | byte;
  return number;
}

// ---- a generator of any format

// As the generator that it owns.
class IdGenerator {
 public:
  virtual ~IdGenerator() = default;
  [[nodiscard]] virtual Result<void> next(std::span<Id> out) = 0;
};

// Generator: a class with a bulk next() of its own kind of id.
template <class Value, class Generator>
class GeneratorOf final : public IdGenerator {
 public:
  explicit GeneratorOf(std::unique_ptr<Generator> generator) : generator_(std::move(generator)) {}

  Result<void> next(std::span<Id> out) override {
    if (out.size() == 1) return next_one(out.front());  // the block costs more than one id
    std::array<Value, 256> block;
    while (!out.empty()) {
      const std::span<Value> part = std::span(block).first(std::min(block.size(), out.size()));
      if constexpr (std::is_void_v<decltype(generator_->next(part))>) {
        generator_->next(part);
      } else if (Result<void> filled = generator_->next(part); !filled) {
        return filled;
      }
      std::ranges::copy(part, out.begin());
      out = out.subspan(part.size());
    }
    return {};
  }

 private:
  Result<void> next_one(Id& out) {
    if constexpr (std::is_same_v<decltype(generator_->next()), Value>) {
      out = generator_->next();
    } else {
      Result<Value> id = generator_->next();
      if (!id) return std::unexpected(std::move(id.error()));
      out = *id;
    }
    return {};
  }

  const std::unique_ptr<Generator> generator_;
};

template <class Value, class Generator>
[[nodiscard]] std::unique_ptr<IdGenerator> generator_of(std::unique_ptr<Generator> generator) {
  return std::make_unique<GeneratorOf<Value, Generator>>(std::move(generator));
}

// ---- the descriptor

// The kind of an id is the name of its alternative in Id: that of uuid4 and uuid7 is "uuid". A
// kind has a row too, under its own name; what it says of bytes and texts holds for its formats.
struct Format {
  std::string_view name;
  std::string_view kind;

  // Only of a kind: the size of bytes_of(), its inverse, and the parser of the format's own texts,
  // in all spellings that it accepts.
  std::size_t bytes = 0;
  Result<Id> (*from_bytes)(std::span<const std::uint8_t> bytes) = nullptr;
  Result<Id> (*parse)(std::string_view text) = nullptr;
  // Canonical ids are decimal digits, and take the check symbols of those.
  bool decimal = false;

  // The shapes of texts that inspect() tries to read.
  std::span<const detail::Shape> shapes{};

  // The smallest and the largest id of an instant; `layout` is that of a Snowflake. Null: the ids
  // of a time do not lie together, for the reason `unbounded`.
  Result<Bounds<Id>> (*bounds)(Instant at, const SnowflakeLayout& layout) = nullptr;
  std::string_view unbounded{};
  // The last second of the time, where a layout does not decide.
  std::optional<std::chrono::sys_seconds> ends{};

  // Makes its generator. Null, and `notes` given: it has options of its own, which mint/formats.cc
  // knows. No notes: nothing mints it.
  std::unique_ptr<IdGenerator> (*make)(Clock& clock, Entropy& entropy) = nullptr;
  Order order = Order::kNone;  // kBySecond: a clock that shows seconds is enough
  std::string_view notes{};

  // A candidate of `plan`. Not one: no `about`.
  struct Plan {
    std::string_view about{};
    // Why it is taken if no rule of plan.cc names the format; those come in the order of their
    // size.
    std::string_view reason{};
    int chars = 0;
    int value_bits = 0;  // 2 to their power are its values
    // The bits that keep two ids apart, and when they have to: in the same unit of time (0: at any
    // time), or in two processes.
    int apart_bits = 0;
    std::chrono::milliseconds apart_in{};
    bool apart_by_process = false;
    double per_second = 0;  // of one generator; 0: as many as the processor makes
    std::string_view clock_goes_back{};
  } plan{};
};

// The formats that can be minted, in the order of `idmint formats`.
[[nodiscard]] IDMINT_EXPORT std::span<const Format* const> formats() noexcept;
// The kinds, in the order of the alternatives of Id.
[[nodiscard]] IDMINT_EXPORT std::span<const Format* const> kinds() noexcept;
[[nodiscard]] inline const Format& kind_of(const Id& id) noexcept { return *kinds()[id.index()]; }
// Null: there is none of that name.
[[nodiscard]] IDMINT_EXPORT const Format* find_format(std::string_view name) noexcept;
[[nodiscard]] IDMINT_EXPORT const Format* find_kind(std::string_view name) noexcept;

// ---- for the rows

template <class T>
Result<Id> parsed_as(std::string_view text) {
  Result<T> id = T::parse(text);
  if (!id) return std::unexpected(std::move(id.error()));
  return Id{*id};
}

// T: a class that any bytes of its size are an id of.
template <class T>
Result<Id> from_bytes_as(std::span<const std::uint8_t> bytes) {
  typename T::Bytes copy;
  std::ranges::copy(bytes, copy.begin());
  return Id{T(copy)};
}

// kBounds: a function of an Instant, such as uuid7_bounds().
template <auto kBounds>
Result<Bounds<Id>> bounds_of(Instant at, const SnowflakeLayout& /*layout*/) {
  const auto bounds = kBounds(at);
  if constexpr (requires { bounds.error(); }) {
    if (!bounds) return std::unexpected(bounds.error());
    return Bounds<Id>{bounds->smallest, bounds->largest};
  } else {
    return Bounds<Id>{bounds.smallest, bounds.largest};
  }
}

inline constexpr std::string_view kNoTimeInIt = "there is no time in it";
// The last seconds of an unsigned 32-bit number of seconds, and of a 48-bit one of milliseconds.
inline constexpr std::chrono::sys_seconds kUnsignedSecondsEnd{std::chrono::seconds{0xffff'ffff}};
inline constexpr std::chrono::sys_seconds kLongMillisecondsEnd{
    std::chrono::seconds{281'474'976'710}};
inline constexpr std::string_view kKeepsOn =
    "goes on from the old time, up to 20 s ahead of the clock; past that it starts afresh, and "
    "order is lost once";

}  // namespace idmint
