// Connection: one socket of a client, and what both sides have not taken yet.
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

// What is said over a connection: one protocol's half of it. On the loop.
class Conversation {
 public:
  virtual ~Conversation() = default;

  // Takes requests from the beginning of `input` and returns how many bytes those had. The rest
  // comes again, in front of what follows, when more has come or after Connection::resume().
  // Nothing is taken while held(). Replies are appended to Connection::out().
  [[nodiscard]] virtual std::size_t take(std::string_view input) = 0;

  // It takes nothing now: too many requests wait for their answers, or one must be answered before
  // the next is looked at. It calls Connection::resume() when that has changed.
  [[nodiscard]] virtual bool held() const noexcept = 0;

  // Whether the client has said who it is, or need not.
  [[nodiscard]] virtual bool is_known() const = 0;

  // A part of a request was taken, and its rest is missing.
  [[nodiscard]] virtual bool is_in_midst() const noexcept { return false; }

  // More of one reply follows when what there is of it was sent.
  [[nodiscard]] virtual bool is_streaming() const noexcept { return false; }

  // Requests that were taken and are not answered yet: the connection outlives them.
  [[nodiscard]] virtual bool waits() const noexcept = 0;

  // Some of them have got their answers: Service::settling had it.
  virtual void settle() = 0;

  // Last words for a client whose request did not come whole in time, if the protocol has some.
  virtual void too_slow() {}
};

// What all connections hold together, on their loop.
struct Unsent {
  // Past so many bytes each connection has less room, so that many clients that do not read cannot
  // fill the memory.
  static constexpr std::size_t kMany = std::size_t{32} * 1024 * 1024;

  std::size_t bytes = 0;
};

// Connections whose handshake of TLS can go on. It takes up to some milliseconds of computing, and
// clients that are served wait for it. So each turn of the loop makes a step of one handshake, and
// lets all else that has come go first: a flood of new clients slows down new clients. On the loop;
// it must outlive the turns.
class Handshakes final {
 public:
  void add(std::shared_ptr<Connection> connection);

 private:
  void make_step();

  std::deque<std::shared_ptr<Connection>> waiting_;
};

// On the loop. Whoever sends more than is answered is not read from any more, and whoever does not
// read is not answered any more: so each connection has a bounded part of the memory.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Past so many bytes that the client has not read no further request is taken.
  static constexpr std::size_t kMostUnsent = std::size_t{256} * 1024;
  static constexpr std::size_t kMostUnsentOfMany = std::size_t{16} * 1024;
  // How long a client may take to send the rest of a request, and to read anything at all of what
  // was sent.
  static constexpr std::chrono::seconds kPatience{60};
  // How long a client that is not known may stay: it has not finished its handshake of TLS, or has
  // given no token where one is needed.
  static constexpr std::chrono::seconds kPatienceWithUnknown{10};
  // How long a client has to close its side once all was sent to it. If a TCP connection is closed
  // while input is unread, it is reset, and the client may lose the last replies.
  static constexpr std::chrono::seconds kLinger{1};
  // Input of one request that was not taken. No conversation asks for more.
  static constexpr std::size_t kMostKept = std::size_t{512} * 1024;

  // `ended` is called once, when it is closed. `tls`: of this socket; null: what is said is not
  // encrypted. `in_all` and `handshakes`: of all connections; they outlive this one.
  Connection(Socket socket, std::unique_ptr<TlsStream> tls, Unsent& in_all, Handshakes& handshakes,
             std::function<void(Connection&)> ended);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin(std::unique_ptr<Conversation> conversation);

  // What is to be sent. Sent by flush(), or after the requests of this turn.
  [[nodiscard]] std::string& out() noexcept { return out_; }
  // Whether more replies may be made than those that were asked for already.
  [[nodiscard]] bool has_room() const noexcept {
    return out_.size() - sent_ < (in_all_.bytes > Unsent::kMany ? kMostUnsentOfMany : kMostUnsent);
  }

  // Sends what the socket takes.
  void flush();
  // Offers the conversation what it left, and goes on reading.
  void resume();
  // Closes it as soon as all is answered and sent. No further request is taken.
  void close_when_sent();
  // The server ends: closes it as soon as what was taken is answered. What comes meanwhile still
  // reaches the conversation, which refuses it.
  void drain();
  // Ends it soon with a reset, so that the client does not take what it has for the whole.
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
  void count_unsent() noexcept;
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
