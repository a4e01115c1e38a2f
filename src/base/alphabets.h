// The names and alphabets of the encodings, for printing and for recognition.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "idmint/encoding.h"

namespace idmint {

struct NamedAlphabet {
  std::string_view name;
  std::string_view alphabet;
};

// In the order of Encoding.
inline constexpr std::array kAlphabets = {
    NamedAlphabet{"canonical", ""},
    NamedAlphabet{"decimal", "0123456789"},
    NamedAlphabet{"hex", "0123456789abcdef"},
    NamedAlphabet{"base32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"},
    NamedAlphabet{"base32-lower", "0123456789abcdefghjkmnpqrstvwxyz"},
    NamedAlphabet{"base32hex", "0123456789ABCDEFGHIJKLMNOPQRSTUV"},
    NamedAlphabet{"base36", "0123456789abcdefghijklmnopqrstuvwxyz"},
    NamedAlphabet{"base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"},
    NamedAlphabet{"base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"},
};

constexpr const NamedAlphabet& row_of(Encoding encoding) noexcept {
  return kAlphabets[static_cast<std::size_t>(encoding)];
}

}  // namespace idmint
