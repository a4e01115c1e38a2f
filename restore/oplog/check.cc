#include "restore/oplog/check.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"
#include "base/text.h"
#include "restore/collections.h"
#include "restore/namespaces.h"
#include "restore/oplog/command.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/operation_text.h"
#include "restore/oplog/reader.h"

namespace idmint::restore {
namespace {

// The longest normal time without an entry, in seconds. A primary writes one every 10 s unless
// another was written since its last check. So gaps reach almost 20 s, and more on a busy host.
constexpr std::uint32_t kLongestSilence = 25;

}  // namespace
namespace {

// The most documents of skipped operations that are tracked; beyond, all later writes are refused.
constexpr std::size_t kMostSkipped = 1'000'000;

// The advice if a collection is included, and the one from which it was renamed is not.
std::string to_include(const std::string& ns) {
  constexpr std::string_view written = ".tmp.agg_out.";
  const std::size_t at = ns.find(written);
  if (at == std::string::npos) return ", as with --include " + shell_word(ns);
  return "; $out writes to it first: add --include " +
         shell_word(ns.substr(0, at) + std::string(written) + "*");
}

// False for a name with a zero byte: commands would cut it there and affect another collection.
bool is_namespace(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  return dot != 0 && dot < ns.size() - 1 && !ns.contains('\0');
}

}  // namespace

std::shared_ptr<const Bson> options_of(const OptionsByName& all, std::string_view ns) {
  if (const auto at = all.find(ns); at != all.end()) return at->second;
  const std::size_t dot = ns.find('.') + 1;
  const std::string plain =
      std::string(ns.substr(0, dot)) + std::string(without_buckets(ns.substr(dot)));
  const auto at = all.find(plain);
  return at == all.end() ? nullptr : at->second;
}

// The targets of skipped entries.
struct OplogCheck::Skipped {
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> documents;
  std::set<std::string, std::less<>> collections;
  std::set<std::string, std::less<>> databases;
  std::size_t size = 0;
  std::set<Timestamp> found;
};

OplogCheck::OplogCheck(std::string path, OplogCheckOptions options, Transactions& transactions)
    : path_(std::move(path)),
      options_(std::move(options)),
      transactions_(transactions),
      after_found_(!options_.after),
      skipped_(std::make_unique<Skipped>()) {
  facts_.collections = options_.collections;
  facts_.uuids = options_.uuids;
  facts_.collection_options = options_.collection_options;
  temporary_.insert(options_.temporary.begin(), options_.temporary.end());
}
OplogCheck::~OplogCheck() = default;

std::unexpected<Error> OplogCheck::refuse(Code code, const std::string& why) const {
  return std::unexpected(at_place(path_ + ", byte " + std::to_string(offset_), {code, why}));
}

Result<void> OplogCheck::order(const Entry& entry) {
  const std::string at = print_timestamp(entry.at.ts);
  if (entry.version != 2)
    return refuse(Code::kFailedPrecondition,
                  "the entry " + at + " has v: " +
                      (entry.version ? std::to_string(*entry.version) : std::string("none")) +
                      ", and not 2: MongoDB before 4.0 wrote it, or it is damaged");
  if (facts_.entries == 0) return {};
  if (entry.at.ts <= previous_.ts)
    return refuse(Code::kDataLoss, "the entry " + at + " stands after " +
                                       print_timestamp(previous_.ts) +
                                       ": the oplog is out of order; dump it again");
  if (entry.at.term < previous_.term)
    return refuse(Code::kDataLoss,
                  "the entry " + at + " is of term " + std::to_string(entry.at.term) +
                      ", the one before of " + std::to_string(previous_.term) +
                      ": the oplog has entries that were rolled back; dump it again, from a "
                      "member that is not rolling back");
  return {};
}

Result<void> OplogCheck::add(const Entry& entry, std::uint64_t offset) {
  offset_ = offset;
  if (Result<void> whole = validate(entry.document); !whole)
    return refuse(
        whole.error().code,
        whole.error().message() +
            (facts_.entries == 0 ? std::string("; no entry before it is good")
                                 : "; the last good entry is " + print_timestamp(previous_.ts)));
  if (Result<void> ordered = order(entry); !ordered) return ordered;
  const Timestamp ts = entry.at.ts;
  if (facts_.entries == 0) facts_.first = ts;
  if (facts_.entries != 0 && ts.seconds - previous_.ts.seconds > kLongestSilence) {
    const Silence silence{previous_.ts, ts.seconds - previous_.ts.seconds};
    ++facts_.silences;
    if (silence.seconds > facts_.longest.seconds) facts_.longest = silence;
  }
  ++facts_.entries;
  facts_.bytes += entry.document.bytes().size();
  facts_.last = ts;
  previous_ = entry.at;
  if (ts == options_.after) after_found_ = true;
  sharding_.add(entry);
  if (!options_.after || ts > *options_.after) {
    follow_builds(entry.operation);
  } else {
    follow_builds_before(entry.operation);
  }
  if (options_.limit && ts >= *options_.limit) {
    if (!limit_reached_) facts_.open = transactions_.open();
    limit_reached_ = true;
    return {};
  }
  facts_.before_limit = {facts_.entries, facts_.bytes, ts};
  const bool before = options_.anywhere || (options_.after && ts <= *options_.after);
  if (!before && entry.operation.op != Op::kNoop) facts_.last_applied = ts;
  const TakeOperation take = [&](const Operation& operation, std::uint32_t) {
    return count(entry, operation);
  };
  Result<void> taken{};
  if (entry.in_transaction()) {
    taken = transactions_.add(entry, before ? TakeOperation{} : take);
  } else if (!before) {
    taken = for_each_operation(entry, take);
  }
  if (!taken && taken.error().place.empty())  // those of count() have it
    return refuse(taken.error().code,
                  "the entry " + print_timestamp(ts) + ": " + taken.error().message());
  return taken;
}

void OplogCheck::follow_builds(const Operation& operation) {
  if (operation.op != Op::kCommand || !operation.command().ends_with("IndexBuild")) return;
  const std::string build = build_of(operation);
  if (operation.command() == "startIndexBuild") {
    builds_.insert(build);
  } else if (!builds_.contains(build)) {
    for (std::string& name : names_of_build(operation))
      facts_.building[namespace_of(operation)].insert(std::move(name));
  }
}

// Before the base: an index whose build has begun, and ends later or never, is in the base, too.
void OplogCheck::follow_builds_before(const Operation& operation) {
  if (operation.op != Op::kCommand) return;
  const std::string_view command = operation.command();
  if (command == "startIndexBuild") {
    for (std::string& name : names_of_build(operation))
      builds_before_.push_back({build_of(operation), namespace_of(operation), std::move(name)});
  } else if (command == "commitIndexBuild" || command == "abortIndexBuild") {
    const std::string build = build_of(operation);
    std::erase_if(builds_before_, [&](const Build& each) { return each.build == build; });
  } else if (command == "drop" || command == "dropDatabase") {
    const std::string ns = namespace_of(operation);
    std::erase_if(builds_before_, [&](const Build& each) {
      return each.ns == ns || (command == "dropDatabase" && each.ns.starts_with(ns));
    });
  } else if (command == "renameCollection") {
    const std::string to = new_namespace_of(operation);
    std::erase_if(builds_before_, [&](const Build& each) { return each.ns == to; });
    for (Build& each : builds_before_)
      if (each.ns == namespace_of(operation)) each.ns = to;
  }
}

Result<void> OplogCheck::count(const Entry& entry, const Operation& operation) {
  const std::string where = "the entry " + print_timestamp(entry.at.ts);
  if (operation.op == Op::kNoop) return {};
  if (operation.op == Op::kUnknown)
    return refuse(Code::kFailedPrecondition,
                  where + " has op \"" + std::string(operation.op_name) +
                      "\", which idmint-restore does not know: a newer server wrote it, or it is "
                      "damaged");
  const OplogCommand* command = nullptr;
  if (operation.op == Op::kCommand) {
    command = find_oplog_command(operation.command());
    if (command == nullptr)
      return refuse(Code::kFailedPrecondition,
                    where + " is the command " + std::string(operation.command()) + " on " +
                        std::string(operation.database()) +
                        ", which idmint-restore does not know: a newer server wrote it, or it is "
                        "of a sharded cluster");
    if (command->treatment == Treatment::kRefuse)
      return refuse(Code::kFailedPrecondition,
                    where + " is the command " + std::string(operation.command()) + " on " +
                        std::string(operation.database()) + ": " + command->why);
    if (command->treatment == Treatment::kPassOver) return {};
  }
  if (is_own_database(operation.database())) {
    const std::string ns = command != nullptr ? namespace_of(operation) : std::string(operation.ns);
    if (!is_users(ns) || !options_.filter.includes(ns)) {
      ++facts_.left_out[is_users(ns) ? std::string(kUsersAndRoles)
                                     : std::string(operation.database())];
      return {};
    }
  }
  if (Result<void> good = look_for_skipped(entry, operation); !good) return good;
  if (options_.skip.contains(entry.at.ts)) return {};
  ++facts_.operations;
  if (command != nullptr) return count_command(operation);
  return options_.filter.includes(operation.ns) ? count_write(operation) : Result<void>{};
}

Result<void> OplogCheck::check_uuid(const Operation& operation) const {
  if (options_.slice || operation.ui.empty()) return {};
  const auto known = facts_.uuids.find(operation.ns);
  if (known == facts_.uuids.end() || known->second == operation.ui) return {};
  return refuse(Code::kFailedPrecondition,
                in_words(operation, facts_.last) + ": the collection has the UUID " +
                    hex(operation.ui) + " there, and " + hex(known->second) +
                    " in the base: base and oplog are of different sets, or entries are missing "
                    "that dropped it and made it again; give those that belong together");
}

Tally& OplogCheck::tally(std::string_view ns) {
  if (const auto at = facts_.tallies.find(ns); at != facts_.tallies.end()) return at->second;
  const std::string name(ns);
  return facts_.tallies.emplace(name, Tally{.base = facts_.gone.contains(name) ? "" : name})
      .first->second;
}

// Finds a time-series collection, which a base lists by its view.
bool OplogCheck::lists(const Names& names, std::string_view ns) {
  if (names.contains(ns)) return true;
  const std::size_t dot = ns.find('.') + 1;
  const std::string_view plain = without_buckets(ns.substr(dot));
  return plain.size() != ns.size() - dot &&
         names.contains(std::string(ns.substr(0, dot)) + std::string(plain));
}

Result<void> OplogCheck::missing(const Operation& operation, const std::string& ns) {
  const std::string what =
      in_words(operation, facts_.last) +
      ": that collection is neither in the base nor made by the oplog. Either the base lacks it, "
      "as it was left out or is of another set: take a base that has it, or leave it out here with "
      "--exclude " +
      ns + ". Or an entry is missing that made it";
  if (!options_.slice) return refuse(Code::kFailedPrecondition, what);
  missing_.emplace(ns, path_ + ", byte " + std::to_string(offset_) + ": " + what);
  return {};
}

Result<void> OplogCheck::count_write(const Operation& operation) {
  if (!is_there(operation.ns) && operation.collection() != "system.views") {
    if (operation.op == Op::kDelete) return {};
    return missing(operation, std::string(operation.ns));
  }
  if (Result<void> same = check_uuid(operation); !same) return same;
  Tally& of = tally(operation.ns);
  if (operation.op == Op::kInsert) {
    ++of.inserts;
  } else if (operation.op == Op::kUpdate) {
    ++of.updates;
  } else {
    ++of.deletes;
  }
  return {};
}

// Ignores collections that the base lacked, because all of `gone` must fit one document of the
// record.
void OplogCheck::forget(const std::string& ns) {
  if (!options_.collections || lists(*options_.collections, ns)) facts_.gone.insert(ns);
}

void OplogCheck::drop(const std::string& ns) {
  facts_.tallies.erase(ns);
  forget(ns);
  temporary_.erase(ns);
  missing_.erase(ns);
  if (facts_.collections) facts_.collections->erase(ns);
  facts_.uuids.erase(ns);
  facts_.collection_options.erase(ns);
}

void OplogCheck::rename(const std::string& from, const std::string& to) {
  Tally moved = tally(from);
  auto uuid = facts_.uuids.extract(from);
  auto options = facts_.collection_options.extract(from);
  drop(from);
  drop(to);
  facts_.tallies[to] = std::move(moved);
  if (!uuid.empty()) {
    uuid.key() = to;
    facts_.uuids.insert(std::move(uuid));
  }
  if (!options.empty()) {
    options.key() = to;
    facts_.collection_options.insert(std::move(options));
  }
  if (facts_.collections) facts_.collections->insert(to);
}

// The server may refuse an index that an older one built, so it is tried before the load.
void OplogCheck::follow_indexes(const Operation& operation, const std::string& ns) {
  if (options_.slice) return;
  const std::shared_ptr<const Bson> options = options_of(facts_.collection_options, ns);
  const std::string name = collection_of(ns);
  for (const Document each : specs_of_build(operation)) {
    Bson spec;
    for (const Field& field : Fields(each))
      if (field.key != "createIndexes" && field.key != "ns") append_field(spec.get(), field);
    std::string text = is_temporary_name(name) ? std::string() : ns;
    if (options) text += options->view().raw();
    text += spec.view().raw();
    if (!built_.insert(std::move(text)).second) continue;
    facts_.built.push_back({.at = facts_.last,
                            .ns = ns,
                            .options = options,
                            .spec = std::make_shared<const Bson>(std::move(spec))});
  }
}

Result<void> OplogCheck::count_command(const Operation& operation) {
  const std::string_view command = operation.command();
  const std::string ns = namespace_of(operation);
  const std::string words = in_words(operation, facts_.last);
  if (command == "renameCollection"
          ? !is_namespace(ns) || !is_namespace(new_namespace_of(operation))
          : command != "dropDatabase" && !is_namespace(ns))
    return refuse(Code::kDataLoss, "the entry " + print_timestamp(facts_.last) + ", the command " +
                                       std::string(command) +
                                       ", names no collection: it is damaged");
  facts_.commanded.insert(ns);
  if (command == "renameCollection") {
    const std::string to = new_namespace_of(operation);
    facts_.commanded.insert(to);
    const bool in = options_.filter.includes(ns);
    // A temporary collection ($out and others) goes with the excluded one that it will replace.
    if (in && !options_.filter.includes(to) && temporary_.contains(ns)) {
      drop(ns);
      return {};
    }
    if (in != options_.filter.includes(to))
      return refuse(Code::kFailedPrecondition,
                    words + ": " + (in ? to : ns) + " is not restored, and " + (in ? ns : to) +
                        " is: restore both or neither" + (in ? std::string() : to_include(ns)));
    if (!in) return {};
    // The base is later than the first entry: dump lists the collections after it.
    if (options_.slice && options_.renames && facts_.entries == 1) return {};
    if (options_.slice && !options_.renames)
      return refuse(Code::kFailedPrecondition,
                    words +
                        ": a rename while the base was made, of which nobody can say what the "
                        "base has: take another base");
    if (!is_there(ns)) return missing(operation, ns);
    rename(ns, to);
  } else if (command == "dropDatabase") {
    if (!options_.filter.includes_database(operation.database())) return {};
    std::set<std::string> all;
    for (const auto& [name, tally] : facts_.tallies) all.insert(name);
    if (facts_.collections) all.insert(facts_.collections->begin(), facts_.collections->end());
    for (const auto& [name, where] : missing_) all.insert(name);
    for (const std::string& name : all)
      if (name.starts_with(ns)) drop(name);
  } else {
    if (!options_.filter.includes(ns)) return {};
    if (command == "create") {
      drop(ns);
      if (is_temporary(operation)) temporary_.insert(ns);
      facts_.tallies[ns] = Tally{};
      if (facts_.collections) facts_.collections->insert(ns);
      if (!operation.ui.empty()) facts_.uuids[ns] = std::string(operation.ui);
      if (Bson options = options_of_create(operation); !options.view().empty())
        facts_.collection_options[ns] = std::make_shared<const Bson>(std::move(options));
    } else if (command == "drop") {
      drop(ns);
    } else if (!is_there(ns) && command != "abortIndexBuild") {
      if (Result<void> told = missing(operation, ns); !told) return told;
    } else if (command == "emptycapped") {
      facts_.tallies[ns] = Tally{};
      forget(ns);
    } else {
      follow_indexes(operation, ns);
    }
  }
  return {};
}

Result<void> OplogCheck::look_for_skipped(const Entry& entry, const Operation& operation) {
  if (options_.skip.empty()) return {};
  Skipped& skipped = *skipped_;
  const bool command = operation.op == Op::kCommand;
  const std::string ns = command ? namespace_of(operation) : std::string(operation.ns);
  const std::string id = command ? std::string{} : std::string(id_element(operation));
  if (options_.skip.contains(entry.at.ts)) {
    if (skipped.found.insert(entry.at.ts).second)
      facts_.skipped.push_back(in_words(operation, entry.at.ts));
    if (command)  // later entries concern collections that it created or kept
      std::erase_if(facts_.uuids, [&](const auto& each) {
        return each.first == ns || each.first == new_namespace_of(operation) ||
               (ns.ends_with('.') && each.first.starts_with(ns));
      });
    if (ns.ends_with('.')) {
      skipped.databases.insert(ns);
    } else if (command || ++skipped.size > kMostSkipped) {
      skipped.collections.insert(ns);
      if (command && !new_namespace_of(operation).empty())
        skipped.collections.insert(new_namespace_of(operation));
    } else {
      skipped.documents[ns].insert(id);
    }
    return {};
  }
  if (options_.skip_forced) return {};
  const auto needed = [&](const std::string& what) {
    return refuse(Code::kFailedPrecondition,
                  in_words(operation, entry.at.ts) + ", comes after what is to be skipped, and " +
                      what +
                      ": what it makes of that is not what happened; force it, or skip it too");
  };
  const std::string database = ns.substr(0, ns.find('.') + 1);
  if (skipped.databases.contains(database)) return needed("is in that database");
  if (skipped.collections.contains(ns) ||
      (command && skipped.collections.contains(new_namespace_of(operation))))
    return needed("is of that collection");
  const auto documents = skipped.documents.find(ns);
  if (documents == skipped.documents.end()) return {};
  if (!command) {
    if (documents->second.contains(id)) return needed("touches that document");
  } else if (operation.command() == "renameCollection") {
    auto moved = skipped.documents.extract(documents);
    skipped.documents.erase(new_namespace_of(operation));
    moved.key() = new_namespace_of(operation);
    skipped.documents.insert(std::move(moved));
  } else if (operation.command() == "drop" || operation.command() == "create") {
    skipped.documents.erase(documents);
  }
  return {};
}

Result<OplogFacts> OplogCheck::finish() {
  const auto outside = [this](const std::string& why) {
    return fail(Code::kOutOfRange, path_ + ": " + why);
  };
  if (facts_.entries == 0)
    return fail(Code::kDataLoss,
                path_ + " has no entry, and an oplog always has one: dump it again");
  if (sharding_.sharded() && !options_.not_sharded)
    return fail(Code::kFailedPrecondition, of_sharded_cluster(path_, sharding_));
  facts_.migrated = sharding_.migrated();
  const std::string first = print_timestamp(facts_.first);
  const std::string last = print_timestamp(facts_.last);
  if (options_.after && !after_found_) {
    const std::string after = print_timestamp(*options_.after);
    if (facts_.first > *options_.after)
      return outside("it begins with " + first + ", after " + after +
                     ", the moment of the base: entries between are missing; take an oplog that "
                     "reaches back to the base, or a newer base");
    if (facts_.last < *options_.after)
      return outside("it ends with " + last + ", before " + after +
                     ", the moment of the base: take an oplog that was dumped after the base");
    return outside("it has no entry " + after +
                   ", the moment of the base: the oplog is of another replica set, or has a gap");
  }
  if (options_.limit) {
    const std::string limit = print_timestamp(*options_.limit);
    if (options_.after && *options_.limit <= *options_.after)
      return outside("the limit " + limit + " is not after " + print_timestamp(*options_.after) +
                     ", the moment of the base: the base has later changes already; take an older "
                     "base");
    if (*options_.limit <= facts_.first)
      return outside("the limit " + limit + " is not after its first entry " + first +
                     ": nothing would be replayed; take an older oplog");
    if (*options_.limit > facts_.last)
      return outside("the limit " + limit + " is after its last entry " + last +
                     ": what happened in between is not in it; dump the oplog again, or take a "
                     "limit within it");
  }
  for (const Timestamp ts : options_.skip) {
    if (!options_.anywhere && !skipped_->found.contains(ts))
      return outside("there is no operation " + print_timestamp(ts) +
                     " to skip among those to replay; of a transaction, name the entry that "
                     "commits it");
  }
  if (!missing_.empty()) return fail(Code::kFailedPrecondition, missing_.begin()->second);
  for (Build& each : builds_before_) facts_.building[each.ns].insert(std::move(each.name));
  if (!limit_reached_) facts_.open = transactions_.open();
  for (const std::string& ns : temporary_) facts_.temporary.push_back(ns);
  return std::move(facts_);
}

Result<OplogFacts> check_oplog(const std::string& path, const OplogCheckOptions& options,
                               Transactions& transactions, const TakeProgress& progress) {
  OplogSpan span{.from = options.after.value_or(Timestamp{})};
  if (options.limit) span.to = *options.limit;
  Result<OplogReader> oplog = OplogReader::open(path, {.span = span, .compare = true});
  if (!oplog) return error_in(oplog);
  OplogCheck check(oplog->path(), options, transactions);
  for (std::uint32_t count = 0;; ++count) {
    const Result<std::optional<Entry>> read = oplog->next();
    if (!read) return error_in(read);
    const std::optional<Entry>& entry = *read;
    if (!entry) {
      Result<OplogFacts> facts = check.finish();
      if (facts) {
        facts->has_checksums = oplog->has_checksums();
        facts->unchecked = oplog->unchecked();
        facts->lacking = oplog->lacking();
      }
      return facts;
    }
    if (Result<void> good = check.add(*entry, oplog->offset()); !good) return error_in(good);
    if (!progress || count % 1024 != 0) continue;
    if (Result<void> told = progress(oplog->consumed()); !told) return error_in(told);
  }
}

}  // namespace idmint::restore
