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

  // Takes whole requests from the beginning of `input` and returns how many bytes they had. The
  // rest is offered again, in front of new input, when more arrives or after Connection::resume().
  // Takes nothing while held(). Replies are appended to Connection::out().
  [[nodiscard]] virtual std::size_t take(std::string_view input) = 0;

  // True while it takes no request: too many wait for their answers, or one must be answered before
  // the next is read. It calls Connection::resume() when that has changed.
  [[nodiscard]] virtual bool held() const noexcept = 0;

  // Whether the client is authenticated, or need not be.
  [[nodiscard]] virtual bool is_known() const = 0;

  // Whether it has taken a part of a request whose rest is missing.
  [[nodiscard]] virtual bool is_in_midst() const noexcept { return false; }

  // Whether it will append more of the current reply once the present part is sent.
  [[nodiscard]] virtual bool is_streaming() const noexcept { return false; }

  // Whether requests that it took have no answer yet. The connection stays until they have.
  [[nodiscard]] virtual bool waits() const noexcept = 0;

  // Writes the replies whose answers have come. Called for each entry of Service::settling.
  virtual void settle() = 0;

  // Appends an error for a client that did not send the rest of its request in time, if the
  // protocol has one.
  virtual void too_slow() {}
};

// The bytes that all connections of a loop hold together: unsent replies and input that no
// conversation has taken.
struct Unsent {
  // Above this, each connection has less room, so that many clients that do not read cannot fill
  // the memory.
  static constexpr std::size_t kMany = std::size_t{16} * 1024 * 1024;
  // Above this, a connection that holds more than Connection::kMostOfMany is cut off.
  static constexpr std::size_t kMost = std::size_t{48} * 1024 * 1024;

  std::size_t bytes = 0;
  std::uint64_t cut = 0;  // connections that were cut off for it
};

// The queue of TLS handshakes that can go on. A step takes some milliseconds of computing on the
// loop, so each turn of the loop makes one step of one handshake, after all other input: a flood of
// new clients slows down new clients only. It must outlive the loop's turns.
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

  // Once the client has left so many bytes unread, no further request is taken.
  static constexpr std::size_t kMostUnsent = std::size_t{256} * 1024;
  static constexpr std::size_t kMostUnsentOfMany = std::size_t{16} * 1024;
  // What a connection may hold (input and replies) without being cut off above Unsent::kMost.
  static constexpr std::size_t kMostOfMany = 2 * kMostUnsentOfMany;
  // SO_SNDBUF; Linux allocates twice as much. Without it the kernel buffers some megabytes for a
  // client that does not read.
  static constexpr int kSendBuffer = 128 * 1024;
  // How long a client may take to send the rest of a request, or to read any byte of its replies.
  static constexpr std::chrono::seconds kPatience{60};
  // How long a client may take to finish the TLS handshake, and to give a token where one is
  // needed.
  static constexpr std::chrono::seconds kPatienceWithUnknown{10};
  // How long the connection waits for the client to close its side once all was sent. Closing a TCP
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
    return out_.size() - sent_ + behind_ < (is_tight() ? kMostUnsentOfMany : kMostUnsent);
  }
  // Whether all connections together hold so much that a reply larger than kMostUnsentOfMany is to
  // be refused.
  [[nodiscard]] bool is_tight() const noexcept { return in_all_.bytes > Unsent::kMany; }
  // How many bytes of replies the conversation keeps behind one that has no answer yet. They take
  // room as those in out() do. The conversation calls resume() when there are fewer.
  void set_behind(std::size_t bytes) {
    behind_ = bytes;
    if (closed_) count();  // no turn comes any more
  }
  // How many bytes of requests the conversation keeps.
  void set_queued(std::size_t bytes) noexcept { queued_ = bytes; }

  // Sends what the socket takes.
  void flush();
  // Offers the conversation what it left, and goes on reading.
  void resume();
  // Closes it as soon as all is answered and sent. No further request is taken.
  void close_when_sent();
  // The server ends: closes it as soon as what was taken is answered. What comes meanwhile still
  // reaches the conversation, which refuses it.
  void drain();
  // Resets the connection soon, so that the client does not take a part of a reply for the whole.
  void cut();
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return closed_; }

  // Closes it if its client was too slow, or unknown for too long. To be called every few seconds.
  void check(std::chrono::steady_clock::time_point now);

  // For logs: "127.0.0.1:40312", or "unix".
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] bool is_encrypted() const noexcept { return tls_ != nullptr; }

 private:
  friend class Handshakes;
  // What the socket gave: bytes, and whether it goes on after them.
  struct Arrival {
    std::size_t bytes = 0;
    bool ended = false;
    bool broken = false;
  };
  [[nodiscard]] Arrival receive(std::span<char> block);
  // How many bytes the socket took. 0: none now, and waits_for_room_ if it tells when. Nothing: it
  // is broken.
  [[nodiscard]] std::optional<std::size_t> transmit(std::string_view text);
  void wait_for_input();
  // The socket can be read.
  void input_came();
  void read();
  [[nodiscard]] bool is_in_handshake() const noexcept {
    return tls_ != nullptr && !tls_->is_established();
  }
  // Tells in_all_ what this one holds, and cuts it off if that is too much.
  void count();
  // Offers the conversation what is at hand, of which `fresh` has not been kept yet.
  void offer(std::string_view fresh);
  void end_if_done();
  void linger();
  // What follows each turn of the conversation.
  void finish_turn();

  Socket socket_;
  std::unique_ptr<TlsStream> tls_;
  Unsent& in_all_;
  Handshakes& handshakes_;
  std::size_t counted_ = 0;  // of this one, among in_all_
  boost::asio::steady_timer linger_timer_;
  std::function<void(Connection&)> ended_;
  std::unique_ptr<Conversation> conversation_;
  std::string peer_;
  std::string in_;   // came, and was not taken
  std::string out_;  // not sent from `sent_` on
  std::size_t sent_ = 0;
  std::size_t behind_ = 0;  // set_behind()
  std::size_t queued_ = 0;  // set_queued()
  bool waits_for_input_ = false;
  bool waits_for_room_ = false;    // the socket takes nothing more
  bool input_needs_room_ = false;  // TLS must send before it can read on
  bool offering_ = false;
  bool stopped_for_room_ = false;  // the conversation took no more, as too much is not sent yet
  bool turn_posted_ = false;
  bool peer_done_ = false;   // it sends nothing more
  bool last_words_ = false;  // close_when_sent()
  bool draining_ = false;    // drain()
  bool cut_ = false;         // cut()
  bool lingers_ = false;     // all was sent: what comes is thrown away
  bool closed_ = false;
  // Since when a part of a request waits for its rest, or replies wait to be read.
  std::chrono::steady_clock::time_point incomplete_since_{};
  std::chrono::steady_clock::time_point unread_since_{};
  std::chrono::steady_clock::time_point unknown_since_{};  // since when its client is not known
};

}  // namespace idmint::server
