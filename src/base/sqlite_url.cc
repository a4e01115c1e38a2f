#include "base/sqlite_url.h"

#include <charconv>
#include <cstddef>
#include <utility>

#include "base/url.h"

namespace idmint {
namespace {

// It may be the URL of another kind, with another scheme.
std::unexpected<Error> refused(std::string_view url, std::string_view why) {
  constexpr std::size_t kMost = 120;
  const std::string shown = redacted(url);
  std::string message = "not the URL of an SQLite store: \"" + shown.substr(0, kMost);
  if (shown.size() > kMost) message += "...";
  return std::unexpected(
      Error{Code::kInvalidArgument, std::move(message) + "\": " + std::string(why)});
}

}  // namespace

Result<SqliteUrl> parse_sqlite_url(std::string_view url) {
  std::string_view rest = url.substr(url.find(':') + 1);
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    if (!rest.starts_with('/'))
      return refused(url, "it is not on a host; write sqlite:PATH or sqlite:///PATH");
  }
  const std::size_t question = rest.find('?');
  std::string_view options = question == std::string_view::npos ? "" : rest.substr(question + 1);
  rest = rest.substr(0, question);

  SqliteUrl parsed;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '%') {
      parsed.path += rest[i];
      continue;
    }
    const std::string_view digits = rest.substr(i + 1, 2);
    unsigned byte = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (error != std::errc{} || end != digits.data() + 2)
      return refused(url, "two hexadecimal digits must follow %; write %25 for a % in a file name");
    parsed.path += static_cast<char>(byte);
    i += 2;
  }
  if (parsed.path.empty() || parsed.path.ends_with('/') || parsed.path.contains('\0'))
    return refused(url, "it needs the path of a file, such as sqlite:ids.db");
  // A path of SQLite's own kind, such as ":memory:" or "file:", is a plain file name here.
  if (!parsed.path.starts_with('/')) parsed.path.insert(0, "./");

  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find('&'));
    options.remove_prefix(option.size() + (option.size() < options.size() ? 1 : 0));
    if (option == "filesystem=local") {
      parsed.local_file_system = true;
    } else if (option.starts_with("filesystem=")) {
      return refused(url, "the option filesystem has one value, local");
    } else if (option.starts_with("mode=")) {
      return refused(url,
                     "there is no option mode; to only read, open it with Access::kReadOnly, "
                     "as idmint peek, list and doctor do");
    } else {
      return refused(url,
                     "there is one option, filesystem=local; write %3F for a ? in a file name");
    }
  }
  return parsed;
}

std::string sqlite_url(std::string_view path) {
  std::string url = "sqlite:";
  for (const char c : path) {
    if (c == '%')
      url += "%25";
    else if (c == '?')
      url += "%3F";
    else
      url += c;
  }
  return url;
}

}  // namespace idmint
