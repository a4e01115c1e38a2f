#include "restore/backup/names.h"

#include <openssl/evp.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "restore/namespaces.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kLongestStem = 238;
constexpr std::size_t kCutAt = 208;
constexpr std::string_view kCutMark = "%24";

bool stays(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

// Escapes all characters but those that stay, and `more`.
std::string escape(std::string_view text, std::string_view more) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (stays(c) || more.contains(c)) {
      escaped += c;
    } else {
      escaped += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return escaped;
}

std::string base64url_sha1(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha1(), nullptr) != 1) return {};
  std::array<unsigned char, 4 * (EVP_MAX_MD_SIZE / 3 + 1) + 1> base64{};
  const int written = EVP_EncodeBlock(base64.data(), hash.data(), static_cast<int>(size));
  std::string url;
  for (int i = 0; i < written; ++i) {
    const char c = static_cast<char>(base64.at(static_cast<std::size_t>(i)));
    if (c != '=') url += c == '+' ? '-' : c == '/' ? '_' : c;
  }
  return url;
}

}  // namespace

std::optional<std::string> wrong_database_name(std::string_view name) {
  constexpr std::string_view never("/\\. \"$\0", 7);
  if (name.empty()) return "the name of a database is empty";
  if (name.size() > 63) return "the name of a database is longer than 63 bytes";
  if (name.find_first_of(never) != std::string_view::npos)
    return "the name of a database has a character that none can have";
  return std::nullopt;
}

std::optional<std::string> wrong_collection_name(std::string_view database, std::string_view name) {
  if (name.empty()) return "the name of a collection is empty";
  if (database.size() + 1 + name.size() > 255)
    return "the name of a collection is longer than any can be";
  if (name.front() == '.' || name.find('\0') != std::string_view::npos ||
      name.find('$', 1) != std::string_view::npos)
    return "the name of a collection has a character that none can have there";
  return std::nullopt;
}

std::string file_stem(std::string_view collection) {
  std::string stem;
  for (const char c : collection) stem += c == ' ' ? "+" : escape({&c, 1}, "");
  if (stem.size() <= kLongestStem) return stem;
  return stem.substr(0, kCutAt).append(kCutMark).append(base64url_sha1(collection));
}

namespace {

std::optional<std::string> unescape(std::string_view stem, char plus) {
  std::string name;
  for (std::size_t i = 0; i < stem.size(); ++i) {
    if (stem[i] != '%') {
      name += stem[i] == '+' ? plus : stem[i];
      continue;
    }
    const std::string_view pair = stem.substr(i + 1, 2);
    std::uint8_t byte = 0;
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + pair.size(), byte, 16);
    if (pair.size() != 2 || error != std::errc{} || end != pair.data() + 2 || byte == 0)
      return std::nullopt;
    name += static_cast<char>(byte);
    i += 2;
  }
  return name;
}

}  // namespace

std::optional<std::string> unescape_stem(std::string_view stem) { return unescape(stem, ' '); }

std::optional<std::string> name_of_stem(std::string_view stem) {
  std::optional<std::string> name = unescape(stem, '+');
  if (name && escape(*name, "$&+=:@") == stem) return name;
  name = unescape(stem, ' ');
  return name && file_stem(*name) == stem ? name : std::nullopt;
}

bool is_cut_stem(std::string_view stem) {
  return stem.size() == kLongestStem && stem.substr(kCutAt, kCutMark.size()) == kCutMark;
}

bool is_left_out(std::string_view database, std::string_view collection) {
  return database == "admin" || database == "config" || database == "local" ||
         database.starts_with("__mdb_internal") || collection.starts_with('$') ||
         (collection.starts_with("system.") && collection != "system.js" &&
          !collection.starts_with(kBuckets));
}

}  // namespace idmint::restore
