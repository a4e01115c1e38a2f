// Database: the database of a store of an SQL server, and statements that are sent to it.
//
// A Dialect says how a kind of server does it. It is a struct with these types and static
// functions; what they return is std::expected<..., Failure>:
//   Address     shown: the URL without passwords; servers: its servers, in their order
//   Connection  used by one thread at a time:
//                 uses_store(id)             {id} in a Query stands for this id
//                 run(query, values, until)  the Rows that it returned; what it wrote is durable
//                 execute(sql, until)        any statements without values, in one transaction
//                 is_usable()                as in Sessions
//   Values      the values of a statement
//   value(x)    one of them, of an integer, a Uuid, a Name or a Json
//   text(x)     one of them, of ASCII
//   Rows, Row   size(), empty(), operator[]; integer(column), 0 for NULL, and bytes(column), empty
//               for NULL. found() of Rows without RETURNING: how many the statement found.
//   kAdoptionRules  what it can adopt, and kAdoption
//   Site        what the server says, in one moment: settings, and the record of the store, if it
//               has one, with `id`, `schema`, `definition` (the text of that name, if it is there),
//               `settled` (Store::settle_count(); -1: an older store, which keeps neither that nor
//               a mark), `gone_back` (the mark), `is_older()` (it lacks columns), `may_upgrade`
//               (this user may add them) and `is_elsewhere()` (it was written on another server
//               than this one)
//   settle(record)  a query that takes the server as it is for the one that has all of the store
//   kMarkGoneBack   a query: why, settled -> sets the mark
//   upgrade(connection, until)    adds the columns that an older store lacks
//   kRecord         where the record is, for messages
//   kSchemaVersion
//   login(address, server, deadline, access, until)   a connection, whose settings are as they must
//                                                     be whatever the server or the user say
//   read_site(connection, definition, until)
//   make(connection, id, until)   makes the tables and the record, or finds that another made them
//   refused_settings(site, url)   the first setting under which an acknowledged value may be lost,
//                                 as kFailedPrecondition that names the one that would do
//   doubt_of(record, url)         as Store::doubt()
//
// Another store may take the place of this one while a connection lasts. Each Query that is not of
// Kind::kRead has {id} in its condition, and changes nothing in a store with another id.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "engines/sql/query.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "store/backend.h"
#include "store/engine.h"
#include "store/sessions.h"

namespace idmint::stores::sql {

// The part that all tables of one store share. Any thread may call any method at any time.
template <class Dialect>
class Database final : public Engine {
 public:
  using Rows = typename Dialect::Rows;
  using Record = typename Dialect::Record;

  Database(typename Dialect::Address address, std::chrono::milliseconds deadline, Access access,
           Entropy& entropy)
      : address_(std::move(address)),
        entropy_(entropy),
        sessions_(address_.shown, deadline, access, address_.servers.size(),
                  [this](std::size_t server, SteadyTime until) { return connect(server, until); }) {
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Finds or makes the store, before anything else. Errors as Store::open(). `found` is given the
  // text of options.first_definition, if that is there.
  Result<void> open(const StoreOptions& options,
                    const std::function<void(std::string_view json)>& found) {
    const SteadyTime until = std::min(options.until, now() + deadline());
    first_definition_ = options.first_definition;
    const Result<Record> record = find_or_make(options, until);
    first_definition_.clear();
    if (!record) return std::unexpected(record.error());
    if (record->schema > Dialect::kSchemaVersion)
      return std::unexpected(newer_schema(url(), record->schema, Dialect::kSchemaVersion));
    if (record->schema != Dialect::kSchemaVersion)
      return damaged(std::string(Dialect::kRecord) + " says schema version " +
                     std::to_string(record->schema));
    id_ = record->id;
    server_ = record->place();
    opened_ = true;
    // It goes on as before where that fails: the next one who may does it.
    if (record->is_older() && record->may_upgrade && sessions_.access() == Access::kReadWrite) {
      const auto upgraded = sessions_.run(
          Kind::kWrite, until, "upgrade", [&](Session& session) -> std::expected<bool, Failure> {
            auto done = Dialect::upgrade(*session.connection, until);
            if (done)
              if (auto read = look_again(session, until); !read)
                return std::unexpected(std::move(read.error()));
            return done.has_value();
          });
      static_cast<void>(upgraded);
    }
    if (const std::optional<std::string>& json = record->definition; json) found(*json);
    return {};
  }

  [[nodiscard]] const Uuid& id() const noexcept { return id_; }
  [[nodiscard]] const std::string& server() const noexcept { return server_; }
  [[nodiscard]] const std::string& url() const noexcept { return sessions_.url(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return sessions_.deadline(); }

  std::string_view shown_url() const noexcept override { return url(); }
  Entropy& entropy() const noexcept override { return entropy_; }
  Result<SteadyTime> enter(Purpose purpose, SteadyTime by) override {
    return purpose == Purpose::kRead ? enter_to_read(by) : enter(by);
  }
  // A setting is a doubt here.
  Result<void> expect_trust(SteadyTime until) override {
    const Result<Site> site = read(until);
    if (!site) return std::unexpected(site.error());
    if (auto doubt = doubt_in(*site)) return std::unexpected(*std::move(doubt));
    if (auto refused = Dialect::refused_settings(*site, url()))
      return std::unexpected(*std::move(refused));
    return {};
  }

  // As in Sessions.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const {
    return sessions_.enter_to_read(by);
  }
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const {
    return sessions_.enter(by);
  }

  // Runs the query, again where it changed nothing and another attempt may succeed. `doing`: for
  // messages, such as "read". A kHandOut that returns no row may have met a store that is not
  // trusted: see expect_trust().
  Result<Rows> run(const Query& query, const typename Dialect::Values& values, SteadyTime until,
                   std::string_view doing) {
    return sessions_.run(query.kind, until, doing,
                         [&](Session& session) { return send(session, query, values, until); });
  }
  // The same, for a query that may have found nothing because another store is there now. Then the
  // answer is that error.
  Result<Rows> change(const Query& query, const typename Dialect::Values& values, SteadyTime until,
                      std::string_view doing) {
    return sessions_.run(query.kind, until, doing,
                         [&](Session& session) -> std::expected<Rows, Failure> {
                           auto rows = send(session, query, values, until);
                           if (!rows || !rows->empty() || rows->found() != 0) return rows;
                           if (auto read = look_again(session, until); !read)
                             return std::unexpected(std::move(read.error()));
                           return rows;
                         });
  }

  // Statements without values, in a transaction if there are several, which a store in doubt is
  // allowed too.
  Result<void> execute(const std::string& sql, SteadyTime until, std::string_view doing) {
    const Result<bool> done = sessions_.run(
        Kind::kWrite, until, doing, [&](Session& session) -> std::expected<bool, Failure> {
          auto executed = session.connection->execute(sql, until);
          if (!executed) return std::unexpected(std::move(executed.error()));
          return true;
        });
    if (!done) return std::unexpected(done.error());
    return {};
  }

  // Why a row is not there after the kHandOut that makes it. `read`: the error of reading it. Its
  // kNotFound stays if the store is trusted.
  [[nodiscard]] Error why_not_made(Error read, SteadyTime until) {
    if (read.code != Code::kNotFound) return after_a_write(std::move(read));
    if (Result<void> trusted = expect_trust(until); !trusted) return std::move(trusted.error());
    return read;
  }

  // As Store::doubt() and Store::settle().
  std::optional<Error> doubt(SteadyTime by) {
    const Result<SteadyTime> until = enter_to_read(by);
    if (!until) return until.error();
    const Result<Site> site = read(*until);
    if (!site) return site.error();
    return doubt_in(*site);
  }
  Result<void> settle(Store::Settle how) {
    const Result<SteadyTime> until = enter();
    if (!until) return std::unexpected(until.error());
    const Result<Site> site = read(*until);
    if (!site) return std::unexpected(site.error());
    std::optional<Error> doubt = doubt_in(*site);
    if (!doubt) return {};
    const auto& record = site->record;
    if (!record || (how == Store::Settle::kOnlyMoved && !record->gone_back.empty()))
      return std::unexpected(*std::move(doubt));
    const Result<Rows> done = change(Dialect::settle(*record), {}, *until, "settle");
    if (!done) return std::unexpected(done.error());
    if (const Result<Site> now = read(*until); !now)
      return std::unexpected(after_a_write(now.error()));
    return {};
  }

  // As in Store.
  [[nodiscard]] std::int64_t settle_count() const noexcept { return settled_; }
  Result<std::int64_t> read_settle_count(SteadyTime by) {
    const Result<SteadyTime> until = enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    const Result<Site> site = read(*until);
    if (!site) return std::unexpected(site.error());
    return settle_count();
  }
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime by) {
    const Result<SteadyTime> until = enter(by);
    if (!until) return std::unexpected(until.error());
    const Result<Site> site = read(*until);
    if (!site) return std::unexpected(site.error());
    const auto& record = site->record;
    if (!record || record->settled < 0) return {};
    const std::string text = escaped(as_utf8(why.substr(0, kLongestMark)));
    const Result<Rows> done =
        change(Dialect::kMarkGoneBack, {Dialect::text(text), Dialect::value(settled)}, *until,
               "mark what is missing in");
    if (!done) return std::unexpected(done.error());
    return {};
  }

  // kDataLoss, with what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& why) const {
    return std::unexpected(damaged_database(url(), why));
  }

 private:
  using Site = typename Dialect::Site;
  static constexpr std::size_t kLongestMark = 300;

  struct Session {
    std::unique_ptr<typename Dialect::Connection> connection;
    Site site;  // as it was when it connected, or looked again

    [[nodiscard]] bool is_usable() { return connection->is_usable(); }
  };

  static SteadyTime now() { return std::chrono::steady_clock::now(); }

  std::expected<Session, Failure> connect(std::size_t server, SteadyTime until) {
    auto connection = Dialect::login(address_, server, deadline(), sessions_.access(), until);
    if (!connection) return std::unexpected(std::move(connection.error()));
    auto site = Dialect::read_site(**connection, first_definition_, until);
    if (!site) return std::unexpected(std::move(site.error()));
    if (auto refused = Dialect::refused_settings(*site, url()))
      return std::unexpected(Failure{.error = *std::move(refused)});
    Session session{*std::move(connection), *std::move(site)};
    if (opened_)
      if (auto failure = refused_record(session.site.record))
        return std::unexpected(*std::move(failure));
    if (const std::optional<Record>& record = session.site.record; record) remember(*record);
    return session;
  }

  [[nodiscard]] std::optional<Failure> refused_record(const std::optional<Record>& record) const {
    if (!record) return no_record();
    if (record->id == id_) return std::nullopt;
    return Failure{.error = {Code::kFailedPrecondition, "another store is there now, with the id " +
                                                            record->id.to_string() + " and not " +
                                                            id_.to_string()}};
  }

  std::expected<Rows, Failure> send(Session& session, const Query& query,
                                    const typename Dialect::Values& values, SteadyTime until) {
    if (query.kind == Kind::kHandOut)
      if (auto why = distrust(session, until)) return std::unexpected(*std::move(why));
    session.connection->uses_store(id_);
    return session.connection->run(query, values, until);
  }

  // Why a session whose record tells of another server hands nothing out. The store may have been
  // settled since the session looked.
  std::optional<Failure> distrust(Session& session, SteadyTime until) {
    if (session.site.record && !session.site.record->is_elsewhere()) return std::nullopt;
    if (auto read = look_again(session, until); !read) return std::move(read.error());
    std::optional<Error> doubt = doubt_in(session.site);
    if (!doubt) return std::nullopt;
    return Failure{.error = *std::move(doubt)};
  }

  // The site has a record then.
  std::expected<Site, Failure> look_again(Session& session, SteadyTime until) {
    auto site = Dialect::read_site(*session.connection, "", until);
    if (!site) return site;
    const std::optional<Record>& record = site->record;
    if (!record) return std::unexpected(no_record());
    if (opened_)
      if (auto failure = refused_record(record)) return std::unexpected(*std::move(failure));
    remember(*record);
    session.site = *std::move(site);
    return session.site;
  }
  void remember(const Record& record) noexcept {
    settled_ = std::max<std::int64_t>(record.settled, 0);
  }

  [[nodiscard]] std::optional<Error> doubt_in(const Site& site) const {
    if (const std::optional<Record>& record = site.record; record)
      return Dialect::doubt_of(*record, url());
    return no_record().error;
  }

  Result<Site> read(SteadyTime until) {
    return sessions_.run(Kind::kRead, until, "read",
                         [&](Session& session) { return look_again(session, until); });
  }

  Result<Record> find_or_make(const StoreOptions& options, SteadyTime until) {
    using Found = std::optional<Record>;
    const Result<Found> found = sessions_.run(Kind::kRead, until, "open", [](Session& session) {
      return std::expected<Found, Failure>(session.site.record);
    });
    if (!found) return std::unexpected(found.error());
    if (const Found& record = *found; record) return *record;
    if (!options.create || sessions_.access() == Access::kReadOnly)
      return fail(Code::kNotFound,
                  "no store in " + url() + "; name the database of one, or make one",
                  {Remedy::kCreateStore, url()});
    return sessions_.run(Kind::kHandOut, until, "make a store in",
                         [&](Session& session) -> std::expected<Record, Failure> {
                           auto made =
                               Dialect::make(*session.connection, draw_store_id(entropy_), until);
                           if (!made) return std::unexpected(std::move(made.error()));
                           auto site = look_again(session, until);
                           if (!site) return std::unexpected(std::move(site.error()));
                           return *std::move(site->record);
                         });
  }

  [[nodiscard]] Failure no_record() const {
    return {.error =
                damaged("the row of " + std::string(Dialect::kRecord) + " is missing").error()};
  }

  const typename Dialect::Address address_;
  Entropy& entropy_;
  // Written while the store is opened only.
  Uuid id_{};
  std::string server_{};
  bool opened_ = false;
  std::atomic<std::int64_t> settled_ = 0;
  std::string first_definition_{};

  Sessions<Session> sessions_;
};

template <class Dialect>
[[nodiscard]] typename Dialect::Values values_of(const auto&... values) {
  return {Dialect::value(values)...};
}

}  // namespace idmint::stores::sql
