// Servers that say nothing, before one that answers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "idmint/store.h"
#include "tests/fakes/code_of.h"
#include "tests/servers/loopback.h"

namespace idmint::fakes {

// One accepts connections and says nothing, to the other no connection is made. A store there is
// not opened, in time, and is opened on `answering`, "HOST:PORT", where that is named too.
// url(HOSTS): that of the store.
inline void expect_silence_is_passed_over(
    const std::function<std::string(const std::string& hosts)>& url, const std::string& answering) {
  using Clock = std::chrono::steady_clock;
  using testing::HasSubstr;
  const int silent = servers::listening_socket();
  const servers::BlackHole hole;
  for (const int port : {servers::port_of(silent), hole.port()}) {
    const std::string host = "127.0.0.1:" + std::to_string(port);
    const auto begun = Clock::now();
    const auto alone = Store::open(url(host), {.deadline = std::chrono::milliseconds{300}});
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds{20});
    EXPECT_EQ(code_of(alone), Code::kUnavailable);
    EXPECT_THAT(why(alone), testing::AnyOf(HasSubstr("the server does not answer"),
                                           HasSubstr("no answer in time")));
    const auto both =
        Store::open(url(host + "," + answering), {.deadline = std::chrono::seconds{4}});
    EXPECT_TRUE(both) << why(both);
  }
  ::close(silent);
}

}  // namespace idmint::fakes
