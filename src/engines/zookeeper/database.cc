#include "engines/zookeeper/database.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "base/outcome.h"
#include "base/text.h"
#include "store/backend.h"

namespace idmint::stores::zookeeper {
namespace {

// The most of one transaction: a server takes 1 MB (jute.maxbuffer).
constexpr std::size_t kMostWrites = 1000;
constexpr std::size_t kMostBytes = 400'000;

SteadyTime time_now() { return std::chrono::steady_clock::now(); }

Failure failure_of(Code code, std::string message) { return {.error = {code, std::move(message)}}; }

// What identifies the node beside the record: the transaction that made it, and when that was.
std::string place_text(const std::optional<Node>& node) {
  if (!node) return {};
  return std::to_string(node->created) + "-" + std::to_string(node->made_at);
}

// Whether the node of the record is the one that the session has looked at.
bool is_as_seen(const Session& session, const std::optional<Node>& node) {
  return session.record && node && node->created == session.created &&
         node->version == session.version;
}

// Nothing: it is not there.
std::string gone_back_text(const std::string& path, std::int32_t before,
                           std::optional<std::int32_t> now) {
  return "the node " + path + " was at version " + std::to_string(before) + " and is " +
         (now ? "at version " + std::to_string(*now) : "not there");
}
constexpr std::string_view kLost = ": the servers have lost what was written";

std::string folder_of(std::string_view path) {
  return std::string(path.substr(0, path.rfind('/')));
}

}  // namespace

Database::Database(Address address, milliseconds deadline, Access access, Entropy& entropy)
    : address_(std::move(address)),
      paths_(address_.root),
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

// A server that stands still does not say good-bye, and forgets the session by itself.
Database::LastClosings::~LastClosings() {
  constexpr milliseconds kMoment{100};
  // Those of the parent are not closed in a child of fork(), and its threads may hold the lock.
  if (owner_) all_->wait(time_now() + kMoment);
}

Attempt<Session> Database::connect(std::size_t server, SteadyTime until) {
  auto connection = Connection::open(address_, address_.servers[server], until, closings_.all());
  if (!connection) return std::unexpected(std::move(connection.error()));
  Session session{*std::move(connection)};
  if (auto looked = look(session, until); !looked)
    return std::unexpected(std::move(looked.error()));
  return session;
}

// Asks over the connection. A negative version is damage: versions have 32 bits and wrap, and -1 is
// no condition. No node of a store gets there.
Attempt<Answer> Database::ask(Session& session, const Request& request, SteadyTime until,
                              std::vector<Done>* steps) const {
  auto answer = session.connection->ask(request, until, steps);
  if (!answer) return answer;
  for (std::size_t i = 0; i < answer->nodes.size(); ++i)
    if (const std::optional<Node>& node = answer->nodes[i]; node && node->version < 0)
      return std::unexpected(
          Failure{.error = damaged("the node " + request.reads[i] + " has the version " +
                                   std::to_string(node->version))
                               .error()});
  return answer;
}

// A settle count below the one that was known before asking means that the store has gone back.
Attempt<void> Database::take_record(Session& session, const std::optional<Node>& node,
                                    const Seen& before) {
  // What it had before does not count any more, also after a failure.
  session.record.reset();
  if (!node) {
    if (!opened_) return {};
    return std::unexpected(
        Failure{.error = damaged("the node " + paths_.store() + " is missing").error()});
  }
  std::optional<StoreRecord> record = read_store(node->value);
  if (!record)
    return std::unexpected(Failure{
        .error = damaged("the node " + paths_.store() + " has the value " + shown(node->value))
                     .error()});
  if (opened_ && record->id != id_)
    return std::unexpected(failure_of(Code::kFailedPrecondition,
                                      "another store is there now, with the id " +
                                          record->id.to_string() + " and not " + id_.to_string()));
  {
    const std::lock_guard lock(mutex_);
    if (record->settled > seen_.settled) {
      seen_ = {.settled = record->settled};
    } else if (record->settled < before.settled) {
      seen_.gone_back = "its record says that it was settled as number " +
                        std::to_string(record->settled) + ", and it was settled as number " +
                        std::to_string(before.settled) + " before";
      seen_.settled = record->settled;
    }
  }
  session.record = std::move(record);
  session.version = node->version;
  session.created = node->created;
  return {};
}

// True: the node is neither as this process left it nor changed since. A later transaction alone
// proves nothing, as an election of the older state makes it later. A node that is made anew begins
// at version 0; that counts only if enough changes for it can have been made since.
bool Database::is_lost(const Witness& before, const std::optional<Node>& node) const {
  if (!node) return true;
  if (node->version == before.version && node->changed == before.changed) return false;
  if (node->changed <= before.changed) return true;
  if (node->version > before.version) return false;
  constexpr double kMostChanges = 50'000;  // of one node in a second
  const std::chrono::duration<double> age = time_now() - before.at;
  const bool may_be_anew =
      before.version + kMostChanges * age.count() >= static_cast<double>(address_.renewed_at);
  return !may_be_anew || node->created <= before.changed;
}

// A loss is a failure for each caller that found it, and noted by the first of them.
Attempt<void> Database::take_witness(const Seen& before, const std::optional<Node>& node) {
  if (!before.witness || !is_lost(*before.witness, node)) return {};
  const Witness& witness = *before.witness;
  const std::string why = gone_back_text(witness.path, witness.version,
                                         node ? std::optional(node->version) : std::nullopt);
  const std::lock_guard lock(mutex_);
  if (seen_.settled > before.settled) return {};
  if (seen_.witness && seen_.witness->path == witness.path &&
      seen_.witness->changed == witness.changed) {
    seen_.gone_back = why;
    seen_.witness.reset();
  }
  return std::unexpected(failure_of(Code::kDataLoss, why + std::string(kLost)));
}

Failure Database::gone_back(const Session& session, const std::string& path, std::int32_t before,
                            std::int32_t now) {
  const std::lock_guard lock(mutex_);
  if (!session.record || session.record->settled != seen_.settled)
    return {.error = {Code::kUnavailable, "the store was settled meanwhile"}, .passing = true};
  seen_.gone_back = gone_back_text(path, before, now);
  seen_.witness.reset();
  return failure_of(Code::kDataLoss, seen_.gone_back + std::string(kLost));
}

// Reads the record, its trust node, and the definition that is wanted first. The trust node is read
// behind the record, which may be replaced in between: then another look shows both of the next
// one. Both were written in one transaction, which no copy of the nodes one by one repeats.
//
// A server that leads no more, and has not noticed yet, answers a sync by itself. So what looks
// older than it was is asked for again behind a transaction, which a quorum has to agree to; it
// only checks the record, and a refusal will do as well.
Attempt<void> Database::look(Session& session, SteadyTime until) {
  constexpr int kLooks = 3;
  bool by_quorum = false;
  for (int looks = 1;; ++looks) {
    session.record.reset();
    const Seen before = seen();
    Request request{.sync = true, .reads = {paths_.store(), paths_.place()}};
    if (by_quorum) request.steps.push_back({check(paths_.store(), session.version)});
    if (before.witness) request.reads.push_back(before.witness->path);
    if (!first_definition_.empty())
      request.reads.push_back(paths_.named(kDefinitions, first_definition_));
    auto answer = ask(session, request, until);
    if (!answer) return std::unexpected(std::move(answer.error()));
    if (by_quorum)
      if (const auto& failure = answer->steps.front().failure; failure)
        return std::unexpected(unanswered(Kind::kRead, failure->error.what));
    std::vector<std::optional<Node>>& nodes = answer->nodes;
    if (!by_quorum) {
      const std::optional<Node>& node = nodes[0];
      const auto record = node ? read_store(node->value) : std::nullopt;
      by_quorum = (record && record->settled < before.settled) ||
                  (before.witness && is_lost(*before.witness, nodes[2]));
      if (by_quorum) continue;
    }
    session.place = place_text(nodes[1]);
    if (!opened_) place_ = session.place;
    session.definition.reset();
    if (std::optional<Node>& last = nodes.back(); last && !first_definition_.empty())
      session.definition = std::move(last->value);
    if (auto taken = take_record(session, nodes[0], before); !taken) return taken;
    if (session.record) {
      auto found = ask(session, {.reads = {paths_.trust(session.record->nonce)}}, until);
      if (!found) return std::unexpected(std::move(found.error()));
      const std::optional<Node>& trust = found->nodes.front();
      session.has_trust = trust && trust->version == 0 && trust->created == nodes[0]->changed;
      session.trust_version = trust ? std::optional(trust->version) : std::nullopt;
      if (!session.has_trust && looks < kLooks) continue;
    }
    return before.witness ? take_witness(before, nodes[2]) : Attempt<void>{};
  }
}

// ---- trust

std::optional<Error> Database::doubt_of(const Session& session) {
  if (!session.record) return std::nullopt;
  const StoreRecord& record = *session.record;
  std::string why;
  if (record.root != paths_.root())
    why = "its nodes were written below " + record.root + ": they were moved, or are a copy";
  else if (record.place != session.place)
    why = "its nodes were made anew since they were written: it is a copy";
  else if (!session.has_trust)
    why =
        "the node " + paths_.trust(record.nonce) + " is " +
        (session.trust_version ? "not the one of its record: it was written, or is a part of a copy"
                               : "missing: nodes were removed, or it is a part of a copy");
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
Attempt<void> Database::expect_trust(Session& session, SteadyTime until) {
  if (!seen().gone_back.empty()) {
    auto written = write_gone_back(session, until);
    if (!written && written.error().error.code == Code::kPermissionDenied)
      return std::unexpected(
          failure_of(Code::kDataLoss,
                     seen().gone_back + "; this user may not write that into " + paths_.store() +
                         ", so no other process is told: stop every one, and raise the store"));
    if (!written) return written;
  }
  if (session.record && !doubt_of(session)) return {};
  if (auto looked = look(session, until); !looked) return looked;
  std::optional<Error> doubt = doubt_of(session);
  if (!doubt) return {};
  return std::unexpected(Failure{.error = *std::move(doubt)});
}

Result<void> Database::expect_trust(SteadyTime until) {
  const auto trusted =
      sessions_.run(Kind::kRead, until, "read", [&](Session& session) -> Attempt<bool> {
        if (auto looked = look(session, until); !looked)
          return std::unexpected(std::move(looked.error()));
        if (auto ok = expect_trust(session, until); !ok)
          return std::unexpected(std::move(ok.error()));
        return true;
      });
  if (!trusted) return std::unexpected(trusted.error());
  return {};
}

// All processes are to know what this one saw.
Attempt<void> Database::write_gone_back(Session& session, SteadyTime until) {
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

// With another nonce. False: it has changed.
Attempt<bool> Database::replace_record(Session& session, StoreRecord record, SteadyTime until) {
  record.nonce = draw_store_id(entropy_);
  const std::string text = text_of(record);
  Step step;
  bool made_anew = false;
  std::int32_t version = session.version;
  if (!session.record) {
    step.push_back(create(paths_.store(), text));
    made_anew = true;
    version = 0;
  } else if (session.trust_version) {
    step.push_back(remove(paths_.trust(session.record->nonce), *session.trust_version));
  }
  // A new one, too: so its version is above that of a copy.
  step.push_back(set(paths_.store(), text, version));
  made_anew = made_anew || session.connection->renews(step.back());
  version = session.connection->version_after(step.back());
  step.push_back(create(paths_.trust(record.nonce), ""));
  auto answer = ask(session, {.steps = {std::move(step)}}, until);
  if (!answer) return std::unexpected(std::move(answer.error()));
  Done& done = answer->steps.front();
  if (done.fate == Done::Fate::kRefused) return false;
  if (done.failure) return std::unexpected(*std::move(done.failure));
  session.version = version;
  if (made_anew) session.created = done.transaction;
  session.has_trust = true;
  session.trust_version = 0;
  const std::int64_t settled = record.settled;
  session.record = std::move(record);
  const std::lock_guard lock(mutex_);
  if (settled > seen_.settled) seen_ = {.settled = settled};
  return true;
}

std::optional<Error> Database::doubt(SteadyTime by) {
  const Result<SteadyTime> until = enter_to_read(by);
  if (!until) return until.error();
  const auto found = sessions_.run(Kind::kRead, *until, "read",
                                   [&](Session& session) -> Attempt<std::optional<Error>> {
                                     if (auto looked = look(session, *until); !looked)
                                       return std::unexpected(std::move(looked.error()));
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
      if (auto looked = look(session, *until); !looked)
        return std::unexpected(std::move(looked.error()));
      std::optional<Error> doubt = doubt_of(session);
      if (!doubt || !session.record) return true;
      if (how == Store::Settle::kOnlyMoved &&
          !(session.record->gone_back.empty() && seen().gone_back.empty()))
        return std::unexpected(Failure{.error = *std::move(doubt)});
      if (session.place.empty()) {
        auto made = ask(session, {.folders = {paths_.place()}}, *until);
        if (!made) return std::unexpected(std::move(made.error()));
        continue;
      }
      StoreRecord record = *session.record;
      record.place = session.place;
      record.root = paths_.root();
      record.gone_back.clear();
      record.settled = next_settle_count(record.settled);
      const auto replaced = replace_record(session, record, *until);
      if (!replaced) return std::unexpected(replaced.error());
      if (*replaced) return true;
    }
  };
  const Result<bool> settled = run(Kind::kWrite, *until, "settle", attempt);
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

// Reads the record too. If it is not the one that the session knows, looks and reads again, so that
// a change of what was read, which checks the record, is one of the same store.
Attempt<Answer> Database::read(Session& session, Request request, SteadyTime until, By by) {
  request.sync = true;
  request.reads.push_back(paths_.store());
  if (by == By::kQuorum) request.steps.emplace_back();
  for (;;) {
    const Seen before = seen();
    if (by == By::kQuorum) request.steps.front() = {check(paths_.store(), session.version)};
    auto answer = ask(session, request, until);
    if (!answer) return answer;
    // A refusal is as good: a quorum agreed to it.
    if (by == By::kQuorum)
      if (const auto& failure = answer->steps.front().failure; failure)
        return std::unexpected(unanswered(Kind::kRead, failure->error.what));
    const std::optional<Node> record = std::move(answer->nodes.back());
    answer->nodes.pop_back();
    const std::int64_t settled = session.record ? session.record->settled : -1;
    if (is_as_seen(session, record) && settled >= before.settled) return answer;
    if (auto looked = look(session, until); !looked)
      return std::unexpected(std::move(looked.error()));
  }
}

Result<Answer> Database::read(Request request, SteadyTime until, By by) {
  return sessions_.run(Kind::kRead, until, "read",
                       [&](Session& session) { return read(session, request, until, by); });
}

Result<std::vector<std::string>> Database::names(std::string_view kind, std::string_view prefix,
                                                 SteadyTime until) {
  Request request;
  for (std::size_t shard = 0; shard < kShards; ++shard)
    request.lists.push_back(paths_.shard(kind, shard));
  const Result<Answer> answer = read(std::move(request), until);
  if (!answer) return std::unexpected(answer.error());
  std::vector<std::string> names;
  for (const auto& list : answer->lists) {
    if (!list) continue;
    for (const std::string& child : *list) {
      std::optional<std::string> name = name_of(child);
      if (!name)
        return damaged("a node below " + paths_.root() + "/" + std::string(kind) +
                       " has the name " + shown(child));
      if (name->starts_with(prefix)) names.push_back(*std::move(name));
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<Database::Together> Database::steps_of(std::span<Change> changes, bool alone) {
  std::vector<Together> steps;
  std::size_t bytes = 0;
  for (Change& change : changes) {
    if (change.fate != Change::Fate::kPending) continue;
    bytes += change.write.size();
    if (steps.empty() || alone || steps.back().size() == kMostWrites || bytes > kMostBytes) {
      steps.emplace_back();
      bytes = change.write.size();
    }
    steps.back().push_back(&change);
  }
  return steps;
}

// Those that nodes are to be made in, and are not known to be there: each after the one above.
std::vector<std::string> Database::folders_of(std::span<const Change> changes) {
  std::set<std::string, std::less<>> wanted;
  const std::lock_guard lock(mutex_);
  for (const Change& change : changes) {
    if (change.write.kind != Write::Kind::kCreate || change.fate != Change::Fate::kPending)
      continue;
    std::string folder = folder_of(change.write.path);
    while (folder.size() > paths_.root().size() && !folders_.contains(folder) &&
           wanted.insert(folder).second)
      folder = folder_of(folder);
  }
  return {wanted.begin(), wanted.end()};
}

void Database::remember(const std::vector<std::string>& folders) {
  const std::lock_guard lock(mutex_);
  folders_.insert(folders.begin(), folders.end());
}

void Database::forget_folders() {
  const std::lock_guard lock(mutex_);
  folders_.clear();
}

void Database::saw(const Session& session, const Write& write, std::int64_t transaction) {
  if (write.kind != Write::Kind::kSet || session.connection->renews(write)) return;
  const std::lock_guard lock(mutex_);
  std::optional<Witness>& witness = seen_.witness;
  if (!witness || transaction > witness->changed)
    witness = Witness{write.path, write.version + 1, transaction, time_now()};
}

// The changes are sent together first. Those that were refused are left out of the next round, and
// in the last one each change is a step of its own.
Attempt<Database::Nodes> Database::change(Session& session, Kind kind, std::span<Change> changes,
                                          SteadyTime until, const Write* also,
                                          const std::vector<std::string>& then) {
  constexpr int kRoundsTogether = 2;
  bool applied = false;
  bool forgot = false;
  const auto failed = [&](Failure failure) {
    failure.begun = failure.begun || applied;
    return std::unexpected(std::move(failure));
  };
  // The changes were computed beside the record that the session knew, with this nonce.
  const auto nonce = [&] { return session.record ? session.record->nonce : Uuid{}; };
  const Uuid computed_beside = nonce();
  const auto other_record = [&] {
    return failed({.error = {Code::kUnavailable, paths_.store() + " was changed meanwhile"},
                   .passing = true});
  };
  Nodes read_then(then.size());
  for (int round = 0;;) {
    const std::vector<Together> together = steps_of(changes, round >= kRoundsTogether);
    if (together.empty()) return read_then;
    // Another thread that finds a loss meanwhile forgets the witness, and this one compares it too.
    Seen before = seen();
    if (kind == Kind::kHandOut)
      if (auto trusted = expect_trust(session, until); !trusted)
        return failed(std::move(trusted.error()));
    if (!session.record)
      if (auto looked = look(session, until); !looked) return failed(std::move(looked.error()));
    if (nonce() != computed_beside) return other_record();
    if (session.record && session.record->settled > before.settled) before = seen();
    Request request{.folders = folders_of(changes), .reads = then};
    // Servers may be put back behind a connection that stays open.
    const std::optional<Witness>& witness = before.witness;
    std::size_t of_witness = then.size();
    if (witness) {
      of_witness = static_cast<std::size_t>(std::ranges::find(then, witness->path) - then.begin());
      if (of_witness == then.size()) request.reads.push_back(witness->path);
    }
    std::size_t of_record = 0;  // checks at the begin of each step: of the record, and all
    std::size_t checks = 0;
    for (const Together& some : together) {
      Step step{check(paths_.store(), session.version)};
      // In doubt, it may be missing.
      if (session.has_trust) step.push_back(check(paths_.trust(computed_beside), 0));
      of_record = step.size();
      if (also != nullptr) step.push_back(*also);
      checks = step.size();
      for (const Change* each : some) step.push_back(each->write);
      request.steps.push_back(std::move(step));
    }
    const std::vector<std::string> folders = request.folders;
    std::vector<Done> done;
    auto answer = ask(session, request, until, &done);
    if (answer) remember(folders);
    std::optional<Failure> failure;
    // After it was settled, what was seen before does not count: look() knows.
    const bool is_other_record = std::ranges::any_of(done, [&](const Done& one) {
      return one.fate == Done::Fate::kRefused && one.at < of_record;
    });
    const bool by_quorum = std::ranges::any_of(done, [](const Done& one) {
      return one.fate == Done::Fate::kDone || one.fate == Done::Fate::kRefused;
    });
    const bool lost = answer && witness && !is_other_record && by_quorum &&
                      is_lost(*witness, answer->nodes[of_witness]);
    // A change of a store that may have gone back is not known to be the caller's.
    const bool is_known = !lost && (answer || !witness);
    for (std::size_t i = 0; i < done.size(); ++i) {
      Done& one = done[i];
      const auto all_are = [&](Change::Fate fate) {
        for (Change* each : together[i]) each->fate = fate;
      };
      if (one.fate == Done::Fate::kDone) {
        all_are(is_known ? Change::Fate::kDone : Change::Fate::kPerhaps);
        applied = true;
        if (is_known)
          for (const Change* each : together[i]) saw(session, each->write, one.transaction);
      } else if (one.fate == Done::Fate::kPerhaps) {
        all_are(Change::Fate::kPerhaps);
        if (one.failure && (!failure || !outcome_unknown(failure->error.code)))
          failure = std::move(one.failure);
      } else if (one.fate == Done::Fate::kNotDone) {
        if (!failure) failure = std::move(one.failure);
      } else if (one.at >= checks) {
        together[i][one.at - checks]->fate = Change::Fate::kRefused;
      } else if (one.at >= of_record && !failure) {
        failure = Failure{.error = {Code::kUnavailable, also->path + " was changed meanwhile"},
                          .passing = true};
      }
    }
    if (lost)
      if (auto taken = take_witness(before, answer->nodes[of_witness]); !taken) {
        taken.error().begun = failure && outcome_unknown(failure->error.code);
        return failed(std::move(taken.error()));
      }
    if (failure && failure->reason == kNoFolder && !forgot) {
      forgot = true;
      forget_folders();
      continue;
    }
    // Why the folder is not there.
    if (!answer && !folders.empty() && failure && failure->reason == kNoFolder)
      failure = std::move(answer.error());
    if (failure) return failed(*std::move(failure));
    if (!answer && (done.empty() || !folders.empty() || witness))
      return failed(std::move(answer.error()));
    if (answer) {
      read_then = std::move(answer->nodes);
      read_then.resize(then.size());
    }
    if (is_other_record) {
      if (auto looked = look(session, until); !looked) return failed(std::move(looked.error()));
      if (kind == Kind::kHandOut)
        if (auto trusted = expect_trust(session, until); !trusted)
          return failed(std::move(trusted.error()));
      return other_record();
    }
    ++round;
  }
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
    return fail(Code::kNotFound, "no store in " + url() + "; name the path of one, or make one",
                {Remedy::kCreateStore, url()});
  return sessions_.run(Kind::kHandOut, until, "make a store in",
                       [&](Session& session) { return make(session, until); });
}

// Of two that come here at once, one makes the store, and the other finds it made.
Attempt<StoreRecord> Database::make(Session& session, SteadyTime until) {
  const std::string& root = paths_.root();
  std::vector<std::string> folders;
  for (std::size_t end = root.find('/', 1); end != std::string::npos; end = root.find('/', end + 1))
    folders.push_back(root.substr(0, end));
  folders.push_back(root);
  auto there = session.connection->ask({.sync = true, .reads = folders, .lists = {root}}, until);
  if (!there) return std::unexpected(std::move(there.error()));
  // Another one may have made the store since this session looked.
  const auto& children = there->lists.front();
  if (children && std::ranges::find(*children, "store") == children->end())
    for (const std::string& child : *children)
      if (child != "place")
        return std::unexpected(
            failure_of(Code::kFailedPrecondition,
                       "there are nodes below " + root + ", such as " + shown(child) +
                           ", and the record of a store, " + paths_.store() +
                           ", is not there; they were left as they are: name another path"));
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < folders.size(); ++i)
    if (!there->nodes[i]) missing.push_back(folders[i]);
  missing.push_back(paths_.place());
  auto made = ask(session, {.folders = std::move(missing)}, until);
  if (!made) return std::unexpected(std::move(made.error()));
  for (;;) {
    if (auto looked = look(session, until); !looked)
      return std::unexpected(std::move(looked.error()));
    if (session.record) return *session.record;
    StoreRecord record{.id = draw_store_id(entropy_), .place = session.place, .root = root};
    const auto replaced = replace_record(session, record, until);
    if (!replaced) return std::unexpected(replaced.error());
    if (*replaced) return record;
  }
}

}  // namespace idmint::stores::zookeeper
