// HttpSession: a client that speaks HTTP/1.1 or 1.0. Source: RFC 9110, RFC 9112.
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

// What is asked for.
struct HttpRequest {
  std::string_view method{};        // "GET", "POST", ...; HEAD is asked as GET
  std::vector<std::string> path{};  // its segments, decoded
  std::vector<std::pair<std::string, std::string>> query{};  // decoded
  std::string_view accept{};
  std::string_view body{};

  // Nothing: it is not given.
  [[nodiscard]] std::optional<std::string_view> parameter(std::string_view name) const noexcept;
};

struct HttpResponse {
  int status = 200;
  std::string_view type = "application/json";
  std::string body{};
  std::string headers{};       // further ones, each with its line end
  Code code = Code::kUnknown;  // of a problem
};

// The error as problem details (RFC 9457): the name of its code, whether the call may have been
// applied, and Retry-After where the same call may succeed later.
// `in_steps`: the call has several, and may have ended between two, whatever the code.
[[nodiscard]] HttpResponse problem(const Error& error, bool in_steps = false,
                                   std::chrono::seconds retry_after = std::chrono::seconds{1});
// Of a request that no code of idmint says anything about, such as a wrong method.
[[nodiscard]] HttpResponse problem(int status, std::string_view title, std::string_view detail);

// One request at a time, in the order they came; those behind it wait in the connection. Ids are
// asked for as on any other protocol, so that requests of many connections share rounds to the
// store. What is asked for in large numbers is streamed, and made only as fast as it is read.
class HttpSession final : public Conversation {
 public:
  static constexpr std::size_t kMostHeaderBytes = std::size_t{16} * 1024;
  static constexpr std::size_t kMostBodyBytes = std::size_t{64} * 1024;
  // Of one request, streamed or not.
  static constexpr std::int64_t kMostStreamed = 1'000'000'000;

  // Both outlive it. `over_tcp`: the Host header is checked.
  HttpSession(Connection& connection, Service& service, bool over_tcp);
  ~HttpSession() override;

  [[nodiscard]] std::size_t take(std::string_view input) override;
  [[nodiscard]] bool held() const noexcept override;
  [[nodiscard]] bool waits() const noexcept override;
  // By the last request whose header has come whole.
  [[nodiscard]] bool is_known() const override;
  [[nodiscard]] bool is_in_midst() const noexcept override { return begun_; }
  [[nodiscard]] bool is_streaming() const noexcept override { return stream_ != nullptr; }
  void settle() override;
  void too_slow() override;

  // ---- for routes
  // Who asks, by the Authorization header.
  [[nodiscard]] bool is_let_in() const noexcept { return caller_ != nullptr; }
  // REQUIRES: is_let_in().
  [[nodiscard]] const Caller& caller() const noexcept { return *caller_; }
  [[nodiscard]] const std::shared_ptr<Caller>& shared_caller() const noexcept { return caller_; }
  // 401, as nobody is known by that header.
  void respond_unauthenticated();
  [[nodiscard]] Service& service() noexcept { return service_; }
  // What the request at hand is counted as. Nothing, as at first: it looks at no source.
  void count_as(std::optional<Verb> verb) noexcept { counted_as_ = verb; }
  void respond(const HttpResponse& response);
  void respond(const Error& error) { respond(problem(service_.told(error))); }
  // Runs `work`, which returns a Result, elsewhere, and responds with what `then` makes of it.
  // `work` gets the time by which it must have answered.
  template <class Work, class Then>
  void elsewhere(Work work, Then then, bool in_steps = false) {
    hold();
    service_.loop.elsewhere(
        service_.loop.due(), std::move(work),
        [this, then = std::move(then), in_steps](auto result) mutable {
          respond(result ? then(*std::move(result)) : problem(result.error(), in_steps));
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
    std::optional<Form> form{};  // in the place of the one that the format has; of formats only
  };
  // Opens the source, and responds with ids of it.
  void respond_with_ids(IdsWanted wanted);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // Ids on their way, and what is asked of the source for them at a time.
  struct Stream final : Awaited {
    // `large`: counted among Service::streams.
    Stream(HttpSession& its, bool large) : session(&its), large_(large) {
      if (large_) ++session->service_.streams;
    }
    ~Stream() {
      if (large_) --session->service_.streams;
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    void answered() override { session->answered(); }

    // Counted among Service::waiting_calls.
    void wait() {
      waiting = true;
      if (!begun) session->begin_waiting();
      ++session->service_.waiting_calls;
    }
    void end_waiting() {
      waiting = false;
      --session->service_.waiting_calls;
    }

    HttpSession* session;
    IdsWanted wanted{};
    SourceHandle source{};
    std::int64_t left = 0;
    bool waiting = false;  // for the source
    bool begun = false;    // the head of the response was written
    std::size_t size = 0;  // of the ids at hand
    std::vector<std::int64_t> values{};
    std::vector<Id> ids{};
    std::optional<Error> error{};

   private:
    const bool large_;
  };

  void handle(const Parser& parser);
  void begin_waiting();
  // Null: that is no token which is known, and one is needed.
  [[nodiscard]] std::shared_ptr<Caller> caller_by(std::string_view authorization) const;
  [[nodiscard]] std::optional<HttpResponse> refusal(const Parser& parser) const;
  void begin_stream(SourceHandle source, IdsWanted wanted);
  // kInvalidArgument: what is asked for has not the form that is wanted.
  [[nodiscard]] static Result<void> check_form(const Stream& stream);
  // Asks for the next ids, until it waits or there is no room.
  void pump();
  void ask();
  void answered();
  void put_ids();
  static void print_ids(const Stream& stream, std::string& out);
  // A chunk of what `put` appends to the string that it is given.
  template <class Put>
  void put_chunk(const Put& put);
  void end_stream();
  void put_head(int status, std::string_view type, std::optional<std::size_t> length,
                std::string_view headers);

  Connection& connection_;
  Service& service_;
  const bool over_tcp_;
  std::optional<Parser> parser_;
  bool begun_ = false;      // part of the request at hand has been read
  bool continued_ = false;  // its sender was told to go on (Expect: 100-continue)
  bool keep_ = true;        // the connection stays after this response
  bool head_ = false;       // no body is sent
  bool old_ = false;        // HTTP/1.0
  bool held_ = false;
  bool settling_ = false;
  std::optional<Verb> counted_as_{};
  SteadyTime waiting_since_{};        // the epoch: the request at hand has not waited for anything
  std::shared_ptr<Caller> caller_{};  // of the request at hand; null: not let in
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<Connection> kept_;  // as long as something waits for an answer
};

// Finds the route of the request, and lets it respond.
void route(HttpSession& session, HttpRequest request);

}  // namespace idmint::server
