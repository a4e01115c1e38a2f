#include "engines/etcd/database.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "base/outcome.h"
#include "engines/key_value/step_aside.h"
#include "store/backend.h"

namespace idmint::stores::etcd {
namespace {

SteadyTime time_now() { return std::chrono::steady_clock::now(); }

// "3.4.23" is at least 3.4.
bool is_new_enough(std::string_view version) {
  int major = 0;
  int minor = 0;
  const char* const begin = version.data();
  const char* const end = begin + version.size();
  const auto [dot, wrong] = std::from_chars(begin, end, major);
  if (wrong != std::errc{} || dot == end) return false;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc{}) return false;
  return major > 3 || (major == 3 && minor >= 4);
}

Failure failure_of(Code code, std::string message) { return {.error = {code, std::move(message)}}; }

}  // namespace

Database::Database(Address address, milliseconds deadline, Access access, Entropy& entropy)
    : address_(std::move(address)),
      keys_(address_.prefix),
      entropy_(entropy),
      sessions_(address_.shown, deadline, access, address_.servers.size(),
                [this](std::size_t server, SteadyTime until) { return connect(server, until); }) {}

std::unexpected<Error> Database::damaged(const std::string& why) const {
  return std::unexpected(damaged_database(url(), why));
}

Database::Seen Database::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

// ---- sessions

Database::Attempt<Database::Session> Database::connect(std::size_t server, SteadyTime until) {
  auto connection = Connection::open(address_, address_.servers[server]);
  if (!connection) return std::unexpected(std::move(connection.error()));
  Session session{*std::move(connection)};
  auto looked = look(session, until);
  if (looked) looked = measure(session, until);
  if (looked) return session;
  Failure& failure = looked.error();
  if (failure.reason == kUnfitMember) failure.passing = address_.servers.size() > 1;
  return std::unexpected(std::move(failure));
}

// Whether the transaction, which was refused for want of space, has not been applied: its compares
// hold still. The compares of nested ones are not its own, and nothing is known of them.
bool Database::was_not_applied_yet(Session& session, const Transaction& transaction,
                                   SteadyTime until) {
  const auto is_nested = [](const std::string& operation) {
    return operation.starts_with(R"({"request_txn")");
  };
  if (std::ranges::any_of(transaction.then, is_nested)) return false;
  const auto still = session.connection->run({.compares = transaction.compares}, until);
  return still && still->succeeded;
}

// Adds the record of the store to what is asked, and takes what is said of it.
Database::Attempt<Answer> Database::ask(Session& session, Transaction transaction,
                                        SteadyTime until) {
  if (transaction.writes) {
    transaction.compares.push_back(is_as_changed(keys_.store(), session.changed));
    transaction.otherwise.push_back(get(keys_.store()));
  } else {
    transaction.then.push_back(get(keys_.store()));
  }
  const Seen before = seen();
  auto answer = session.connection->run(transaction, until);
  if (!answer && transaction.writes && answer.error().reason == kNoSpace &&
      !was_not_applied_yet(session, transaction, until))
    answer.error() = unanswered(answer.error().error.message(), true);
  if (!answer) return answer;
  if (!transaction.writes && !answer->succeeded)
    return std::unexpected(unanswered("the answer is none of etcd's: nothing was compared", false));
  if (!transaction.writes || !answer->succeeded) {
    const Found record = std::move(answer->found.back());
    answer->found.pop_back();
    if (auto taken = take_record(session, record, answer->header, before); !taken)
      return std::unexpected(std::move(taken.error()));
  }
  if (auto taken = take_header(session, answer->header, before.revision, transaction.writes);
      !taken)
    return std::unexpected(std::move(taken.error()));
  return answer;
}

// A linearizable answer has a count that is not below the one that the process had seen before it
// asked.
Database::Attempt<void> Database::take_record(Session& session, const Found& found,
                                              const Header& header, const Seen& before) {
  if (found.entries.empty()) {
    session.record.reset();
    session.changed = 0;
    if (!opened_) return {};
    return std::unexpected(
        Failure{.error = damaged("the key " + keys_.store() + " is missing").error()});
  }
  const Entry& entry = found.entries.front();
  std::optional<StoreRecord> record = read_store(entry.value);
  if (!record)
    return std::unexpected(Failure{
        .error = damaged("the value of the key " + keys_.store() + " is " + shown(entry.value))
                     .error()});
  if (opened_ && record->id != id_)
    return std::unexpected(failure_of(Code::kFailedPrecondition,
                                      "another store is there now, with the id " +
                                          record->id.to_string() + " and not " + id_.to_string()));
  {
    const std::lock_guard lock(mutex_);
    if (record->settled > seen_.settled) {
      seen_ = {.settled = record->settled, .revision = header.revision};
    } else if (record->settled < before.settled) {
      seen_.gone_back = "its record says that it was settled as number " +
                        std::to_string(record->settled) + ", and it was settled as number " +
                        std::to_string(before.settled) + " before";
      seen_.settled = record->settled;
    }
  }
  session.record = std::move(record);
  session.changed = entry.changed;
  return {};
}

// A linearizable answer has a revision that is not below `floor`, which the process had seen before
// it asked.
Database::Attempt<void> Database::take_header(Session& session, const Header& header,
                                              std::int64_t floor, bool writes) {
  if (session.placed >= 0 && header.cluster != session.place.cluster) {
    session.connection->give_up();
    return std::unexpected(unanswered("the cluster " + header.cluster +
                                          " has answered, and it was " + session.place.cluster +
                                          " before",
                                      writes));
  }
  if (!opened_) cluster_ = header.cluster;
  const std::lock_guard lock(mutex_);
  if (header.revision >= std::min(floor, seen_.revision)) {
    seen_.revision = std::max(seen_.revision, header.revision);
    return {};
  }
  session.connection->give_up();
  seen_.gone_back = "the cluster is at revision " + std::to_string(header.revision) +
                    ", and was at revision " + std::to_string(floor) + " before";
  seen_.revision = header.revision;
  return std::unexpected(
      failure_of(Code::kDataLoss, seen_.gone_back + ": it has lost what was written since"));
}

// Reads the record, and the definition that is wanted first.
Database::Attempt<void> Database::look(Session& session, SteadyTime until) {
  Transaction reading;
  if (!first_definition_.empty()) reading.then.push_back(get(keys_.definition(first_definition_)));
  const auto answer = ask(session, std::move(reading), until);
  if (!answer) return std::unexpected(answer.error());
  session.definition.reset();
  for (const Found& found : answer->found)
    if (!found.entries.empty()) session.definition = found.entries.front().value;
  return {};
}

// The member has answered a linearizable read before, so what it says is not older than the record.
Database::Attempt<void> Database::measure(Session& session, SteadyTime until) {
  const auto status = session.connection->status(until);
  if (!status) return std::unexpected(status.error());
  if (!is_new_enough(status->version))
    return std::unexpected(Failure{
        .error = {Code::kFailedPrecondition,
                  "the server is etcd " + shown(status->version) + ", and 3.4 or later is needed"},
        .reason = std::string(kUnfitMember)});
  session.place = {.cluster = status->header.cluster,
                   .log_ahead = status->log - status->header.revision};
  session.placed = session.changed;
  return {};
}

// The least lead of the log now, whatever is written meanwhile: the revision is read after the log.
Database::Attempt<Place> Database::place_for_record(Session& session, SteadyTime until) {
  const auto log = session.connection->status(until);
  if (!log) return std::unexpected(log.error());
  const auto revision = session.connection->status(until);
  if (!revision) return std::unexpected(revision.error());
  return Place{.cluster = revision->header.cluster,
               .log_ahead = log->applied - revision->header.revision};
}

// ---- trust

std::optional<Error> Database::doubt_of(const Session& session) {
  if (!session.record) return std::nullopt;
  const StoreRecord& record = *session.record;
  const Place& now = session.place;
  std::string why;
  if (record.place.cluster != now.cluster)
    why = "it is in the cluster " + now.cluster + " now, and was in " + record.place.cluster +
          ": it is a copy, or was restored from a snapshot";
  else if (!record.prefix.empty() && record.prefix != keys_.all())
    why = "its keys were written with the prefix " + record.prefix +
          ": they were moved, or are a copy";
  else if (now.log_ahead < record.place.log_ahead)
    why = "the log of the cluster has begun anew: it was restored from a snapshot";
  const std::string gone_back = record.gone_back.empty() ? seen().gone_back : record.gone_back;
  if (!gone_back.empty()) why += (why.empty() ? "" : "; ") + gone_back;
  if (why.empty()) return std::nullopt;
  Error doubt = in_doubt(url(), why);
  if (gone_back.empty()) return doubt;
  doubt.code = Code::kDataLoss;
  doubt.advice.values.clear();  // it was not only moved
  return doubt;
}

// Why a session hands nothing out. The store may have been settled since the session looked.
Database::Attempt<void> Database::expect_trust(Session& session, SteadyTime until) {
  if (!seen().gone_back.empty()) {
    auto written = write_gone_back(session, until);
    if (!written && written.error().error.code == Code::kPermissionDenied)
      return std::unexpected(
          failure_of(Code::kDataLoss,
                     seen().gone_back + "; this user may not write that into " + keys_.store() +
                         ", so no other process is told: stop every one, and raise the store"));
    if (!written) return written;
  }
  const auto is_trusted = [&] { return session.placed == session.changed && !doubt_of(session); };
  if (is_trusted()) return {};
  auto looked = look(session, until);
  if (looked) looked = measure(session, until);
  if (!looked || is_trusted()) return looked;
  std::optional<Error> doubt = doubt_of(session);
  if (!doubt) return {};
  // The log of a restored cluster gets ahead as any other does: what shows the doubt now may not
  // show it later. A user who may not write that down is in doubt only as long as it shows.
  if (session.record && session.record->place.log_ahead != kInDoubt) {
    StoreRecord record = *session.record;
    record.place.log_ahead = kInDoubt;
    [[maybe_unused]] const auto replaced = replace_record(session, record, until);
  }
  return std::unexpected(Failure{.error = *std::move(doubt)});
}

Result<void> Database::expect_trust(SteadyTime until) {
  const auto trusted =
      sessions_.run(Kind::kRead, until, "read", [&](Session& session) -> Attempt<bool> {
        if (auto ok = expect_trust(session, until); !ok)
          return std::unexpected(std::move(ok.error()));
        return true;
      });
  if (!trusted) return std::unexpected(trusted.error());
  return {};
}

// All processes are to know what this one saw.
Database::Attempt<void> Database::write_gone_back(Session& session, SteadyTime until) {
  for (;;) {
    if (auto looked = look(session, until); !looked) return looked;
    const std::string gone_back = seen().gone_back;
    if (gone_back.empty() || !session.record) return {};  // it was settled meanwhile
    if (session.record->gone_back.empty()) {
      StoreRecord record = *session.record;
      record.gone_back = gone_back;
      const auto replaced = replace_record(session, record, until);
      if (!replaced) return std::unexpected(replaced.error());
      if (!*replaced) continue;
    }
    const std::lock_guard lock(mutex_);
    seen_.gone_back.clear();
    return {};
  }
}

// False: it has changed, and was read again.
Database::Attempt<bool> Database::replace_record(Session& session, const StoreRecord& record,
                                                 SteadyTime until) {
  Transaction replacing{.then = {put(keys_.store(), text_of(record))}, .writes = true};
  const auto answer = ask(session, std::move(replacing), until);
  if (!answer) return std::unexpected(answer.error());
  if (!answer->succeeded) return false;
  session.record = record;
  session.changed = answer->header.revision;
  const std::lock_guard lock(mutex_);
  seen_.settled = std::max(seen_.settled, record.settled);
  return true;
}

std::optional<Error> Database::doubt(SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return until.error();
  const auto found = sessions_.run(Kind::kRead, *until, "read",
                                   [&](Session& session) -> Attempt<std::optional<Error>> {
                                     auto looked = look(session, *until);
                                     if (looked) looked = measure(session, *until);
                                     if (!looked) return std::unexpected(std::move(looked.error()));
                                     return doubt_of(session);
                                   });
  if (!found) return found.error();
  return *found;
}

Result<void> Database::settle(Store::Settle how) {
  const Result<SteadyTime> until = enter();
  if (!until) return std::unexpected(until.error());
  const auto attempt = [&](Session& session) -> Attempt<bool> {
    if (!seen().gone_back.empty())
      if (auto written = write_gone_back(session, *until); !written)
        return std::unexpected(std::move(written.error()));
    for (;;) {
      auto looked = look(session, *until);
      if (looked) looked = measure(session, *until);
      if (!looked) return std::unexpected(std::move(looked.error()));
      std::optional<Error> doubt = doubt_of(session);
      if (!doubt || !session.record) return true;
      if (how == Store::Settle::kOnlyMoved && !session.record->gone_back.empty())
        return std::unexpected(Failure{.error = *std::move(doubt)});
      StoreRecord record = *session.record;
      const auto place = place_for_record(session, *until);
      if (!place) return std::unexpected(place.error());
      record.place = *place;
      record.prefix = keys_.all();
      record.gone_back.clear();
      record.settled = next_settle_count(record.settled);
      const auto replaced = replace_record(session, record, *until);
      if (!replaced) return std::unexpected(replaced.error());
      if (*replaced) return true;
    }
  };
  const Result<bool> settled = sessions_.run(Kind::kWrite, *until, "settle", attempt, true);
  if (!settled) return std::unexpected(settled.error());
  return {};
}

std::int64_t Database::settle_count() const { return std::max<std::int64_t>(seen().settled, 0); }

Result<std::int64_t> Database::read_settle_count(SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  return sessions_.run(Kind::kRead, *until, "read", [&](Session& session) -> Attempt<std::int64_t> {
    if (auto looked = look(session, *until); !looked)
      return std::unexpected(std::move(looked.error()));
    return settle_count();
  });
}

Result<void> Database::mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime by) {
  const Result<SteadyTime> until = enter(by);
  if (!until) return std::unexpected(until.error());
  const auto marked =
      sessions_.run(Kind::kWrite, *until, "put in doubt", [&](Session& session) -> Attempt<bool> {
        if (auto looked = look(session, *until); !looked)
          return std::unexpected(std::move(looked.error()));
        {
          const std::lock_guard lock(mutex_);
          if (seen_.settled != settled) return true;
          if (seen_.gone_back.empty()) seen_.gone_back = why;
        }
        if (auto written = write_gone_back(session, *until); !written)
          return std::unexpected(std::move(written.error()));
        return true;
      });
  if (!marked) return std::unexpected(marked.error());
  return {};
}

// ---- reading and changing

Result<std::vector<Found>> Database::read(const Operations& operations, SteadyTime until) {
  return sessions_.run(Kind::kRead, until, "read",
                       [&](Session& session) -> Attempt<std::vector<Found>> {
                         auto answer = ask(session, {.then = operations}, until);
                         if (!answer) return std::unexpected(std::move(answer.error()));
                         return std::move(answer->found);
                       });
}

Result<std::vector<Entry>> Database::list(const std::string& prefix, SteadyTime until,
                                          std::string_view after, std::size_t most) {
  constexpr std::size_t kPage = 1000;
  std::vector<Entry> all;
  const std::string end = after_prefix(prefix);
  std::string from = after.empty() ? prefix : prefix + std::string(after) + '\0';
  for (;;) {
    const std::size_t size = std::min(kPage, most - all.size());
    Result<std::vector<Found>> page = read({get_range(from, end, size)}, until);
    if (!page) return std::unexpected(std::move(page.error()));
    std::vector<Entry>& entries = page->front().entries;
    const bool last = entries.size() < size || all.size() + size == most;
    if (!last) from = entries.back().key + '\0';
    std::ranges::move(entries, std::back_inserter(all));
    if (last) return all;
  }
}

Result<Answer> Database::change(Kind kind, Transaction transaction, SteadyTime until,
                                std::string_view doing) {
  transaction.writes = true;
  bool sent = false;
  const auto attempt = [&](Session& session) -> Attempt<Answer> {
    for (;;) {
      if (kind == Kind::kHandOut)
        if (auto trusted = expect_trust(session, until); !trusted)
          return std::unexpected(std::move(trusted.error()));
      const std::int64_t changed = session.changed;
      auto answer = ask(session, transaction, until);
      if (!answer && outcome_unknown(answer.error().error.code)) sent = true;
      if (!answer || answer->succeeded || session.changed == changed) return answer;
    }
  };
  Result<Answer> answer = sessions_.run(kind, until, doing, attempt, true);
  if (answer) answer->sent_before = sent && !answer->succeeded;
  return answer;
}

Result<void> Database::step_aside(int attempt, SteadyTime until, std::string_view doing) {
  return key_value::step_aside(entropy_, attempt, until, url(), doing);
}

// ---- opening

Result<void> Database::open(const StoreOptions& options,
                            const std::function<void(std::string_view json)>& found) {
  const SteadyTime until = std::min(options.until, time_now() + deadline());
  first_definition_ = options.first_definition;
  std::optional<std::string> definition;
  const Result<StoreRecord> record = find_or_make(options, until, &definition);
  first_definition_.clear();
  if (!record) return std::unexpected(record.error());
  if (record->schema > kSchemaVersion)
    return std::unexpected(newer_schema(url(), record->schema, kSchemaVersion));
  id_ = record->id;
  opened_ = true;
  if (definition) found(*definition);
  return {};
}

Result<StoreRecord> Database::find_or_make(const StoreOptions& options, SteadyTime until,
                                           std::optional<std::string>* definition) {
  const auto found = sessions_.run(Kind::kRead, until, "open",
                                   [&](Session& session) -> Attempt<std::optional<StoreRecord>> {
                                     *definition = session.definition;
                                     return session.record;
                                   });
  if (!found) return std::unexpected(found.error());
  if (const std::optional<StoreRecord>& record = *found; record) return *record;
  if (!options.create || sessions_.access() == Access::kReadOnly)
    return fail(Code::kNotFound, "no store in " + url() + "; name the prefix of one, or make one",
                {Remedy::kCreateStore, url()});
  return sessions_.run(Kind::kHandOut, until, "make a store in",
                       [&](Session& session) { return make(session, until); });
}

// If two callers come here at once, one makes the store, and the other finds it made.
Database::Attempt<StoreRecord> Database::make(Session& session, SteadyTime until) {
  const std::string& prefix = keys_.all();
  const auto there = ask(session, {.then = {get_keys(prefix, after_prefix(prefix), 1)}}, until);
  if (!there) return std::unexpected(there.error());
  if (session.record) return *session.record;
  if (!there->found.front().entries.empty())
    return std::unexpected(failure_of(
        Code::kFailedPrecondition,
        "there are keys that begin with " + shown(prefix) + ", such as " +
            shown(there->found.front().entries.front().key) + ", and the record of a store, " +
            keys_.store() + ", is not there; they were left as they are: name another prefix"));
  const auto place = place_for_record(session, until);
  if (!place) return std::unexpected(place.error());
  const StoreRecord record{.id = draw_store_id(entropy_), .place = *place, .prefix = keys_.all()};
  const auto made = replace_record(session, record, until);
  if (!made) return std::unexpected(made.error());
  if (session.record) return *session.record;
  return std::unexpected(Failure{
      .error = {Code::kUnavailable, "the record went away while it was made"}, .passing = true});
}

}  // namespace idmint::stores::etcd
