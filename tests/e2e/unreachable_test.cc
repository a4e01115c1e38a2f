// Stores whose server is not there, which is known at once: no host has the name, or the host
// refuses the connection. Calls have an hour, so a test in which one waits does not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "idmint/store.h"
#include "stores/spi/other_store.h"
#include "tests/fakes/code_of.h"
#include "tests/servers/loopback.h"

namespace idmint::e2e {
namespace {

using fakes::code_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The URL of a store of each kind at that host.
std::vector<std::string> urls_at(const std::string& host) {
  return {"redis://" + host, "postgresql://minter@" + host + "/shop",
          "mysql://minter@" + host + "/shop", "etcd://" + host, "mongodb://" + host + "/shop"};
}

// The error of opening it; empty: this build or this host lacks such stores.
std::string error_of(const std::string& url) {
  const auto opened = Store::open(url, {.deadline = std::chrono::hours{1}});
  if (code_of(opened) == Code::kUnimplemented) return "";
  EXPECT_EQ(code_of(opened), Code::kUnavailable) << url << ": " << fakes::why(opened);
  return fakes::why(opened);
}

TEST(Unreachable, ANameThatNoHostHasIsToldAtOnce) {
  // No label of a name has 64 characters, so the resolver asks nobody.
  const std::string name(64, 'a');
  for (const std::string& url : urls_at(name)) {
    const std::string error = error_of(url);
    if (error.empty()) continue;
    EXPECT_THAT(error, AllOf(HasSubstr("check the host name"), HasSubstr(name),
                             HasSubstr("nothing was changed"), Not(HasSubstr("ask again"))));
  }
}

TEST(Unreachable, ARefusalIsToldAtOnceWhereAnotherStoreIsAtHand) {
  const OtherStoreAtHand other;
  const int nobody_listens = servers::bound_socket();
  const std::string port = std::to_string(servers::port_of(nobody_listens));
  for (const std::string& url : urls_at("127.0.0.1:" + port)) {
    // MongoDB's driver does not say of a server that it refuses.
    if (!url.starts_with("mongodb:")) error_of(url);
  }
  ::close(nobody_listens);
}

}  // namespace
}  // namespace idmint::e2e
