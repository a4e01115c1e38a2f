#include "restore/replay/spare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "restore/output_file.h"
#include "restore/replay/process.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// It ends well at once, as mongod --fork does.
constexpr const char* kProgram = "/bin/true";

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const std::string& path) {
  struct stat facts{};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_mode & 0777;
}

TEST(SpareFolder, IsClosedToOthers) {
  const fakes::TempFolder folder;
  const mode_t before = ::umask(0);
  const std::string fresh = folder.path("a/b");
  const std::string there = folder.path("c");
  EXPECT_EQ(::mkdir(there.c_str(), 0777), 0);
  for (const std::string& path : {fresh, there}) {
    const Result<Spare> spare = start_spare(path, {kProgram});
    ASSERT_TRUE(spare.has_value()) << spare.error().message();
    EXPECT_EQ(mode_of(path), 0700U) << path;
    EXPECT_EQ(mode_of(path + "/idmint-restore.json"), 0600U);
    EXPECT_EQ(::chmod(path.c_str(), 0777), 0);
    ASSERT_TRUE(start_spare(path, {kProgram}).has_value());
    EXPECT_EQ(mode_of(path), 0700U) << path;
  }
  ::umask(before);
}

TEST(SpareFolder, IsNoSymbolicLinkAndHasNone) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("spare");
  const std::string victim = folder.path("victim");
  fs::create_directory(folder.path("elsewhere"));
  for (const std::string target : {"elsewhere", "absent"}) {
    fs::create_symlink(folder.path(target), path);
    for (const std::string& given : {path, path + "/"}) {
      EXPECT_EQ(look_at(given).error().code, Code::kFailedPrecondition) << given;
      const Result<Spare> spare = start_spare(given, {kProgram});
      ASSERT_FALSE(spare.has_value()) << given;
      EXPECT_THAT(spare.error().message(), HasSubstr("is a symbolic link")) << given;
    }
    fs::remove(path);
  }
  EXPECT_TRUE(fs::is_empty(folder.path("elsewhere")));
  EXPECT_FALSE(fs::exists(folder.path("absent")));

  // A .part may be of a run that was killed, or be planted.
  std::ofstream(victim) << "precious";
  fs::create_directory(path);
  fs::create_symlink(victim, path + "/idmint-restore.json.part");
  ASSERT_TRUE(start_spare(path, {kProgram}).has_value());
  EXPECT_EQ(content(victim), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path + "/idmint-restore.json")));
  fs::create_symlink(victim, path + "/mongod.log");
  const Result<Spare> spare = start_spare(path, {kProgram});
  ASSERT_FALSE(spare.has_value());
  EXPECT_THAT(spare.error().message(), HasSubstr("mongod.log is a symbolic link"));
}

TEST(SpareFolder, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  const fakes::TempFolder folder;
  const std::string path = folder.path("spare");
  ASSERT_EQ(::mkdir(path.c_str(), 0777), 0);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const Result<Spare> spare = start_spare(path, {kProgram});
  ASSERT_FALSE(spare.has_value());
  EXPECT_EQ(spare.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(spare.error().message(), HasSubstr("belongs to another user"));
}

// A data folder has to be opened as it was made.
TEST(SpareFolder, KeepsTheArgumentsOfItsMongod) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("spare");
  const Mongod first{.program = kProgram, .arguments = {"--directoryperdb"}};
  ASSERT_TRUE(start_spare(path, first).has_value());
  EXPECT_EQ(look_at(path)->arguments, first.arguments);
  ASSERT_TRUE(start_spare(path, {kProgram}).has_value());
  EXPECT_EQ(look_at(path)->arguments, first.arguments);
  const Result<Spare> other =
      start_spare(path, {.program = kProgram, .arguments = {"--journalCommitInterval=5"}});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(other.error().message(), HasSubstr("--directoryperdb"));
}

TEST(OutputFiles, FollowNoSymbolicLink) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("out");
  for (const std::string target : {"victim", "absent"}) {
    std::ofstream(folder.path("victim")) << "precious";
    fs::create_symlink(folder.path(target), path);
    EXPECT_EQ(OutputFile::create(path).error().code, Code::kAlreadyExists) << target;
    fs::remove(path);
    EXPECT_FALSE(fs::exists(folder.path("absent")));
    EXPECT_EQ(content(folder.path("victim")), "precious");
  }
}

// Whole blocks go past the page cache on most file systems, and on none in memory (/dev/shm).
TEST(OutputFiles, HaveWhatWasWritten) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  const fakes::TempFolder here;
  const fakes::TempFolder in_memory("/dev/shm");
  std::minstd_rand random(1);
  for (const fakes::TempFolder* const folder : {&here, &in_memory}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock - 1, kBlock, kBlock + 1,
                                   3 * kBlock, 5 * kBlock + 4097}) {
      std::string text(size, '\0');
      for (char& each : text) each = static_cast<char>(random());
      const std::string path = folder->path(std::to_string(size));
      const auto file = OutputFile::create(path);
      ASSERT_TRUE(file);
      for (std::string_view left = text; !left.empty();) {
        const std::size_t some = std::min<std::size_t>(left.size(), 1 + random() % (2 * kBlock));
        ASSERT_TRUE((*file)->write(left.substr(0, some)));
        left.remove_prefix(some);
      }
      EXPECT_EQ((*file)->bytes(), size);
      ASSERT_TRUE((*file)->finish());
      EXPECT_TRUE(content(path) == text) << path;
      Sha256 hash;
      hash.add(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
      EXPECT_EQ((*file)->sha256(), hash.hex()) << path;
    }
  }
}

// A program in the place of mongod.
std::string program(const fakes::TempFolder& folder, const std::string& text) {
  const std::string path = folder.path("mongod");
  std::ofstream(path) << "#!/bin/sh\n" << text;
  EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
  return path;
}

constexpr SpareLimits kSoon = {.silence = std::chrono::milliseconds{200},
                               .end = std::chrono::milliseconds{200},
                               .hurried_end = std::chrono::milliseconds{0}};

// In a log of MongoDB.
std::string logged(const std::string& severity, const std::string& message) {
  return R"({"s":")" + severity + R"(","msg":")" + message + "\"}\n";
}

TEST(SpareWait, ForOneThatDoesNotComeUpEndsWithWhatItLoggedLast) {
  const fakes::TempFolder folder;
  const std::string mongod =
      program(folder, "echo '" + logged("I", "Recovering") + "' >" +
                          folder.path("spare/mongod.log") + "\nexec sleep 1000\n");
  const Result<Spare> spare = start_spare(folder.path("spare"), {mongod}, {}, kSoon);
  ASSERT_FALSE(spare);
  EXPECT_EQ(spare.error().code, Code::kUnavailable);
  EXPECT_THAT(spare.error().message(),
              testing::AllOf(HasSubstr("does not come up"), HasSubstr("ends with: Recovering")));
}

TEST(SpareWait, EndsWithTheOneWhoWaits) {
  const fakes::TempFolder folder;
  const std::string mongod = program(folder, "exec sleep 1000\n");
  const Result<Spare> spare =
      start_spare(folder.path("spare"), {mongod}, [](std::uint64_t) -> Result<void> {
        return std::unexpected(Error{Code::kUnavailable, "enough"});
      });
  ASSERT_FALSE(spare);
  EXPECT_EQ(spare.error().message(), "enough");
}

TEST(SpareWait, AFullDiskIsNamed) {
  const fakes::TempFolder folder;
  const std::string mongod =
      program(folder, "echo '" + logged("E", "WiredTiger error: 28: No space left on device") +
                          "' >" + folder.path("spare/mongod.log") + "\nexit 14\n");
  const Result<Spare> spare = start_spare(folder.path("spare"), {mongod});
  ASSERT_FALSE(spare);
  EXPECT_EQ(spare.error().code, Code::kResourceExhausted);
  EXPECT_THAT(spare.error().message(), HasSubstr("No space left on device: make room there"));
}

TEST(SpareWait, ForTheVersionOfAProgramEndsToo) {
  const fakes::TempFolder folder;
  const Result<std::string> version = version_of(program(folder, "exec sleep 1000\n"), kSoon);
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().code, Code::kUnavailable);
}

// A process that has the lock of a data folder, as a mongod has it.
class Holder {
 public:
  // `first`: before it has the lock.
  Holder(const std::string& folder, const std::string& first, const std::string& then) {
    const std::string lock = folder + "/mongod.lock";
    const std::string held = folder + "/held";
    const std::string script =
        first + "; exec 9>" + lock + "; flock 9; echo $$ >" + lock + "; : >" + held + "; " + then;
    std::vector<std::string> words = {"/bin/sh", "-c", script, folder};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, "/bin/sh", nullptr, nullptr, arguments.data(), environ), 0);
    while (!fs::exists(held)) std::this_thread::yield();
  }
  ~Holder() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(SpareWait, ForOneThatDoesNotEndSaysWhatItLoggedLast) {
  const fakes::TempFolder folder;
  std::ofstream(folder.path("mongod.log")) << logged("I", "Flushing") << logged("I", "Still at it");
  const Holder holder(folder.path(""), "trap '' TERM", "while :; do sleep 1; done");
  for (const bool hurried : {false, true}) {
    const auto progress = [&](std::uint64_t) -> Result<void> {
      if (!hurried) return {};
      return std::unexpected(Error{Code::kUnavailable, "enough"});
    };
    SpareLimits limits = kSoon;
    if (hurried) limits.end = std::chrono::hours{1};
    const Spare spare{.folder = folder.path(""), .program = "mongod"};
    const Result<void> ended = stop_spare(spare, progress, limits);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::kUnavailable);
    EXPECT_THAT(ended.error().message(),
                testing::AllOf(HasSubstr("Still at it"),
                               HasSubstr("kill -9 " + std::to_string(holder.pid()))));
  }
}

TEST(SpareRemoved, IsKilledFirst) {
  const fakes::TempFolder folder;
  const std::string spare = folder.path("spare");
  fs::create_directory(spare);
  fs::create_symlink("/bin/sleep", folder.path("mongod"));
  const std::string mongod = folder.path("mongod");
  const Holder holder(spare, "trap '' TERM", "exec " + mongod + " 1000");
  while (words_of(holder.pid()) != std::vector<std::string>{mongod, "1000"})
    std::this_thread::yield();
  EXPECT_TRUE(remove_spare(spare));
  EXPECT_FALSE(runs(holder.pid()));
  EXPECT_FALSE(fs::exists(spare));
}

TEST(SpareRemoved, IsLeftIfItsProcessIs) {
  const fakes::TempFolder folder;
  const std::string spare = folder.path("spare");
  fs::create_directory(spare);
  // Its command line is not that of a mongod on the folder.
  const Holder holder(spare, ":", "exec sleep 1000");
  while (words_of(holder.pid()) != std::vector<std::string>{"sleep", "1000"})
    std::this_thread::yield();
  const Result<void> removed = remove_spare(spare);
  ASSERT_FALSE(removed);
  EXPECT_THAT(removed.error().message(), HasSubstr("process " + std::to_string(holder.pid())));
  EXPECT_TRUE(fs::exists(spare + "/mongod.lock"));
}

TEST(SpareTemporary, NamesTMPDIRWhereThereIsNoRoom) {
  const fakes::TempFolder folder;
  const std::string mongod =
      program(folder, "while [ \"$1\" != --logpath ]; do shift; done\necho '" +
                          logged("E", "WiredTiger error: 28: No space left on device") +
                          "' >\"$2\"\nexit 14\n");
  fs::create_directory(folder.path("tmp"));
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", folder.path("tmp").c_str(), 1);
  const Result<Spare> spare = start_temporary_spare({mongod});
  if (before != nullptr) {
    ::setenv("TMPDIR", kept.c_str(), 1);
  } else {
    ::unsetenv("TMPDIR");
  }
  ASSERT_FALSE(spare);
  EXPECT_EQ(spare.error().code, Code::kResourceExhausted);
  EXPECT_THAT(spare.error().message(),
              testing::AllOf(HasSubstr(folder.path("tmp")), HasSubstr("set TMPDIR")));
  EXPECT_TRUE(fs::is_empty(folder.path("tmp")));
}

// A dead process that nobody waits for, as in a container, is found by kill() for ever.
TEST(SpareWait, ForOneThatIsDeadIsOver) {
  const fakes::TempFolder folder;
  const Holder holder(folder.path(""), ":", "exit 0");
  while (runs(holder.pid())) std::this_thread::yield();
  EXPECT_EQ(::kill(holder.pid(), 0), 0);
  const Result<void> ended = stop_spare({.folder = folder.path(""), .program = "mongod"});
  EXPECT_TRUE(ended) << ended.error().message();
}

}  // namespace
}  // namespace idmint::restore
