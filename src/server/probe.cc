#include "server/probe.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/errors.h"
#include "base/text.h"
#include "server/address.h"

namespace idmint::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

constexpr std::string_view kTlsPrefix = "tls:";
constexpr std::size_t kLongestAnswer = std::size_t{64} << 10;

using Answer = http::response<http::string_body>;
using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;
using boost::system::errc::no_such_file_or_directory;

// One request and its answer, and what they need until the answer is there.
struct Exchange {
  http::request<http::empty_body> request;
  boost::beast::flat_buffer buffer{kLongestAnswer};
  http::response_parser<http::string_body> parser{};
  std::optional<error_code> ended{};  // without an error: the parser has the answer
};

template <class Stream>
void begin(Exchange& exchange, Stream& stream) {
  http::async_write(stream, exchange.request, [&](const error_code& unsent, std::size_t) {
    if (unsent) {
      exchange.ended = unsent;
      return;
    }
    http::async_read(stream, exchange.buffer, exchange.parser,
                     [&](const error_code& error, std::size_t) { exchange.ended = error; });
  });
}

// The daemon's own words (RFC 9457, "detail"), or the beginning of what stands there instead.
std::string message_of(const Answer& answer) {
  const auto json = nlohmann::json::parse(answer.body(), nullptr, false);
  if (json.is_object()) {
    const auto detail = json.find("detail");
    if (detail != json.end() && detail->is_string()) return escaped(detail->get<std::string>());
  }
  constexpr std::size_t kShown = 200;
  return "it answers " + std::to_string(answer.result_int()) + " " +
         shown(answer.body().substr(0, kShown)) + "; is it idmintd?";
}

}  // namespace

Result<std::string> address_to_probe(const Settings& settings) {
  if (settings.http.empty()) {
    if (settings.redis.empty()) return "127.0.0.1:7380";
    return fail(Code::kFailedPrecondition,
                "idmintd serves no HTTP by these settings, so it cannot be asked: add an address "
                "to http, such as 127.0.0.1:7380");
  }
  const auto plain = std::ranges::find_if(
      settings.http, [](const std::string& at) { return !at.starts_with(kTlsPrefix); });
  return plain != settings.http.end() ? *plain : settings.http.front();
}

Result<void> probe(std::string_view at, std::string_view path, std::chrono::milliseconds patience) {
  const Result<Address> address = address_of(at);
  if (!address) return std::unexpected(address.error());
  const Endpoint asked = reached_from_here(address->endpoint);
  asio::io_context context;
  Socket socket(context);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  asio::ssl::stream<Socket&> stream(socket, tls);
  Exchange exchange{.request = {http::verb::get, path, 11}};
  exchange.request.set(http::field::host, "localhost");
  exchange.request.set(http::field::user_agent, "idmintd probe");
  exchange.request.set(http::field::connection, "close");
  exchange.parser.body_limit(kLongestAnswer);
  socket.async_connect(asked, [&](const error_code& refused) {
    if (refused) {
      exchange.ended = refused;
    } else if (!address->tls) {
      begin(exchange, socket);
    } else {
      stream.async_handshake(asio::ssl::stream_base::client, [&](const error_code& error) {
        if (error) {
          exchange.ended = error;
        } else {
          begin(exchange, stream);
        }
      });
    }
  });
  context.run_for(patience);

  const auto not_ready = [&](const std::string& why) {
    return fail(Code::kUnavailable, (address->tls ? "tls:" : "") + name_of(asked) + ": " + why);
  };
  if (!exchange.ended)
    return not_ready("no answer within " + std::to_string(patience.count()) + " ms");
  if (*exchange.ended == asio::error::connection_refused ||
      *exchange.ended == no_such_file_or_directory)
    return not_ready("no idmintd listens there; start it, or give the address where it listens");
  if (*exchange.ended)
    return not_ready(exchange.ended->message() +
                     (address->tls
                          ? "; if it wants certificates of clients, add an address without "
                            "TLS to http, such as 127.0.0.1:7381"
                          : ""));
  const Answer& answer = exchange.parser.get();
  if (answer.result() != http::status::ok) return not_ready(message_of(answer));
  return {};
}

}  // namespace idmint::server
