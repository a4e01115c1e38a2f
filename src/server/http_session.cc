#include "server/http_session.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/outcome.h"
#include "idmint/form.h"
#include "server/http_text.h"

namespace idmint::server {

namespace http = boost::beast::http;

namespace {

struct StatusOf {
  Code code;
  int status;
};
constexpr std::array kStatuses = {
    StatusOf{Code::kInvalidArgument, 400},  StatusOf{Code::kUnauthenticated, 401},
    StatusOf{Code::kPermissionDenied, 403}, StatusOf{Code::kNotFound, 404},
    StatusOf{Code::kAlreadyExists, 409},    StatusOf{Code::kFailedPrecondition, 409},
    StatusOf{Code::kOutOfRange, 409},       StatusOf{Code::kResourceExhausted, 429},
    StatusOf{Code::kInternal, 500},         StatusOf{Code::kDataLoss, 500},
    StatusOf{Code::kUnknown, 500},          StatusOf{Code::kUnimplemented, 501},
    StatusOf{Code::kUnavailable, 503},      StatusOf{Code::kDeadlineExceeded, 504},
};

// Replaces bytes that are not UTF-8.
std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string_view reason(int status) {
  return http::obsolete_reason(static_cast<http::status>(status));
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::optional<std::string_view> HttpRequest::parameter(std::string_view name) const noexcept {
  for (const auto& [its_name, value] : query) {
    if (its_name == name) return value;
  }
  return std::nullopt;
}

bool is_refusal(Code code) noexcept {
  return code == Code::kInvalidArgument || code == Code::kNotFound ||
         code == Code::kAlreadyExists || code == Code::kFailedPrecondition ||
         code == Code::kOutOfRange || code == Code::kUnimplemented ||
         code == Code::kPermissionDenied || code == Code::kUnauthenticated;
}

HttpResponse problem(const Error& error, Steps steps, std::chrono::seconds retry_after,
                     int status) {
  const auto* const row = std::ranges::find(kStatuses, error.code, &StatusOf::code);
  if (status == 0) status = row != kStatuses.end() ? row->status : 500;
  nlohmann::ordered_json json{
      {"type", "about:blank"},
      {"title", reason(status)},
      {"status", status},
      {"detail", error.message()},
      {"code", name(error.code)},
      {"may_have_been_applied", steps == Steps::kBegun || outcome_unknown(error.code) ||
                                    (steps == Steps::kSeveral && !is_refusal(error.code))}};
  std::string headers;
  if (retry_after.count() != 0 &&
      (error.code == Code::kUnavailable || error.code == Code::kResourceExhausted))
    headers = "Retry-After: " + std::to_string(retry_after.count()) + "\r\n";
  if (error.code == Code::kUnauthenticated) headers = "WWW-Authenticate: Bearer\r\n";
  return {status, "application/problem+json", dump(json), std::move(headers), error.code};
}

HttpResponse problem(int status, std::string_view title, std::string_view detail) {
  Code code = Code::kInvalidArgument;
  if (status == 403 || status == 421) code = Code::kPermissionDenied;
  if (status == 404) code = Code::kNotFound;
  if (status == 405 || status == 501) code = Code::kUnimplemented;
  const nlohmann::ordered_json json{{"type", "about:blank"}, {"title", title},
                                    {"status", status},      {"detail", detail},
                                    {"code", name(code)},    {"may_have_been_applied", false}};
  return {status, "application/problem+json", dump(json), "", code};
}

HttpSession::HttpSession(Connection& connection, Service& service, bool over_tcp)
    : connection_(connection), service_(service), over_tcp_(over_tcp) {}

HttpSession::~HttpSession() = default;

bool HttpSession::held() const noexcept {
  return held_ || (stream_ != nullptr ? stream_->waiting : !keep_);
}

bool HttpSession::waits() const noexcept { return held_ || stream_ != nullptr; }

void HttpSession::too_slow() {
  keep_ = false;
  respond(problem(408, "Request Timeout", "the rest of the request did not come in time"));
}

// ---- requests

std::size_t HttpSession::take(std::string_view input) {
  std::size_t taken = 0;
  while (!held() && connection_.has_room()) {
    if (stream_ != nullptr) {
      pump();
      continue;
    }
    if (!parser_) {
      if (taken == input.size()) break;
      parser_.emplace();
      asked_.reset();
      continued_ = false;
      parser_->header_limit(kMostHeaderBytes);
      parser_->body_limit(kMostBodyBytes);
    }
    boost::system::error_code error;
    const std::size_t body_size = parser_->get().body().size();
    const std::size_t used =
        parser_->put(boost::asio::buffer(input.data() + taken, input.size() - taken), error);
    taken += used;
    begun_ = true;
    const bool in_body = asked_.has_value();
    if (!asked_ && parser_->is_header_done()) asked_ = head_of(*parser_);
    if (asked_ && asked_->has_other_coding) {  // nobody knows where the request ends
      answer();
      break;
    }
    // A step of the parser reads the header of a chunk, or the end with the trailers, or of a body.
    const std::size_t of_body = parser_->get().body().size() - body_size;
    if (in_body && used - std::min(of_body, used) > kMostHeaderBytes)
      error = http::error::header_limit;
    if (asked_ && asked_->expects_continue && !parser_->is_done() && !continued_ &&
        taken == input.size()) {
      continued_ = true;
      connection_.out() += "HTTP/1.1 100 Continue\r\n\r\n";
    }
    if (error == http::error::need_more && input.size() - taken > kMostHeaderBytes)
      error = http::error::header_limit;
    if (error == http::error::need_more) break;
    if (error) {
      keep_ = false;
      const bool too_long = error == http::error::header_limit || error == http::error::body_limit;
      head_ = false;
      if (error == http::error::header_limit) {
        respond(problem(431, "Request Header Fields Too Large", "the header is too long"));
      } else if (too_long) {
        respond(problem(413, "Content Too Large", "the body is too long"));
      } else {
        respond(problem(400, "Bad Request", "not a request of HTTP/1.1: " + error.message()));
      }
      break;
    }
    if (!parser_->is_done()) {
      if (used == 0) break;
      continue;
    }
    answer();
  }
  return taken;
}

void HttpSession::answer() {
  counted_as_.reset();
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): its request is whole.
  handle(*parser_);
  ++service_.counts.http.calls[CallCounts::index(counted_as_)];
}

HttpSession::Head HttpSession::head_of(const Parser& parser) {
  const auto& request = parser.get();
  Head head{
      .target = view(request.target()),
      .host = view(request[http::field::host]),
      .origin = view(request[http::field::origin]),
      .accept = view(request[http::field::accept]),
      .authorization = view(request[http::field::authorization]),
      .keeps = parser.keep_alive(),
      .expects_continue = boost::beast::iequals(request[http::field::expect], "100-continue")};
  constexpr unsigned latest = 11;
  const std::size_t codings = request.count(http::field::transfer_encoding);
  head.has_other_coding =
      codings > 1 || (codings == 1 &&
                      (request.version() != latest ||
                       !boost::beast::iequals(request[http::field::transfer_encoding], "chunked")));
  if (head.has_other_coding) head.keeps = false;
  if (request.count(http::field::host) > 1 || request.count(http::field::origin) > 1 ||
      request.count(http::field::authorization) > 1)
    head.problem = "the Host, the Origin or the Authorization header is there twice";
  return head;
}

// The refusal of a request that no route would accept; nothing: a route decides.
std::optional<HttpResponse> HttpSession::refusal(const Head& head, std::string_view host) const {
  if (head.has_other_coding)
    return problem(501, "Not Implemented", "the only Transfer-Encoding is chunked, in HTTP/1.1");
  if (service_.draining)
    return problem(Error{Code::kUnavailable,
                         "this server is shutting down and has taken nothing; ask another one"});
  if (!head.problem.empty()) return problem(400, "Bad Request", head.problem);
  if (head.host.empty() && !old_) return problem(400, "Bad Request", "the Host header is missing");
  // No page of the web knows a token, and none has the name that a certificate is for.
  if (over_tcp_ && !connection_.is_encrypted() && service_.access.is_open() && !host.empty() &&
      !names_this_machine(host))
    return problem(421, "Misdirected Request",
                   "the Host header names another machine: ask for localhost or 127.0.0.1");
  const std::string_view origin = head.origin;
  if (!origin.empty() && !is_own_origin(origin, host, connection_.is_encrypted()))
    return problem(403, "Forbidden", "pages of other sites may not ask: Origin is refused");
  return std::nullopt;
}

void HttpSession::handle(const Parser& parser) {
  ++service_.requests;
  const Head head = asked_.value_or(Head{});
  // The routes look into it until the response is made.
  const auto& message = parser.get();
  keep_ = head.keeps && !service_.draining;
  old_ = message.version() < 11;
  head_ = message.method() == http::verb::head;
  begun_ = false;
  const std::optional<HttpTarget> read = target_of(head.target);
  // The host of an absolute target counts, and the header does not (RFC 9112, 3.2.2).
  const std::string_view host = read && !read->authority.empty() ? read->authority : head.host;
  if (std::optional<HttpResponse> refused = refusal(head, host)) return respond(*refused);
  HttpRequest request;
  request.method = head_ ? "GET" : view(message.method_string());
  request.accept = head.accept;
  request.body = message.body();
  const std::string_view authorization = head.authorization;
  caller_ = caller_by(authorization);
  if (request.method == "OPTIONS" && head.target == "*")
    return respond({.status = 204, .headers = "Allow: GET, HEAD, POST, DELETE, OPTIONS\r\n"});
  if (!read) return respond(problem(400, "Bad Request", "the request's target cannot be read"));
  request.path = read->path;
  request.query = read->query;
  route(*this, request);
}

std::shared_ptr<Caller> HttpSession::caller_by(std::string_view authorization) const {
  if (service_.access.is_open()) return service_.access.anybody();
  const std::string_view token = bearer_token(authorization);
  return token.empty() ? nullptr : service_.access.find(token);
}

bool HttpSession::is_known() const {
  if (parser_ && begun_ && asked_) return caller_by(asked_->authorization) != nullptr;
  return service_.access.is_open() || (caller_ != nullptr && !caller_->is_revoked());
}

void HttpSession::respond_unauthenticated() {
  if (asked_ && !asked_->authorization.empty()) {
    service_.note_guess(connection_);
    if (connection_.pause_after_guess()) keep_ = false;
  }
  respond(Error{Code::kUnauthenticated,
                "a token that this server knows is needed: Authorization: Bearer TOKEN"});
}

// ---- responses

void HttpSession::put_head(int status, std::string_view type, std::optional<std::size_t> length,
                           std::string_view headers) {
  std::string& out = connection_.out();
  std::array<char, 24> digits;
  const auto number = [&](std::size_t value) {
    return std::string_view(digits.data(),
                            std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  };
  if (status == 200) {
    out += "HTTP/1.1 200 OK\r\n";
  } else {
    out += "HTTP/1.1 ";
    out += number(static_cast<std::size_t>(status));
    out += ' ';
    out += reason(status);
    out += "\r\n";
  }
  if (!type.empty()) {
    out += "Content-Type: ";
    out += type;
    out += "\r\n";
  }
  if (length) {
    out += "Content-Length: ";
    out += number(*length);
    out += "\r\n";
  } else if (!old_) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  // Ids must not come twice out of a cache.
  out += "Cache-Control: no-store\r\n";
  if (!keep_) {
    out += "Connection: close\r\n";
  } else if (old_) {
    out += "Connection: keep-alive\r\n";
  }
  out += headers;
  out += "\r\n";
}

void HttpSession::respond(const HttpResponse& response) {
  if (response.status >= 400) service_.count_error(response.code);
  const bool no_body = response.status == 204;
  put_head(response.status, no_body ? "" : response.type,
           no_body ? std::optional<std::size_t>(0) : response.body.size(), response.headers);
  if (!head_ && !no_body) connection_.out() += response.body;
  parser_.reset();
  if (!keep_) connection_.close_when_sent();
}

void HttpSession::begin_waiting() {
  if (waiting_since_ == SteadyTime{}) waiting_since_ = std::chrono::steady_clock::now();
}

void HttpSession::hold() {
  held_ = true;
  begin_waiting();
  if (!kept_) kept_ = connection_.shared_from_this();
}

void HttpSession::go_on() {
  held_ = false;
  const bool waiting = stream_ != nullptr && stream_->waiting;
  if (!waiting && waiting_since_ != SteadyTime{})
    service_.counts.http.waits[CallCounts::index(counted_as_)].add(
        std::chrono::steady_clock::now() - std::exchange(waiting_since_, {}));
  const std::shared_ptr<Connection> stays =
      waiting ? connection_.shared_from_this() : std::move(kept_);
  if (!connection_.is_closed()) connection_.resume();
}

// ---- ids

void HttpSession::respond_with_ids(IdsWanted wanted) {
  if (SourceHandle source = service_.sources.find(wanted.name))
    return begin_stream(std::move(source), std::move(wanted));
  hold();
  const std::string name = wanted.name;
  service_.sources.open(
      name, [this, wanted = std::move(wanted)](const Result<SourceHandle>& opened) mutable {
        held_ = false;  // the source may be looked at first
        if (connection_.is_closed()) {
          parser_.reset();
        } else if (opened) {
          begin_stream(*opened, std::move(wanted));
        } else {
          respond(service_.for_client(opened.error(), wanted.name));
        }
        if (!held_) go_on();
      });
}

void HttpSession::look_at(SourceHandle source, IdsWanted wanted) {
  hold();
  service_.loop.elsewhere(
      service_.bulkhead_of(source->name), service_.loop.due(),
      [&sources = service_.sources, name = source->name](SteadyTime until) {
        return sources.peek(name, until);
      },
      [this, source, wanted = std::move(wanted)](const Result<SequenceStatus>& status) mutable {
        held_ = false;
        const Result<void> seen =
            status ? source->height.look(*status) : std::unexpected(status.error());
        if (connection_.is_closed()) {
          parser_.reset();
        } else if (seen) {
          begin_stream(std::move(source), std::move(wanted));
        } else {
          respond(service_.for_client(seen.error(), wanted.name));
        }
        if (!held_) go_on();
      });
}

namespace {

// Ids that are asked for at a time: of a format as many as fill a block or two, of a sequence or a
// pool as many as make the round to the store worth while.
constexpr std::int64_t kBatchOfFormat = 1024;
constexpr std::int64_t kBatch = 65'536;
// The same while so many streams are under way that they would fill the memory.
constexpr std::size_t kManyStreams = 16;
constexpr std::int64_t kBatchOfMany = 4096;

}  // namespace

void HttpSession::begin_stream(SourceHandle source, IdsWanted wanted) {
  if (wanted.numbers && source->declaration().form == Form{} && !service_.all_hold_64_bits) {
    if (source->height.is_unseen()) return look_at(std::move(source), std::move(wanted));
    if (source->height.may_pass(wanted.count))
      return respond(Error{Code::kInvalidArgument,
                           wanted.name +
                               " gives values above 2^53-1, which readers of JSON may round to "
                               "others; nothing was taken. Leave numbers out, and they come as "
                               "strings; or set integers = \"64-bit\" in the settings of idmintd, "
                               "if all its clients hold integers of 64 bits"});
  }
  if (wanted.as == IdsAs::kJson) {  // an array is made whole
    if (const Result<void> fits = service_.admit_whole(wanted.count, connection_); !fits)
      return respond(fits.error());
  }
  if (!source->is_format()) {  // a format does not wait
    if (const Result<void> admitted = service_.admit(); !admitted) return respond(admitted.error());
  }
  const bool large = wanted.count > kBatchOfFormat;
  if (large && service_.streams >= kMostStreams)
    return respond(Error{Code::kUnavailable, std::to_string(kMostStreams) +
                                                 " streams are under way already; nothing was "
                                                 "taken for this one; ask again"});
  stream_ = std::make_unique<Stream>(*this, large);
  stream_->left = wanted.count;
  stream_->wanted = std::move(wanted);
  stream_->source = std::move(source);
  const std::int64_t most = stream_->source->declaration().largest_count;
  if (most != 0 && stream_->left > most) {
    stream_->error = {Code::kInvalidArgument, stream_->wanted.name + ": ask for at most " +
                                                  std::to_string(most) + " ids in one call"};
    return put_ids();
  }
  if (Result<void> fits = check_form(*stream_); !fits) {
    stream_->error = std::move(fits.error());
    return put_ids();
  }
  // Last: what is refused costs nothing.
  if (const std::optional<Caller::Excess> excess =
          caller_->charge(stream_->left, service_.loop.now())) {
    stream_.reset();
    return respond(problem(excess->error, Steps::kOne, excess->retry_after));
  }
  stream_->charged = true;
  pump();
}

// Texts in several forms could be equal, and so what a sequence or a pool prints is settled when it
// is created.
Result<void> HttpSession::check_form(const Stream& stream) {
  const std::optional<Form>& form = stream.wanted.form;
  if (!form) return {};
  const Declaration& declaration = stream.source->declaration();
  if (!stream.source->is_format())
    return refuse("form is for formats, and how ids of " + declaration.name +
                  " are printed was settled when it was created: leave it out, or give what was "
                  "printed to GET /v1/convert");
  if (Result<void> valid = validate(*form, declaration.format); !valid)
    return refused(
        "form=" + std::string(name(form->encoding)) + " does not go with " + declaration.name,
        valid.error());
  return {};
}

void HttpSession::pump() {
  while (stream_ != nullptr && !stream_->waiting && connection_.has_room()) ask();
}

void HttpSession::ask() {
  Stream& stream = *stream_;
  OpenSource& source = *stream.source;
  if (connection_.is_closed()) return end_stream();
  if (caller_->is_revoked()) {
    stream.error = {Code::kUnauthenticated, "the token of this call is not valid any more"};
    return put_ids();
  }
  if (source.is_format()) {
    // An array of JSON is made whole; its count is bounded.
    stream.size = static_cast<std::size_t>(
        stream.wanted.as == IdsAs::kJson ? stream.left : std::min(stream.left, kBatchOfFormat));
    if (stream.ids.size() < stream.size) stream.ids.resize(stream.size);
    Result<void> filled = source.source->next(std::span(stream.ids).first(stream.size));
    if (!filled) stream.error = std::move(filled.error());
    return put_ids();
  }
  const std::int64_t most = service_.streams > kManyStreams ? kBatchOfMany : kBatch;
  // An array of JSON is taken in one step: all of it or nothing.
  stream.size = static_cast<std::size_t>(
      stream.wanted.as == IdsAs::kJson ? stream.left : std::min(stream.left, most));
  if (source.sequence != nullptr) {
    if (stream.values.size() < stream.size) stream.values.resize(stream.size);
    if (source.sequence->try_next(std::span(stream.values).first(stream.size))) {
      source.height.got(0, stream.highest());
      return put_ids();
    }
  }
  stream.wait();
  if (!kept_) kept_ = connection_.shared_from_this();
  if (source.is_pool()) {
    if (stream.ids.size() < stream.size) stream.ids.resize(stream.size);
    service_.loop.elsewhere(
        service_.bulkhead_of(source.name), service_.loop.due(),
        [handle = stream.source, out = std::span(stream.ids).first(stream.size)](SteadyTime until) {
          return handle->source->next(out, until);
        },
        [this](Result<void> filled) {
          if (!filled) stream_->error = std::move(filled.error());
          stream_->end_waiting();
          put_ids();
          go_on();
        });
    return;
  }
  source.height.ask(static_cast<std::int64_t>(stream.size));
  const Result<void> submitted = source.sequence->submit(
      std::span(stream.values).first(stream.size), [&stream](Result<void> filled) {
        if (!filled) stream.error = std::move(filled.error());
        stream.session->service_.loop.deliver(stream);
      });
  if (!submitted) {
    stream.error = submitted.error();
    service_.loop.deliver(stream);
  }
}

std::int64_t HttpSession::Stream::highest() const {
  return std::ranges::max(std::span(values).first(size));
}

void HttpSession::answered() {
  stream_->source->height.got(static_cast<std::int64_t>(stream_->size),
                              stream_->error ? 0 : stream_->highest());
  stream_->end_waiting();
  if (settling_) return;
  settling_ = true;
  service_.settling.push_back(this);
}

void HttpSession::settle() {
  settling_ = false;
  if (connection_.is_closed()) {
    stream_.reset();
    parser_.reset();
  } else if (stream_ != nullptr && !stream_->waiting) {
    put_ids();
  }
  if (!held_) go_on();
}

namespace {

// The size of a chunk, written when the chunk is there: RFC 9112 allows zeros before it.
constexpr std::string_view kNoSize = "00000000\r\n";
constexpr std::size_t kSizeDigits = 8;

void put_size(char* to, std::size_t size) {
  for (std::size_t i = kSizeDigits; i-- > 0; size /= 16) to[i] = "0123456789abcdef"[size % 16];
}

}  // namespace

template <class Put>
void HttpSession::put_chunk(const Put& put) {
  std::string& out = connection_.out();
  if (old_) return put(out);
  const std::size_t head = out.size();
  out += kNoSize;
  const std::size_t begin = out.size();
  put(out);
  put_size(out.data() + head, out.size() - begin);
  out += "\r\n";
}

// Writes what is at hand; at the first time the head, too.
void HttpSession::put_ids() {
  Stream& stream = *stream_;
  const IdsWanted& wanted = stream.wanted;
  if (stream.error) {
    const Code code = stream.error->code;
    if (code == Code::kFailedPrecondition || code == Code::kOutOfRange)
      service_.sources.forget(stream.source, *stream.error, stream.size == 1);
    // The ids that were given stay counted, and so do those that may have been taken.
    if (stream.charged)
      caller_->refund(stream.left -
                      (outcome_unknown(code) ? static_cast<std::int64_t>(stream.size) : 0));
    stream.error = service_.for_client(*std::move(stream.error), stream.source->name);
    ++stream.source->counts->errors;
  }
  if (stream.error && !stream.begun) {
    const Error error = *std::move(stream.error);
    stream_.reset();
    return respond(error);
  }
  if (stream.error) {  // in the midst: the client must not take it for all
    service_.count_error(stream.error->code);
    if (wanted.as == IdsAs::kJsonLines)
      put_chunk([&](std::string& out) { out += problem(*stream.error, Steps::kBegun).body; });
    keep_ = false;
    stream_.reset();
    parser_.reset();
    // In HTTP/1.0 the end of the connection is the end of the body: only a reset tells.
    return old_ ? connection_.cut() : connection_.close_when_sent();
  }
  const bool whole = !stream.begun && static_cast<std::int64_t>(stream.size) == stream.left;
  if (stream.source->sequence != nullptr)
    service_.log_taken(caller_.get(), connection_, *stream.source, stream.values.front(),
                       stream.values[stream.size - 1], static_cast<std::int64_t>(stream.size));
  service_.count_ids(*stream.source, stream.size, stream.begun);
  stream.left -= static_cast<std::int64_t>(stream.size);
  const std::string_view type = wanted.as == IdsAs::kText   ? "text/plain; charset=utf-8"
                                : wanted.as == IdsAs::kJson ? "application/json"
                                                            : "application/x-ndjson";
  if (whole) {
    std::string body;
    print_ids(stream, body);
    stream_.reset();
    return respond({.type = type, .body = std::move(body)});
  }
  if (!stream.begun) {
    stream.begun = true;
    if (old_) keep_ = false;  // the end of the connection is the end of the stream
    put_head(200, type, std::nullopt, "");
  }
  put_chunk([&](std::string& out) { print_ids(stream, out); });
  if (stream.left == 0) end_stream();
}

// The ids at hand.
void HttpSession::print_ids(const Stream& stream, std::string& out) {
  const IdsWanted& wanted = stream.wanted;
  const Form& form = wanted.form ? *wanted.form : stream.source->declaration().form;
  const bool plain = form == Form{};
  const bool whole = stream.session->service_.all_hold_64_bits;
  const auto is_number = [&](const Id& id) {
    if (const auto* const integer = std::get_if<std::int64_t>(&id))
      return whole || is_exact(*integer);
    const auto* const snowflake = std::get_if<Snowflake>(&id);
    return snowflake != nullptr &&
           (whole || snowflake->value() <= static_cast<std::uint64_t>(kMostExact));
  };
  const auto put_id = [&](const Id& id) {
    std::array<char, kMaxFormChars + 1> chars;
    char* end = to_chars(id, form, chars.data());
    if (wanted.as == IdsAs::kText) {
      *end++ = '\n';
      out.append(chars.data(), end);
      return;
    }
    const std::string_view printed(chars.data(), end);
    const bool bare = wanted.numbers && plain && is_number(id);
    if (wanted.as == IdsAs::kJsonLines) {
      out += bare ? R"({"id":)" : R"({"id":")";
      out += printed;
      out += bare ? "}\n" : "\"}\n";
      return;
    }
    if (out.back() != '[') out += ',';
    if (!bare) out += '"';
    out += printed;
    if (!bare) out += '"';
  };
  if (wanted.as == IdsAs::kJson) out += R"({"ids":[)";
  if (stream.source->sequence != nullptr) {
    for (std::size_t i = 0; i < stream.size; ++i) put_id(Id(stream.values[i]));
  } else {
    for (std::size_t i = 0; i < stream.size; ++i) put_id(stream.ids[i]);
  }
  if (wanted.as == IdsAs::kJson) out += "]}\n";
}

void HttpSession::end_stream() {
  if (!old_) connection_.out() += "0\r\n\r\n";
  stream_.reset();
  parser_.reset();
  if (!keep_) connection_.close_when_sent();
}

}  // namespace idmint::server
