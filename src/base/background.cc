#include "base/background.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/fork_wiped.h"

namespace idmint {

namespace {

struct Work {
  MoveOnlyFunction<void()> what{};
  SteadyTime exit_waits{};
  bool done = false;
  std::thread thread{};
};

class Background {
 public:
  // False: not started; the caller keeps the work.
  bool start(MoveOnlyFunction<void()>& work, SteadyTime exit_waits) {
    // In a child of fork(), a thread that does not exist may hold the mutex.
    if (!owner_) return false;
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    join_those_done();
    Work* started = nullptr;
    try {
      started = &under_way_.emplace_back();
      started->what = std::move(work);
      started->exit_waits = exit_waits;
      started->thread = std::thread([this, started] {
        started->what();
        started->what = nullptr;
        const std::lock_guard done(mutex_);
        started->done = true;
        done_.notify_all();
      });
    } catch (const std::exception&) {  // no thread is left, or no memory for one
      if (started != nullptr) {
        if (started->what) work = std::move(started->what);
        under_way_.pop_back();
      }
      return false;
    }
    return true;
  }

  bool busy() { return owner_ && is_under_way(); }

  void end() {
    if (!owner_) return;
    std::unique_lock lock(mutex_);
    ended_ = true;
    for (Work& work : under_way_) {
      const auto done = [&] { return work.done; };
      if (work.exit_waits == SteadyTime::max())
        done_.wait(lock, done);
      else
        done_.wait_until(lock, work.exit_waits, done);
      // Work that still waits for a server that hangs ends with the process.
      if (work.done)
        work.thread.join();
      else
        work.thread.detach();
    }
    std::erase_if(under_way_, [](const Work& work) { return work.done; });
  }

 private:
  bool is_under_way() {
    const std::lock_guard lock(mutex_);
    join_those_done();
    return !under_way_.empty();
  }

  void join_those_done() {
    std::erase_if(under_way_, [](Work& work) {
      if (!work.done) return false;
      work.thread.join();
      return true;
    });
  }

  const OwnedByProcess owner_;
  std::mutex mutex_;  // guards the members below, and `done` of each work
  std::condition_variable done_;
  std::list<Work> under_way_;  // list: the address of each is in use by its thread
  bool ended_ = false;
};

// Never destroyed: static objects may be closed after any static destructor of this file.
constinit std::atomic<Background*> shared{nullptr};

// Null: no memory. Created without a lock, because a child of fork() might find it held.
Background* background() {
  if (Background* const there = shared.load()) return there;
  std::unique_ptr<Background> made;
  try {
    made = std::make_unique<Background>();
  } catch (const std::exception&) {
    return nullptr;
  }
  Background* there = nullptr;
  if (!shared.compare_exchange_strong(there, made.get())) return there;
  std::atexit([] { shared.load()->end(); });
  return made.release();
}

}  // namespace

bool start_in_background(MoveOnlyFunction<void()>& work, SteadyTime exit_waits) noexcept {
  Background* const there = background();
  return there != nullptr && there->start(work, exit_waits);
}

void run_in_background(MoveOnlyFunction<void()> work, SteadyTime exit_waits) noexcept {
  if (!start_in_background(work, exit_waits)) work();
}

bool background_is_busy() {
  Background* const there = shared.load();
  return there != nullptr && there->busy();
}

bool background_was_used() noexcept { return shared.load() != nullptr; }

}  // namespace idmint
