#include "idmint/nanoid.h"

#include <algorithm>
#include <array>

#include "ids/format.h"
#include "ids/readings.h"

namespace idmint {

namespace {

constexpr int kBitsOfNanoidChar = 6;
static_assert(Nanoid::kAlphabet.size() == 1U << kBitsOfNanoidChar);

// The number that a character stands for; -1: it is none of the alphabet.
constexpr std::array<int, 256> kNanoidDigits = [] {
  std::array<int, 256> digits{};
  digits.fill(-1);
  for (std::size_t i = 0; i < Nanoid::kAlphabet.size(); ++i) {
    digits[static_cast<unsigned char>(Nanoid::kAlphabet[i])] = static_cast<int>(i);
  }
  return digits;
}();

}  // namespace

Result<Nanoid> Nanoid::parse(std::string_view text) {
  const auto refuse = [](const char* why) {
    return std::unexpected(Error{Code::kInvalidArgument, std::string("not a NanoID: ") + why});
  };
  if (text.size() != kChars) return refuse("expected 21 characters of A-Za-z0-9_-");
  Uint128 number = 0;
  for (const char c : text) {
    const int digit = kNanoidDigits[static_cast<unsigned char>(c)];
    if (digit < 0) return refuse("a character is none of A-Za-z0-9_-");
    number = number << kBitsOfNanoidChar | static_cast<unsigned>(digit);
  }
  Bytes bytes;
  for (std::size_t i = bytes.size(); i-- != 0; number >>= 8) {
    bytes[i] = static_cast<std::uint8_t>(number);
  }
  return Nanoid(bytes);
}

Result<Nanoid> Nanoid::from_bytes(const Bytes& bytes) {
  if (bytes[0] >> 6 != 0) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "not the bytes of a NanoID: it has 126 bits, and one of the two "
                                 "before them is set"});
  }
  return Nanoid(bytes);
}

char* Nanoid::to_chars(char* out) const noexcept {
  const Uint128 number = number_of(bytes_);
  for (int shift = 120; shift >= 0; shift -= kBitsOfNanoidChar) {
    *out++ = kAlphabet[static_cast<std::size_t>(number >> shift & 63)];
  }
  return out;
}

Nanoid NanoidGenerator::next() noexcept {
  Nanoid::Bytes random;
  entropy_.fill(std::as_writable_bytes(std::span(random)));
  return Nanoid::from_random(random);
}

void NanoidGenerator::next(std::span<Nanoid> out) noexcept {
  static_assert(sizeof(Nanoid) == sizeof(Nanoid::Bytes));
  entropy_.fill(std::as_writable_bytes(out));
  for (Nanoid& id : out) id = Nanoid::from_random(id.bytes());
}

namespace detail {
namespace {

// The form alone says so. Decimal digits, and words of one kind of letters, are rarely one.
void read_nanoid(Reader& reader, std::string_view text, Alphabets alphabets) {
  const Result<Nanoid> id = Nanoid::parse(text);
  if (!id) return;
  const auto has = [text](char first, char last) {
    return std::ranges::any_of(text, [=](char c) { return c >= first && c <= last; });
  };
  const bool mixed = has('a', 'z') && has('A', 'Z');
  reader.add("nanoid", text,
             (alphabets & kDecimalDigits) != 0 ? kFarFetched
             : mixed                           ? kFallback
                                               : kByChance);
  const auto [high, low] = halves(id->bytes().data());
  reader.add_field("random", Hex{high, low, 32});
}

}  // namespace
}  // namespace detail

namespace {

constexpr std::array kNanoidShapes = {
    detail::Shape{detail::kUrlChars, Nanoid::kChars, Nanoid::kChars, detail::read_nanoid}};

Result<Id> nanoid_from(std::span<const std::uint8_t> bytes) {
  Nanoid::Bytes copy;
  std::ranges::copy(bytes, copy.begin());
  const Result<Nanoid> id = Nanoid::from_bytes(copy);
  if (!id) return std::unexpected(id.error());
  return Id{*id};
}

}  // namespace

extern const Format kNanoidFormat = {
    .name = "nanoid",
    .kind = "nanoid",
    .bytes = 16,
    .from_bytes = nanoid_from,
    .parse = parsed_as<Nanoid>,
    .shapes = kNanoidShapes,
    .unbounded = kNoTimeInIt,
    .make =
        [](Clock& /*clock*/, Entropy& entropy) {
          return generator_of<Nanoid>(std::make_unique<NanoidGenerator>(entropy));
        },
    .order = Order::kNone,
    .notes = "126 random bits; among n ids the odds of one repeat are about n^2 / 2^127",
    .plan = {.about = "NanoID: 126 random bits",
             .reason =
                 "21 characters that need no escapes in a URL; tells nothing, and inserts all "
                 "over the index",
             .chars = Nanoid::kChars,
             .value_bits = 126,
             .apart_bits = 126}};

}  // namespace idmint
