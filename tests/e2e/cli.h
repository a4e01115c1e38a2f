// The idmint command as its users run it: a shell, a fresh home folder, real pipes and signals.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"

namespace idmint::e2e {

namespace fs = std::filesystem;

struct Ended {
  int status = 0;  // as a shell shows it: 128 + N when signal N ended it
  std::string out;
  std::string err;
};

inline std::string content(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Cli : public ::testing::Test {
 protected:
  Cli() { fs::create_directories(folder_ / "home"); }

  // Runs a bash script in the folder, with a fresh HOME and idmint on the PATH.
  Ended run(const std::string& script) {
    const fs::path out = folder_ / ".out";
    const fs::path err = folder_ / ".err";
    const std::string program = "cd " + folder_.string() + "\n" + script;
    std::vector<std::string> environment = {
        "PATH=" + fs::path(IDMINT_BINARY).parent_path().string() + ":/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME=" + (folder_ / "home").string(), "LC_ALL=C.UTF-8", "TERM=xterm"};
    for (const char* const kept : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (const char* value = std::getenv(kept)) {
        environment.push_back(std::string(kept) + "=" + value);
      }
    }
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    std::vector<std::string> words = {"bash", "-c", program};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    if (::posix_spawn(&child, "/bin/bash", &actions, nullptr, arguments.data(), variables.data()) !=
        0) {
      std::abort();
    }
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    if (::waitpid(child, &status, 0) != child) std::abort();
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out),
            content(err)};
  }

  // Expects success and silence on standard error; returns standard output.
  std::string output(const std::string& script) {
    const Ended ended = run(script);
    EXPECT_EQ(ended.status, 0) << script << "\n" << ended.err;
    EXPECT_EQ(ended.err, "") << script;
    return ended.out;
  }

  bool has(const std::string& program) { return run("command -v " + program).status == 0; }

  const fakes::TempFolder temporary_;
  const fs::path folder_ = temporary_.folder();
};

}  // namespace idmint::e2e
