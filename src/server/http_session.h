// HttpSession: the conversation with a client of HTTP/1.1 or 1.0. Source: RFC 9110, RFC 9112.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "server/access.h"
#include "server/connection.h"
#include "server/http_text.h"
#include "server/loop.h"
#include "server/service.h"

namespace idmint::server {

// A complete request. Its views point into the parser of the session, which keeps it until the
// response is made.
struct HttpRequest {
  std::string_view method{};        // "GET", "POST", ...; a HEAD request has "GET"
  std::vector<std::string> path{};  // its segments, decoded
  std::vector<std::pair<std::string, std::string>> query{};  // decoded
  std::string_view accept{};
  std::string_view body{};

  // The value of the first parameter of this name.
  [[nodiscard]] std::optional<std::string_view> parameter(std::string_view name) const noexcept;
};

struct HttpResponse {
  int status = 200;
  std::string_view type = "application/json";
  std::string body{};
  std::string headers{};       // further headers, each with its line end
  Code code = Code::kUnknown;  // the error that a problem reports
};

// How much of a failed call may have been done.
enum class Steps : std::uint8_t {
  kOne,      // the code tells
  kSeveral,  // the call has several steps and may have ended between two, unless it was refused
  kBegun,    // some of it was done
};
// The error as problem details (RFC 9457), with the name of its code, whether the call may have
// been applied, and Retry-After if the same call may succeed later. `retry_after` 0: it never
// will. `status` 0: that of the code.
[[nodiscard]] HttpResponse problem(const Error& error, Steps steps = Steps::kOne,
                                   std::chrono::seconds retry_after = std::chrono::seconds{1},
                                   int status = 0);
// Whether a call with this error changed nothing, as it was refused before.
[[nodiscard]] bool is_refusal(Code code) noexcept;
// Problem details for a fault that has its own HTTP status, such as a wrong method.
[[nodiscard]] HttpResponse problem(int status, std::string_view title, std::string_view detail);

// Serves one request at a time, in order; the next ones wait in the connection's input. Ids are
// taken as for any other protocol, so requests of many connections share rounds to the store. Large
// counts are streamed, and minted only as fast as the client reads.
class HttpSession final : public Conversation {
 public:
  static constexpr std::size_t kMostHeaderBytes = std::size_t{16} * 1024;
  static constexpr std::size_t kMostBodyBytes = std::size_t{64} * 1024;
  // The largest count of one request.
  static constexpr std::int64_t kMostStreamed = 1'000'000'000;

  // Both must outlive it. `over_tcp`: checks the Host header.
  HttpSession(Connection& connection, Service& service, bool over_tcp);
  ~HttpSession() override;

  [[nodiscard]] std::size_t take(std::string_view input) override;
  [[nodiscard]] bool held() const noexcept override;
  [[nodiscard]] bool waits() const noexcept override;
  // Speaks of the last request with a complete head.
  [[nodiscard]] bool is_known() const override;
  [[nodiscard]] bool is_in_midst() const noexcept override { return begun_; }
  [[nodiscard]] bool is_streaming() const noexcept override { return stream_ != nullptr; }
  void settle() override;
  void too_slow() override;

  // ---- for routes
  // Whether the Authorization header has a known token, or none is required.
  [[nodiscard]] bool is_let_in() const noexcept { return caller_ != nullptr; }
  // REQUIRES: is_let_in().
  [[nodiscard]] const Caller& caller() const noexcept { return *caller_; }
  [[nodiscard]] const std::shared_ptr<Caller>& shared_caller() const noexcept { return caller_; }
  // Responds with 401.
  void respond_unauthenticated();
  [[nodiscard]] Service& service() noexcept { return service_; }
  [[nodiscard]] const Connection& connection() const noexcept { return connection_; }
  // Sets the verb under which the current request is counted; without one it is counted as "other".
  void count_as(std::optional<Verb> verb) noexcept { counted_as_ = verb; }
  void respond(const HttpResponse& response);
  // An error of a source must go through Service::for_client() first.
  void respond(const Error& error) { respond(problem(error)); }
  // Runs `work` on another thread and responds with the result of `then` for its Result. `work`
  // gets the time by which it must answer. It does not run if the caller's token was revoked
  // meanwhile. `source` is the source whose store is called; nullopt stands for all stores.
  template <class Work, class Then>
  void elsewhere(const std::optional<std::string>& source, Work work, Then then,
                 Steps steps = Steps::kOne) {
    elsewhere_in(source ? service_.bulkhead_of(*source) : Loop::kAllStores, source, std::move(work),
                 std::move(then), steps);
  }
  // The same in a lane of Loop::elsewhere().
  template <class Work, class Then>
  void elsewhere_in(std::string_view lane, const std::optional<std::string>& source, Work work,
                    Then then, Steps steps = Steps::kOne) {
    hold();
    service_.loop.elsewhere(
        lane, service_.loop.due(), unless_revoked(caller_, std::move(work)),
        [this, source, then = std::move(then), steps](auto result) mutable {
          {
            Then once = std::move(then);  // gone before the next request
            if (result) {
              respond(once(*std::move(result)));
            } else {
              respond(problem(
                  service_.told_to(*caller_, std::move(result.error()), source.value_or("")),
                  steps));
            }
          }
          go_on();
        });
  }
  void hold();
  void go_on();

  struct IdsWanted {
    std::string name;
    std::int64_t count = 1;
    IdsAs as = IdsAs::kText;
    bool numbers = false;
    std::optional<Form> form{};  // replaces the format's own; for formats only
  };
  // Opens the source, and responds with its ids.
  void respond_with_ids(IdsWanted wanted);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // A response with ids in progress, and the buffers of its current step.
  struct Stream final : Awaited {
    // `large`: it counts among Service::streams.
    Stream(HttpSession& its, bool large) : session(&its), large_(large) {
      if (large_) ++session->service_.streams;
    }
    ~Stream() {
      if (large_) --session->service_.streams;
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    void answered() override { session->answered(); }

    // From here to end_waiting() it counts among Service::waiting_calls.
    void wait() {
      waiting = true;
      if (!begun) session->begin_waiting();
      ++session->service_.waiting_calls;
    }
    void end_waiting() {
      waiting = false;
      --session->service_.waiting_calls;
    }
    // The largest value of the current step.
    [[nodiscard]] std::int64_t highest() const;

    HttpSession* session;
    IdsWanted wanted{};
    SourceHandle source{};
    std::int64_t left = 0;
    bool waiting = false;  // for the source to answer
    bool charged = false;  // the caller was charged for `left` ids
    bool begun = false;    // the head of the response was written
    std::size_t size = 0;  // the number of ids in the current step
    std::vector<std::int64_t> values{};
    std::vector<Id> ids{};
    std::optional<Error> error{};

   private:
    const bool large_;
  };

  // The head of a request, read when it is complete: trailers do not change it.
  struct Head {
    std::string_view target{};
    std::string_view host{};
    std::string_view origin{};
    std::string_view accept{};
    std::string_view authorization{};
    bool has_other_coding = false;  // a Transfer-Encoding that is not read
    bool keeps = false;             // the connection stays open after the response
    bool expects_continue = false;
    std::string_view problem{};  // not empty: a header occurs twice that must not
  };
  [[nodiscard]] static Head head_of(const Parser& parser);
  // Handles and counts the request that was read.
  void answer();
  void handle(const Parser& parser);
  void begin_waiting();
  // Null: a token is required, and the header has no known one.
  [[nodiscard]] std::shared_ptr<Caller> caller_by(std::string_view authorization) const;
  [[nodiscard]] std::optional<HttpResponse> refusal(const Head& head, std::string_view host) const;
  void begin_stream(SourceHandle source, IdsWanted wanted);
  // Reads where the values of the source are, and begins the stream then.
  void look_at(SourceHandle source, IdsWanted wanted);
  // kInvalidArgument: the source cannot print its ids in this form.
  [[nodiscard]] static Result<void> check_form(const Stream& stream);
  // Takes and writes ids until the stream waits, or the connection has no room.
  void pump();
  void ask();
  void answered();
  void put_ids();
  static void print_ids(const Stream& stream, std::string& out);
  // Writes a chunk: the text that `put` appends to its argument.
  template <class Put>
  void put_chunk(const Put& put);
  void end_stream();
  void put_head(int status, std::string_view type, std::optional<std::size_t> length,
                std::string_view headers);

  Connection& connection_;
  Service& service_;
  const bool over_tcp_;
  std::optional<Parser> parser_;
  std::optional<Head> asked_;  // the head of the current request, once it is complete
  bool begun_ = false;         // a part of the current request was read
  bool continued_ = false;     // 100 Continue was sent for it
  bool keep_ = true;           // the connection stays open after this response
  bool head_ = false;          // HEAD: no body is sent
  bool old_ = false;           // HTTP/1.0
  bool held_ = false;
  bool settling_ = false;
  std::optional<Verb> counted_as_{};
  SteadyTime waiting_since_{};        // the epoch: the current request has not waited
  std::shared_ptr<Caller> caller_{};  // of the current request; null: not let in
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<Connection> kept_;  // not null while something waits for an answer
};

// Finds the route of the request, and lets it respond.
void route(HttpSession& session, HttpRequest request);

}  // namespace idmint::server
