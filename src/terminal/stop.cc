#include "terminal/stop.h"

#include <array>
#include <atomic>
#include <csignal>

namespace idmint {

namespace {

std::atomic<int> noted = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may store to it

void note_signal(int signal) { noted.store(signal, std::memory_order_relaxed); }

}  // namespace

void stop_at_signals() {
  for (const int signal : std::array{SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    struct sigaction note{};
    note.sa_handler = note_signal;
    note.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &note, nullptr);
  }
}

int stop_signal() noexcept { return noted.load(std::memory_order_relaxed); }

}  // namespace idmint
