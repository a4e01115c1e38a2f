// Standard output in large blocks, every failure noticed; tables; messages on standard error.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::cli {

// Writes to a file descriptor in blocks of at most 64 KiB, which hold whole lines as long as only
// reserve() and commit() are used. The first failure is kept, and what comes after it is dropped.
// For one thread.
class Output {
 public:
  explicit Output(int fd);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Room for `size` characters, at most kBlock. What was written there up to `end` is taken by
  // commit(end).
  [[nodiscard]] char* reserve(std::size_t size) {
    if (kBlock - used_ < size) flush();
    return block_.get() + used_;
  }
  void commit(const char* end) noexcept { used_ = static_cast<std::size_t>(end - block_.get()); }
  void write(std::string_view text);

  void flush();
  // Flushes and closes: some file systems tell of a failed write only then.
  void close();

  [[nodiscard]] bool failed() const noexcept { return error_ != 0; }
  // EPIPE: nobody reads any more, which is no news to tell.
  [[nodiscard]] bool reader_gone() const noexcept;
  // REQUIRES: failed().
  // `ids`: what was not printed cannot be asked for again.
  [[nodiscard]] Error failure(bool ids, std::string_view advice = {}) const;

  // Whether it is a terminal on which colours are wanted (NO_COLOR, TERM).
  [[nodiscard]] bool coloured() const;

  static constexpr std::size_t kBlock = std::size_t{64} * 1024;

 private:
  const int fd_;
  int error_ = 0;  // errno of the first failure
  std::size_t used_ = 0;
  std::unique_ptr<char[]> block_;
};

enum class Align : bool { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

using Row = std::vector<std::string>;

void print_table(Output& out, const std::vector<Column>& columns, const std::vector<Row>& rows);

// One line each on standard error: "idmint: ...", or an object of JSON.
void report(const Error& error, bool json);
void report_notice(std::string_view notice, bool json);

// At most about 100 characters of it, for a message.
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace idmint::cli
