// Signals that threads do not take.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace idmint {

// While it lives, the calling thread blocks all signals, and so does every thread that it starts
// meanwhile, for good: the signals of the process go to the threads of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace idmint
