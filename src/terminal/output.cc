#include "terminal/output.h"

#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <clocale>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ranges>
#include <span>
#include <system_error>

#include "base/text.h"
#include "terminal/help.h"

namespace idmint {

namespace {

// 0 or errno. Continues after short writes and signals, and waits for a non-blocking pipe.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0) {
      return EIO;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Replaces what is not UTF-8, so that the line stays JSON.
std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string spoken(std::string_view text) {
  return program_invocation_short_name + (": " + std::string(text));
}

// A failure to write standard error cannot be reported anywhere.
void say(const std::string& line) {
  static_cast<void>(write_all(STDERR_FILENO, escaped(line) + "\n"));
}

void say_in_words(std::string_view text) {
  const std::string line = escaped(spoken(text));
  const auto columns = ::isatty(STDERR_FILENO) == 1 ? columns_of(STDERR_FILENO) : std::nullopt;
  static_cast<void>(write_all(STDERR_FILENO, (columns ? wrapped(line, *columns) : line) + "\n"));
}

// The widths of a table that is no wider than `most`, if its words allow that.
void narrow(std::vector<std::size_t>& widths, const std::vector<Row>& lines, std::size_t most) {
  std::vector<std::size_t> least(widths.size());  // the longest word
  for (const Row& line : lines) {
    for (std::size_t i = 0; i < least.size(); ++i) {
      for (const auto word : std::views::split(line[i], ' '))
        least[i] = std::max(least[i], static_cast<std::size_t>(std::ranges::distance(word)));
    }
  }
  std::size_t whole = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) whole += width;
  // If that is not enough, a long word sticks out of the last column.
  constexpr std::size_t enough = 20;
  for (const std::size_t last : {least.back(), std::min(least.back(), enough)}) {
    least.back() = last;
    for (; whole > most; --whole) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i < widths.size(); ++i)
        if (widths[i] > least[i] && (widest == nullptr || widths[i] > *widest)) widest = &widths[i];
      if (widest == nullptr) break;
      --*widest;
    }
  }
}

}  // namespace

Output::Output(int fd) : fd_(fd), block_(std::make_unique_for_overwrite<char[]>(kBlock)) {
  // Reduces switches between writer and reader. Fails if it is no pipe, which does not matter.
  static_cast<void>(::fcntl(fd_, F_SETPIPE_SZ, 1 << 20));
}

void Output::write(std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n'; });
  plain ? write_as_is(text) : write_as_is(escaped(text, "\n"));
}

void Output::write_line(std::string_view text) {
  write_as_is(escaped(text));
  write_as_is("\n");
}

void Output::write_styled(std::string_view style, std::string_view text) {
  if (!coloured()) return write(text);
  write_as_is("\x1b[" + std::string(style) + "m");
  write(text);
  write_as_is("\x1b[0m");
}

void Output::write_as_is(std::string_view text) {
  while (!text.empty()) {
    const std::size_t part = std::min(text.size(), kBlock);
    char* const room = reserve(part);
    commit(std::copy_n(text.begin(), part, room));
    text.remove_prefix(part);
  }
}

void Output::flush() {
  if (error_ == 0) error_ = write_all(fd_, {block_.get(), used_});
  used_ = 0;
}

void Output::close() {
  flush();
  if (::close(fd_) != 0 && error_ == 0) error_ = errno;
}

bool Output::reader_gone() const noexcept { return error_ == EPIPE; }

Error Output::failure(bool ids, std::string_view advice) const {
  return {Code::kUnavailable,
          "cannot write standard output (" + std::generic_category().message(error_) + "): " +
              std::string(!advice.empty() ? advice
                          : ids ? "what was not printed is lost, and never comes again; mend that "
                                  "and ask for new ids"
                                : "mend that, and try again")};
}

bool Output::coloured() const {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  return ::isatty(fd_) == 1 && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
         std::string_view(term) != "dumb";
}

std::optional<std::size_t> columns_of(int fd) {
  constexpr std::size_t least = 40;
  std::size_t columns = 0;
  const char* const given = std::getenv("COLUMNS");
  if (const std::string_view text = given != nullptr ? given : ""; !text.empty())
    std::from_chars(text.data(), text.data() + text.size(), columns);
  winsize size{};
  if (columns == 0 && ::ioctl(fd, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns == 0) return std::nullopt;
  return std::max(columns, least);
}

bool has_utf8() {
  return std::setlocale(LC_CTYPE, "") != nullptr &&
         std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

void print_table(Output& out, const std::vector<Column>& columns, const std::vector<Row>& rows) {
  std::vector<Row> lines(1);
  for (const Column& column : columns) lines.front().push_back(escaped(column.title));
  for (const Row& row : rows) {
    lines.emplace_back();
    for (const std::string& cell : row) lines.back().push_back(escaped(cell));
  }
  std::vector<std::size_t> widths(columns.size());
  for (const Row& line : lines)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  const auto print_line = [&](const Row& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - std::min(widths[i], row[i].size()), ' ');
      if (i != 0) line += "  ";
      line += columns[i].align == Align::kRight ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  if (const auto most = out.columns()) narrow(widths, lines, *most);
  const auto print = [&](Row row) {
    std::string text;
    for (bool more = true; more;) {
      Row line(row.size());
      more = false;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string whole = row[i].size() > widths[i] ? wrapped(row[i], widths[i]) : row[i];
        line[i] = whole.substr(0, whole.find('\n'));
        row[i].erase(0, std::min(line[i].size() + 1, row[i].size()));
        more = more || !row[i].empty();
      }
      text += (text.empty() ? "" : "\n") + print_line(line);
    }
    return text;
  };
  out.write_styled("1", print(lines.front()));
  out.write("\n");
  for (const Row& line : std::span(lines).subspan(1)) out.write(print(line) + "\n");
}

void print_wrapped(Output& out, std::string line, std::size_t indent,
                   std::string_view from_outside) {
  const std::size_t width = std::min<std::size_t>(out.columns().value_or(80), 80);
  const std::string words = escaped(from_outside);
  std::string_view text = words;
  while (!text.empty()) {
    std::size_t part = text.size();
    const std::size_t room = width - std::min(width - 1, line.size() + 1);
    if (part > room) {
      part = text.rfind(' ', room);
      if (part == std::string_view::npos || part == 0) part = std::min(text.find(' '), text.size());
    }
    out.write(line + std::string(text.substr(0, part)) + "\n");
    text.remove_prefix(std::min(part + 1, text.size()));
    line.assign(indent, ' ');
  }
}

void print_fact(Output& out, std::string_view label, std::string_view text) {
  constexpr std::size_t indent = 16;
  std::string line = "  " + std::string(label);
  line.resize(std::max(indent, line.size() + 1), ' ');
  print_wrapped(out, std::move(line), indent, text);
}

void report(const Error& error, bool json) {
  if (!json) return say_in_words(error.message());
  say(json_line({{"error", {{"code", name(error.code)}, {"message", error.message()}}}}));
}

void report_notice(std::string_view notice, bool json) {
  if (!json) return say_in_words(notice);
  say(json_line({{"notice", notice}}));
}

}  // namespace idmint
