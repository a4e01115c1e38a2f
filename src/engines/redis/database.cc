#include "engines/redis/database.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "engines/redis/scripts.h"
#include "store/backend.h"

namespace idmint::stores::redis {
namespace {

SteadyTime time_now() { return std::chrono::steady_clock::now(); }

}  // namespace

Database::Database(Address address, milliseconds deadline, Access access, Entropy& entropy)
    : address_(std::move(address)),
      entropy_(entropy),
      sessions_(address_.shown, deadline, access, address_.servers.size(),
                [this](std::size_t server, SteadyTime until) { return connect(server, until); }) {}

std::unexpected<Error> Database::damaged(const std::string& why) const {
  return std::unexpected(damaged_database(url(), why));
}

// ---- connections

std::expected<Database::Session, Failure> Database::connect(std::size_t server, SteadyTime until) {
  auto connection = Connection::open(address_.servers[server], address_, sessions_.access(), until);
  if (!connection) return std::unexpected(std::move(connection.error()));
  Session session{*std::move(connection), std::nullopt};
  auto record = look(*session.connection, first_definition_, until);
  if (!record) return std::unexpected(std::move(record.error()));
  session.record = *std::move(record);
  if (opened_)
    if (auto failure = refused_record(session.record)) return std::unexpected(*std::move(failure));
  return session;
}

std::optional<Failure> Database::refused_record(const std::optional<Record>& record) const {
  if (!record)
    return Failure{.error = damaged("the key " + std::string(kStoreKey) + " is missing").error()};
  if (record->id == id_) return std::nullopt;
  return Failure{.error = {Code::kFailedPrecondition, "another store is there now, with the id " +
                                                          record->id.to_string() + " and not " +
                                                          id_.to_string()}};
}

// ---- scripts

// The first argument of a script that writes.
std::string Database::self(const Uuid& id, std::int64_t settled) const {
  return id.to_string() + " " + std::to_string(settled) + " " + std::to_string(address_.database);
}

// A store that was settled, or made again, between the two looks is asked again.
Result<Answer> Database::run(const Script& script, const Values& values, SteadyTime until,
                             std::string_view doing) {
  if (script.kind == Kind::kHandOut && has_unmarked_)
    if (std::optional<Error> doubt = this->doubt(until)) return std::unexpected(*std::move(doubt));
  Values all = {""};
  all.insert(all.end(), values.begin(), values.end());
  for (;;) {
    all.front() = self(id_, settled_);
    Result<Answer> answer = sessions_.run(script.kind, until, doing,
                                          [&](Session& session) -> std::expected<Answer, Failure> {
                                            return session.connection->run(script, all, until);
                                          });
    if (!answer) return answer;
    if (answer->size() == 0) return damaged("a script returned nothing");
    const std::string_view outcome = answer->outcome();
    if (outcome != "doubt" && outcome != "other" && outcome != "settled") return answer;
    const Result<Record> record = read(until);
    if (!record) return std::unexpected(record.error());
    if (auto doubt = doubt_of(*record, url()); doubt && outcome == "doubt")
      return std::unexpected(*std::move(doubt));
  }
}

// ---- the record

Result<void> Database::open(const StoreOptions& options,
                            const std::function<void(std::string_view json)>& found) {
  const SteadyTime until = std::min(options.until, time_now() + deadline());
  first_definition_ = options.first_definition;
  const Result<Record> record = find_or_make(options, until);
  first_definition_.clear();
  if (!record) return std::unexpected(record.error());
  if (record->schema > kSchemaVersion)
    return std::unexpected(newer_schema(url(), record->schema, kSchemaVersion));
  if (record->schema != kSchemaVersion || record->id == Uuid{})
    return damaged(std::string(kStoreKey) + " says schema version " +
                   std::to_string(record->schema) + " and id " + record->id.to_string());
  id_ = record->id;
  opened_ = true;
  if (const std::optional<std::string>& json = record->definition; json) found(*json);
  return {};
}

Result<Record> Database::find_or_make(const StoreOptions& options, SteadyTime until) {
  const Result<std::optional<Record>> found =
      sessions_.run(Kind::kRead, until, "open", [](Session& session) {
        return std::expected<std::optional<Record>, Failure>(session.record);
      });
  if (!found) return std::unexpected(found.error());
  if (const std::optional<Record>& record = *found; record) return *record;
  if (!options.create || sessions_.access() == Access::kReadOnly)
    return fail(Code::kNotFound, "no store in " + url() + "; name the database of one, or make one",
                {Remedy::kCreateStore, url()});
  return make(until);
}

// If two callers come here at once, one makes the store, and the other finds it made.
Result<Record> Database::make(SteadyTime until) {
  const Values values = values_of(draw_store_id(entropy_), std::int64_t{address_.database});
  return sessions_.run(Kind::kHandOut, until, "make a store in",
                       [&](Session& session) -> std::expected<Record, Failure> {
                         const auto made = session.connection->run(kMakeStore, values, until);
                         if (!made) return std::unexpected(made.error());
                         if (made->outcome() == "parts")
                           return std::unexpected(Failure{
                               .error = damaged("it has counters or definitions, and the key " +
                                                std::string(kStoreKey) + " is missing")
                                            .error()});
                         auto record = look(*session.connection, "", until);
                         if (!record) return std::unexpected(std::move(record.error()));
                         if (*record) return **std::move(record);
                         return std::unexpected(*refused_record(std::nullopt));
                       });
}

Result<Record> Database::read(SteadyTime until) {
  return sessions_.run(Kind::kRead, until, "read",
                       [&](Session& session) -> std::expected<Record, Failure> {
                         auto record = look(*session.connection, "", until);
                         if (!record) return std::unexpected(std::move(record.error()));
                         if (auto failure = refused_record(*record))
                           return std::unexpected(*std::move(failure));
                         return **std::move(record);
                       });
}

// An answer has a count that is not below the one that was known before it was asked for, unless
// the store has gone back.
std::expected<std::optional<Record>, Failure> Database::look(Connection& connection,
                                                             std::string_view definition,
                                                             SteadyTime until) {
  const std::int64_t before = settled_;
  auto record = read_record(connection, address_.database, definition, until);
  if (!record) return record;
  const std::optional<Record>& found = *record;
  // Another store is in its place: the counts are not of one.
  if (!found || (opened_ && found->id != id_)) return record;
  const std::int64_t now = found->settled;
  if (now < before && sessions_.access() == Access::kReadWrite) {
    const std::string why = "its record says that it was settled as number " + std::to_string(now) +
                            ", and it was settled as number " + std::to_string(before) + " before";
    const auto marked =
        connection.run(kMarkGoneBack, values_of(self(found->id, now), now, why), until);
    if (!marked) return std::unexpected(marked.error());
    record = read_record(connection, address_.database, definition, until);
  }
  if (now < before) settled_ = now;
  for (std::int64_t known = settled_; known < now && !settled_.compare_exchange_weak(known, now);) {
  }
  return record;
}

std::optional<Error> Database::doubt(SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return until.error();
  Result<Record> record = read(*until);
  if (!record) return record.error();
  if (has_unmarked_) {
    const std::lock_guard lock(mutex_);
    if (unmarked_ && unmarked_->settled != record->settled) {
      unmarked_.reset();
      has_unmarked_ = false;
    }
    if (unmarked_ && record->gone_back.empty()) record->gone_back = unmarked_->gone_back;
  }
  return doubt_of(*record, url());
}

Result<void> Database::settle(Store::Settle how) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  const Result<Record> record = read(*until);
  if (!record) return std::unexpected(record.error());
  std::optional<Error> doubt = doubt_of(*record, url());
  if (!doubt) return {};
  if (how == Store::Settle::kOnlyMoved && !record->gone_back.empty())
    return std::unexpected(*std::move(doubt));
  const Result<Answer> done = run(
      kSettle, values_of(record->settled, next_settle_count(record->settled)), *until, "settle");
  if (!done) return std::unexpected(done.error());
  const Result<Record> settled = read(*until);
  if (!settled) return std::unexpected(after_a_write(settled.error()));
  return {};
}

Result<std::int64_t> Database::read_settle_count(SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  const Result<Record> record = read(*until);
  if (!record) return std::unexpected(record.error());
  return record->settled;
}

Result<void> Database::mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime by) {
  const Result<SteadyTime> until = enter(by);
  if (!until) return std::unexpected(until.error());
  const Result<Answer> done = run(kMarkGoneBack, values_of(settled, why), *until, "put in doubt");
  if (done) return {};
  const std::lock_guard lock(mutex_);
  unmarked_ = {settled, std::string(why)};
  has_unmarked_ = true;
  return std::unexpected(done.error());
}

}  // namespace idmint::stores::redis
