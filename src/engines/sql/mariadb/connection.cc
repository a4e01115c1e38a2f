#include "engines/sql/mariadb/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

#include "base/text.h"
#include "engines/sql/mariadb/error_number.h"
#include "store/socket.h"

namespace idmint::stores::mariadb {
namespace {

using std::chrono::steady_clock;

// The statement with ? for each $n, and which n each stands for, counted from 0.
std::string with_marks(std::string_view sql, std::vector<std::size_t>* places) {
  std::string marked;
  for (std::size_t at = 0; at < sql.size(); ++at) {
    const bool is_value = sql[at] == '$' && at + 1 < sql.size() &&
                          std::isdigit(static_cast<unsigned char>(sql[at + 1])) != 0;
    if (!is_value) {
      marked += sql[at];
      continue;
    }
    std::size_t number = 0;
    const char* const end =
        std::from_chars(sql.data() + at + 1, sql.data() + sql.size(), number).ptr;
    places->push_back(number - 1);
    marked += '?';
    at = static_cast<std::size_t>(end - sql.data()) - 1;
  }
  return marked;
}

void replace_all(std::string& sql, std::string_view what, const std::string& by) {
  for (std::size_t at = sql.find(what); at != std::string::npos; at = sql.find(what, at))
    sql.replace(at, what.size(), by);
}

}  // namespace

// ---- values and rows

Text list_of(std::span<const std::string> texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ',';
    list += '"' + hex(text) + '"';
  }
  return {list + "]"};
}

Text list_of(std::span<const std::int64_t> integers) {
  std::string list = "[";
  for (const std::int64_t each : integers) {
    if (list.size() > 1) list += ',';
    list += std::to_string(each);
  }
  return {list + "]"};
}

std::int64_t Row::integer(int column) const {
  const std::string_view digits = bytes(column);
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string_view Row::bytes(int column) const {
  return columns_->at(static_cast<std::size_t>(column));
}

// ---- waiting

// The events to go on with. At the deadline: MYSQL_WAIT_TIMEOUT, which ends the call under way.
int Connection::wait(int events, SteadyTime until) {
  short wanted = 0;
  if ((events & MYSQL_WAIT_READ) != 0) wanted |= POLLIN;
  if ((events & MYSQL_WAIT_WRITE) != 0) wanted |= POLLOUT;
  if ((events & MYSQL_WAIT_EXCEPT) != 0) wanted |= POLLPRI;
  if (!late_ && wait_for_socket(mysql_get_socket(connection_), wanted, until) != 0)
    return events & ~MYSQL_WAIT_TIMEOUT;
  late_ = true;
  return MYSQL_WAIT_TIMEOUT;
}

// Carries out one of libmariadb's calls that do not block. False: not in time.
bool Connection::finish(SteadyTime until, const auto& start, const auto& go_on) {
  for (int events = start(); events != 0;) events = go_on(wait(events, until));
  if (late_) usable_ = false;
  return !late_;
}

Failure Connection::failed(Kind kind, unsigned number, const char* text) {
  std::string why = escaped(as_utf8(text));
  if (why.empty()) why = "the connection broke";
  const Meaning meaning = meaning_of(number);
  why += meaning.advice;
  if (number == kOtherColumns) usable_ = false;
  if (meaning.outcome != Outcome::kUnknown)
    return {.error = {meaning.code, std::move(why)},
            .reason = std::to_string(number),
            .passing = meaning.outcome == Outcome::kPassing};
  usable_ = false;
  Failure failure = unanswered(kind, std::move(why));
  failure.reason = std::to_string(number);
  return failure;
}

// ---- connecting

std::expected<std::unique_ptr<Connection>, Failure> Connection::open(const Address& address,
                                                                     const Server& server,
                                                                     SteadyTime until) {
  MYSQL* const raw = mysql_init(nullptr);
  if (raw == nullptr)
    return std::unexpected(Failure{.error = {Code::kResourceExhausted, "no memory"}});
  std::unique_ptr<Connection> connection(new Connection(raw));
  const unsigned protocol = server.socket.empty() ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET;
  const unsigned no_files = 0;
  mysql_options(raw, MYSQL_OPT_NONBLOCK, nullptr);
  mysql_options(raw, MYSQL_READ_DEFAULT_GROUP, "idmint");
  mysql_options(raw, MYSQL_OPT_PROTOCOL, &protocol);
  mysql_options(raw, MYSQL_OPT_LOCAL_INFILE, &no_files);
  mysql_options(raw, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  MYSQL* connected = nullptr;
  const bool in_time = connection->finish(
      until,
      [&] {
        return mysql_real_connect_start(&connected, raw, server.host.c_str(), given(address.user),
                                        given(address.password), address.database.c_str(),
                                        server.port, given(server.socket), CLIENT_FOUND_ROWS);
      },
      [&](int events) { return mysql_real_connect_cont(&connected, raw, events); });
  if (!in_time)
    return std::unexpected(
        Failure{.error = {Code::kUnavailable, "the server does not answer"}, .passing = true});
  if (connected != nullptr) {
    // An option file may have switched it on: a statement would be sent again, by a session that is
    // not set up.
    const my_bool off = 0;
    mysql_options(raw, MYSQL_OPT_RECONNECT, &off);
    return connection;
  }
  return std::unexpected(connection->failed(Kind::kRead, mysql_errno(raw), mysql_error(raw)));
}

// One that is of no further use is shut first, so that the farewell does not wait.
Connection::~Connection() {
  if (connection_ == nullptr) return;
  if (!usable_) ::shutdown(mysql_get_socket(connection_), SHUT_RDWR);
  mysql_close(connection_);
  for (const auto& [name, prepared] : prepared_)
    if (prepared.handle != nullptr) mysql_stmt_close(prepared.handle);
}

bool Connection::is_usable() {
  if (!usable_) return false;
  // Nothing comes without being asked for but the end of the connection.
  pollfd one{.fd = mysql_get_socket(connection_), .events = POLLIN, .revents = 0};
  usable_ = ::poll(&one, 1, 0) == 0;
  return usable_;
}

// ---- statements

std::expected<Connection::Prepared*, Failure> Connection::prepare(const Query& query,
                                                                  SteadyTime until) {
  Prepared& prepared = prepared_[query.name];
  if (prepared.handle != nullptr) return &prepared;
  MYSQL_STMT* const handle = mysql_stmt_init(connection_);
  if (handle == nullptr)
    return std::unexpected(Failure{.error = {Code::kResourceExhausted, "no memory"}});
  std::vector<std::size_t> places;
  std::string sql = with_marks(query.sql, &places);
  replace_all(sql, "{place}", place_);
  const Uuid::Bytes& id = store_.bytes();
  replace_all(sql, "{id}", "x'" + hex({reinterpret_cast<const char*>(id.data()), id.size()}) + "'");
  int refused = 0;
  const bool in_time = finish(
      until, [&] { return mysql_stmt_prepare_start(&refused, handle, sql.c_str(), sql.size()); },
      [&](int events) { return mysql_stmt_prepare_cont(&refused, handle, events); });
  if (!in_time || refused != 0) {
    Failure failure = !in_time
                          ? late(Kind::kRead)
                          : failed(Kind::kRead, mysql_stmt_errno(handle), mysql_stmt_error(handle));
    if (!usable_) ::shutdown(mysql_get_socket(connection_), SHUT_RDWR);
    mysql_stmt_close(handle);
    return std::unexpected(std::move(failure));
  }
  prepared = {handle, std::move(places)};
  return &prepared;
}

std::expected<Rows, Failure> Connection::run(const Query& query, const Values& values,
                                             SteadyTime until) {
  const auto prepared = prepare(query, until);
  if (!prepared) return std::unexpected(prepared.error());
  MYSQL_STMT* const handle = (*prepared)->handle;
  std::vector<MYSQL_BIND> binds;
  for (const std::size_t place : (*prepared)->places) {
    MYSQL_BIND bind{};
    const Value& value = values.at(place);
    const auto of_text = [&](const std::string& text, enum_field_types type) {
      bind.buffer_type = type;
      bind.buffer = const_cast<char*>(text.data());
      bind.buffer_length = text.size();
    };
    if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
      bind.buffer_type = MYSQL_TYPE_LONGLONG;
      bind.buffer = const_cast<std::int64_t*>(integer);
    } else if (const auto* const bytes = std::get_if<std::string>(&value)) {
      of_text(*bytes, MYSQL_TYPE_BLOB);
    } else {
      of_text(std::get<Text>(value).text, MYSQL_TYPE_STRING);
    }
    binds.push_back(bind);
  }
  if (!binds.empty() && mysql_stmt_bind_param(handle, binds.data()) != 0)
    return std::unexpected(failed(Kind::kRead, mysql_stmt_errno(handle), mysql_stmt_error(handle)));
  int refused = 0;
  const bool in_time = finish(
      until, [&] { return mysql_stmt_execute_start(&refused, handle); },
      [&](int events) { return mysql_stmt_execute_cont(&refused, handle, events); });
  if (!in_time) return std::unexpected(late(query.kind));
  auto rows =
      refused != 0
          ? std::unexpected(failed(query.kind, mysql_stmt_errno(handle), mysql_stmt_error(handle)))
          : rows_of(handle, query.kind, until);
  // A compound statement that was ended from outside leaves its transaction open: the server rolls
  // it back when the connection is closed.
  if (!rows && std::string_view(query.sql).starts_with("BEGIN ")) usable_ = false;
  return rows;
}

// The server sends the rows of a statement before it commits, and the end of them after: so only
// the whole result says that it is durable.
std::expected<Rows, Failure> Connection::rows_of(MYSQL_STMT* statement, Kind kind,
                                                 SteadyTime until) {
  const auto broken = [&] {
    return std::unexpected(failed(kind, mysql_stmt_errno(statement), mysql_stmt_error(statement)));
  };
  const std::size_t width = mysql_stmt_field_count(statement);
  if (width == 0) return Rows(static_cast<std::int64_t>(mysql_stmt_affected_rows(statement)));
  int refused = 0;
  const bool in_time = finish(
      until, [&] { return mysql_stmt_store_result_start(&refused, statement); },
      [&](int events) { return mysql_stmt_store_result_cont(&refused, statement, events); });
  if (!in_time) return std::unexpected(late(kind));
  if (refused != 0) return broken();
  // Everything as text; what is longer than the room for it is fetched again.
  struct Room {
    std::array<char, 64> text{};
    unsigned long length = 0;
    my_bool is_null = 0;
  };
  std::vector<std::vector<std::string>> rows;
  std::vector<Room> room(width);
  std::vector<MYSQL_BIND> binds(width);
  for (std::size_t i = 0; i < width; ++i) {
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = room[i].text.data();
    binds[i].buffer_length = room[i].text.size();
    binds[i].length = &room[i].length;
    binds[i].is_null = &room[i].is_null;
  }
  if (mysql_stmt_bind_result(statement, binds.data()) != 0) return broken();
  for (;;) {
    const int got = mysql_stmt_fetch(statement);
    if (got == MYSQL_NO_DATA) break;
    if (got != 0 && got != MYSQL_DATA_TRUNCATED) return broken();
    std::vector<std::string> row(width);
    for (std::size_t i = 0; i < width; ++i) {
      if (room[i].is_null != 0) continue;
      row[i].resize(room[i].length);
      if (room[i].length <= room[i].text.size()) {
        std::copy_n(room[i].text.data(), room[i].length, row[i].data());
        continue;
      }
      MYSQL_BIND whole{};
      whole.buffer_type = MYSQL_TYPE_STRING;
      whole.buffer = row[i].data();
      whole.buffer_length = row[i].size();
      whole.length = &room[i].length;
      if (mysql_stmt_fetch_column(statement, &whole, static_cast<unsigned>(i), 0) != 0)
        return broken();
    }
    rows.push_back(std::move(row));
  }
  mysql_stmt_free_result(statement);
  // The end of a compound statement follows its rows.
  while (mysql_stmt_more_results(statement) != 0) {
    int left = 0;
    const bool came = finish(
        until, [&] { return mysql_stmt_next_result_start(&left, statement); },
        [&](int events) { return mysql_stmt_next_result_cont(&left, statement, events); });
    if (!came) return std::unexpected(late(kind));
    if (left > 0) return broken();
  }
  return Rows(std::move(rows));
}

std::expected<void, Failure> Connection::execute(const std::string& sql, SteadyTime until,
                                                 Kind kind) {
  int refused = 0;
  const bool in_time = finish(
      until, [&] { return mysql_real_query_start(&refused, connection_, sql.c_str(), sql.size()); },
      [&](int events) { return mysql_real_query_cont(&refused, connection_, events); });
  if (!in_time) return std::unexpected(late(kind));
  if (refused == 0) return {};
  return std::unexpected(failed(kind, mysql_errno(connection_), mysql_error(connection_)));
}

}  // namespace idmint::stores::mariadb
