// Standard output in large blocks, with every failure noticed; tables; messages on standard error.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint {

// The width of lines on this descriptor: the variable COLUMNS, or the width of the terminal; 40 at
// least. Nothing: it is no terminal, or one of unknown width, so that lines may be of any length.
[[nodiscard]] std::optional<std::size_t> columns_of(int fd);

// Writes to a file descriptor in blocks of at most 64 KiB, which contain whole lines if only
// reserve() and commit() are used. Keeps the first failure, and drops all output after it. For one
// thread.
class Output {
 public:
  explicit Output(int fd);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Space for `size` characters, at most kBlock. commit(end) takes what was written there up to
  // `end`.
  [[nodiscard]] char* reserve(std::size_t size) {
    if (kBlock - used_ < size) flush();
    return block_.get() + used_;
  }
  void commit(const char* end) noexcept { used_ = static_cast<std::size_t>(end - block_.get()); }
  // Writes escaped() text with its line ends: no control character of a name or a foreign message
  // reaches the terminal.
  void write(std::string_view text);
  // Writes one line, whatever the text contains.
  void write_line(std::string_view text);
  // Writes with an SGR style if colours are wanted: "1" is bold, "31" is red.
  void write_styled(std::string_view style, std::string_view text);

  void flush();
  // Flushes and closes: some file systems report a failed write only then.
  void close();

  [[nodiscard]] bool failed() const noexcept { return error_ != 0; }
  // EPIPE: nobody reads any more; this is not reported.
  [[nodiscard]] bool reader_gone() const noexcept;
  // kUnavailable, whatever failed. `ids`: output that was not printed cannot be recovered.
  // REQUIRES: failed().
  [[nodiscard]] Error failure(bool ids, std::string_view advice = {}) const;

  // As columns_of().
  [[nodiscard]] std::optional<std::size_t> columns() const { return columns_of(fd_); }
  // Whether it is a terminal on which colours are wanted (NO_COLOR, TERM).
  [[nodiscard]] bool coloured() const;

  static constexpr std::size_t kBlock = std::size_t{64} * 1024;

 private:
  void write_as_is(std::string_view text);

  const int fd_;
  int error_ = 0;  // errno of the first failure
  std::size_t used_ = 0;
  std::unique_ptr<char[]> block_;
};

// Whether the locale is UTF-8 (LC_ALL, LC_CTYPE, LANG).
[[nodiscard]] bool has_utf8();

enum class Align : bool { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

using Row = std::vector<std::string>;

// Escapes the cells. If the table is wider than the output, the widest columns take several lines
// and break between words.
void print_table(Output& out, const std::vector<Column>& columns, const std::vector<Row>& rows);

// Prints the text in lines that end before column 80, or that of a narrower output: the first
// begins with `line`, the others are indented.
void print_wrapped(Output& out, std::string line, std::size_t indent, std::string_view text);
// Prints a label of up to 13 characters and its text in such lines.
void print_fact(Output& out, std::string_view label, std::string_view text);

// Prints one line on standard error, escaped: "idmint: ...", or an object of JSON. A terminal gets
// several lines, which break between words, where it is narrower.
void report(const Error& error, bool json);
void report_notice(std::string_view notice, bool json);

}  // namespace idmint
