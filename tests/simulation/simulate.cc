#include "tests/simulation/simulate.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

namespace idmint::simulation {
namespace {

constexpr std::array kScenarios = {Scenario{"leases", play_leases},
                                   Scenario{"sequences", play_sequences}};

constexpr std::uint64_t kBatch = 2'000;  // histories of one process
constexpr unsigned kLongest = 300;       // seconds of one batch

// The report of a batch, in memory that it shares.
struct Report {
  std::atomic<std::uint64_t> playing{0};  // the seed
  std::atomic<std::uint64_t> broken{0};   // the seed + 1; 0: none
};

// All threads of a process on one processor: they take turns anyway, and a turn is handed on faster
// there.
void stay_on(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

std::vector<unsigned> processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<unsigned> all;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (unsigned i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) all.push_back(i);
  if (all.empty()) all.push_back(0);
  return all;
}

[[noreturn]] void play_batch(const Scenario& scenario, std::uint64_t first, std::uint64_t count,
                             unsigned processor, Report& report) {
  forget_threads();
  stay_on(processor);
  ::alarm(kLongest);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    report.playing = seed;
    if (!play(scenario, seed).failure.empty()) {
      report.broken = seed + 1;
      break;
    }
  }
  std::_Exit(0);  // its threads wait for ever
}

// In a process of its own, whose threads are its own too.
Broken shorten_apart(const Scenario& scenario, std::uint64_t seed) {
  std::array<int, 2> ends{};
  Broken broken{.seed = seed, .what = "its history could not be played again"};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return broken;
  const pid_t child = ::fork();
  if (child == 0) {
    forget_threads();
    stay_on(processors().front());
    ::alarm(kLongest);
    const Broken found = shorten(scenario, seed);
    std::string choices;
    for (const std::uint32_t choice : found.choices) choices += std::to_string(choice) + " ";
    const std::string text = found.what + '\0' + found.trace + '\0' + choices;
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t wrote = ::write(ends[1], text.data() + at, text.size() - at);
      if (wrote <= 0) break;
      at += static_cast<std::size_t>(wrote);
    }
    std::_Exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> some{};
  for (ssize_t got = 0; (got = ::read(ends[0], some.data(), some.size())) > 0;)
    text.append(some.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  const std::size_t one = text.find('\0');
  const std::size_t two = one == std::string::npos ? one : text.find('\0', one + 1);
  if (two == std::string::npos) return broken;
  broken.what = text.substr(0, one);
  broken.trace = text.substr(one + 1, two - one - 1);
  for (char* at = text.data() + two + 1; *at != '\0';)
    broken.choices.push_back(static_cast<std::uint32_t>(std::strtoul(at, &at, 10))), ++at;
  return broken;
}

}  // namespace

std::span<const Scenario> scenarios() noexcept { return kScenarios; }

Played play(const Scenario& scenario, std::uint64_t seed, const std::vector<std::uint32_t>* given,
            bool traced) {
  Choices choices = given != nullptr ? Choices(seed, *given) : Choices(seed);
  History history(choices, traced);
  // A third of the histories meet no fault, and a third few.
  constexpr std::array<std::uint32_t, 3> kFaults = {0, 24, 6};
  constexpr std::array<std::uint32_t, 3> kJumps = {0, 40, 10};
  history.one_fault_in = kFaults[history.choose(kFaults.size())];
  history.one_jump_in = kJumps[history.choose(kJumps.size())];
  scenario.play(history);
  return {history.failure(), history.trace(), choices.made(), history.steps()};
}

Broken shorten(const Scenario& scenario, std::uint64_t seed) {
  Played best = play(scenario, seed);
  const auto accept = [&](const std::vector<std::uint32_t>& tried) {
    Played played = play(scenario, seed, &tried);
    if (played.failure.empty()) return false;
    while (!played.choices.empty() && played.choices.back() == 0) played.choices.pop_back();
    if (played.choices.size() > best.choices.size() ||
        (played.choices.size() == best.choices.size() && played.choices >= best.choices))
      return false;
    best = std::move(played);
    return true;
  };
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    bool shorter = false;
    for (std::size_t length = 64; length > 0; length /= 2) {
      for (std::size_t at = 0; at + length <= best.choices.size();) {
        std::vector<std::uint32_t> tried = best.choices;
        tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(at),
                    tried.begin() + static_cast<std::ptrdiff_t>(at + length));
        if (accept(tried))
          shorter = true;
        else
          at += length;
      }
    }
    for (std::size_t at = 0; at < best.choices.size(); ++at) {
      if (best.choices[at] == 0) continue;
      std::vector<std::uint32_t> tried = best.choices;
      tried[at] = 0;
      if (accept(tried)) shorter = true;
    }
    if (!shorter) break;
  }
  const Played traced = play(scenario, seed, &best.choices, true);
  return {seed, best.choices, traced.failure, traced.trace, traced.steps};
}

std::optional<Broken> simulate(const Scenario& scenario, std::uint64_t first, std::uint64_t count) {
  const std::vector<unsigned> all = processors();
  void* const memory = ::mmap(nullptr, sizeof(Report) * all.size(), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Broken{.seed = first, .what = "no memory"};
  auto* const reports = static_cast<Report*>(memory);
  std::map<pid_t, std::size_t> batches;  // the child, and its report
  std::vector<std::size_t> idle;
  for (std::size_t i = 0; i < all.size(); ++i) idle.push_back(i);
  std::optional<Broken> broken;
  std::uint64_t next = first;
  while ((next < first + count && !broken) || !batches.empty()) {
    if (!idle.empty() && next < first + count && !broken) {
      const std::size_t which = idle.back();
      idle.pop_back();
      const std::uint64_t some = std::min(kBatch, first + count - next);
      Report* const report = new (&reports[which]) Report;
      std::fflush(nullptr);
      const pid_t child = ::fork();
      if (child == 0) play_batch(scenario, next, some, all[which], *report);
      if (child < 0) return Broken{.seed = next, .what = "no process"};
      batches.emplace(child, which);
      next += some;
      continue;
    }
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    if (child < 0) {
      if (errno == EINTR) continue;
      break;
    }
    const auto at = batches.find(child);
    if (at == batches.end()) continue;
    const Report& report = reports[at->second];
    idle.push_back(at->second);
    batches.erase(at);
    if (report.broken != 0 && (!broken || report.broken - 1 < broken->seed))
      broken = Broken{.seed = report.broken - 1};
    else if (report.broken == 0 && status != 0 && !broken)
      broken = Broken{.seed = report.playing,
                      .what = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                                  ? "it hangs"
                                  : "it crashes: status " + std::to_string(status)};
  }
  ::munmap(memory, sizeof(Report) * all.size());
  if (broken && broken->what.empty()) broken = shorten_apart(scenario, broken->seed);
  return broken;
}

}  // namespace idmint::simulation
