// How long a program takes as a whole, from its start until it has ended, in milliseconds: the
// median, the least and the most of RUNS.
//
//   process_bench RUNS PROGRAM [ARGUMENT...]
//
// Its standard output goes to /dev/null. A program that fails ends the measurement.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  const int runs = argc > 2 ? std::atoi(argv[1]) : 0;
  if (runs < 1) {
    std::fputs("usage: process_bench RUNS PROGRAM [ARGUMENT...]\n", stderr);
    return 2;
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<double> ms;
  for (int i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pid_t child = 0;
    if (::posix_spawnp(&child, argv[2], &actions, nullptr, argv + 2, environ) != 0) {
      std::fprintf(stderr, "process_bench: cannot start %s\n", argv[2]);
      return 1;
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "process_bench: %s failed\n", argv[2]);
      return 1;
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    ms.push_back(took.count());
  }
  ::posix_spawn_file_actions_destroy(&actions);
  std::sort(ms.begin(), ms.end());
  std::printf("%.2f %.2f %.2f\n", ms[ms.size() / 2], ms.front(), ms.back());
}
