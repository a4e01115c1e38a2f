#include "engines/etcd/connection.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/given_up.h"
#include "base/text.h"

namespace idmint::stores::etcd {
namespace {

using std::chrono::milliseconds;

// No answer to what the store asks for comes near it.
constexpr std::size_t kLargestAnswer = std::size_t{256} << 20;

// The body of a request, and that of its response.
struct Exchange {
  std::string_view body{};
  std::size_t given = 0;  // to libcurl, which may have sent that much
  std::string answer{};
};

// libcurl sends a request again where the server closed the connection that it had used before: a
// change would be made twice. It cannot, as the body is given to it once.
std::size_t give_body(char* to, std::size_t size, std::size_t count, void* of) {
  auto& exchange = *static_cast<Exchange*>(of);
  const std::string_view left = exchange.body.substr(exchange.given);
  if (left.empty()) return CURL_READFUNC_ABORT;
  const std::size_t given = left.copy(to, size * count);
  exchange.given += given;
  return given;
}

std::size_t take_answer(const char* from, std::size_t size, std::size_t count, void* of) {
  std::string& answer = static_cast<Exchange*>(of)->answer;
  if (answer.size() + size * count > kLargestAnswer) return 0;
  answer.append(from, size * count);
  return size * count;
}

// Called once a second at least.
int ends_if_given_up(void* /*none*/, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return MayBeGivenUp::happened() ? 1 : 0;
}

// OpenSSL writes to sockets that the other end may have closed, and libcurl leaves SIGPIPE as it is
// where it may use no signals.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending{};
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec none{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &none);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Null: no memory.
curl_slist* list_of(const std::vector<std::string>& lines) {
  curl_slist* list = nullptr;
  for (const std::string& line : lines) {
    curl_slist* const longer = curl_slist_append(list, line.c_str());
    if (longer == nullptr) {
      curl_slist_free_all(list);
      return nullptr;
    }
    list = longer;
  }
  return list;
}

// In ms, as libcurl takes it, which takes 0 for no end.
long time_left(SteadyTime until) {
  const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<long>(
      std::clamp<std::int64_t>(left.count(), 1, std::numeric_limits<std::int32_t>::max()));
}

// The connection was never made, and will not be as long as the files and the server stay.
bool is_about_certificates(CURLcode failed) {
  constexpr std::array<CURLcode, 4> kCodes = {CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
                                              CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR};
  return std::ranges::find(kCodes, failed) != kCodes.end();
}

}  // namespace

std::expected<std::unique_ptr<Connection>, Failure> Connection::open(const Address& address,
                                                                     const std::string& server) {
  CURL* const curl = curl_easy_init();
  if (curl == nullptr)
    return std::unexpected(Failure{.error = {Code::kResourceExhausted, "no memory"}});
  std::unique_ptr<Connection> connection(new Connection(address, server, curl));
  if (auto set_up = connection->set_up(); !set_up)
    return std::unexpected(std::move(set_up.error()));
  return connection;
}

Connection::~Connection() {
  if (curl_ == nullptr) return;
  const WithoutSigpipe none;
  curl_easy_cleanup(curl_);
}

// While it connects, libcurl may try several addresses of the server. Later it would connect anew
// where the server has closed the connection, perhaps to a cluster that was restored meanwhile.
curl_socket_t Connection::open_socket(void* self, curlsocktype /*purpose*/,
                                      curl_sockaddr* address) {
  if (static_cast<Connection*>(self)->answered_) return CURL_SOCKET_BAD;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

std::expected<void, Failure> Connection::set_up() {
  CURLcode set = CURLE_OK;
  const auto use = [&](CURLoption option, auto value) {
    if (set == CURLE_OK) set = curl_easy_setopt(curl_, option, value);
  };
  use(CURLOPT_NOSIGNAL, 1L);
  use(CURLOPT_PROXY, "");  // nor that of the environment
  use(CURLOPT_FOLLOWLOCATION, 0L);
  use(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  use(CURLOPT_POST, 1L);
  use(CURLOPT_OPENSOCKETFUNCTION, open_socket);
  use(CURLOPT_OPENSOCKETDATA, this);
  use(CURLOPT_READFUNCTION, give_body);
  use(CURLOPT_WRITEFUNCTION, take_answer);
  use(CURLOPT_TCP_KEEPALIVE, 1L);
  if (!address_.tls_ca.empty()) use(CURLOPT_CAINFO, address_.tls_ca.c_str());
  if (!address_.tls_cert.empty()) use(CURLOPT_SSLCERT, address_.tls_cert.c_str());
  if (!address_.tls_key.empty()) use(CURLOPT_SSLKEY, address_.tls_key.c_str());
  if (set == CURLE_OK) return {};
  return std::unexpected(Failure{
      .error = {Code::kFailedPrecondition,
                std::string("libcurl cannot do what is needed: ") + curl_easy_strerror(set)}});
}

std::expected<std::string, Failure> Connection::post(std::string_view path, std::string_view body,
                                                     bool writes, SteadyTime until) {
  until = std::min(until, answer_by_);
  if (std::chrono::steady_clock::now() >= until)
    return std::unexpected(
        Failure{.error = {Code::kUnavailable, "no time was left to ask"}, .passing = true});
  // A member without a leader says so at once.
  std::vector<std::string> lines = {"Content-Type: application/json",
                                    "Expect:", "Grpc-Metadata-hasleader: true"};
  if (!token_.empty()) lines.push_back("Authorization: " + token_);
  const std::unique_ptr<curl_slist, FreeList> headers(list_of(lines));
  if (headers == nullptr)
    return std::unexpected(Failure{.error = {Code::kResourceExhausted, "no memory"}});
  Exchange exchange{.body = body};
  std::array<char, CURL_ERROR_SIZE> why{};
  const std::string url = server_ + std::string(path);
  curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl_, CURLOPT_READDATA, &exchange);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, ends_if_given_up);
  curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, MayBeGivenUp::applies() ? 0L : 1L);
  curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, time_left(until));
  curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT_MS, time_left(until));
  const CURLcode done = [&] {
    const WithoutSigpipe none;
    return curl_easy_perform(curl_);
  }();
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, nullptr);
  if (done != CURLE_OK) {
    usable_ = false;
    const bool late = done == CURLE_OPERATION_TIMEDOUT || done == CURLE_ABORTED_BY_CALLBACK;
    const bool sent = exchange.given != 0;
    std::string what = why[0] != '\0' ? why.data() : curl_easy_strerror(done);
    if (late) what = sent ? "no answer in time" : "the server does not answer";
    if (!late && answered_) what = "the server closed the connection";
    if (is_about_certificates(done))
      return std::unexpected(Failure{
          .error = {Code::kFailedPrecondition,
                    escaped(as_utf8(what)) + "; look at tls_ca, tls_cert and tls_key in the URL"},
          .reason = std::string(kUnfitMember)});
    if (late && sent && writes)
      return std::unexpected(
          Failure{.error = {Code::kDeadlineExceeded,
                            what + "; it may have been done or not, now or later"}});
    return std::unexpected(unanswered(escaped(as_utf8(what)), sent && writes));
  }
  answered_ = true;
  long http = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &http);
  if (http != 200) return std::unexpected(read_refusal(http, exchange.answer, writes));
  return std::move(exchange.answer);
}

std::expected<void, Failure> Connection::log_in(SteadyTime until) {
  if (address_.user.empty()) return {};
  token_.clear();
  const auto said =
      post("/v3/auth/authenticate", log_in_as(address_.user, address_.password), false, until);
  if (!said) return std::unexpected(said.error());
  auto token = read_token(*said);
  if (!token) return std::unexpected(unanswered(std::move(token.error()), false));
  token_ = *std::move(token);
  return {};
}

std::expected<Answer, Failure> Connection::run(const Transaction& transaction, SteadyTime until) {
  if (token_.empty())
    if (auto in = log_in(until); !in) return std::unexpected(std::move(in.error()));
  const std::string body = text_of(transaction);
  auto said = post("/v3/kv/txn", body, transaction.writes, until);
  if (!said && said.error().reason == kTokenRefused && !address_.user.empty()) {
    if (auto in = log_in(until); !in) return std::unexpected(std::move(in.error()));
    said = post("/v3/kv/txn", body, transaction.writes, until);
  }
  if (!said) {
    // Another member may do what this one cannot.
    if (said.error().passing) usable_ = false;
    return std::unexpected(std::move(said.error()));
  }
  auto answer = read_answer(*said, transaction);
  if (!answer) {
    usable_ = false;
    return std::unexpected(unanswered(std::move(answer.error()), transaction.writes));
  }
  return *std::move(answer);
}

std::expected<Status, Failure> Connection::status(SteadyTime until) {
  const auto said = post("/v3/maintenance/status", "{}", false, until);
  if (!said) return std::unexpected(said.error());
  auto status = read_status(*said);
  if (!status) return std::unexpected(unanswered(std::move(status.error()), false));
  return *std::move(status);
}

}  // namespace idmint::stores::etcd
