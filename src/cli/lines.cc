#include "cli/lines.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "base/byte_order_mark.h"
#include "base/errors.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

using TakeLine = std::function<bool(std::string_view text, std::size_t line)>;

std::string in_binary(std::size_t bytes) {
  constexpr std::size_t kibi = 1024;
  return bytes < kibi * kibi ? std::to_string(bytes / kibi) + " KiB"
                             : std::to_string(bytes / kibi / kibi) + " MiB";
}

std::unexpected<Error> unreadable(std::size_t line, std::string_view why) {
  return refuse("standard input, line " + std::to_string(line) + ": " + std::string(why));
}

Result<void> read_standard_input(Output& out, std::size_t longest, const TakeLine& take) {
  std::string block(Output::kBlock, '\0');
  std::size_t held = 0;  // bytes of the block that may be a part of a byte-order mark
  std::string rest;      // the start of a line whose end was not read yet
  std::size_t number = 0;
  Progress progress("lines");
  const auto pass_on = [&](std::string_view line) { return take(line, ++number); };
  for (bool begun = false, ended = false; !ended && !out.failed() && stop_signal() == 0;) {
    const ssize_t size = ::read(STDIN_FILENO, block.data() + held, block.size() - held);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      const int why = errno;
      return std::unexpected(Error{why == EISDIR ? Code::kInvalidArgument : Code::kUnavailable,
                                   "cannot read standard input (" +
                                       std::generic_category().message(why) +
                                       "): give another input"});
    }
    ended = size == 0;
    std::string_view left(block.data(), held + static_cast<std::size_t>(size));
    if (!begun) {
      held = left.size();
      if (!ended && held < kLongestMark && !left.contains('\n')) continue;
      const Result<std::string_view> unmarked = without_mark(left);
      if (!unmarked) return refuse("standard input: " + unmarked.error().message());
      left = *unmarked;
      held = 0;
      begun = true;
    }
    const std::size_t nul = left.find('\0');
    left = left.substr(0, nul);
    for (std::size_t end; (end = left.find('\n')) != std::string_view::npos;) {
      if (rest.size() + end > longest) break;
      if (!pass_on(rest.empty() ? left.substr(0, end) : rest.append(left, 0, end))) return {};
      rest.clear();
      left.remove_prefix(end + 1);
    }
    if (rest.size() + std::min(left.find('\n'), left.size()) > longest)
      return unreadable(number + 1, "it is longer than " + in_binary(longest) +
                                        ": divide it, or give another input");
    if (nul != std::string_view::npos)
      return unreadable(number + 1, "it has a NUL, which no text has: give another input");
    rest += left;
    if (static_cast<std::size_t>(size) < block.size()) out.flush();  // the input pauses
    progress.show(static_cast<std::int64_t>(number));
  }
  if (!rest.empty() && stop_signal() == 0) pass_on(rest);
  return {};
}

}  // namespace

void add_texts(CLI::App& command, std::vector<std::string>& ids) {
  command
      .add_option("ID", ids,
                  "Ids; - or no id (without a terminal) reads them from standard input, one a line")
      ->type_name("");
}

Result<void> while_lines(Output& out, std::size_t longest, const TakeLine& take) {
  return read_standard_input(out, longest, take);
}

Result<void> for_each_line(Context& context, std::span<const std::string> texts,
                           std::size_t longest, const TakeText& take) {
  for (const std::string& text : texts) {
    if (text != "-") {
      take(text, 0);
    } else if (Result<void> read = read_standard_input(context.out, longest,
                                                       [&](std::string_view line, std::size_t at) {
                                                         take(line, at);
                                                         return true;
                                                       });
               !read) {
      return read;
    }
  }
  return {};
}

Result<void> for_each_text(Context& context, std::span<const std::string> texts,
                           const TakeText& take) {
  static const std::string kStandardInput = "-";
  if (texts.empty()) {
    if (::isatty(STDIN_FILENO) == 1)
      return refuse("no id is given: give ids, or send them to standard input, one a line");
    texts = std::span(&kStandardInput, 1);
  }
  return for_each_line(context, texts, kLongestId, [&](std::string_view text, std::size_t line) {
    if (line != 0) text = trimmed(text);
    if (line == 0 || !text.empty()) take(text, line);
  });
}

std::string place_of(std::size_t line) {
  return line == 0 ? "" : "standard input, line " + std::to_string(line) + ": ";
}

}  // namespace idmint::cli
