// Connection: the socket of one client, with bounded buffers in both directions.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/tls.h"

namespace idmint::server {

class Connection;

// The server's half of one protocol, over one connection. All calls come on the loop.
class Conversation {
 public:
  virtual ~Conversation() = default;

  // Takes complete requests from the beginning of `input` and returns their size. The rest is
  // offered again, before new input, when more arrives or after Connection::resume(). Takes nothing
  // while held(). Appends replies to Connection::out().
  [[nodiscard]] virtual std::size_t take(std::string_view input) = 0;

  // Whether it takes no request, because too many wait for their answers, or one must be answered
  // before the next is read. It calls Connection::resume() when this ends.
  [[nodiscard]] virtual bool held() const noexcept = 0;

  // Whether the client is authenticated, or need not be.
  [[nodiscard]] virtual bool is_known() const = 0;

  // Whether it has taken a part of an incomplete request.
  [[nodiscard]] virtual bool is_in_midst() const noexcept { return false; }

  // Whether it will append more of the current reply after the present part is sent.
  [[nodiscard]] virtual bool is_streaming() const noexcept { return false; }

  // Whether requests that it took have no answer yet. The connection stays until they have.
  [[nodiscard]] virtual bool waits() const noexcept = 0;

  // Writes the replies whose answers have come. Called for each entry of Service::settling.
  virtual void settle() = 0;

  // Appends an error for a client that did not complete its request in time, if the protocol has
  // one.
  virtual void too_slow() {}
};

// The bytes that all connections of a loop hold together: unsent replies and input that no
// conversation has taken.
struct Unsent {
  // Above this, each connection has less room, so that many clients that do not read cannot exhaust
  // memory.
  static constexpr std::size_t kMany = std::size_t{16} * 1024 * 1024;
  // Above this, a connection that holds more than Connection::kMostOfMany is cut off.
  static constexpr std::size_t kMost = std::size_t{48} * 1024 * 1024;

  std::size_t bytes = 0;
  std::uint64_t cut = 0;  // connections cut off for that reason
};

// The queue of TLS handshakes that can continue. A step takes some milliseconds of computation, so
// each turn of the loop makes one step of one handshake, after all other input. Thus a flood of new
// clients slows down new clients only. It must outlive the loop's turns.
class Handshakes final {
 public:
  void add(std::shared_ptr<Connection> connection);

 private:
  void make_step();

  std::deque<std::shared_ptr<Connection>> waiting_;
};

// Reads no more from a client whose requests wait for answers, and answers no more to a client that
// does not read, so that each connection has a bounded part of the memory. All calls come on the
// loop.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Above so many bytes that the client has left unread, no request is taken.
  static constexpr std::size_t kMostUnsent = std::size_t{256} * 1024;
  static constexpr std::size_t kMostUnsentOfMany = std::size_t{16} * 1024;
  // The most that a connection may hold (input and replies) without being cut off above
  // Unsent::kMost.
  static constexpr std::size_t kMostOfMany = 2 * kMostUnsentOfMany;
  // SO_SNDBUF; Linux allocates twice as much. Without it the kernel buffers some megabytes for a
  // client that does not read.
  static constexpr int kSendBuffer = 128 * 1024;
  // The longest time for the rest of a request, or for reading any byte of the replies.
  static constexpr std::chrono::seconds kPatience{60};
  // The longest time for the TLS handshake, and for a token if one is required.
  static constexpr std::chrono::seconds kPatienceWithUnknown{10};
  // A client that gives a token which is not known is answered after this time, after twice as long
  // the next time, and so on; with the last of so many the connection ends.
  static constexpr std::chrono::milliseconds kPauseOfGuess{100};
  static constexpr int kMostGuesses = 3;
  // The longest wait for the client to close its side after everything was sent. Closing a TCP
  // connection with unread input resets it, and the client may lose the last replies.
  static constexpr std::chrono::seconds kLinger{1};
  // The most input that is kept for an incomplete request. No conversation needs more.
  static constexpr std::size_t kMostKept = std::size_t{512} * 1024;

  // Calls `ended` once, when it is closed. `tls` belongs to this socket; null means plain text.
  // `in_all` and `handshakes` are shared by all connections and outlive this one.
  Connection(Socket socket, std::unique_ptr<TlsStream> tls, Unsent& in_all, Handshakes& handshakes,
             std::function<void(Connection&)> ended);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin(std::unique_ptr<Conversation> conversation);

  // The send buffer. It is sent by flush(), or after the requests of this turn.
  [[nodiscard]] std::string& out() noexcept { return out_; }
  // Whether further requests may be taken, by the room that is left for their replies.
  [[nodiscard]] bool has_room() const noexcept {
    return !paused_ &&
           out_.size() - sent_ + behind_ < (is_tight() ? kMostUnsentOfMany : kMostUnsent);
  }
  // Whether all connections together hold so much that replies larger than kMostUnsentOfMany must
  // be refused.
  [[nodiscard]] bool is_tight() const noexcept { return in_all_.bytes > Unsent::kMany; }
  // The bytes of replies that the conversation keeps behind an unanswered one. They count against
  // the room like those in out(). The conversation calls resume() when they decrease.
  void set_behind(std::size_t bytes) {
    behind_ = bytes;
    if (closed_) count();  // there is no later turn
  }
  // The bytes of requests that the conversation keeps.
  void set_queued(std::size_t bytes) noexcept { queued_ = bytes; }

  // Sends as much as the socket takes.
  void flush();
  // To be called with each token that is not known: nothing is taken or sent for a while. Returns
  // whether it was the last one that is heard: close_when_sent() is to follow.
  [[nodiscard]] bool pause_after_guess();
  // Offers the remaining input to the conversation, and continues reading.
  void resume();
  // Closes it when everything is answered and sent. Takes no further request.
  void close_when_sent();
  // Closes it, at the end of the server, when all taken requests are answered. Later input still
  // reaches the conversation, which refuses it.
  void drain();
  // Resets the connection soon, so that the client does not mistake a partial reply for a complete
  // one.
  void cut();
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return closed_; }

  // Closes it if its client was too slow, or unauthenticated for too long. To be called every few
  // seconds.
  void check(std::chrono::steady_clock::time_point now);

  // For logs: "127.0.0.1:40312", or "unix".
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] bool is_encrypted() const noexcept { return tls_ != nullptr; }

 private:
  friend class Handshakes;
  // The result of reading the socket: bytes, and what follows them.
  struct Arrival {
    std::size_t bytes = 0;
    bool ended = false;
    bool broken = false;
  };
  [[nodiscard]] Arrival receive(std::span<char> block);
  // The number of bytes that the socket took. 0: none now; waits_for_room_ is set if it will report
  // room. nullopt: it is broken.
  [[nodiscard]] std::optional<std::size_t> transmit(std::string_view text);
  void wait_for_input();
  // Called when the socket can be read.
  void input_came();
  void read();
  [[nodiscard]] bool is_in_handshake() const noexcept {
    return tls_ != nullptr && !tls_->is_established();
  }
  // Reports its bytes to in_all_, and cuts the connection off if they are too many.
  void count();
  // Offers all input to the conversation; `fresh` is the part that is not in in_ yet.
  void offer(std::string_view fresh);
  void end_if_done();
  void linger();
  // Ends each turn of the conversation.
  void finish_turn();

  Socket socket_;
  std::unique_ptr<TlsStream> tls_;
  Unsent& in_all_;
  Handshakes& handshakes_;
  std::size_t counted_ = 0;          // its bytes in in_all_
  boost::asio::steady_timer timer_;  // of a pause, and of lingering
  std::function<void(Connection&)> ended_;
  std::unique_ptr<Conversation> conversation_;
  std::string peer_;
  std::string in_;   // received, and not taken yet
  std::string out_;  // unsent from `sent_` on
  std::size_t sent_ = 0;
  std::size_t behind_ = 0;  // set_behind()
  std::size_t queued_ = 0;  // set_queued()
  bool waits_for_input_ = false;
  bool waits_for_room_ = false;    // the socket takes nothing more
  bool input_needs_room_ = false;  // TLS must send before it can read on
  bool offering_ = false;
  bool stopped_for_room_ = false;  // the conversation stopped because too much is unsent
  bool turn_posted_ = false;
  bool peer_done_ = false;   // it sends nothing more
  bool last_words_ = false;  // close_when_sent()
  bool draining_ = false;    // drain()
  bool cut_ = false;         // cut()
  bool lingers_ = false;     // everything was sent; further input is discarded
  bool paused_ = false;      // pause_after_guess()
  int guesses_ = 0;
  bool closed_ = false;
  // Since when a request is incomplete, or replies are unread.
  std::chrono::steady_clock::time_point incomplete_since_{};
  std::chrono::steady_clock::time_point unread_since_{};
  std::chrono::steady_clock::time_point unknown_since_{};  // since when !is_known()
};

}  // namespace idmint::server
