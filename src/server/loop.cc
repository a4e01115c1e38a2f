#include "server/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <memory>

namespace idmint::server {

void Loop::deliver(Awaited& awaited) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = delivered_.empty();
    delivered_.push_back(&awaited);
  }
  if (first) boost::asio::post(context_, [this] { give_answers(); });
}

void Loop::give_answers() {
  {
    const std::lock_guard lock(mutex_);
    batch_.swap(delivered_);
  }
  for (Awaited* const awaited : batch_) awaited->answered();
  batch_.clear();
  if (after_answers_) after_answers_();
}

void Loop::post(std::move_only_function<void()> task) {
  // Asio copies its handlers.
  boost::asio::post(context_, [shared = std::make_shared<std::move_only_function<void()>>(
                                   std::move(task))] { (*shared)(); });
}

void Loop::run() {
  const auto guard = boost::asio::make_work_guard(context_);
  context_.run();
}

}  // namespace idmint::server
