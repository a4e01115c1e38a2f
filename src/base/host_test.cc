#include "idmint/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/host_facts.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::ScriptedEntropy;

constexpr HardwareAddress kA = {0x00, 0x1b, 0x21, 0x3c, 0x4d, 0x5e};
constexpr HardwareAddress kB = {0x02, 0x42, 0xac, 0x11, 0x00, 0x02};  // locally administered

TEST(HardwareAddresses, AreInOrderWithoutLoopbackAndRepeats) {
  const std::vector<HardwareAddress> found = hardware_addresses();
  EXPECT_TRUE(std::ranges::is_sorted(found));
  EXPECT_EQ(std::ranges::adjacent_find(found), found.end());
  EXPECT_FALSE(std::ranges::binary_search(found, HardwareAddress{}));
}

// The kernel's other list of them.
TEST(HardwareAddresses, AreThoseOfTheInterfacesOfThisHost) {
  const std::filesystem::path interfaces = "/sys/class/net";
  if (!std::filesystem::is_directory(interfaces)) GTEST_SKIP() << "there is no " << interfaces;
  std::set<HardwareAddress> expected;
  for (const auto& interface : std::filesystem::directory_iterator(interfaces)) {
    std::string text;
    std::getline(std::ifstream(interface.path() / "address"), text);
    std::string flags;
    std::getline(std::ifstream(interface.path() / "flags"), flags);
    const bool loopback = (std::strtoul(flags.c_str(), nullptr, 16) & 8) != 0;
    std::array<unsigned, 6> bytes{};
    if (loopback || text.size() != 17 ||
        std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x", &bytes[0], &bytes[1], &bytes[2],
                    &bytes[3], &bytes[4], &bytes[5]) != 6) {
      continue;
    }
    HardwareAddress address;
    std::ranges::transform(bytes, address.begin(),
                           [](unsigned b) { return static_cast<std::uint8_t>(b); });
    if (address != HardwareAddress{}) expected.insert(address);
  }
  const std::vector<HardwareAddress> found = hardware_addresses();
  EXPECT_EQ(std::set<HardwareAddress>(found.begin(), found.end()), expected);
}

// Known values of Java.
TEST(JavaHashCode, IsJavas) {
  EXPECT_EQ(detail::java_hash_code(""), 0U);
  EXPECT_EQ(detail::java_hash_code("a"), 97U);
  EXPECT_EQ(detail::java_hash_code("hello"), 99162322U);
  EXPECT_EQ(detail::java_hash_code("polygenelubricants"), 0x8000'0000U);
}

// The check value of the algorithm's definition.
TEST(Crc32, IsTheOneOfIeee) {
  EXPECT_EQ(detail::crc32("123456789"), 0xcbf4'3926U);
  EXPECT_EQ(detail::crc32(""), 0U);
}

TEST(WorkerFromHardware, HashesAllAddressesAsUpperCaseHex) {
  ScriptedEntropy entropy({0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0});
  const std::vector one = {kA};
  const std::vector both = {kA, kB};
  const std::uint32_t hash = detail::java_hash_code("001B213C4D5E");
  EXPECT_EQ(detail::worker_from_hardware(one, 31, entropy), hash & 0x7fff'ffff);
  EXPECT_EQ(detail::worker_from_hardware(one, 10, entropy), hash & 1023);
  EXPECT_EQ(detail::worker_from_hardware(both, 10, entropy),
            detail::java_hash_code("001B213C4D5E0242AC110002") & 1023);
  EXPECT_EQ(detail::worker_from_hardware(both, 0, entropy), 0U);
  EXPECT_EQ(entropy.draw() & 0xffff'ffff, 0xffff'ffffU) << "nothing was drawn until now";
}

// ---- the interfaces that Java lists; the expected orders are those of OpenJDK 17

using Interfaces = std::vector<std::string>;

TEST(JavaInterfaces, ThoseWithAnIpAddressTheLastOneFirst) {
  EXPECT_EQ(detail::java_interfaces({}, ""), Interfaces{});
  EXPECT_EQ(detail::java_interfaces(Interfaces{"lo", "eth0"}, ""), (Interfaces{"eth0", "lo"}));
  // Those with an IPv6 address alone come after, so that they are in front.
  const std::string if_inet6 =
      "00000000000000000000000000000001 01 80 10 80       lo\n"
      "fe80000000000000004200fffe000001 05 40 20 80    veth1\n"
      "fe80000000000000004200fffe000002 02 40 20 80     eth0\n";
  EXPECT_EQ(detail::java_interfaces(Interfaces{"lo", "eth0"}, if_inet6),
            (Interfaces{"veth1", "eth0", "lo"}));
}

TEST(JavaInterfaces, AreNamedOnceWithoutTheLabelsOfTheirAddresses) {
  EXPECT_EQ(detail::java_interfaces(Interfaces{"lo", "eth0", "eth0:1", "eth1:a", "eth0"}, ""),
            (Interfaces{"eth1", "eth0", "lo"}));
}

ifreq request_of(const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  return request;
}

bool add_interface(int socket, const char* name, std::uint8_t last_byte) {
  ifreq request = request_of(name);
  request.ifr_hwaddr.sa_family = 1;  // Ethernet
  request.ifr_hwaddr.sa_data[0] = 2;
  request.ifr_hwaddr.sa_data[5] = static_cast<char>(last_byte);
  return ::ioctl(socket, SIOCBRADDBR, name) == 0 && ::ioctl(socket, SIOCSIFHWADDR, &request) == 0;
}

bool set_ip_address(int socket, const char* name, std::uint32_t address) {
  ifreq request = request_of(name);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(address);
  std::memcpy(&request.ifr_addr, &in, sizeof in);
  return ::ioctl(socket, SIOCSIFADDR, &request) == 0;
}

bool take_down(int socket, const char* name) {
  ifreq request = request_of(name);
  return ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
}

constexpr int kNoNamespace = 77;

// In a network namespace of its own, so it runs in a child.
int worker_of_a_host_with_bridges() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return kNoNamespace;
  }
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto worker = [] { return worker_from_hardware(10); };
  const auto hash = [](const char* text) { return detail::java_hash_code(text) & 1023; };
  if (!add_interface(socket, "br0", 0x0a) || !add_interface(socket, "br1", 0x09)) {
    return kNoNamespace;
  }
  if (hardware_addresses().size() != 2) return 1;
  if (!set_ip_address(socket, "br0", 0x0a000001)) return 2;
  if (worker() != hash("02000000000A")) return 3;  // br1 has no IP address
  // An interface of a container or a VPN: with its IP address it counts, and comes first.
  if (!add_interface(socket, "br2", 0x08)) return 4;
  if (worker() != hash("02000000000A")) return 5;
  if (!set_ip_address(socket, "br2", 0x0a000101)) return 6;
  if (worker() != hash("02000000000802000000000A")) return 7;
  // Java lists an interface that is down if it has an IPv4 address.
  if (!take_down(socket, "br2")) return 8;
  if (worker() != hash("02000000000802000000000A")) return 9;
  if (!set_ip_address(socket, "br2", 0)) return 10;
  if (worker() != hash("02000000000A")) return 11;
  return 0;
}

TEST(WorkerFromHardware, CountsTheInterfacesThatHaveAnIpAddress) {
  const int failed = fakes::in_child(worker_of_a_host_with_bridges);
  if (failed == kNoNamespace) {
    GTEST_SKIP() << "no network namespace with bridges can be made here";
  }
  EXPECT_EQ(failed, 0) << "the step of worker_of_a_host_with_bridges() that failed";
}

TEST(WorkerFromHardware, IsDrawnWhereThereIsNoAddress) {
  ScriptedEntropy entropy({0x34, 0x12, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0x80, 0, 0, 0, 0});
  EXPECT_EQ(detail::worker_from_hardware({}, 10, entropy), 0x234U);
  EXPECT_EQ(detail::worker_from_hardware({}, 31, entropy), 0x1234U);
}

// Docker gives the first container of every host the address kB.
TEST(HostAddress, IsTheFirstThatItsMakerGaveOrElseTheFirst) {
  constexpr HardwareAddress kC = {0x3c, 0xec, 0xef, 0, 0, 1};
  using Addresses = std::vector<HardwareAddress>;
  EXPECT_EQ(detail::host_address(Addresses{kB, kC}), kC);
  EXPECT_EQ(detail::host_address(Addresses{kA, kB, kC}), kA);
  EXPECT_EQ(detail::host_address(Addresses{kB}), kB);
  EXPECT_EQ(detail::host_address({}), std::nullopt);
  EXPECT_EQ(host_address(), detail::host_address(hardware_addresses()));
}

TEST(WorkerFromHardware, IsTheSameEveryTime) {
  if (detail::host_facts().java_addresses.empty()) {
    GTEST_SKIP() << "this host has no interface with a hardware address and an IP address";
  }
  EXPECT_EQ(worker_from_hardware(10), worker_from_hardware(10));
  EXPECT_EQ(worker_from_hardware(10), worker_from_hardware(31) & 1023);
}

// ---- worker ids that somebody has dealt out

using testing::HasSubstr;

TEST(WorkerFromOrdinal, IsTheNumberAtTheEndOfThePodsName) {
  const auto of = [](const char* name, int bits = 10) {
    return detail::worker_from_ordinal({.host_name = name}, bits);
  };
  EXPECT_EQ(of("web-0"), 0U);
  EXPECT_EQ(of("web-3"), 3U);
  EXPECT_EQ(of("my-web-1023"), 1023U);
  EXPECT_EQ(of("web-3.pods.default.svc.cluster.local"), 3U);
  EXPECT_EQ(of("w-0", 0), 0U);
  EXPECT_EQ(of("w-2147483647", 31), 2147483647U);
  for (const char* const name : {"", "web", "web3", "web-", "-3", "web-03", "web-3a", "web-x",
                                 "web.example-3.com", "web--"}) {
    const auto refused = of(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(refused.error().message(), HasSubstr("no ordinal")) << name;
  }
  for (const char* const name : {"web-1024", "web-4294967296", "web-99999999999999999999"}) {
    ASSERT_FALSE(of(name)) << name;
    EXPECT_EQ(of(name).error().code, Code::kFailedPrecondition);
    EXPECT_THAT(of(name).error().message(), HasSubstr("past 1023")) << name;
  }
}

// A host of EC2 that is given its name so; the fourth byte alone tells few of them apart.
TEST(WorkerFromOrdinal, IsNoPartOfAnAddress) {
  const auto of = [](const char* name) {
    return detail::worker_from_ordinal({.host_name = name}, 10);
  };
  ASSERT_FALSE(of("ip-10-0-3-7"));
  EXPECT_THAT(of("ip-10-0-3-7").error().message(), HasSubstr("address"));
  EXPECT_FALSE(of("ip-10-0-3-7.ec2.internal"));
  EXPECT_EQ(of("ip-7"), 7U);
  EXPECT_EQ(of("ip-a-b-c-7"), 7U);
}

TEST(WorkerFromEnvironment, IsTheNumberInTheVariable) {
  const auto of = [](const char* value, int bits = 10) {
    ::setenv("IDMINT_TEST_WORKER", value, 1);
    return worker_from_environment("IDMINT_TEST_WORKER", bits);
  };
  EXPECT_EQ(of("0"), 0U);
  EXPECT_EQ(of("1023"), 1023U);
  for (const char* const value : {"1024", "-1", "", " 5", "5 ", "0x5", "4294967296", "five"}) {
    const auto refused = of(value);
    ASSERT_FALSE(refused) << value;
    EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(refused.error().message(), HasSubstr("IDMINT_TEST_WORKER"));
    EXPECT_THAT(refused.error().message(), HasSubstr("0 to 1023"));
  }
  ::unsetenv("IDMINT_TEST_WORKER");
  EXPECT_THAT(worker_from_environment("IDMINT_TEST_WORKER", 10).error().message(),
              HasSubstr("not set"));
}

using detail::InterfaceAddress;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* kRoutes =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth1\t00000000\t0101000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
    "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth2\t00000000\t0101A8C0\t0002\t0\t0\t1\t00000000\t0\t0\t0\n"  // down
    "eth3\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"  // half of all
    "eth3\t0003A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
constexpr const char* kIpv6Routes =
    "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth4\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000001 00000002 00000000 00200201       lo\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "fd000000000000000000000000000001 00000400 00000003 00000000 00000003     eth5\n";

const InterfaceAddress kLoopback{"lo", {127, 0, 0, 1}, 8};
const InterfaceAddress kEth0{"eth0", {192, 168, 5, 6}, 24};
const InterfaceAddress kEth1{"eth1", {10, 0, 1, 9}, 22};
const InterfaceAddress kLinkLocal{"eth0", {169, 254, 3, 4}, 16};

TEST(WorkerFromAddress, IsTheLowBitsOfTheAddressOfTheDefaultRoute) {
  const detail::HostFacts facts{.ip_addresses = {kLoopback, kEth1, kLinkLocal, kEth0},
                                .ipv4_routes = kRoutes};
  const auto found = detail::worker_from_address(facts, 10, "");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->worker, (5U * 256 + 6) & 1023);
  EXPECT_EQ(found->address, "192.168.5.6/24");
  EXPECT_EQ(found->block, "192.168.4.0/22");
  EXPECT_EQ(detail::worker_from_address(facts, 8, "")->worker, 6U);
  EXPECT_EQ(detail::worker_from_address(facts, 16, "")->worker, 5U * 256 + 6);
  EXPECT_EQ(detail::worker_from_address(facts, 31, "")->worker, 0x40a80506U);
  EXPECT_EQ(detail::worker_from_address(facts, 10, "eth1")->worker, 256U + 9);
}

TEST(WorkerFromAddress, WithoutADefaultRouteIsOfTheOnlyInterface) {
  const detail::HostFacts facts{.ip_addresses = {kLoopback, kEth1}};
  EXPECT_EQ(detail::worker_from_address(facts, 10, "")->worker, 256U + 9);
}

TEST(WorkerFromAddress, IsOfIpv6WhereThereIsNoIpv4) {
  Bytes bytes(16, 0);
  bytes[0] = 0xfd;
  bytes[14] = 0x12;
  bytes[15] = 0x34;
  Bytes link_local(16, 1);
  link_local[0] = 0xfe;
  link_local[1] = 0x80;
  detail::HostFacts facts{.ip_addresses = {kLoopback,
                                           {"eth5", link_local, 64},
                                           {"eth5", bytes, 112},
                                           {"eth4", bytes, 64}},
                          .ipv4_routes = "",
                          .ipv6_routes = kIpv6Routes};
  const auto found = detail::worker_from_address(facts, 16, "");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->worker, 0x1234U);
  EXPECT_EQ(found->address, "fd00::1234/112");
  EXPECT_EQ(found->block, "fd00::/112");
  // A subnet of so many addresses that no layout has enough bits.
  const auto wide = detail::worker_from_address(facts, 16, "eth4");
  ASSERT_FALSE(wide);
  EXPECT_THAT(wide.error().message(),
              HasSubstr("16 bits of worker id tell apart: give a worker id"));
  facts.ip_addresses.push_back({"eth5", {10, 0, 0, 1}, 24});
  EXPECT_EQ(detail::worker_from_address(facts, 10, "")->worker, 1U);
}

TEST(WorkerFromAddress, IsRefusedWhereItMayBeAnotherHostsToo) {
  const auto refused = [](const detail::HostFacts& facts, const char* interface, int bits = 10) {
    const auto found = detail::worker_from_address(facts, bits, interface);
    EXPECT_FALSE(found);
    if (found) return std::string();
    EXPECT_EQ(found.error().code, Code::kFailedPrecondition);
    return found.error().message();
  };
  const InterfaceAddress loopback6{"lo", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128};
  EXPECT_THAT(refused({}, ""), HasSubstr("no IP address"));
  EXPECT_THAT(refused({.ip_addresses = {kLoopback, loopback6, kLinkLocal}}, ""),
              HasSubstr("no IP address but loopback and link-local"));
  EXPECT_THAT(refused({.ip_addresses = {kLoopback, loopback6, kEth0}}, "lo"),
              HasSubstr("interface lo has no"));
  EXPECT_THAT(refused({.ip_addresses = {kEth0}}, "eth7"), HasSubstr("interface eth7 has no"));
  // Several that could be meant.
  EXPECT_THAT(refused({.ip_addresses = {kEth1, kEth0}}, ""),
              HasSubstr("eth0, eth1 have one each and there is no default route"));
  EXPECT_THAT(refused({.ip_addresses = {kEth0, {"eth0", {192, 168, 5, 7}, 24}}}, ""),
              HasSubstr("several addresses, 192.168.5.6/24, 192.168.5.7/24"));
  const std::string both =
      "eth1 00000000 0 0003 0 0 5 00000000 0\neth0 00000000 0 0003 0 0 5 00000000 0\n";
  EXPECT_THAT(refused({.ip_addresses = {kEth1, kEth0}, .ipv4_routes = both}, ""),
              HasSubstr("eth0, eth1 have default routes of the same metric"));
  // More addresses in the subnet than worker ids: 1024 are told apart by 10 bits, by 9 they are
  // not.
  EXPECT_TRUE(detail::worker_from_address({.ip_addresses = {kEth1}}, 10, "eth1"));
  EXPECT_THAT(refused({.ip_addresses = {kEth1}}, "eth1", 9),
              HasSubstr("10.0.1.9/22 on eth1 has more addresses than 9 bits of worker id tell "
                        "apart: take a layout with 10"));
}

TEST(WorkerFromAddress, OfThisHostIsTheLowBitsOfOneOfItsAddresses) {
  const auto found = worker_from_address(31);
  if (!found) {
    EXPECT_EQ(found.error().code, Code::kFailedPrecondition);
    return;
  }
  EXPECT_EQ(found->worker & 1023, worker_from_address(31)->worker & 1023);
  EXPECT_THAT(detail::host_facts().ip_addresses, testing::Not(testing::IsEmpty()));
}

// ---- identities

const detail::HostFacts kFacts{.addresses = {kA, kB},
                               .host_name = "db-1",
                               .platform_id = "abc",
                               .cpuset = "/\n",
                               .xid_machine_id = "",
                               .process = 0x12345};

detail::HostFacts with(auto change) {
  detail::HostFacts facts = kFacts;
  change(facts);
  return facts;
}

// SHA-256 of "abc" is ba7816bf...f20015ad, as FIPS 180-4 has it.
TEST(XidIdentity, IsOfThePlatformOrElseTheHostName) {
  ScriptedEntropy entropy({0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0});
  EXPECT_EQ(detail::xid_identity(kFacts, entropy).machine, 0xba7816U);
  const auto named = with([](auto& f) { f.platform_id = "", f.host_name = "abc"; });
  EXPECT_EQ(detail::xid_identity(named, entropy).machine, 0xba7816U);
  const auto unnamed = with([](auto& f) { f.platform_id = "", f.host_name = ""; });
  EXPECT_EQ(detail::xid_identity(unnamed, entropy).machine, 0x030201U);
}

TEST(XidIdentity, FollowsItsVariable) {
  ScriptedEntropy entropy;
  const auto machine = [&](const char* text) {
    return detail::xid_identity(with([&](auto& f) { f.xid_machine_id = text; }), entropy).machine;
  };
  EXPECT_EQ(machine("0"), 0U);
  EXPECT_EQ(machine("16777215"), 0xffffffU);
  for (const char* text : {"16777216", "-1", "12x", " 12", "x", "4294967296"}) {
    EXPECT_EQ(machine(text), 0xba7816U) << text;
  }
}

TEST(XidIdentity, MixesTheCpusetIntoTheProcess) {
  ScriptedEntropy entropy;
  EXPECT_EQ(detail::xid_identity(kFacts, entropy).process,
            static_cast<std::uint16_t>(0x12345 ^ detail::crc32("/\n")));
  for (const char* none : {"", "/"}) {
    const auto facts = with([&](auto& f) { f.cpuset = none; });
    EXPECT_EQ(detail::xid_identity(facts, entropy).process, 0x2345);
  }
}

TEST(ClassicObjectIdIdentity, IsOfAnAddressItsMakerGaveOrElseTheHostName) {
  ScriptedEntropy entropy({0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0});
  const auto machine = [&](std::vector<HardwareAddress> addresses, const char* name) {
    return detail::classic_object_id_identity(
               with([&](auto& f) { f.addresses = addresses, f.host_name = name; }), entropy)
        .machine;
  };
  EXPECT_EQ(machine({}, "abc"), 0x0015adU) << "the end of SHA-256(abc)";
  EXPECT_EQ(machine({kA}, "abc"), machine({kB, kA}, "abc"));
  EXPECT_NE(machine({kB}, "abc"), machine({kA}, "abc"));
  // sha256 of the bytes 00 1b 21 3c 4d 5e
  EXPECT_EQ(machine({kA}, "abc"), 0x367ae4U);
  EXPECT_EQ(machine({}, ""), 0x030201U);
  EXPECT_EQ(detail::classic_object_id_identity(kFacts, entropy).process, 0x2345);
}

TEST(Identities, OfThisProcessHaveItsNumber) {
  EXPECT_EQ(classic_object_id_identity().process, static_cast<std::uint16_t>(::getpid()));
  EXPECT_LE(classic_object_id_identity().machine, 0xffffffU);
  ::setenv("XID_MACHINE_ID", "77", 1);
  EXPECT_EQ(xid_identity().machine, 77U);
  ::unsetenv("XID_MACHINE_ID");
  EXPECT_EQ(xid_identity().machine, xid_identity().machine);
}

// ---- odds

double by_multiplying(std::uint64_t hosts, int bits) {
  long double none = 1;
  for (std::uint64_t i = 1; i < hosts; ++i) {
    none *= 1 - static_cast<long double>(i) / std::pow(2.0L, bits);
  }
  return static_cast<double>(1 - none);
}

TEST(OddsOfSharedWorker, AreExact) {
  EXPECT_EQ(odds_of_shared_worker(0, 10), 0);
  EXPECT_EQ(odds_of_shared_worker(1, 10), 0);
  EXPECT_DOUBLE_EQ(odds_of_shared_worker(2, 10), 1.0 / 1024);
  EXPECT_DOUBLE_EQ(odds_of_shared_worker(2, 31), std::pow(2.0, -31));
  EXPECT_EQ(odds_of_shared_worker(1, 0), 0);
  EXPECT_EQ(odds_of_shared_worker(2, 0), 1);
  for (const int bits : {1, 5, 10, 16, 31}) {
    for (const std::uint64_t hosts : {2U, 3U, 10U, 40U, 100U, 1000U, 1024U}) {
      if (hosts > std::uint64_t{1} << bits) {
        EXPECT_EQ(odds_of_shared_worker(hosts, bits), 1);
      } else {
        EXPECT_NEAR(odds_of_shared_worker(hosts, bits), by_multiplying(hosts, bits), 1e-12);
      }
    }
  }
  // The problem of the birthdays, of a year of 2^9 days.
  EXPECT_NEAR(odds_of_shared_worker(27, 9), 0.5023, 0.0001);
}

// How many times as often as drawn ones two worker ids are equal, if hosts of one maker have this
// many consecutive addresses each. Counted among 100,000 hosts.
double times_as_often(std::uint32_t addresses, int bits) {
  constexpr int kHosts = 100'000;
  std::mt19937 random(7);  // NOLINT(*msc32-c,*msc51-cpp): the same hosts each time
  ScriptedEntropy entropy;
  std::vector<std::uint64_t> hosts(std::size_t{1} << bits);
  for (int host = 0; host < kHosts; ++host) {
    // A card of n ports begins at a multiple of n.
    const auto first = static_cast<std::uint32_t>(random() & 0xff'ffff) / addresses * addresses;
    std::vector<HardwareAddress> all;
    for (std::uint32_t i = addresses; i-- != 0;) {
      const std::uint32_t low = first + i;
      all.push_back({0x00, 0x1b, 0x21, static_cast<std::uint8_t>(low >> 16),
                     static_cast<std::uint8_t>(low >> 8), static_cast<std::uint8_t>(low)});
    }
    ++hosts[detail::worker_from_hardware(all, bits, entropy)];
  }
  double pairs = 0;
  for (const std::uint64_t n : hosts) pairs += static_cast<double>(n) * static_cast<double>(n - 1);
  return pairs / kHosts / (kHosts - 1) * static_cast<double>(hosts.size());
}

// As docs/formats.md has them.
TEST(WorkerFromHardware, OfSimilarHostsIsSharedUpToFourTimesAsOftenAsADrawnOne) {
  for (const int bits : {6, 10}) {
    EXPECT_NEAR(times_as_often(1, bits), 1.0, 0.05);
    EXPECT_NEAR(times_as_often(2, bits), 2.0, 0.1);
    EXPECT_NEAR(times_as_often(4, bits), 2.5, 0.15);
    EXPECT_NEAR(times_as_often(8, bits), 4.0, 0.2);
  }
}

TEST(OddsOfSharedWorker, OfVeryManyHostsAreOneWithoutCountingThem) {
  EXPECT_EQ(odds_of_shared_worker(std::uint64_t{1} << 31, 31), 1);
  EXPECT_EQ(odds_of_shared_worker(~std::uint64_t{0}, 31), 1);
  const double many = odds_of_shared_worker(100'000, 31);
  EXPECT_NEAR(many, 1 - std::exp(-1e5 * (1e5 - 1) / std::pow(2.0, 32)), 1e-5);
}

}  // namespace
}  // namespace idmint
