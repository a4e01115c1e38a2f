#include "restore/replay/replay.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/errors.h"
#include "restore/namespaces.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/operation_text.h"
#include "restore/oplog/reader.h"
#include "restore/replay/apply_ops.h"
#include "restore/replay/chain.h"
#include "restore/replay/equal_fields.h"
#include "restore/replay/left_out.h"
#include "restore/replay/one_step.h"
#include "restore/replay/state.h"
#include "restore/replay/worker.h"
#include "restore/replay/zero_timestamps.h"

namespace idmint::restore {
namespace {

// The state of a namespace.
struct NamespaceState {
  bool included = false;
  bool views = false;   // this is system.views; its documents are views
  bool exists = false;  // on the server, now
  unsigned worker = 0;
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

// Equal in every process, unlike std::hash.
unsigned worker_of(std::string_view ns, unsigned workers) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char each : ns) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619U;
  return hash % workers;
}

struct OnServer {
  Bson facts = Bson::none();  // from listCollections
  [[nodiscard]] Document options() const { return facts.view().document("options"); }
  [[nodiscard]] std::string uuid() const {
    const std::optional<Field> uuid = find_field(facts.view().document("info"), "uuid");
    return uuid ? std::string(uuid->binary()) : std::string();
  }
};

}  // namespace

// A replay could not be resumed on a server that does not roll back a whole batch.
Result<void> check_apply_ops(Record& record) {
  Server& server = record.server();
  const std::string id = "probe";
  const Bson document = Bson("_id", id);
  Operations operations;
  operations.append("i", kRecordNamespace, document.view(), {});
  Chain("replay:none:", 0).append_check(operations);
  const Answer answer = apply_ops(server, operations, {}, false);
  if (answer.unavailable) return fail(Code::kUnavailable, answer.message);
  if (!answer.ok && answer.code != kUpdateOperationFailed)
    return fail(answer.code == kUnauthorized ? Code::kPermissionDenied : Code::kFailedPrecondition,
                "applyOps on " + server.shown_uri() + ": " + answer.message);
  const Result<std::optional<Bson>> left = record.get(id);
  if (!left) return error_in(left);
  if (!answer.ok && !*left) return {};
  return fail(
      Code::kFailedPrecondition,
      server.shown_uri() + " has version " + server.version() +
          ", whose applyOps does not take back what it did before a failure: replay on a spare "
          "server of version 6.0");
}

class Replay::Engine {
 public:
  Engine(Server& server, Record& record, Transactions& transactions, IndexCatalog* catalog,
         ReplayOptions options)
      : server_(server),
        record_(record),
        transactions_(transactions),
        catalog_(catalog),
        options_(std::move(options)),
        left_out_(record),
        over_(record.stage() > (options_.slice ? RunStage::kSlice : RunStage::kOplog)) {}

  Result<void> begin();
  Result<void> apply(const Entry& entry);
  Result<ReplayCounts> finish();

 private:
  struct CommandRow {
    std::string_view name;
    Result<void> (Engine::*run)(const Operation&, const std::string& ns);
  };
  static const std::array<CommandRow, 13> kCommands;

  Result<void> find_collections();
  Result<Chain> open_chain(const std::string& name, const std::map<std::string, Bson>& recorded);

  Result<void> take(const Operation& operation, const Position& position);
  Result<void> write(const Operation& operation, const Position& position);
  Result<void> write_view(const Operation& operation, const Position& position);
  Result<void> write_alone(const Operation& operation, const Position& position);
  Result<void> command(const Operation& operation, const Position& position);
  Result<void> barrier();
  Result<void> mark(const Position& position, const Counts& counts,
                    const Operation* write = nullptr, const Bson& doing = {},
                    const Outcomes& outcomes = {});

  Result<void> create(const Operation& operation, const std::string& ns);
  Result<void> drop(const Operation& operation, const std::string& ns);
  Result<void> drop_database(const Operation& operation, const std::string& ns);
  Result<void> rename(const Operation& operation, const std::string& ns);
  Result<void> build_index(const Operation& operation, const std::string& ns);
  Result<void> start_build(const Operation& operation, const std::string& ns);
  Result<void> abort_build(const Operation& operation, const std::string& ns);
  Result<void> drop_indexes(const Operation& operation, const std::string& ns);
  Result<void> change(const Operation& operation, const std::string& ns);
  Result<void> empty(const Operation& operation, const std::string& ns);

  Result<std::optional<OnServer>> look(const std::string& ns);
  std::unexpected<Error> refused(const Operation& operation, const std::string& why,
                                 Code code = Code::kFailedPrecondition) const;
  Result<void> answered(const Answer& answer, const Operation& operation) const;
  NamespaceState& state_of(std::string_view ns);

  Server& server_;
  Record& record_;
  Transactions& transactions_;
  IndexCatalog* catalog_;
  const ReplayOptions options_;
  LeftOut left_out_;
  Lives lives_;
  bool of_left_out_ = false;  // the current command changes or drops an index that is left out
  const bool over_;  // in an earlier run: entries are read for transactions and indexes only
  std::unordered_map<std::string, NamespaceState, TextHash, std::equal_to<>> namespaces_;
  Worker::Shared shared_;
  Chain commands_{std::string(), 0};
  bool doing_ = false;    // the command at commands_.position may have been run
  std::string renamed_;   // the UUID of the collection, if that command is a rename
  bool present_ = false;  // the document, if that is a write in one step: it was there
  bool resumed_ = false;  // the current command is that one
  std::vector<std::unique_ptr<Worker>> workers_;
  Timestamp at_{};     // of the current entry
  Timestamp first_{};  // of the first entry
  std::vector<std::string> notes_;
};

const std::array<Replay::Engine::CommandRow, 13> Replay::Engine::kCommands = {{
    {"create", &Engine::create},
    {"drop", &Engine::drop},
    {"dropDatabase", &Engine::drop_database},
    {"renameCollection", &Engine::rename},
    {"createIndexes", &Engine::build_index},
    {"startIndexBuild", &Engine::start_build},
    {"commitIndexBuild", &Engine::build_index},
    {"abortIndexBuild", &Engine::abort_build},
    {"dropIndexes", &Engine::drop_indexes},
    {"deleteIndexes", &Engine::drop_indexes},
    {"deleteIndex", &Engine::drop_indexes},
    {"collMod", &Engine::change},
    {"emptycapped", &Engine::empty},
}};

NamespaceState& Replay::Engine::state_of(std::string_view ns) {
  if (const auto at = namespaces_.find(ns); at != namespaces_.end()) return at->second;
  NamespaceState state;
  state.included = options_.filter.includes(ns);
  state.views = ns.ends_with(".system.views") && ns.find('.') == ns.size() - 13;
  state.worker = worker_of(ns, static_cast<unsigned>(std::max<std::size_t>(workers_.size(), 1)));
  return namespaces_.emplace(std::string(ns), state).first->second;
}

Result<void> Replay::Engine::find_collections() {
  const Result<std::vector<CollectionFacts>> all =
      list_namespaces(server_, options_.filter.users());
  if (!all) return error_in(all);
  for (const CollectionFacts& each : *all)
    if (each.kind == CollectionKind::kCollection) state_of(each.ns()).exists = true;
  return {};
}

Result<Chain> Replay::Engine::open_chain(const std::string& name,
                                         const std::map<std::string, Bson>& recorded) {
  const std::string prefix =
      std::string("replay:") + (options_.slice ? "slice:" : "oplog:") + name + ":";
  for (const auto& [id, document] : recorded) {
    if (!id.starts_with(prefix)) continue;
    Chain chain(prefix, std::stoull(id.substr(prefix.size())));
    chain.position.ts = timestamp_in(document.view(), "ts").value_or(Timestamp{});
    chain.position.index = static_cast<std::uint32_t>(document.view().number("index"));
    chain.counts = counts_of(document.view());
    if (name == "commands") {
      doing_ = document.view().has("doing");
      const Document facts = document.view().document("doing");
      if (const std::optional<Field> source = find_field(facts, "source"))
        renamed_ = source->binary();
      present_ = facts.boolean("present").value_or(false);
    }
    return chain;
  }
  Chain chain(prefix, 0);
  // Without ts, because a server replaces 0:0 by its own time.
  if (Result<void> made = record_.put(chain.id(), {}); !made) return error_in(made);
  return chain;
}

Result<void> Replay::Engine::begin() {
  if (over_) return {};
  const Result<std::optional<Bson>> read = record_.get("replay");
  if (!read) return error_in(read);
  const std::optional<Bson>& known = *read;
  std::int64_t workers = std::max(1U, options_.workers);
  if (known) {
    if (known->view().has("broken"))
      return fail(Code::kFailedPrecondition,
                  "somebody else dropped collections of the target during its replay: empty the "
                  "target and begin anew");
    workers = known->view().numeric("workers").value_or(workers);
  } else {
    if (Result<void> put = record_.put("replay", Bson("workers", workers)); !put) return put;
  }
  if (Result<void> good = check_apply_ops(record_); !good) return good;
  const Result<std::map<std::string, Bson>> recorded = record_.get_all("replay:");
  if (!recorded) return error_in(recorded);
  Result<Chain> commands = open_chain("commands", *recorded);
  if (!commands) return error_in(commands);
  commands_ = *std::move(commands);
  if (!options_.slice) shared_.outcomes = outcomes_in(*recorded);
  for (std::int64_t i = 0; i < workers; ++i) {
    Result<Chain> chain = open_chain(std::to_string(i), *recorded);
    if (!chain) return error_in(chain);
    Result<Server> connection = server_.another(kWriterPatience);
    if (!connection) return error_in(connection);
    workers_.push_back(std::make_unique<Worker>(*std::move(connection), *std::move(chain),
                                                options_.slice, shared_));
  }
  for (const std::unique_ptr<Worker>& worker : workers_) worker->start();
  if (Result<void> known = left_out_.read(); !known) return known;
  return find_collections();
}

Result<void> Replay::Engine::apply(const Entry& entry) {
  const Timestamp ts = entry.at.ts;
  if (first_ == Timestamp{}) first_ = ts;
  if (options_.limit && ts >= *options_.limit) return {};
  const bool wanted = ts > options_.after && !options_.skip.contains(ts);
  if (entry.operation.op == Op::kNoop) return {};
  at_ = ts;
  const TakeOperation give = [&](const Operation& operation, std::uint32_t index) {
    return take(operation, {ts, index});
  };
  if (entry.in_transaction()) return transactions_.add(entry, wanted ? give : TakeOperation{});
  return wanted ? for_each_operation(entry, give) : Result<void>{};
}

Result<void> Replay::Engine::take(const Operation& operation, const Position& position) {
  switch (operation.op) {
    case Op::kInsert:
    case Op::kUpdate:
    case Op::kDelete:
      return over_ ? Result<void>{} : write(operation, position);
    case Op::kCommand:
      return command(operation, position);
    case Op::kNoop:
      return {};
    case Op::kUnknown:
      break;
  }
  return refused(operation, "idmint-restore does not know it");
}

Result<void> Replay::Engine::write(const Operation& operation, const Position& position) {
  const NamespaceState& state = state_of(operation.ns);
  if (!state.included) return {};
  const bool unsure = operation.by_hand || operation.upsert;
  const std::string life = unsure ? lives_.of(operation.ns) : std::string();
  if (position < commands_.position) return {};
  if (state.views) return write_view(operation, position);
  if (position == commands_.position && !doing_) return {};
  if (!state.exists) {
    if (options_.slice || operation.op == Op::kDelete) return {};
    return refused(operation,
                   "there is no such collection: an entry is missing, or somebody else "
                   "changes the target");
  }
  if (operation.op != Op::kDelete && needs_one_step(operation.o))
    return write_alone(operation, position);
  return workers_[state.worker]->add(operation, position, life);
}

// The markers before and after are those of a command, so a run that was killed in between does it
// again.
Result<void> Replay::Engine::write_alone(const Operation& operation, const Position& position) {
  if (Result<void> clear = barrier(); !clear) return clear;
  if (!std::exchange(doing_, false)) {
    const Result<bool> present = has_document(server_, operation);
    if (!present) return error_in(present);
    present_ = *present;
    const Bson doing = Bson("doing", Bson("present", present_));
    if (Result<void> marked = mark(position, commands_.counts, nullptr, doing); !marked)
      return marked;
  }
  std::int64_t Counts::* const count = count_in_one_step(operation, present_);
  if (count != &Counts::missed) {
    Result<void> written = answered(write_in_one_step(server_, operation), operation);
    if (!written) return written;
  }
  Counts counts = commands_.counts;
  counts.add(count);
  Outcomes outcomes;
  std::int64_t Outcome::* const outcome = outcome_in_one_step(operation, present_);
  if (!options_.slice && outcome != nullptr) {
    const std::string& life = lives_.of(operation.ns);
    const std::lock_guard hold(shared_.lock);
    ++((outcomes[life] = shared_.outcomes[life]).*outcome);
  }
  return mark(position, counts, nullptr, {}, outcomes);
}

Result<void> Replay::Engine::barrier() {
  for (const std::unique_ptr<Worker>& worker : workers_)
    if (Result<void> sent = worker->send(); !sent) return sent;
  for (const std::unique_ptr<Worker>& worker : workers_)
    if (Result<void> done = worker->wait(); !done) return done;
  return {};
}

// Writes the next marker of commands: with a write, before a command (`doing`), or after it. All
// workers must be done, because a continued run skips everything before this marker. The marker
// before a command is durable: what the server could lose later, it loses together with the
// command.
Result<void> Replay::Engine::mark(const Position& position, const Counts& counts,
                                  const Operation* write, const Bson& doing,
                                  const Outcomes& outcomes) {
  Operations operations;
  if (write != nullptr)
    operations.append(write->op_name, write->ns, write->o, write->o2, write->upsert);
  for (const std::unique_ptr<Worker>& worker : workers_) worker->chain().append_check(operations);
  commands_.append_next(operations, position, counts, doing);
  for (const auto& [life, outcome] : outcomes) append_outcome(operations, life, outcome);
  const Answer answer =
      apply_ops(server_, operations, {}, !doing.view().empty() || write != nullptr);
  if (answer.unavailable) return std::unexpected(lost(server_, answer));
  if (!answer.ok) {
    for (const std::unique_ptr<Worker>& worker : workers_)
      if (Result<void> there = is_there(server_, worker->chain()); !there) return there;
    if (Result<void> there = is_there(server_, commands_); !there) return there;
    if (write != nullptr && answer.code == kUpdateOperationFailed && answer.results == 1) {
      Counts missed = counts;
      --missed.updates;
      ++missed.missed;
      return mark(position, missed);
    }
    return write != nullptr ? Result<void>(refused(*write, answer.message, code_of(answer)))
                            : fail(Code::kInternal, answer.message);
  }
  commands_.advance();
  commands_.position = position;
  commands_.counts = counts;
  const std::lock_guard hold(shared_.lock);
  for (const auto& [life, outcome] : outcomes) shared_.outcomes[life] = outcome;
  return {};
}

// Writes to system.views: a view, or the view of a time-series collection. Others may depend on it.
Result<void> Replay::Engine::write_view(const Operation& operation, const Position& position) {
  if (position == commands_.position) return {};
  const Document key = operation.op == Op::kUpdate ? operation.o2 : operation.o;
  if (key.has("_id") && !options_.filter.includes(key.text("_id"))) return {};
  if (Result<void> clear = barrier(); !clear) return clear;
  if (NamespaceState& views = state_of(operation.ns); !views.exists) {
    const Bson create = Bson("create", "system.views", "idIndex",
                             Bson("v", 2, "key", Bson("_id", 1), "name", "_id_"));
    const Answer answer = apply_command(server_, operation.database(), create);
    if (options_.slice && answer.code == kDatabaseDifferCase)
      return mark(position, commands_.counts);
    if (Result<void> made = answered(answer, operation); !made) return made;
    views.exists = true;
  }
  Counts counts = commands_.counts;
  counts.add(operation.op);
  return mark(position, counts, &operation);
}

Result<void> Replay::Engine::command(const Operation& operation, const Position& position) {
  const OplogCommand* const known = find_oplog_command(operation.command());
  if (known == nullptr || known->treatment == Treatment::kRefuse)
    return refused(operation, "no restore applies it");
  if (known->treatment == Treatment::kPassOver) return {};
  const std::string ns = namespace_of(operation);
  if (is_own_database(operation.database()) && !is_users(ns)) return {};
  if (operation.command() == "dropDatabase"
          ? !options_.filter.includes_database(operation.database())
          : !state_of(ns).included)
    return {};
  // The base is later than the slice's first entry: dump lists the collections after it.
  if (options_.slice && operation.command() == "renameCollection" && at_ == first_) return {};
  if (catalog_ != nullptr) {
    if (Result<void> kept = catalog_->apply(operation); !kept)
      return refused(operation, kept.error().message());
    if (const std::string to = new_namespace_of(operation); !to.empty() && !state_of(to).included)
      catalog_->drop(to);
  } else {
    of_left_out_ = left_out_.concerns(operation);
    left_out_.follow(operation, at_);
    lives_.follow(operation, position);
  }
  if (over_ || position < commands_.position || (position == commands_.position && !doing_))
    return {};
  if (Result<void> clear = barrier(); !clear) return clear;
  resumed_ = doing_ && position == commands_.position;
  doing_ = false;
  if (!resumed_) {
    Bson facts;
    if (operation.command() == "renameCollection") {
      const Result<std::optional<OnServer>> looked = look(ns);
      if (!looked) return error_in(looked);
      const std::optional<OnServer>& source = *looked;
      renamed_ = source ? source->uuid() : std::string{};
      if (source) facts.add_binary("source", BSON_SUBTYPE_UUID, renamed_);
    }
    const Bson doing = Bson("doing", facts);
    if (Result<void> marked = mark(position, commands_.counts, nullptr, doing); !marked)
      return marked;
  }
  for (const CommandRow& row : kCommands) {
    if (row.name != operation.command()) continue;
    if (Result<void> run = (this->*row.run)(operation, ns); !run) return run;
  }
  Counts counts = commands_.counts;
  ++counts.commands;
  return mark(position, counts);
}

std::unexpected<Error> Replay::Engine::refused(const Operation& operation, const std::string& why,
                                               Code code) const {
  return fail(code, "cannot apply " + in_words(operation, at_) + ": " + why);
}

Result<void> Replay::Engine::answered(const Answer& answer, const Operation& operation) const {
  if (answer.ok) return {};
  if (answer.unavailable) return std::unexpected(lost(server_, answer));
  return refused(operation, answer.message, code_of(answer));
}

Result<std::optional<OnServer>> Replay::Engine::look(const std::string& ns) {
  const Result<Bson> reply = server_.command(
      database_of(ns), Bson("listCollections", 1, "filter", Bson("name", collection_of(ns))));
  if (!reply) return error_in(reply);
  const Document found = reply->view().first_found();
  return found ? std::optional(OnServer{Bson::copy_of(found)}) : std::nullopt;
}

Result<void> Replay::Engine::create(const Operation& operation, const std::string& ns) {
  if (state_of(ns).views && state_of(ns).exists) return {};
  const Bson wanted = options_of_create(operation);
  const Result<std::optional<OnServer>> looked = look(ns);
  if (!looked) return error_in(looked);
  const std::optional<OnServer>& there = *looked;
  if (there && options_.slice) {
    // Everything that it has at the end comes after this entry.
    if (Result<void> gone = drop(operation, ns); !gone) return gone;
  } else if (there) {
    if (!resumed_ && !equal_fields(wanted.view(), there->options()))
      return refused(operation, "it is there with other options, " +
                                    to_relaxed_json(there->options()) +
                                    ": an entry is missing, or somebody else changes the target");
    if (!resumed_) notes_.push_back(in_words(operation, at_) + ": it was there already");
    state_of(ns).exists = true;
    return {};
  }
  // Without temp: a server drops temporary collections when it starts, and later entries need them.
  Bson o = Bson("create", collection_of(ns));
  o.add_all(*wanted.get());
  // Without idIndex, production's index has version 1, and so has the one that this server creates.
  if (const std::optional<Field> id_index = find_field(operation.o, "idIndex"))
    append_field(o.get(), *id_index);
  const Answer answer = apply_command(server_, operation.database(), o);
  // The base has a database whose name differs in case alone. In production it was made after this
  // one was dropped, and so the slice drops this one: what happens in it until then is left out.
  if (options_.slice && answer.code == kDatabaseDifferCase) return {};
  if (Result<void> made = answered(answer, operation); !made) return made;
  state_of(ns).exists = true;
  return {};
}

Result<void> Replay::Engine::drop(const Operation& operation, const std::string& ns) {
  const Bson o = Bson("drop", collection_of(ns));
  const Answer answer = apply_command(server_, operation.database(), o);
  if (answer.code != kNamespaceNotFound)
    if (Result<void> dropped = answered(answer, operation); !dropped) return dropped;
  state_of(ns).exists = false;
  return {};
}

Result<void> Replay::Engine::drop_database(const Operation& operation, const std::string& ns) {
  const Answer answer = apply_command(server_, operation.database(), Bson("dropDatabase", 1));
  if (answer.code != kNamespaceNotFound)
    if (Result<void> dropped = answered(answer, operation); !dropped) return dropped;
  for (auto& [name, state] : namespaces_)
    if (name.starts_with(ns)) state.exists = false;
  return {};
}

// The oplog's dropTarget is a UUID of production. With the UUID of the collection here, the server
// drops it; with another one, it would rename it.
Result<void> Replay::Engine::rename(const Operation& operation, const std::string& ns) {
  const std::string to = new_namespace_of(operation);
  // A temporary collection ($out and others) goes with the excluded one that it will replace.
  if (!state_of(to).included && is_temporary_name(collection_of(ns))) return drop(operation, ns);
  if (!state_of(to).included)
    return refused(operation, to + " is not restored, and " + ns + " is: restore both or neither");
  const Result<std::optional<OnServer>> looked = look(to);
  if (!looked) return error_in(looked);
  const std::optional<OnServer>& target = *looked;
  const bool done = resumed_ && target && !renamed_.empty() && target->uuid() == renamed_;
  if (!done) {
    if (!state_of(ns).exists)
      return refused(operation,
                     "there is no such collection: an entry is missing, or somebody "
                     "else changes the target");
    const bool drops = operation.o.has("dropTarget");
    if (target && !drops)
      return refused(operation, to + " is there, and was not in production: an entry is missing, "
                                     "or somebody else changes the target");
    Bson o = Bson("renameCollection", ns, "to", to, "stayTemp", false);
    if (target) o.add_binary("dropTarget", BSON_SUBTYPE_UUID, target->uuid());
    if (Result<void> renamed = answered(apply_command(server_, operation.database(), o), operation);
        !renamed)
      return renamed;
  }
  state_of(ns).exists = false;
  state_of(to).exists = true;
  return {};
}

Result<void> Replay::Engine::build_index(const Operation& operation, const std::string& ns) {
  if (catalog_ != nullptr) return {};
  // The server would create the collection.
  if (!state_of(ns).exists)
    return refused(operation,
                   "there is no such collection: an entry is missing, or somebody else "
                   "changes the target");
  const std::vector<Document> specs = specs_of_build(operation);
  const Result<void> built = create_indexes(server_, ns, specs);
  if (built || built.error().code == Code::kUnavailable) return built;
  if (options_.report_index_errors) {
    std::vector<RefusedIndex> all;
    if (Result<void> each = create_one_by_one(server_, ns, specs, all); !each) return each;
    for (RefusedIndex& each : all) each.built = at_;
    return left_out_.add(std::move(all));
  }
  return refused(operation, built.error().message(),
                 built.error().code == Code::kAlreadyExists ? Code::kAlreadyExists
                                                            : Code::kFailedPrecondition);
}

// Nothing to do: commitIndexBuild follows when the index is complete.
Result<void> Replay::Engine::start_build(const Operation&, const std::string&) { return {}; }

// A base from that time may list the index as complete.
Result<void> Replay::Engine::abort_build(const Operation& operation, const std::string& ns) {
  if (catalog_ != nullptr) return {};
  for (const std::string& name : names_of_build(operation)) {
    const Bson command = Bson("dropIndexes", collection_of(ns), "index", name);
    const Answer answer = ask(server_, database_of(ns), command);
    if (answer.code == kIndexNotFound || answer.code == kNamespaceNotFound) continue;
    if (Result<void> dropped = answered(answer, operation); !dropped) return dropped;
  }
  return {};
}

Result<void> Replay::Engine::drop_indexes(const Operation& operation, const std::string& ns) {
  if (catalog_ != nullptr || of_left_out_) return {};
  const std::optional<Field> index = find_field(operation.o, "index");
  if (!index) return refused(operation, "it names no index");
  const Bson command = Bson("dropIndexes", collection_of(ns));
  append_field(command.get(), *index);
  const Answer answer = ask(server_, database_of(ns), command);
  if (answer.code == kIndexNotFound || answer.code == kNamespaceNotFound) {
    if (!resumed_) notes_.push_back(in_words(operation, at_) + ": it was not there");
    return {};
  }
  return answered(answer, operation);
}

Result<void> Replay::Engine::change(const Operation& operation, const std::string& ns) {
  if (catalog_ != nullptr && !state_of(ns).exists) return {};  // and the slice drops it later
  const Bson command = Bson("collMod", collection_of(ns));
  int changes = 0;
  for (const Field& field : Fields(operation.o)) {
    if (field.key == "collMod" || field.key == "noPadding" || field.key == "usePowerOf2Sizes" ||
        (field.key == "index" && (catalog_ != nullptr || of_left_out_)))
      continue;
    append_field(command.get(), field);
    ++changes;
  }
  if (changes == 0) return {};
  return answered(ask(server_, database_of(ns), command), operation);
}

Result<void> Replay::Engine::empty(const Operation& operation, const std::string& ns) {
  if (options_.slice && !state_of(ns).exists) return {};
  const Bson o = Bson("emptycapped", collection_of(ns));
  return answered(apply_command(server_, operation.database(), o), operation);
}

Result<ReplayCounts> Replay::Engine::finish() {
  ReplayCounts all;
  const auto add = [&](const Counts& counts) {
    all.inserts += static_cast<std::uint64_t>(counts.inserts);
    all.updates += static_cast<std::uint64_t>(counts.updates);
    all.deletes += static_cast<std::uint64_t>(counts.deletes);
    all.commands += static_cast<std::uint64_t>(counts.commands);
    all.missed += static_cast<std::uint64_t>(counts.missed);
    all.replaced += static_cast<std::uint64_t>(counts.replaced);
  };
  if (over_) {
    // The counts of the run that replayed it.
    const Result<std::map<std::string, Bson>> recorded =
        record_.get_all(options_.slice ? "replay:slice:" : "replay:oplog:");
    if (!recorded) return error_in(recorded);
    for (const auto& [id, document] : *recorded) add(counts_of(document.view()));
    return all;
  }
  if (Result<void> done = barrier(); !done) return error_in(done);
  // Makes everything durable, and proves that nothing was lost.
  const Bson end = Bson("end", true);
  if (Result<void> durable = mark(commands_.position, commands_.counts, nullptr, end); !durable)
    return error_in(durable);
  const std::lock_guard hold(shared_.lock);
  if (catalog_ == nullptr) {
    Result<void> kept = left_out_.keep_end();
    if (kept) kept = keep_outcomes(record_, lives_.by_namespace(shared_.outcomes));
    if (!kept) return error_in(kept);
  }
  add(commands_.counts);
  for (const std::unique_ptr<Worker>& worker : workers_) add(worker->chain().counts);
  all.first_missed = shared_.missed;
  all.notes = notes_;
  return all;
}

Replay::Replay(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Replay::~Replay() = default;

Result<std::unique_ptr<Replay>> Replay::begin(Server& server, Record& record,
                                              Transactions& transactions, IndexCatalog* catalog,
                                              ReplayOptions options) {
  auto engine = std::make_unique<Engine>(server, record, transactions, catalog, std::move(options));
  if (Result<void> begun = engine->begin(); !begun) return error_in(begun);
  return std::unique_ptr<Replay>(new Replay(std::move(engine)));
}

Result<void> Replay::apply(const Entry& entry) { return engine_->apply(entry); }
Result<ReplayCounts> Replay::finish() { return engine_->finish(); }

Result<ReplayCounts> replay_oplog(const std::string& path, Server& server, Record& record,
                                  Transactions& transactions, const ReplayOptions& options,
                                  const TakeProgress& progress) {
  OplogSpan span{.from = options.after};
  if (options.limit) span.to = *options.limit;
  Result<OplogReader> oplog = OplogReader::open(path, {.span = span});
  if (!oplog) return error_in(oplog);
  Result<std::unique_ptr<Replay>> replay =
      Replay::begin(server, record, transactions, nullptr, options);
  if (!replay) return error_in(replay);
  for (std::uint32_t count = 0;; ++count) {
    const Result<std::optional<Entry>> read = oplog->next();
    if (!read) return error_in(read);
    const std::optional<Entry>& entry = *read;
    if (!entry || (options.limit && entry->at.ts >= *options.limit)) break;
    if (Result<void> applied = (*replay)->apply(*entry); !applied) return error_in(applied);
    const bool look = count % 1024 == 0 || entry->operation.op == Op::kCommand;  // slow
    if (!progress || !look) continue;
    if (Result<void> told = progress(oplog->consumed()); !told) return error_in(told);
  }
  return (*replay)->finish();
}

}  // namespace idmint::restore
