#include "idmint/form.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "idmint/id.h"
#include "ids/form_width.h"
#include "ids/format.h"

namespace idmint {
namespace {

// The largest value of a sequence: a counter holds its next value in the same 63 bits.
constexpr std::int64_t kLargestInteger = std::numeric_limits<std::int64_t>::max() - 1;

// ---- ids as big-endian numbers of a fixed size, in the order of the ids

constexpr std::size_t kDigitsBytes = 15;

// An index over the digits of all sizes: 0 to 9, 00 to 99, 000 ...
constexpr std::array<Uint128, Digits::kMaxChars + 2> kFirstOfSize = [] {
  std::array<Uint128, Digits::kMaxChars + 2> first{};
  Uint128 power = 10;
  for (std::size_t size = 2; size < first.size(); ++size, power *= 10) {
    first[size] = first[size - 1] + power;
  }
  return first;
}();
static_assert(kFirstOfSize.back() <= Uint128{1} << (8 * kDigitsBytes));

IdBytes bytes_of_number(Uint128 number, std::size_t size) noexcept {
  IdBytes to{.bytes = {}, .size = size};
  for (std::size_t i = size; i-- != 0; number >>= 8)
    to.bytes[i] = static_cast<std::uint8_t>(number);
  return to;
}

struct ToBytes {
  IdBytes operator()(std::int64_t value) const noexcept {
    return bytes_of_number(static_cast<std::uint64_t>(value), sizeof value);
  }
  IdBytes operator()(const auto& id) const noexcept
    requires std::same_as<decltype(id.value()), std::uint64_t>
  {
    return bytes_of_number(id.value(), sizeof id.value());
  }
  IdBytes operator()(const Digits& id) const noexcept {
    return bytes_of_number(kFirstOfSize[id.size()] + id.value(), kDigitsBytes);
  }
  IdBytes operator()(const auto& id) const noexcept {
    IdBytes to{.bytes = {}, .size = id.bytes().size()};
    std::ranges::copy(id.bytes(), to.bytes.begin());
    return to;
  }
};

Result<Id> integer_from(std::span<const std::uint8_t> bytes) {
  const Uint128 number = number_of(bytes);
  if (number > kLargestInteger) return refuse("it is larger than any value of a sequence");
  return Id{static_cast<std::int64_t>(number)};
}

Result<Id> digits_from(std::span<const std::uint8_t> bytes) {
  const Uint128 number = number_of(bytes);
  const auto* const after =
      std::ranges::upper_bound(kFirstOfSize.begin() + 2, kFirstOfSize.end(), number);
  if (after == kFirstOfSize.end()) return refuse("it is larger than any id of 36 digits");
  const auto size = static_cast<std::size_t>(after - kFirstOfSize.begin()) - 1;
  return Id{Digits(size, number - kFirstOfSize[size])};
}

Result<Id> read_integer(std::string_view text) {
  const Result<Snowflake> number = Snowflake::parse(text);
  if (!number || number->value() > std::uint64_t{kLargestInteger}) {
    return refuse("expected a decimal number without leading zeros, at most " +
                  std::to_string(kLargestInteger));
  }
  return Id{static_cast<std::int64_t>(number->value())};
}

// The id of a text as its own format prints it.
Result<Id> read(const Format& format, std::string_view text) {
  Result<Id> id = format.parse(text);
  if (id && to_string(*id) != text) return refuse("it is printed as " + to_string(*id));
  return id;
}

}  // namespace

// Both are read by inspect.cc, with other numbers.
extern const Format kIntegerKind = {.name = "integer",
                                    .kind = "integer",
                                    .bytes = sizeof(std::int64_t),
                                    .from_bytes = integer_from,
                                    .parse = read_integer,
                                    .decimal = true};

extern const Format kDigitsFormat = {
    .name = "digits",
    .kind = "digits",
    .bytes = kDigitsBytes,
    .from_bytes = digits_from,
    .parse = parsed_as<Digits>,
    .decimal = true,
    .unbounded = kNoTimeInIt,
    .order = Order::kNone,
    .notes =
        "12 decimal digits, or as many as you say; among n ids the odds of one repeat are n^2 "
        "/ 2e12: for ids that never repeat make a sequence"};

IdBytes bytes_of(const Id& id) noexcept { return std::visit(ToBytes{}, id); }

namespace {

// ---- the parts of a form

// Whether the form prints ids as their own format does.
bool is_own(const Form& form, const Format& format) noexcept {
  return form.encoding == Encoding::kCanonical ||
         (form.encoding == Encoding::kDecimal && format.decimal);
}

// The alphabet of the checked text; empty: no check is possible.
std::string_view check_alphabet(const Form& form, const Format& format) noexcept {
  const bool decimal = form.encoding == Encoding::kCanonical && format.decimal;
  return alphabet(decimal ? Encoding::kDecimal : form.encoding);
}

bool all_in(std::string_view alphabet, std::string_view text) noexcept {
  return text.find_first_not_of(alphabet) == std::string_view::npos;
}

// The start of the part that the check covers.
std::size_t checked_from(const Form& form, std::string_view alphabet) noexcept {
  return all_in(alphabet, form.prefix) ? 0 : form.prefix.size();
}

// The number of digits without leading zeros, at least 1.
int digits_of(std::uint64_t number, std::size_t base) noexcept {
  int digits = 1;
  for (; number >= base; number /= base) ++digits;
  return digits;
}

constexpr int kMaxDigits = static_cast<int>(Digits::kMaxChars);

// "decimal", "hex or base36".
std::string encodings_for(Check check) {
  std::string names;
  for (auto encoding = Encoding::kDecimal; encoding <= Encoding::kBase62;
       encoding = static_cast<Encoding>(static_cast<int>(encoding) + 1)) {
    if (fits(check, alphabet(encoding)))
      names.append(names.empty() ? "" : " or ").append(name(encoding));
  }
  return names;
}

bool may_be_in_prefix(char c) noexcept { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; }

}  // namespace

Result<void> validate(const Form& form, std::string_view format_name) {
  const Format* const format = find_kind(format_name);
  if (format == nullptr) {
    std::string message = "there is no format of that name that has forms: take one of";
    for (const Format* const kind : kinds()) {
      (message += kind == kinds().front() ? " " : ", ") += kind->name;
    }
    return refuse(std::move(message));
  }
  if (form.prefix.size() > Form::kMaxPrefix) {
    return refuse("the prefix has " + std::to_string(form.prefix.size()) +
                  " characters: at most 64 are allowed");
  }
  if (!std::ranges::all_of(form.prefix, may_be_in_prefix)) {
    return refuse(
        "the prefix has a character that is not allowed: take printable ASCII without "
        "blanks, \" and \\");
  }
  if (form.check != Check::kNone) {
    const std::string_view letters = check_alphabet(form, *format);
    if (letters.empty() || !fits(form.check, letters)) {
      const std::string in = form.encoding == Encoding::kCanonical
                                 ? " without an encoding"
                                 : " in encoding " + std::string(name(form.encoding));
      return refuse("check " + std::string(name(form.check)) + " is not for " +
                    std::string(format->name) + in + ": take encoding " +
                    encodings_for(form.check) + ", or check none");
    }
  }
  if (form.width != 0) {
    if (format != &kIntegerKind || is_own(form, *format)) {
      return refuse("width is for integers in an encoding other than decimal only: leave it out");
    }
    const auto most = static_cast<int>(encoded_width(form.encoding, format->bytes));
    if (form.width < 0 || form.width > most) {
      return refuse("width is " + std::to_string(form.width) + ": in " +
                    std::string(name(form.encoding)) + " take 1 to " + std::to_string(most) +
                    ", or leave it out");
    }
  }
  if (form.digits == 0) return {};
  if (format != &kIntegerKind || !is_own(form, *format)) {
    return refuse("digits is for integers in decimal only: leave it out");
  }
  if (form.digits < 0 || form.digits > kMaxDigits) {
    return refuse("digits is " + std::to_string(form.digits) + ": take 1 to 36, or leave it out");
  }
  if (integer_width(form) < 1) {
    return refuse("digits is " + std::to_string(form.digits) +
                  ", which the prefix and the check digits take: one at least must be left");
  }
  return {};
}

int integer_width(const Form& form) noexcept {
  const auto in_prefix =
      std::ranges::count_if(form.prefix, [](char c) { return c >= '0' && c <= '9'; });
  return form.digits - static_cast<int>(in_prefix) - static_cast<int>(check_width(form.check));
}

std::int64_t largest_integer(const Form& form) noexcept {
  if (form.digits == 0 && form.width == 0) return kLargestInteger;
  const int width = form.width != 0 ? form.width : integer_width(form);
  const std::size_t base = form.width != 0 ? alphabet(form.encoding).size() : 10;
  std::int64_t power = 1;
  for (int i = 0; i < width; ++i) {
    if (__builtin_mul_overflow(power, static_cast<std::int64_t>(base), &power)) {
      return kLargestInteger;
    }
  }
  return power - 1;
}

Form settled(Form form, std::int64_t last) noexcept {
  if (form.width == 0 && !is_own(form, kIntegerKind)) {
    form.width = digits_of(static_cast<std::uint64_t>(last), alphabet(form.encoding).size());
  }
  return form;
}

std::string room_of(const Form& form) {
  const std::string all = form.width != 0 ? "width " + std::to_string(form.width) + " in " +
                                                std::string(name(form.encoding)) + " has"
                                          : std::to_string(form.digits) + " digits have";
  return all + " room for values up to " + std::to_string(largest_integer(form));
}

char* to_chars(const Id& id, const Form& form, char* out) noexcept {
  char* const begin = out;
  const Format& format = kind_of(id);
  out = std::ranges::copy(form.prefix, out).out;
  if (!is_own(form, format)) {
    const IdBytes bytes = bytes_of(id);
    if (form.width == 0) {
      out = encode(form.encoding, bytes.span(), out);
    } else {  // the leading digits are zeros
      char all[kMaxEncodedChars];
      const char* const end = encode(form.encoding, bytes.span(), all);
      out = std::copy(end - form.width, end, out);
    }
  } else if (form.digits != 0) {
    const auto value = static_cast<std::uint64_t>(std::get<std::int64_t>(id));
    out = Digits(static_cast<std::size_t>(integer_width(form)), value).to_chars(out);
  } else {
    out = to_chars(id, out);
  }
  if (form.check == Check::kNone) return out;
  const std::string_view letters = check_alphabet(form, format);
  return append_check(form.check, letters, {begin + checked_from(form, letters), out}, out);
}

std::string to_string(const Id& id, const Form& form) {
  char text[kMaxFormChars];
  return {text, to_chars(id, form, text)};
}

Result<Id> parse(std::string_view text, std::string_view format_name, const Form& form) {
  if (Result<void> valid = validate(form, format_name); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  const Format& format = *find_kind(format_name);
  const auto refuse_text = [&](const std::string& why) {
    return refuse("not " + std::string(format.name) + " in this form: " + why);
  };
  if (!text.starts_with(form.prefix)) {
    return refuse_text("it does not begin with the prefix " + form.prefix);
  }
  std::string_view body = text.substr(form.prefix.size());
  if (form.check != Check::kNone) {
    const std::string_view letters = check_alphabet(form, format);
    // The check symbol of mod37 may be a character outside the alphabet.
    const std::size_t symbols = form.check == Check::kMod37 ? check_width(form.check) : 0;
    const std::size_t stranger =
        body.substr(0, body.size() - std::min(body.size(), symbols)).find_first_not_of(letters);
    if (stranger != std::string_view::npos) {
      return refuse_text("character " + std::to_string(form.prefix.size() + stranger + 1) +
                         " is none of its digits");
    }
    if (!has_valid_check(form.check, letters, text.substr(checked_from(form, letters)))) {
      return refuse_text("its check symbol (" + std::string(name(form.check)) +
                         ") is wrong: it is mistyped");
    }
    // If the check covers the prefix, the symbols may be where the prefix should be.
    if (body.size() < check_width(form.check)) return refuse_text("it is too short");
    body.remove_suffix(check_width(form.check));
  }
  Result<Id> id;
  if (!is_own(form, format)) {
    IdBytes to{.bytes = {}, .size = format.bytes};
    std::string padded;
    if (form.width != 0) {
      const std::string in = " in " + std::string(name(form.encoding)) + ": ";
      const std::string_view letters = alphabet(form.encoding);
      if (body.size() != static_cast<std::size_t>(form.width)) {
        return refuse_text("not " + std::to_string(form.width) + " characters" + in + "there are " +
                           std::to_string(body.size()));
      }
      if (const std::size_t at = body.find_first_not_of(letters); at != std::string_view::npos) {
        return refuse_text("not " + std::to_string(form.width) + " characters" + in + "character " +
                           std::to_string(at + 1) + " is none of its digits");
      }
      padded.assign(encoded_width(form.encoding, format.bytes) - body.size(), letters.front());
      body = padded.append(body);
    }
    if (Result<void> decoded = decode(form.encoding, body, std::span(to.bytes).first(to.size));
        !decoded) {
      return refuse_text(decoded.error().message());
    }
    id = format.from_bytes(to.span());
  } else if (form.digits != 0) {
    const auto width = static_cast<std::size_t>(integer_width(form));
    const Result<Digits> digits = Digits::parse(body);
    if (!digits || digits->size() != width) {
      return refuse_text("expected " + std::to_string(width) +
                         " decimal digits between the prefix and the check symbols");
    }
    if (digits->value() > static_cast<Uint128>(largest_integer(form))) {
      return refuse_text("it is larger than any value of a sequence");
    }
    id = Id{static_cast<std::int64_t>(digits->value())};
  } else {
    id = read(format, body);
  }
  if (!id) return refuse_text(id.error().message());
  return id;
}

}  // namespace idmint
