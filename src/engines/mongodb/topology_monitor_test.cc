// The members' answers about themselves, as mongod 6.0 writes them, and the conclusions from them.
#include "engines/mongodb/topology_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

namespace {
thread_local bool no_memory = false;
}  // namespace

// Not inlined: GCC takes the halves of an inlined pair for strangers.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = no_memory ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace idmint::stores::mongodb {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

constexpr seconds kWaited{5};

class TopologyMonitorTest : public testing::Test {
 protected:
  TopologyMonitorTest() { EXPECT_TRUE(mongo::load_driver()); }

  void says(const std::string& host, const std::string& hello) {
    const Bson reply(hello);
    heard_.said(host, reply.view());
  }
  void is_primary(const std::string& host) { says(host, kOfSet + R"("isWritablePrimary":true})"); }
  void is_secondary(const std::string& host) {
    says(host, kOfSet + R"("isWritablePrimary":false,"secondary":true})");
  }

  const std::string kOfSet = R"({"setName":"set","hosts":["a:1","b:1","c:1"],)";
  TopologyMonitor heard_{{.set = "set", .alone = false, .tls = false}};
};

// The driver calls these from C.
TEST_F(TopologyMonitorTest, AReportWithoutMemoryIsDroppedAndTheNextIsHeard) {
  is_primary("a:1");
  const std::string host(100, 'h');
  const std::string why(1000, 'w');
  const Bson reply(kOfSet + R"("isWritablePrimary":false,"secondary":true})");
  no_memory = true;
  heard_.said(host, reply.view());
  heard_.failed(host, why);
  heard_.failed("a:1", why);
  heard_.sessions_ended();
  no_memory = false;
  EXPECT_EQ(heard_.advice(kWaited), "");
  heard_.failed("a:1", "connection closed");
  EXPECT_THAT(heard_.advice(kWaited), HasSubstr("elect a primary"));
}

TEST_F(TopologyMonitorTest, OnlyWhereThereIsNoSetIsOneToBeMade) {
  says("a:1", R"({"isreplicaset":true,"isWritablePrimary":false})");
  EXPECT_THAT(heard_.advice(kWaited), HasSubstr("a:1 waits for its set to be made: rs.initiate()"));
  is_secondary("b:1");
  EXPECT_THAT(heard_.advice(kWaited), Not(HasSubstr("rs.initiate")));
  EXPECT_THAT(heard_.advice(kWaited), HasSubstr("elect a primary"));
}

TEST_F(TopologyMonitorTest, AnElectionIsNamedWhereNobodyLeadsAndItMayTakeLonger) {
  is_primary("a:1");
  is_secondary("b:1");
  EXPECT_EQ(heard_.advice(kWaited), "");
  heard_.failed("a:1", "connection closed");
  EXPECT_THAT(heard_.advice(kWaited),
              HasSubstr("about 12 s to elect a primary, as electionTimeoutMillis is 10 s unless "
                        "rs.conf() says otherwise, and this call waited 5 s"));
  EXPECT_EQ(heard_.advice(seconds{12}), "");
  is_primary("b:1");
  EXPECT_EQ(heard_.advice(kWaited), "");
}

// The driver asks it under the name that the set has, and no more under that of the URL.
TEST_F(TopologyMonitorTest, AHostByAnotherNameDoesNotLeadForEver) {
  is_primary("localhost:1");
  is_primary("a:1");
  is_secondary("a:1");
  EXPECT_THAT(heard_.advice(kWaited), HasSubstr("elect a primary"));
}

TEST_F(TopologyMonitorTest, AnElectionTakesWhatTheConfigurationOfTheSetSays) {
  is_secondary("a:1");
  const Bson config(R"({"config":{"_id":"set","settings":{"electionTimeoutMillis":2000}},"ok":1})");
  heard_.configured(config.view());
  EXPECT_THAT(heard_.advice(std::chrono::milliseconds{1500}),
              HasSubstr("about 4 s to elect a primary, as electionTimeoutMillis is 2 s, and this "
                        "call waited 1.5 s"));
  EXPECT_EQ(heard_.advice(kWaited), "") << "it waited longer than that";
  const Bson none(R"({"config":{"_id":"set"},"ok":1})");
  heard_.configured(none.view());
  EXPECT_THAT(heard_.advice(seconds{1}), HasSubstr("is 2 s")) << "as before";
}

}  // namespace
}  // namespace idmint::stores::mongodb
