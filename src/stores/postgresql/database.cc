#include "stores/postgresql/database.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/errors.h"
#include "stores/backend.h"
#include "stores/postgresql/sqlstate.h"

namespace idmint::stores::postgresql {
namespace {

// How a connection is to be, whatever the server, the database or the user say. A statement that
// nobody waits for any more is ended by the server after the deadline of the store.
constexpr Query kSetUp{
    "set_up",
    "SELECT pg_is_in_recovery(),"
    " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
    "  WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " set_config('default_transaction_read_only', CASE $2::bigint WHEN 1 THEN 'on'"
    "  ELSE current_setting('default_transaction_read_only') END, false),"
    " set_config('statement_timeout', $1::text, false),"
    " set_config('lock_timeout', $1::text, false),"
    " set_config('search_path', '', false)",
    Kind::kRead};

SteadyTime time_now() { return std::chrono::steady_clock::now(); }

// The deadline as a setting of the server, which has whole ms and takes 0 for no end.
std::string server_timeout(milliseconds deadline) {
  constexpr milliseconds longest{std::numeric_limits<std::int32_t>::max()};
  return std::to_string(std::clamp(deadline, milliseconds{1}, longest).count());
}

}  // namespace

Database::Database(Address address, milliseconds deadline, Access access, Entropy& entropy)
    : address_(std::move(address)),
      deadline_(deadline),
      access_(access),
      entropy_(entropy),
      sessions_(address_.shown, address_.servers.size(),
                [this](std::size_t server, SteadyTime until) { return connect(server, until); }) {}

Result<SteadyTime> Database::enter_to_read(SteadyTime by) const {
  if (!sessions_.is_ours()) return std::unexpected(inherited_handle(url()));
  return std::min(by, time_now() + deadline_);
}

Result<SteadyTime> Database::enter(SteadyTime by) const {
  if (access_ == Access::kReadOnly) return std::unexpected(read_only_handle(url()));
  return enter_to_read(by);
}

std::unexpected<Error> Database::damaged(const std::string& why) const {
  return std::unexpected(damaged_database(url(), why));
}

Failure Database::no_record() const {
  return {.error = damaged("the row of idmint.store is missing").error()};
}

// ---- connections

std::expected<Database::Session, Failure> Database::connect(std::size_t server, SteadyTime until) {
  auto connection = Connection::open(address_.servers[server], until);
  if (!connection) return std::unexpected(std::move(connection.error()));
  Session session{*std::move(connection), std::nullopt};
  const std::int64_t read_only = access_ == Access::kReadOnly ? 1 : 0;
  auto set_up =
      session.connection->run(kSetUp, values_of(server_timeout(deadline_), read_only), until);
  if (!set_up) return std::unexpected(std::move(set_up.error()));
  if (set_up->empty() || (*set_up)[0].integer(0) != 0)
    return std::unexpected(Failure{
        .error = {Code::kFailedPrecondition,
                  "the server is a standby, which can lag behind; name the primary, or all servers "
                  "of the cluster"},
        .passing = address_.servers.size() > 1});
  auto record = read_record(*session.connection, first_definition_, until);
  if (!record) return std::unexpected(std::move(record.error()));
  session.record = *std::move(record);
  if (!opened_) return session;
  if (!session.record) return std::unexpected(no_record());
  if (session.record->id != id_)
    return std::unexpected(
        Failure{.error = {Code::kFailedPrecondition, "another store is there now, with the id " +
                                                         session.record->id.to_string() +
                                                         " and not " + id_.to_string()}});
  if (auto refused = refused_settings(session.record->settings, url()))
    return std::unexpected(Failure{.error = *std::move(refused)});
  return session;
}

// ---- statements

// Why a session whose record tells of another cluster hands nothing out. The store may have been
// settled since the session looked.
std::optional<Failure> Database::distrust(Session& session, SteadyTime until) {
  if (session.record && !session.record->is_elsewhere()) return std::nullopt;
  auto record = read_record(*session.connection, "", until);
  if (!record) return std::move(record.error());
  session.record = *std::move(record);
  if (!session.record) return no_record();
  std::optional<Error> doubt = doubt_of(*session.record, url());
  if (!doubt) return std::nullopt;
  return Failure{.error = *std::move(doubt)};
}

Result<Rows> Database::run(const Query& query, const Values& values, SteadyTime until,
                           std::string_view doing) {
  return sessions_.run(until, doing, [&](Session& session) -> std::expected<Rows, Failure> {
    if (query.kind == Kind::kHandOut)
      if (auto why = distrust(session, until)) return std::unexpected(*std::move(why));
    return session.connection->run(query, values, until);
  });
}

// ---- the record

Result<void> Database::open(const StoreOptions& options,
                            const std::function<void(std::string_view json)>& found) {
  const SteadyTime until = std::min(options.until, time_now() + deadline_);
  first_definition_ = options.first_definition;
  const Result<Record> record = find_or_make(options, until);
  first_definition_.clear();
  if (!record) return std::unexpected(record.error());
  if (record->schema > kSchemaVersion)
    return fail(Code::kFailedPrecondition,
                url() + " has schema version " + std::to_string(record->schema) +
                    ", and this idmint knows versions up to " + std::to_string(kSchemaVersion) +
                    "; it was left as it is: use a newer idmint");
  if (record->schema != kSchemaVersion)
    return damaged("idmint.store says schema version " + std::to_string(record->schema));
  if (auto refused = refused_settings(record->settings, url()))
    return std::unexpected(*std::move(refused));
  id_ = record->id;
  opened_ = true;
  if (const std::optional<std::string>& json = record->definition; json) found(*json);
  return {};
}

Result<Record> Database::find_or_make(const StoreOptions& options, SteadyTime until) {
  const Result<std::optional<Record>> found = sessions_.run(until, "open", [](Session& session) {
    return std::expected<std::optional<Record>, Failure>(session.record);
  });
  if (!found) return std::unexpected(found.error());
  if (const std::optional<Record>& record = *found; record) return *record;
  if (!options.create || access_ == Access::kReadOnly)
    return fail(Code::kNotFound, "no store in " + url() + "; name the database of one, or make one",
                {Remedy::kCreateStore, url()});
  return make(until);
}

// Of two that come here at once, one makes the store, and the other finds it made.
Result<Record> Database::make(SteadyTime until) {
  const auto attempt = [&](Session& session) -> std::expected<Record, Failure> {
    Connection& connection = *session.connection;
    const auto site = read_site(connection, until);
    if (!site) return std::unexpected(site.error());
    if (auto refused = refused_settings(site->settings, url()))
      return std::unexpected(Failure{.error = *std::move(refused)});
    auto made =
        connection.execute(statements_that_make(draw_store_id(entropy_), !site->has_schema), until);
    constexpr std::array<std::string_view, 4> kThere = {"23505", "42P06", "42P07", "42710"};
    if (!made && std::ranges::find(kThere, made.error().reason) == kThere.end()) {
      if (made.error().reason == kInsufficientPrivilege)
        made.error().error.message +=
            "; the user who makes a store needs CREATE on the database, or a schema idmint of its "
            "own";
      return std::unexpected(std::move(made.error()));
    }
    auto record = read_record(connection, "", until);
    if (!record) return std::unexpected(std::move(record.error()));
    session.record = *std::move(record);
    if (session.record) return *session.record;
    if (made) return std::unexpected(no_record());
    return std::unexpected(Failure{
        .error = {Code::kFailedPrecondition,
                  "it has a schema idmint of another program (" + made.error().error.message +
                      "); it was left as it is: name another database"}});
  };
  return sessions_.run(until, "make a store in", attempt);
}

Result<Record> Database::read(SteadyTime until) {
  return sessions_.run(until, "read", [&](Session& session) -> std::expected<Record, Failure> {
    auto record = read_record(*session.connection, "", until);
    if (!record) return std::unexpected(std::move(record.error()));
    session.record = *std::move(record);
    if (!session.record) return std::unexpected(no_record());
    return *session.record;
  });
}

Error Database::why_not_made(Error read, SteadyTime until) {
  if (read.code != Code::kNotFound) return after_a_write(std::move(read));
  if (Result<void> trusted = check_trust(until); !trusted) return std::move(trusted.error());
  return read;
}

Result<void> Database::check_trust(SteadyTime until) {
  const Result<Record> record = read(until);
  if (!record) return std::unexpected(record.error());
  if (auto doubt = doubt_of(*record, url())) return std::unexpected(*std::move(doubt));
  if (auto refused = refused_settings(record->settings, url()))
    return std::unexpected(*std::move(refused));
  return {};
}

std::optional<Error> Database::doubt() {
  const Result<SteadyTime> until = enter_to_read();
  if (!until) return until.error();
  const Result<Record> record = read(*until);
  if (!record) return record.error();
  return doubt_of(*record, url());
}

Result<void> Database::settle() {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  const Result<Record> record = read(*until);
  if (!record) return std::unexpected(record.error());
  if (!doubt_of(*record, url())) return {};
  const Result<Rows> done = run(kSettle, {}, *until, "settle");
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace idmint::stores::postgresql
