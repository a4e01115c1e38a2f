#include "server/connection.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <cerrno>
#include <utility>

namespace idmint::server {

using std::chrono::steady_clock;

namespace {

constexpr steady_clock::time_point kNever{};

std::string peer_of(const Connection::Socket& socket) {
  boost::system::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "a client that has gone";
  const int family = endpoint.protocol().family();
  if (family != AF_INET && family != AF_INET6) return "unix";
  boost::asio::ip::tcp::endpoint address;
  address.resize(endpoint.size());
  std::copy_n(reinterpret_cast<const char*>(endpoint.data()), endpoint.size(),
              reinterpret_cast<char*>(address.data()));
  const std::string host = address.address().to_string();
  const std::string port = std::to_string(address.port());
  return family == AF_INET6 ? "[" + host + "]:" + port : host + ":" + port;
}

}  // namespace

void Handshakes::add(std::shared_ptr<Connection> connection) {
  waiting_.push_back(std::move(connection));
  if (waiting_.size() > 1) return;  // its turn is posted
  boost::asio::post(waiting_.front()->socket_.get_executor(), [this] { make_step(); });
}

void Handshakes::make_step() {
  const std::shared_ptr<Connection> connection = std::move(waiting_.front());
  waiting_.pop_front();
  if (!waiting_.empty())
    boost::asio::post(connection->socket_.get_executor(), [this] { make_step(); });
  connection->input_came();
}

Connection::Connection(Socket socket, std::unique_ptr<TlsStream> tls, Unsent& in_all,
                       Handshakes& handshakes, std::function<void(Connection&)> ended)
    : socket_(std::move(socket)),
      tls_(std::move(tls)),
      in_all_(in_all),
      handshakes_(handshakes),
      timer_(socket_.get_executor()),
      ended_(std::move(ended)),
      peer_(peer_of(socket_)) {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::socket_base::send_buffer_size(kSendBuffer), ignored);
}

Connection::~Connection() = default;

void Connection::begin(std::unique_ptr<Conversation> conversation) {
  conversation_ = std::move(conversation);
  unknown_since_ = steady_clock::now();
  wait_for_input();
}

void Connection::wait_for_input() {
  if (closed_ || waits_for_input_ || peer_done_) return;
  const bool takes = !last_words_ && !conversation_->held() && !stopped_for_room_ && has_room();
  if (!takes && !lingers_) return;
  waits_for_input_ = true;
  auto go_on = [self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && self->is_in_handshake()) return self->handshakes_.add(self);
    self->waits_for_input_ = false;
    if (!error) self->read();
  };
  if (tls_ != nullptr && !lingers_ && tls_->has_pending()) {  // the socket does not tell
    boost::asio::post(socket_.get_executor(), [go_on] { go_on({}); });
    return;
  }
  socket_.async_wait(input_needs_room_ ? Socket::wait_write : Socket::wait_read, std::move(go_on));
}

void Connection::input_came() {
  waits_for_input_ = false;
  read();
}

Connection::Arrival Connection::receive(std::span<char> block) {
  Arrival arrival;
  // Bytes after the end are discarded, so they are not deciphered.
  if (tls_ == nullptr || lingers_) {
    const ssize_t got = ::recv(socket_.native_handle(), block.data(), block.size(), MSG_DONTWAIT);
    arrival.bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
    arrival.ended = got == 0;
    arrival.broken = got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    return arrival;
  }
  input_needs_room_ = false;
  while (arrival.bytes < block.size()) {
    const TlsStream::Outcome outcome = tls_->read(block.subspan(arrival.bytes));
    arrival.bytes += outcome.bytes;
    if (outcome.state == TlsStream::State::kDone) continue;
    arrival.ended = outcome.state == TlsStream::State::kEnd;
    arrival.broken = outcome.state == TlsStream::State::kBroken;
    input_needs_room_ = outcome.state == TlsStream::State::kWantsOutput;
    break;
  }
  return arrival;
}

std::optional<std::size_t> Connection::transmit(std::string_view text) {
  if (tls_ != nullptr) {
    const TlsStream::Outcome outcome = tls_->write(text);
    if (outcome.state == TlsStream::State::kBroken || outcome.state == TlsStream::State::kEnd)
      return std::nullopt;
    waits_for_room_ = outcome.state == TlsStream::State::kWantsOutput;
    return outcome.bytes;
  }
  ssize_t took = 0;
  do {
    took = ::send(socket_.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (took < 0 && errno == EINTR);
  if (took >= 0) return static_cast<std::size_t>(took);
  if (errno != EAGAIN && errno != EWOULDBLOCK) return std::nullopt;
  waits_for_room_ = true;
  return 0;
}

void Connection::read() {
  if (closed_ || (last_words_ && !lingers_)) return;
  // One block for all connections: an idle one holds no memory for what may come.
  static thread_local std::array<char, std::size_t{64} * 1024> block;
  const bool many = in_all_.bytes > Unsent::kMany;
  const Arrival arrival = receive(std::span(block).first(many ? kMostUnsentOfMany : block.size()));
  if (arrival.broken && arrival.bytes == 0) return close();
  if (lingers_) return arrival.ended ? close() : wait_for_input();
  if (arrival.bytes == 0 && !arrival.ended) {
    wait_for_input();
    return end_if_done();
  }
  if (arrival.ended) peer_done_ = true;  // its other half may still read
  offer({block.data(), arrival.bytes});
  finish_turn();
}

void Connection::finish_turn() {
  flush();
  if (closed_) return;
  if (stopped_for_room_ && has_room() && !turn_posted_ &&
      !last_words_) {  // the others have their turn first
    turn_posted_ = true;
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->turn_posted_ = false;
      self->resume();
    });
  }
  wait_for_input();
  end_if_done();
}

void Connection::offer(std::string_view fresh) {
  offering_ = true;
  std::size_t taken = 0;
  if (in_.empty()) {
    if (!conversation_->held() && has_room()) taken = conversation_->take(fresh);
    in_.assign(fresh.substr(taken));
  } else {
    in_ += fresh;
    if (!conversation_->held() && has_room()) taken = conversation_->take(in_);
    in_.erase(0, taken);
  }
  if (in_.empty()) in_.shrink_to_fit();
  offering_ = false;
  if (in_.size() > kMostKept) return close();
  stopped_for_room_ = !conversation_->held() && !has_room();
  const bool in_midst = conversation_->is_in_midst();
  const bool incomplete = (!in_.empty() || in_midst) && !conversation_->held() && has_room();
  if (!incomplete) {
    incomplete_since_ = kNever;
  } else if (incomplete_since_ == kNever || (taken != 0 && !in_midst)) {
    incomplete_since_ = steady_clock::now();
  }
}

void Connection::resume() {
  // From within take(): whoever called that goes on.
  if (closed_ || offering_) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  if (!last_words_) offer({});
  finish_turn();
}

void Connection::count() {
  const std::size_t now = out_.size() - sent_ + in_.size() + behind_ + queued_;
  in_all_.bytes += now - counted_;
  counted_ = now;
  if (in_all_.bytes > Unsent::kMost && counted_ > kMostOfMany && !closed_ && !cut_) {
    ++in_all_.cut;
    cut();
  }
}

void Connection::flush() {
  if (closed_) return;
  if (waits_for_room_ || paused_) return count();
  while (sent_ < out_.size()) {
    const std::optional<std::size_t> took = transmit(std::string_view(out_).substr(sent_));
    if (!took) return close();
    if (*took == 0) break;
    sent_ += *took;
    unread_since_ = kNever;
    if (waits_for_room_) break;
  }
  if (sent_ == out_.size()) {
    sent_ = 0;
    constexpr std::size_t kept = std::size_t{16} * 1024;  // of a busy connection
    out_.clear();
    if (out_.capacity() > kept && !conversation_->is_streaming()) out_.shrink_to_fit();
    return count();
  }
  count();
  if (unread_since_ == kNever) unread_since_ = steady_clock::now();
  if (sent_ > kMostUnsent) out_.erase(0, std::exchange(sent_, 0));
  if (!waits_for_room_) return;  // TLS waits for input first: the next turn sends on
  socket_.async_wait(Socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waits_for_room_ = false;
                       if (error) return;
                       self->flush();
                       if (self->has_room()) {
                         self->resume();
                       } else {
                         self->end_if_done();
                       }
                     });
}

void Connection::end_if_done() {
  if (closed_ || cut_ || lingers_ || !(peer_done_ || last_words_ || draining_)) return;
  if (sent_ < out_.size() || conversation_->waits()) return;
  if (!last_words_ && (stopped_for_room_ || (!in_.empty() && conversation_->held()))) return;
  if (peer_done_) return close();
  linger();
}

void Connection::linger() {
  lingers_ = true;
  std::string().swap(in_);
  if (tls_ != nullptr) tls_->end();
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  timer_.expires_after(kLinger);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->close();
  });
  wait_for_input();
}

bool Connection::pause_after_guess() {
  paused_ = true;
  timer_.expires_after(kPauseOfGuess * (1 << guesses_));
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    self->paused_ = false;
    self->flush();  // before the next token, which may pause it again
    self->resume();
  });
  return ++guesses_ == kMostGuesses;
}

void Connection::drain() {
  if (closed_ || draining_) return;
  draining_ = true;
  const std::shared_ptr<Connection> self = shared_from_this();
  end_if_done();
}

void Connection::close_when_sent() {
  last_words_ = true;
  if (offering_) return;  // read() or resume() sends, and ends
  const std::shared_ptr<Connection> self = shared_from_this();
  flush();
  end_if_done();
}

void Connection::cut() {
  cut_ = last_words_ = true;
  // Not at once: the conversation may be looking at what has come.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
}

void Connection::close() noexcept {
  if (closed_) return;
  closed_ = true;
  timer_.cancel();
  boost::system::error_code ignored;
  // Cut off in the midst: the client must not take what it has for all of it.
  if (cut_ || (conversation_ != nullptr && conversation_->waits()))
    socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  // By swap: an assignment of {} keeps the memory.
  std::string().swap(in_);
  std::string().swap(out_);
  sent_ = 0;
  queued_ = 0;
  count();  // what waits behind a reply stays with the conversation until that has its answer
  const auto ended = std::move(ended_);
  if (ended) ended(*this);
}

void Connection::check(steady_clock::time_point now) {
  if (closed_ || lingers_) return;
  if (unread_since_ != kNever && now - unread_since_ > kPatience) return close();
  if (incomplete_since_ != kNever && now - incomplete_since_ > kPatience) {
    incomplete_since_ = kNever;  // it is told once, though earlier replies may wait still
    const std::shared_ptr<Connection> self = shared_from_this();
    conversation_->too_slow();
    return close_when_sent();
  }
  if (!is_in_handshake() && (conversation_->is_known() || conversation_->waits())) {
    unknown_since_ = kNever;
  } else if (unknown_since_ == kNever) {
    unknown_since_ = now;
  } else if (now - unknown_since_ > kPatienceWithUnknown) {
    if (is_in_handshake()) return close();
    paused_ = false;  // what it guessed last is answered now
    close_when_sent();
  }
}

}  // namespace idmint::server
