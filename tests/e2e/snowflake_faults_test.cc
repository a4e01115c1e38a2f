// Snowflake ids under real faults: minting processes of their own on one state file, killed with
// kill -9 and started again at once, and minting while libfaketime moves the clock.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "idmint/snowflake.h"
#include "tests/fakes/temp_folder.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kExitOfCode = 10;        // a minting process ends with this plus the code
constexpr std::uint64_t kRefused = 0;  // stands in the output for a refusal; never an id
constexpr std::chrono::seconds kHang{30};

SnowflakeOptions options_for(const fs::path& state) {
  return {.layout = snowflake_layout("sequence-generator").value(),
          .worker = 5,
          .state_file = state,
          .lock_wait = 10s};
}

// A minting process, until it is killed: appends ids to `out`, 8 bytes each.
int mint(const fs::path& state, const fs::path& out) {
  const auto generator = SnowflakeGenerator::open(options_for(state));
  if (!generator) return kExitOfCode + static_cast<int>(generator.error().code);
  std::ofstream file(out, std::ios::binary | std::ios::app);
  while (file) {
    const auto id = (*generator)->next();
    if (!id && id.error().code != Code::kUnavailable) {
      return kExitOfCode + static_cast<int>(id.error().code);
    }
    const std::uint64_t value = id ? id->value() : kRefused;
    file.write(reinterpret_cast<const char*>(&value), sizeof value).flush();
    if (!id) std::this_thread::sleep_for(1ms);
  }
  return 1;
}

// A minting process.
class Minter {
 public:
  Minter(const fs::path& state, const fs::path& out, std::vector<std::string> environment = {}) {
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::execle("/proc/self/exe", "snowflake_faults_test", "mint", state.c_str(), out.c_str(),
             static_cast<char*>(nullptr), variables.data());
    ::_exit(127);
  }
  ~Minter() { kill(); }
  Minter(const Minter&) = delete;
  Minter& operator=(const Minter&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
};

class SnowflakeFaults : public testing::Test {
 protected:
  SnowflakeFaults() {
    state_ = folder_ / "state";
    out_ = folder_ / "ids";
    std::ofstream{out_};
  }

  // Waits for `count` more entries of the output; false when they do not come.
  bool more(std::uintmax_t count) {
    const std::uintmax_t enough = fs::file_size(out_) + count * sizeof(std::uint64_t);
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    while (fs::file_size(out_) < enough) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  std::vector<std::uint64_t> entries() {
    std::vector<std::uint64_t> all(fs::file_size(out_) / sizeof(std::uint64_t));
    std::ifstream(out_, std::ios::binary)
        .read(reinterpret_cast<char*>(all.data()),
              static_cast<std::streamsize>(all.size() * sizeof(std::uint64_t)));
    return all;
  }

  // One process after the other wrote them: so they increase, and none is there twice.
  std::size_t expect_increasing() {
    std::vector<std::uint64_t> ids = entries();
    std::erase(ids, kRefused);
    EXPECT_EQ(std::ranges::adjacent_find(ids, std::greater_equal<>{}), ids.end());
    return ids.size();
  }

  const fakes::TempFolder temporary_;
  const fs::path folder_ = temporary_.folder();
  fs::path state_;
  fs::path out_;
};

TEST_F(SnowflakeFaults, KilledFiftyTimesItRepeatsNothing) {
  for (int round = 0; round < 50; ++round) {
    Minter minter(state_, out_);
    ASSERT_TRUE(more(500)) << "round " << round;
    // At any moment of the next unit, so that some are killed while they write the state file.
    std::this_thread::sleep_for(std::chrono::microseconds{round * 97 % 2000});
    minter.kill();
    ASSERT_EQ(fs::file_size(out_) % sizeof(std::uint64_t), 0U);
  }
  EXPECT_GE(expect_increasing(), 25'000U);
}

fs::path libfaketime() {
  for (const fs::directory_entry& folder : fs::directory_iterator("/usr/lib")) {
    const fs::path found = folder.path() / "faketime" / "libfaketimeMT.so.1";
    if (fs::exists(found)) return found;
  }
  return {};
}

class SnowflakeClocks : public SnowflakeFaults {
 protected:
  void SetUp() override { ASSERT_FALSE(libfaketime().empty()) << "install the package faketime"; }

  void set_clock(const std::string& offset) {
    std::ofstream(folder_ / "clock.new") << offset << "\n";
    fs::rename(folder_ / "clock.new", folder_ / "clock");
  }
  std::vector<std::string> environment() {
    return {"LD_PRELOAD=" + libfaketime().string(),
            "FAKETIME_TIMESTAMP_FILE=" + (folder_ / "clock").string(), "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1"};
  }
  std::size_t refusals() {
    const std::vector<std::uint64_t> all = entries();
    return static_cast<std::size_t>(std::ranges::count(all, kRefused));
  }
};

TEST_F(SnowflakeClocks, WhileItMintsTheClockJumps) {
  set_clock("+0");
  Minter minter(state_, out_, environment());
  ASSERT_TRUE(more(1000));
  for (int round = 0; round < 20; ++round) {
    for (const std::string offset : {"-0.001", "-2", "+0", "-3", "+0"}) {
      set_clock(offset);
      ASSERT_TRUE(more(100)) << offset;
    }
    EXPECT_EQ(refusals(), 0U) << "within max_drift";
  }
  set_clock("-3600");
  ASSERT_TRUE(more(50));
  const std::size_t refused = refusals();
  EXPECT_GT(refused, 0U);
  set_clock("+3600");
  ASSERT_TRUE(more(1000));
  const std::size_t refused_in_all = refusals();
  ASSERT_TRUE(more(1000));
  EXPECT_EQ(refusals(), refused_in_all);
  minter.kill();
  EXPECT_GE(expect_increasing(), 10'000U);
}

TEST_F(SnowflakeClocks, BetweenRunsTheClockJumps) {
  constexpr int unavailable = kExitOfCode + static_cast<int>(Code::kUnavailable);
  const auto runs = [&](const std::string& offset) {
    set_clock(offset);
    Minter minter(state_, out_, environment());
    return more(500);
  };
  const auto refused = [&](const std::string& offset) {
    set_clock(offset);
    return Minter(state_, out_, environment()).wait() == unavailable;
  };
  EXPECT_TRUE(runs("+0"));
  EXPECT_TRUE(runs("-0.001"));
  EXPECT_TRUE(runs("-2"));
  EXPECT_TRUE(refused("-3600"));
  EXPECT_TRUE(runs("+0"));
  EXPECT_TRUE(runs("+3600"));
  EXPECT_TRUE(runs("+3598"));
  EXPECT_TRUE(refused("+0"));
  EXPECT_TRUE(runs("+3600"));
  EXPECT_GE(expect_increasing(), 3'000U);
}

}  // namespace
}  // namespace idmint

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "mint") return idmint::mint(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
