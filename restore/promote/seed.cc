#include "restore/promote/seed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"
#include "mongo/bson.h"
#include "restore/oplog/fields.h"
#include "restore/replay/process.h"
#include "restore/replay/record.h"
#include "restore/replay/spare.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

namespace seed_fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::minutes kMemberComesUp{5};
constexpr const char* kSeedMarker = "idmint-seed.json";  // in a complete folder
constexpr std::int64_t kAlreadyInitialized = 23;

std::string address(const SeedMember& member) {
  return member.host + ":" + std::to_string(member.port);
}

std::string direct_uri(const SeedMember& member) {
  return "mongodb://127.0.0.1:" + std::to_string(member.port) +
         "/?directConnection=true&serverSelectionTimeoutMS=3000&socketTimeoutMS=60000";
}

std::vector<std::string> start_words(const std::string& program, const SeedOptions& options,
                                     const SeedMember& member) {
  const bool loopback = member.host == "localhost" || member.host.starts_with("127.");
  std::vector<std::string> words = {program,
                                    "--fork",
                                    "--replSet",
                                    options.set,
                                    "--dbpath",
                                    member.folder,
                                    "--logpath",
                                    member.folder + "/mongod.log",
                                    "--logappend",
                                    "--port",
                                    std::to_string(member.port),
                                    "--bind_ip",
                                    loopback ? "127.0.0.1" : "127.0.0.1," + member.host};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string copy_line(const std::string& from, const std::string& to) {
  return "cp -a " + shell_word(from) + " " + shell_word(to);
}

std::string shutdown_line(const std::string& program, const std::string& folder) {
  return shell_line({program, "--shutdown", "--dbpath", folder});
}

std::string initiate_line(const SeedOptions& options) {
  return "rs.initiate({_id: \"" + options.set + "\", members: [{_id: 0, host: \"" +
         address(options.members.front()) + "\"}]})";
}

std::string add_line(const SeedMember& member) { return "rs.add(\"" + address(member) + "\")"; }

// The commands for a member on another host.
std::vector<std::string> lines_elsewhere(const std::string& program, const SeedOptions& options,
                                         const SeedMember& member) {
  SeedMember there = member;
  there.folder = options.members.front().folder;
  return {"rsync -a " + shell_word(options.members.front().folder + "/") + " " +
              shell_word(member.host + ":" + there.folder + "/"),
          "ssh " + shell_word(member.host) + " " +
              shell_word(shell_line(start_words(program, options, there))),
          add_line(member)};
}

Result<void> check_options(const SeedOptions& options) {
  if (options.set.empty()) return refuse("give --set NAME, the name of the new replica set");
  if (options.members.empty() || options.members.front().folder.empty())
    return refuse("give --member HOST:PORT=DIR, the first member, which is on this host");
  for (const SeedMember& one : options.members) {
    const auto same = std::ranges::count_if(options.members, [&](const SeedMember& other) {
      return address(one) == address(other) || (!one.folder.empty() && one.folder == other.folder);
    });
    if (same > 1) return refuse("--member " + address(one) + " is there twice, or its folder");
  }
  return {};
}

std::unexpected<Error> cannot_copy(const std::string& path, const std::error_code& why) {
  return fail(
      why == std::errc::no_space_on_device ? Code::kResourceExhausted : Code::kFailedPrecondition,
      "cannot copy to " + shell_word(path) + ": " + why.message());
}

Result<void> sync_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (synced) return {};
  return cannot_copy(path, std::error_code(error, std::generic_category()));
}

// Copies to another name first, and renames when everything is on disk. Leaves out the files of the
// process and of the restore.
Result<void> copy_folder(const std::string& from, const std::string& to, Observer& observer) {
  const std::string part = to + ".part";
  std::error_code failed;
  seed_fs::remove_all(part, failed);
  if (!seed_fs::create_directories(part, failed)) return cannot_copy(part, failed);
  seed_fs::permissions(part, seed_fs::perms::owner_all, failed);
  for (const auto& entry : seed_fs::recursive_directory_iterator(from, failed)) {
    const seed_fs::path within = entry.path().lexically_relative(from);
    const std::string name = within.string();
    const seed_fs::path there = seed_fs::path(part) / within;
    if (name == "mongod.lock" || name == "mongod.log" || name == "idmint-restore.json") continue;
    if (entry.is_symlink(failed))
      return fail(Code::kFailedPrecondition,
                  shell_word(entry.path().string()) + " is a symbolic link, which is not copied");
    if (entry.is_directory(failed)) {
      seed_fs::create_directory(there, failed);
    } else {
      seed_fs::copy_file(entry.path(), there, failed);
    }
    if (failed) return cannot_copy(there.string(), failed);
    if (Result<void> synced = sync_path(there.string()); !synced) return synced;
    if (Result<void> going = observer.advance(std::nullopt); !going) return going;
  }
  if (failed) return cannot_copy(part, failed);
  std::ofstream(part + "/" + kSeedMarker) << "{\"made_by\":\"idmint-restore\"}\n";
  if (Result<void> synced = sync_path(part + "/" + kSeedMarker); !synced) return synced;
  if (Result<void> synced = sync_path(part); !synced) return synced;
  seed_fs::rename(part, to, failed);
  if (failed) return cannot_copy(to, failed);
  return sync_path(seed_fs::absolute(to).parent_path().string());
}

// A connection to a member in any state. A member outside of a set answers no read, which
// Server::connect() needs.
class DirectMember {
 public:
  [[nodiscard]] static Result<DirectMember> connect(const SeedMember& member) {
    bson_error_t error{};
    const Uri uri(mongoc_uri_new_with_error(direct_uri(member).c_str(), &error));
    DirectMember direct;
    if (uri) direct.client_.reset(mongoc_client_new_from_uri_with_error(uri.get(), &error));
    if (!direct.client_) return std::unexpected(told("connecting to " + address(member), error));
    mongoc_client_set_error_api(direct.client_.get(), MONGOC_ERROR_API_VERSION_2);
    return direct;
  }

  // The server's reply, even a refusal.
  struct Told {
    bool ok = false;
    Bson reply = Bson::none();
    bson_error_t error{};
  };
  Told command(const Bson& command) {
    Told answer;
    bson_t reply;
    answer.ok = mongoc_client_command_with_opts(client_.get(), "admin", command.get(), nullptr,
                                                nullptr, &reply, &answer.error);
    answer.reply = Bson::taken_from(&reply);
    return answer;
  }

 private:
  MongocClient client_;
};

// Whether it answers, and has its data in the folder.
bool answers(const SeedMember& member) {
  Result<DirectMember> direct = DirectMember::connect(member);
  if (!direct) return false;
  const DirectMember::Told options = direct->command(Bson("getCmdLineOpts", 1));
  const Document storage = options.reply.view().document("parsed").document("storage");
  std::error_code ignored;
  return options.ok && seed_fs::equivalent(text_of(storage, "dbPath"), member.folder, ignored);
}

// Whether there is a complete copy. kAlreadyExists: the folder has other contents.
Result<bool> is_copied(const std::string& folder) {
  std::error_code failed;
  if (!seed_fs::exists(folder, failed)) return false;
  if (seed_fs::exists(folder + "/" + kSeedMarker, failed)) return true;
  return fail(Code::kAlreadyExists, shell_word(folder) + " is there: give a new folder");
}

class Seeding {
 public:
  Seeding(const SeedOptions& options, std::string program, Observer& observer)
      : options_(options), program_(std::move(program)), observer_(observer) {}

  Result<void> run() {
    const SeedMember& first = options_.members.front();
    const Result<bool> copied = is_copied(first.folder);
    if (!copied) return error_in(copied);
    Result<void> done;
    if (!*copied) done = take_over_spare();
    if (done) done = start(first);
    if (done) done = initiate();
    if (done) done = copy_others();
    for (const SeedMember& member : options_.members)
      if (done && !member.folder.empty()) done = start(member);
    for (const SeedMember& member : options_.members) {
      if (!done || &member == &first) continue;
      if (member.folder.empty()) {
        for (const std::string& line : lines_elsewhere(program_, options_, member))
          observer_.notice(line);
      } else {
        done = add(member);
      }
    }
    return done;
  }

 private:
  Result<void> take_over_spare() {
    const Result<SpareFolder> folder = look_at(options_.spare);
    if (!folder) return error_in(folder);
    if (!folder->ours)
      return fail(Code::kNotFound,
                  shell_word(options_.spare) + " is no folder that idmint-restore run has made");
    const Result<Spare> spare = start_spare(options_.spare, {program_}, observer_.waits());
    if (!spare) return error_in(spare);
    Result<void> done = prepare(spare->uri());
    if (done) done = observer_.about_to(shutdown_line(program_, spare->folder));
    if (done) done = stop_spare(*spare);
    if (done) done = observer_.about_to(copy_line(spare->folder, options_.members[0].folder));
    return done ? copy_folder(spare->folder, options_.members[0].folder, observer_) : done;
  }

  // Removes the databases of the restore, and of the set from which a data folder was copied.
  Result<void> prepare(const std::string& uri) {
    Result<Server> server = Server::connect(uri);
    if (!server) return error_in(server);
    const Result<std::optional<Record>> record = Record::find(*server);
    if (!record) return error_in(record);
    const std::optional<Record>& found = *record;
    if (found && found->stage() != RunStage::kDone)
      return fail(Code::kFailedPrecondition, "the restore to " + shell_word(options_.spare) +
                                                 " is not done: run it to its end");
    for (const char* const database : {kRecordDatabase, "local"}) {
      Result<void> told =
          observer_.about_to("db.getSiblingDB(\"" + std::string(database) + "\").dropDatabase()");
      if (!told) return told;
      const Result<Bson> dropped = server->command(database, Bson("dropDatabase", 1));
      if (!dropped) return error_in(dropped);
    }
    return {};
  }

  Result<void> start(const SeedMember& member) {
    SeedMember placed = member;
    placed.folder = absolute(member.folder);
    // It may be an earlier run's and not answer yet.
    if (is_locked(placed.folder))
      return await("the mongod of " + shell_word(placed.folder) + ", which does not answer at " +
                       address(member),
                   [&] { return answers(placed); });
    const std::vector<std::string> words = start_words(program_, options_, placed);
    if (Result<void> told = observer_.about_to(shell_line(words)); !told) return told;
    std::error_code none;
    const std::uintmax_t logged = std::filesystem::file_size(placed.folder + "/mongod.log", none);
    const Result<int> status = run_and_wait(words, [] { return Result<void>{}; });
    if (status && *status == 0) return {};
    return fail(Code::kFailedPrecondition, "mongod does not start on " + shell_word(placed.folder) +
                                               ": " +
                                               why_not_started(placed.folder, none ? 0 : logged));
  }

  Result<void> initiate() {
    const SeedMember& first = options_.members.front();
    Result<DirectMember> member = DirectMember::connect(first);
    if (!member) return error_in(member);
    const DirectMember::Told hello = member->command(Bson("hello", 1));
    if (!hello.reply.view().has("setName")) {
      if (Result<void> told = observer_.about_to(initiate_line(options_)); !told) return told;
      const DirectMember::Told made = member->command(Bson(
          "replSetInitiate",
          Bson("_id", options_.set, "members", array(Bson("_id", 0, "host", address(first))))));
      if (!made.ok && made.reply.view().number("code") != kAlreadyInitialized)
        return std::unexpected(told("replSetInitiate on " + address(first), made.error));
    }
    return await("a primary, which " + address(first) + " does not become", [&] {
      // In a set that already runs, another member may be the primary.
      return member->command(Bson("hello", 1)).reply.view().has("primary");
    });
  }

  Result<void> copy_others() {
    const SeedMember& first = options_.members.front();
    for (const SeedMember& member : options_.members) {
      if (&member == &first || member.folder.empty()) continue;
      const Result<bool> copied = is_copied(member.folder);
      if (!copied) return error_in(copied);
      if (*copied) continue;
      // A folder is complete when its server was ended cleanly.
      const std::string folder = absolute(first.folder);
      if (is_locked(folder)) {
        if (Result<void> told = observer_.about_to(shutdown_line(program_, folder)); !told)
          return told;
        const Spare running{.folder = folder, .program = program_, .port = first.port};
        if (Result<void> ended = stop_spare(running); !ended) return ended;
      }
      if (Result<void> told = observer_.about_to(copy_line(folder, member.folder)); !told)
        return told;
      if (Result<void> done = copy_folder(folder, member.folder, observer_); !done) return done;
    }
    return {};
  }

  // A set accepts one new member at a time.
  Result<void> add(const SeedMember& member) {
    Result<DirectMember> first = DirectMember::connect(options_.members.front());
    if (!first) return error_in(first);
    if (!is_member(*first, member))
      if (Result<void> told = observer_.about_to(add_line(member)); !told) return told;
    Result<void> added = await("a set that takes " + address(member), [&] {
      if (is_member(*first, member)) return true;
      first->command(with_member(first->command(Bson("replSetGetConfig", 1)), member));
      return is_member(*first, member);
    });
    if (!added) return added;
    return await(address(member) + ", which does not follow", [&] {
      constexpr std::int64_t secondary = 2;
      bool follows = false;
      first->command(Bson("replSetGetStatus", 1))
          .reply.view()
          .each("members", [&](const Document& each) {
            follows = follows || (text_of(each, "name") == address(member) &&
                                  each.number("state") == secondary);
          });
      return follows;
    });
  }

  static bool is_member(DirectMember& first, const SeedMember& member) {
    bool known = false;
    first.command(Bson("replSetGetConfig", 1))
        .reply.view()
        .document("config")
        .each("members", [&](const Document& each) {
          known = known || text_of(each, "host") == address(member);
        });
    return known;
  }

  // The next configuration of the set.
  static Bson with_member(const DirectMember::Told& now, const SeedMember& member) {
    const Document config = now.reply.view().document("config");
    std::int64_t largest = -1;
    BsonArray members;
    config.each("members", [&](const Document& each) {
      largest = std::max(largest, each.number("_id"));
      members.push(each);
    });
    members.push(Bson("_id", static_cast<std::int32_t>(largest + 1), "host", address(member)));
    Bson changed;
    for (const Field& field : Fields(config)) {
      if (field.is("version")) {
        changed.add("version", static_cast<std::int32_t>(config.number("version") + 1));
      } else if (field.is("members")) {
        changed.add("members", members);
      } else {
        append_field(changed.get(), field);
      }
    }
    return Bson("replSetReconfig", changed, "maxTimeMS", 60'000);
  }

  Result<void> await(const std::string& what, const std::function<bool()>& is_so) {
    for (const auto until = steady_clock::now() + kMemberComesUp; steady_clock::now() < until;) {
      if (is_so()) return {};
      if (Result<void> going = observer_.advance(std::nullopt); !going) return going;
      std::this_thread::sleep_for(milliseconds{100});
    }
    return fail(Code::kUnavailable, "waited five minutes for " + what);
  }

  static std::string absolute(const std::string& folder) {
    std::error_code failed;
    const seed_fs::path path = seed_fs::absolute(folder, failed).lexically_normal();
    return failed ? folder : path.string();
  }

  const SeedOptions& options_;
  const std::string program_;
  Observer& observer_;
};

}  // namespace

Result<SeedMember> parse_member(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view where = text.substr(0, equals);
  const std::size_t colon = where.rfind(':');
  SeedMember member;
  if (colon != std::string_view::npos && colon != 0) {
    const std::string_view digits = where.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), member.port);
    if (error != std::errc{} || end != digits.data() + digits.size()) member.port = 0;
    member.host = where.substr(0, colon);
  }
  if (equals != std::string_view::npos) member.folder = text.substr(equals + 1);
  while (member.folder.size() > 1 && member.folder.ends_with('/')) member.folder.pop_back();
  if (member.port < 1 || member.port > 65535 || member.host.empty() ||
      (equals != std::string_view::npos && member.folder.empty()))
    return refuse("--member is " + shell_word(text) +
                  ": give HOST:PORT=DIR, or HOST:PORT of another host");
  return member;
}

Result<std::vector<std::string>> seed_steps(const SeedOptions& options) {
  if (Result<void> good = check_options(options); !good) return error_in(good);
  const Result<std::string> program = find_mongod(options.mongod);
  if (!program) return error_in(program);
  const SeedMember& first = options.members.front();
  std::vector<std::string> steps = {
      "db.getSiblingDB(\"idmint_restore\").dropDatabase()",
      "db.getSiblingDB(\"local\").dropDatabase()",
      shutdown_line(*program, options.spare),
      copy_line(options.spare, first.folder),
      shell_line(start_words(*program, options, first)),
      initiate_line(options),
  };
  const bool several = std::ranges::any_of(options.members, [&](const SeedMember& each) {
    return &each != &first && !each.folder.empty();
  });
  if (several) steps.push_back(shutdown_line(*program, first.folder));
  for (const SeedMember& each : options.members)
    if (&each != &first && !each.folder.empty())
      steps.push_back(copy_line(first.folder, each.folder));
  if (several) {
    for (const SeedMember& each : options.members)
      if (!each.folder.empty()) steps.push_back(shell_line(start_words(*program, options, each)));
  }
  for (const SeedMember& each : options.members) {
    if (&each == &first) continue;
    if (!each.folder.empty()) {
      steps.push_back(add_line(each));
      continue;
    }
    for (std::string& line : lines_elsewhere(*program, options, each))
      steps.push_back(std::move(line));
  }
  return steps;
}

Result<void> seed(const SeedOptions& options, Observer& observer) {
  if (Result<void> good = check_options(options); !good) return good;
  Result<std::string> program = find_mongod(options.mongod);
  if (!program) return error_in(program);
  Seeding seeding(options, *std::move(program), observer);
  return seeding.run();
}

}  // namespace idmint::restore
