#include "base/thread_pool.h"

#include <atomic>
#include <memory>
#include <system_error>
#include <utility>

#include "base/signals_blocked.h"

namespace idmint {
namespace {

constexpr std::size_t kSharedThreads = 16;

// Never destroyed: static objects may post after any static destructor of this file.
constinit std::atomic<ThreadPool*> of_the_process{nullptr};

}  // namespace

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  // Runs tasks that were posted after all threads had seen an empty queue.
  while (!queue_.empty()) {
    MoveOnlyFunction<void()> task = std::move(queue_.front());
    queue_.pop_front();
    task();
  }
}

Result<void> ThreadPool::post(MoveOnlyFunction<void()> task) {
  // In a child of fork(), a thread that does not exist may hold the mutex.
  if (inherited()) {
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "the executor was made before fork(), and its threads are not in "
                                 "this process; make one after fork()"});
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    // At the end the destructor iterates over the threads, so no thread is added.
    if (!ended_ && queue_.size() > idle_ && threads_.size() < most_ && !start_thread() &&
        threads_.empty()) {
      queue_.pop_back();
      return std::unexpected(
          Error{Code::kResourceExhausted,
                "the system starts no thread for the executor; raise its limit of threads"});
    }
  }
  changed_.notify_one();
  return {};
}

std::size_t ThreadPool::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

bool ThreadPool::start_thread() {
  const SignalsBlocked in_the_thread;
  try {
    threads_.emplace_back(&ThreadPool::run, this);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// The whole life of a thread.
void ThreadPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ended_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    MoveOnlyFunction<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

// Without a lock, because a child of fork() might find it held.
Executor& shared_executor() {
  ThreadPool* there = of_the_process.load();
  if (there != nullptr && !there->inherited()) return *there;
  auto made = std::make_unique<ThreadPool>(kSharedThreads);
  return of_the_process.compare_exchange_strong(there, made.get()) ? *made.release() : *there;
}

}  // namespace idmint
