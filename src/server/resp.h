// RESP: the server side of the Redis protocol. Commands are arrays of bulk strings or inline
// commands; replies are written in version 2 or 3.
// Source: Redis serialization protocol specification, https://redis.io/docs/reference/protocol-spec
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::server {

// The words of a command; the first is its name. They point into the input.
using Words = std::span<const std::string_view>;

// Reads commands from a stream. Continues in an incomplete command where it stopped, so a sender of
// single bytes costs no more than any other. One thread at a time.
class RespReader final {
 public:
  // Limits of one command. Beyond them the stream is broken, because its sender is not a client of
  // this service.
  static constexpr std::size_t kMostWords = 4096;
  static constexpr std::size_t kMostWordBytes = std::size_t{64} * 1024;
  static constexpr std::size_t kMostBytes = std::size_t{256} * 1024;
  // Likewise before authentication.
  static constexpr std::size_t kMostWordsOfUnknown = 16;
  static constexpr std::size_t kMostBytesOfUnknown = std::size_t{16} * 1024;

  enum class State : std::uint8_t {
    kIncomplete,  // more input is needed
    kCommand,     // words() is a command, possibly without words
    kBroken,      // problem() says why; the next command cannot be found
  };

  // Reads the next command. `input` begins with the bytes that earlier calls did not consume. After
  // kIncomplete these are all bytes of that call, possibly with more behind them.
  [[nodiscard]] State read(std::string_view input);

  // After kCommand: the words, valid as long as the input, and the bytes consumed.
  [[nodiscard]] Words words() const noexcept { return words_; }
  [[nodiscard]] std::size_t consumed() const noexcept { return at_; }
  // Whether the command was an inline command.
  [[nodiscard]] bool is_inline() const noexcept { return is_inline_; }
  // Sets whether the smaller limits hold from now on.
  void restrain(bool unknown) noexcept { unknown_ = unknown; }
  // Releases the memory of a long command, unless the next one has begun. Invalidates words().
  void trim();
  // The bytes that it holds.
  [[nodiscard]] std::size_t kept() const noexcept {
    return pieces_.capacity() * sizeof(Piece) + words_.capacity() * sizeof(std::string_view) +
           inline_text_.capacity();
  }

  // After kBroken: one line for the sender, without an error prefix.
  [[nodiscard]] std::string_view problem() const noexcept { return problem_; }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t size;
  };

  [[nodiscard]] std::size_t most_words() const noexcept {
    return unknown_ ? kMostWordsOfUnknown : kMostWords;
  }
  [[nodiscard]] std::size_t most_bytes() const noexcept {
    return unknown_ ? kMostBytesOfUnknown : kMostBytes;
  }
  [[nodiscard]] std::size_t most_word_bytes() const noexcept {
    return std::min(kMostWordBytes, most_bytes());
  }
  State read_inline(std::string_view input);
  State broken(std::string_view problem);

  std::vector<Piece> pieces_;  // of the current command; offsets into the input
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;          // everything before it was read
  std::size_t searched_ = 0;    // no line ends before it
  std::size_t words_left_ = 0;  // left in the array
  bool in_array_ = false;
  bool done_ = true;  // the last call returned a command
  bool is_inline_ = false;
  bool unknown_ = false;
  std::string inline_text_;  // its words, with escapes resolved
  std::string_view problem_;
};

// ---- replies; each function appends to `out`

enum class Resp : std::uint8_t { k2 = 2, k3 = 3 };

void put_integer(std::string& out, std::int64_t value);
// At most 2^64 - 1. RESP integers are 64 signed bits, so a larger one becomes a bulk string.
void put_unsigned(std::string& out, std::uint64_t value);
// `text` has no line breaks.
void put_simple(std::string& out, std::string_view text);
void put_bulk(std::string& out, std::string_view text);
// Line breaks and other control characters in the message become blanks.
void put_error(std::string& out, std::string_view prefix, std::string_view message);
void put_null(std::string& out, Resp version);
void put_null_array(std::string& out, Resp version);
void put_array(std::string& out, std::size_t size);
// In version 2 an array with twice as many elements.
void put_map(std::string& out, Resp version, std::size_t pairs);
void put_set(std::string& out, Resp version, std::size_t size);

// The first word of an error reply: NOTFOUND, OUTOFRANGE, ...; ERR for an invalid request, as in
// Redis.
[[nodiscard]] std::string_view resp_prefix(Code code) noexcept;

}  // namespace idmint::server
