#include "engines/sql/postgresql/connection.h"

#include <poll.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "engines/sql/postgresql/sqlstate.h"
#include "store/socket.h"

namespace idmint::stores::postgresql {
namespace {

using std::chrono::steady_clock;

// The lines of libpq's text as one, without where in the server's sources an error arose.
std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view each = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    each.remove_prefix(std::min(each.find_first_not_of(" \t"), each.size()));
    // libpq's question whether the server runs at all has no answer here.
    if (each.empty() || each.starts_with("LOCATION:") || each.starts_with("Is the server running"))
      continue;
    if (!line.empty()) line += "; ";
    line += each;
  }
  return escaped(as_utf8(line));
}

// Takes the code out of a refused connection's text, which has it as "FATAL:  28P01: ...".
std::string take_sqlstate(std::string* text) {
  constexpr std::string_view kBefore = ":  ";
  constexpr std::size_t kLength = 5;
  for (std::size_t at = text->rfind(kBefore); at != std::string::npos;
       at = at == 0 ? std::string::npos : text->rfind(kBefore, at - 1)) {
    const std::size_t begin = at + kBefore.size();
    const std::string code = text->substr(begin, kLength);
    const bool is_code = code.size() == kLength && std::ranges::all_of(code, [](unsigned char c) {
                           return std::isdigit(c) != 0 || std::isupper(c) != 0;
                         });
    if (!is_code || text->compare(begin + kLength, 2, ": ") != 0) continue;
    text->replace(at, kBefore.size() + kLength + 2, ": ");
    return code;
  }
  return "";
}

constexpr std::string_view kBackend = "{backend}";
constexpr std::string_view kId = "{id}";

void replace_all(std::string& sql, std::string_view what, std::string_view by) {
  for (std::size_t at = sql.find(what); at != std::string::npos; at = sql.find(what, at))
    sql.replace(at, what.size(), by);
}

// Explains the division by zero in a statement with the {backend}.
void tell_of_pooler(Failure& failure) {
  if (failure.reason == kOtherBackend)
    failure.error.what = "another process of the server has the connection than at first" +
                         std::string(advice_for(kOtherBackend));
}

std::string field_of(const PGresult* result, int field) {
  const char* const text = PQresultErrorField(result, field);
  return text != nullptr ? text : "";
}

}  // namespace

// ---- values and rows

std::string array_of(std::span<const std::string> texts) {
  std::string array = "{";
  for (const std::string& text : texts) {
    if (array.size() > 1) array += ',';
    array += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

std::string array_of(std::span<const std::int64_t> integers) {
  std::string array = "{";
  for (const std::int64_t each : integers) {
    if (array.size() > 1) array += ',';
    array += std::to_string(each);
  }
  return array + "}";
}

// The result is binary: integers have their most significant byte first.
std::int64_t Row::integer(int column) const {
  const std::string_view raw = bytes(column);
  if (raw.empty() || raw.size() > sizeof(std::int64_t)) return 0;
  const bool negative = raw.size() > 1 && (static_cast<unsigned char>(raw.front()) & 0x80U) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (const char byte : raw) value = value << 8U | static_cast<unsigned char>(byte);
  return static_cast<std::int64_t>(value);
}

std::string_view Row::bytes(int column) const {
  const int length = PQgetlength(rows_, at_, column);
  return {PQgetvalue(rows_, at_, column), static_cast<std::size_t>(std::max(length, 0))};
}

std::int64_t Rows::found() const {
  if (rows_ == nullptr) return 0;
  const std::string_view digits = PQcmdTuples(rows_.get());
  std::int64_t count = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return count;
}

// ---- connecting

std::expected<std::unique_ptr<Connection>, Failure> Connection::open(
    std::span<const Setting> server, SteadyTime until) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  const auto add = [&](const char* keyword, const char* value) {
    keywords.push_back(keyword);
    values.push_back(value);
  };
  for (const auto& [keyword, value] : server) add(keyword.c_str(), value.c_str());
  add("client_encoding", "UTF8");
  add("fallback_application_name", "idmint");
  add(nullptr, nullptr);
  PGconn* const raw = PQconnectStartParams(keywords.data(), values.data(), 0);
  if (raw == nullptr)
    return std::unexpected(Failure{.error = {Code::kResourceExhausted, "no memory"}});
  std::unique_ptr<Connection> connection(new Connection(raw));
  if (auto connected = connection->connect(until); !connected)
    return std::unexpected(std::move(connected.error()));
  return connection;
}

Connection::~Connection() {
  if (connection_ != nullptr) PQfinish(connection_);
}

std::expected<void, Failure> Connection::connect(SteadyTime until) {
  // In its texts, as it gives the SQLSTATE of a refused connection in no other way.
  PQsetErrorVerbosity(connection_, PQERRORS_VERBOSE);
  PQsetNoticeReceiver(
      connection_,
      [](void* self, const PGresult* notice) { static_cast<Connection*>(self)->notice(notice); },
      this);
  PostgresPollingStatusType state =
      PQstatus(connection_) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) {
      std::string why = one_line(PQerrorMessage(connection_));
      const std::string sqlstate = take_sqlstate(&why);
      Meaning meaning = meaning_of(sqlstate);
      if (sqlstate.empty() && PQconnectionNeedsPassword(connection_) != 0) {
        meaning = {Code::kUnauthenticated, false};
        why += "; put it into the password file (PGPASSFILE, or ~/.pgpass)";
      }
      why += advice_for(sqlstate);
      return std::unexpected(Failure{
          .error = {meaning.code, std::move(why)}, .reason = sqlstate, .passing = meaning.passing});
    }
    const short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (wait_for_socket(PQsocket(connection_), events, until) == 0)
      return std::unexpected(
          Failure{.error = {Code::kUnavailable, "the server does not answer"}, .passing = true});
    state = PQconnectPoll(connection_);
  }
  PQsetnonblocking(connection_, 1);
  return {};
}

std::int64_t Connection::backend_at_login() const { return PQbackendPID(connection_); }

// ---- statements

std::string Connection::filled_in(std::string sql) const {
  replace_all(sql, kBackend, backend_);
  replace_all(sql, kId, store_.to_string());
  return sql;
}

void Connection::notice(const PGresult* notice) {
  const std::string severity = field_of(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  // There are others, such as of a vacuum that is overdue, and this one has no code of its own.
  if (severity == "WARNING" && field_of(notice, PG_DIAG_SOURCE_FUNCTION) == "SyncRepWaitForLSN")
    unawaited_ = field_of(notice, PG_DIAG_MESSAGE_PRIMARY);
  if (severity == "FATAL" || severity == "PANIC") usable_ = false;
}

bool Connection::is_usable() {
  if (!usable_ || PQstatus(connection_) != CONNECTION_OK) return false;
  if (wait_for_socket(PQsocket(connection_), POLLIN, steady_clock::now()) == 0) return true;
  // Something came without being asked for: a setting was changed, or the server has ended it.
  if (PQconsumeInput(connection_) == 0 || PQisBusy(connection_) != 0) usable_ = false;
  return usable_ && PQstatus(connection_) == CONNECTION_OK;
}

Failure Connection::broken(Kind kind, std::string why) {
  usable_ = false;
  if (why.empty()) why = one_line(PQerrorMessage(connection_));
  if (why.empty()) why = "the connection broke";
  return unanswered(kind, std::move(why));
}

// A statement by itself commits after its rows were sent, when the server is told that nothing
// follows. So only the end of the exchange says that it is durable.
std::expected<Rows, Failure> Connection::exchange(Kind kind, SteadyTime until) {
  const int socket = PQsocket(connection_);
  const auto too_late = [&] {
    usable_ = false;
    return std::unexpected(late(kind));
  };
  for (int left = PQflush(connection_); left != 0; left = PQflush(connection_)) {
    if (left < 0) return std::unexpected(broken(kind, ""));
    const short ready = wait_for_socket(socket, POLLIN | POLLOUT, until);
    if (ready == 0) return too_late();
    if ((ready & ~POLLOUT) != 0 && PQconsumeInput(connection_) == 0)
      return std::unexpected(broken(kind, ""));
  }
  std::optional<Rows> rows;
  std::optional<Failure> failure;
  bool fatal = false;
  for (;;) {
    while (PQisBusy(connection_) != 0) {
      if (wait_for_socket(socket, POLLIN, until) == 0) return too_late();
      if (PQconsumeInput(connection_) == 0)
        return std::unexpected(broken(kind, failure ? failure->error.message() : ""));
    }
    PGresult* const raw = PQgetResult(connection_);
    if (raw == nullptr) break;
    Rows result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      if (!rows) rows = std::move(result);
      continue;
    }
    if (failure) continue;
    fatal = field_of(raw, PG_DIAG_SEVERITY_NONLOCALIZED) != "ERROR";
    const std::string sqlstate = field_of(raw, PG_DIAG_SQLSTATE);
    const Meaning meaning = meaning_of(sqlstate);
    std::string why = field_of(raw, PG_DIAG_MESSAGE_PRIMARY);
    if (const std::string detail = field_of(raw, PG_DIAG_MESSAGE_DETAIL); !detail.empty())
      why += " (" + detail + ")";
    why = one_line(why) + std::string(advice_for(sqlstate));
    failure = Failure{
        .error = {meaning.code, std::move(why)}, .reason = sqlstate, .passing = meaning.passing};
  }
  // An ERROR rolls the statement back. After anything worse nobody knows.
  const bool idle =
      PQstatus(connection_) == CONNECTION_OK && PQtransactionStatus(connection_) == PQTRANS_IDLE;
  if (!idle || fatal) return std::unexpected(broken(kind, failure ? failure->error.message() : ""));
  if (failure) return std::unexpected(*std::move(failure));
  if (!rows) return std::unexpected(broken(kind, "the server sent no result"));
  // The wait for a standby was cancelled: what was committed may be on this server alone, and be
  // lost with it. The server says so as a warning, and that the statement succeeded.
  if (kind != Kind::kRead && !unawaited_.empty())
    return std::unexpected(
        Failure{.error = {Code::kUnknown, one_line(unawaited_) +
                                              "; it was done on the primary, and may be lost when "
                                              "a standby takes its place"}});
  return *std::move(rows);
}

std::expected<Rows, Failure> Connection::run(const Query& query, const Values& values,
                                             SteadyTime until) {
  constexpr int kBinary = 1;
  std::vector<const char*> texts;
  texts.reserve(values.size());
  for (const std::string& value : values) texts.push_back(value.c_str());
  const auto count = static_cast<int>(texts.size());
  const auto not_sent = [&] { return std::unexpected(broken(Kind::kRead, "")); };
  int& uses = uses_[query.name];
  unawaited_.clear();
  const std::string sql = uses < 2 ? filled_in(query.sql) : std::string();
  if (uses == 1 && prepares_) {
    if (PQsendPrepare(connection_, query.name, sql.c_str(), 0, nullptr) == 0) return not_sent();
    if (auto prepared = exchange(Kind::kRead, until); !prepared) return prepared;
    uses = 2;
  }
  const int sent = uses == 2 ? PQsendQueryPrepared(connection_, query.name, count, texts.data(),
                                                   nullptr, nullptr, kBinary)
                             : PQsendQueryParams(connection_, sql.c_str(), count, nullptr,
                                                 texts.data(), nullptr, nullptr, kBinary);
  if (sent == 0) return not_sent();
  auto rows = exchange(query.kind, until);
  if (!rows && rows.error().reason == kInsufficientPrivilege && *query.rights != '\0')
    add_clause(rows.error().error.what,
               std::string("the user needs USAGE on the schema idmint, ") + query.rights);
  if (!rows && std::string_view(query.sql).contains(kBackend)) tell_of_pooler(rows.error());
  if (rows && uses == 0) uses = 1;
  return rows;
}

std::expected<Rows, Failure> Connection::execute(const std::string& sql, SteadyTime until) {
  unawaited_.clear();
  const std::string guarded =
      filled_in("SELECT 1 / (CASE pg_backend_pid() WHEN {backend} THEN 1 ELSE 0 END);") + sql;
  if (PQsendQuery(connection_, guarded.c_str()) == 0)
    return std::unexpected(broken(Kind::kRead, ""));
  auto rows = exchange(Kind::kWrite, until);
  if (!rows) tell_of_pooler(rows.error());
  return rows;
}

}  // namespace idmint::stores::postgresql
