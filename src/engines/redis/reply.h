// RESP, the protocol of Redis, as a client speaks it: commands as bytes, and bytes as replies.
// Source: Redis serialization protocol specification, https://redis.io/docs/reference/protocol-spec
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace idmint::stores::redis {

// Appends the command to `request`. Words may hold any bytes.
void append_command(std::string* request, std::span<const std::string_view> words);

// A reply of the server, in version 2 of the protocol.
struct Reply {
  enum class Kind : std::uint8_t { kNothing, kText, kInteger, kError, kArray };
  Kind kind = Kind::kNothing;
  std::string text{};  // of a text, an integer (its digits) and an error
  std::vector<Reply> items{};

  [[nodiscard]] bool is_error() const noexcept { return kind == Kind::kError; }
};

// Reads replies from a stream, however it is cut. One thread at a time.
class ReplyReader {
 public:
  // More than idmint ever asks for: beyond them the sender is no server of Redis.
  static constexpr std::size_t kMostBytes = std::size_t{64} * 1024 * 1024;
  static constexpr std::size_t kMostItems = std::size_t{1} << 20;
  static constexpr std::size_t kDeepest = 8;

  enum class State : std::uint8_t {
    kIncomplete,  // more input is needed
    kReply,       // reply() is one
    kBroken,      // not RESP; no further reply can be found
  };

  void add(std::string_view bytes) { input_ += bytes; }
  // Reads on in what was added.
  [[nodiscard]] State read();
  // After kReply, until read() is called again.
  [[nodiscard]] Reply& reply() noexcept { return reply_; }
  // Bytes were added that belong to no reply that was read.
  [[nodiscard]] bool has_more() const noexcept { return at_ < input_.size() || !open_.empty(); }

 private:
  // An array of which items are missing.
  struct Open {
    Reply array;
    std::size_t missing;
  };

  [[nodiscard]] State read_one(Reply* reply, std::size_t* items);

  std::string input_{};
  std::size_t at_ = 0;  // the bytes before it were read
  std::vector<Open> open_{};
  Reply reply_{};
};

}  // namespace idmint::stores::redis
