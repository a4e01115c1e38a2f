#include "idmint/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/host_facts.h"

namespace idmint {
namespace {

constexpr std::uint32_t kMachineMask = 0xff'ffff;
constexpr int kMostWorkerBits = 31;

// Three bytes, from `at` on, of the SHA-256 of the machine's identity.
std::uint32_t machine_of(std::span<const std::byte> known_by, std::size_t at, Entropy& entropy) {
  const Result<DigestBytes> hash = digest_of(Digest::kSha256, {known_by});
  if (known_by.empty() || !hash) return static_cast<std::uint32_t>(entropy.draw()) & kMachineMask;
  const std::uint8_t* const bytes = hash->data() + at;
  return std::uint32_t{bytes[0]} << 16 | std::uint32_t{bytes[1]} << 8 | bytes[2];
}

std::string read_file(const char* path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // an iterator would throw if it cannot be read
  return text.str();
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  return name;
}

std::vector<detail::InterfaceAddress> ip_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  const auto bytes_of = [](const sockaddr* address) {
    sockaddr_in v4;
    sockaddr_in6 v6;
    std::vector<std::uint8_t> bytes;
    if (address->sa_family == AF_INET) {
      std::memcpy(&v4, address, sizeof v4);
      bytes.resize(sizeof v4.sin_addr);
      std::memcpy(bytes.data(), &v4.sin_addr, bytes.size());
    } else {
      std::memcpy(&v6, address, sizeof v6);
      bytes.resize(sizeof v6.sin6_addr);
      std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    }
    return bytes;
  };
  std::vector<detail::InterfaceAddress> addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_netmask == nullptr || (i->ifa_flags & IFF_UP) == 0)
      continue;
    if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) continue;
    int prefix = 0;
    for (const std::uint8_t byte : bytes_of(i->ifa_netmask)) prefix += std::popcount(byte);
    addresses.push_back({i->ifa_name, bytes_of(i->ifa_addr), prefix});
  }
  return addresses;
}

// The interface of each IPv4 address, in the order of the kernel's list of them.
std::vector<std::string> ipv4_interfaces(int socket) {
  ifconf list{};
  if (::ioctl(socket, SIOCGIFCONF, &list) != 0) return {};
  std::vector<ifreq> addresses(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq));
  list.ifc_req = addresses.data();
  if (::ioctl(socket, SIOCGIFCONF, &list) != 0) return {};
  addresses.resize(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq));
  std::vector<std::string> interfaces;
  for (const ifreq& address : addresses) interfaces.emplace_back(address.ifr_name);
  return interfaces;
}

std::vector<HardwareAddress> java_addresses() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  std::vector<HardwareAddress> addresses;
  for (const std::string& interface :
       detail::java_interfaces(ipv4_interfaces(socket), read_file("/proc/net/if_inet6"))) {
    ifreq request{};
    interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
    if (::ioctl(socket, SIOCGIFHWADDR, &request) != 0) continue;
    HardwareAddress address;
    std::memcpy(address.data(), request.ifr_hwaddr.sa_data, address.size());
    if (address != HardwareAddress{}) addresses.push_back(address);
  }
  ::close(socket);
  return addresses;
}

std::optional<std::uint32_t> whole_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc{} || end != text.end()) return std::nullopt;
  return number;
}

// The format of XID_MACHINE_ID: a decimal number of 24 bits.
std::optional<std::uint32_t> machine_number(std::string_view text) {
  const std::optional<std::uint32_t> number = whole_number(text);
  return number && *number <= kMachineMask ? number : std::nullopt;
}

// ---- worker ids that somebody has dealt out

std::unexpected<Error> lacking(std::string message) {
  return std::unexpected(Error{Code::kFailedPrecondition, std::move(message)});
}

std::uint32_t most_of(int bits) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
}

// "3" of "web-3" and of "web-3.pods.example.com".
std::string_view ordinal_text(std::string_view host_name) {
  const std::string_view name = host_name.substr(0, host_name.find('.'));
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return {};
  const std::string_view digits = name.substr(dash + 1);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return {};
  return digits.size() > 1 && digits[0] == '0' ? std::string_view{} : digits;
}

// "ip-10-0-3-7", a host name that clouds assign.
bool is_address_name(std::string_view host_name) {
  const std::string_view name = host_name.substr(0, host_name.find('.'));
  return name.starts_with("ip-") && std::ranges::count(name, '-') == 4 &&
         name.find_first_not_of("0123456789-", 3) == std::string_view::npos;
}

using detail::HostFacts;
using detail::InterfaceAddress;

// False for loopback, link-local and unspecified addresses, which many hosts have.
bool tells_hosts_apart(const InterfaceAddress& address) {
  const std::span<const std::uint8_t> b(address.bytes);
  if (b.size() == 4) return b[0] != 0 && b[0] != 127 && !(b[0] == 169 && b[1] == 254);
  const bool all_but_last_zero = std::ranges::all_of(b.first(15), [](auto x) { return x == 0; });
  return !(all_but_last_zero && b[15] <= 1) && !(b[0] == 0xfe && (b[1] & 0xc0) == 0x80);
}

// "10.0.3.7/24"
std::string text_of(std::span<const std::uint8_t> bytes, int prefix) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return std::string(text) + "/" + std::to_string(prefix);
}

struct DefaultRoute {
  std::string interface;
  std::uint32_t metric = 0;
};

// The columns of a line. IPv4: interface 0, destination 1, flags 3, metric 6, mask 7. IPv6:
// destination 0, its prefix 1, metric 5, flags 8, interface 9.
std::vector<DefaultRoute> default_routes(const HostFacts& facts) {
  constexpr unsigned long kUp = 1;
  constexpr unsigned long kReject = 0x200;
  const auto number = [](const std::string& text, int base) {
    return std::strtoul(text.c_str(), nullptr, base);
  };
  const auto read = [](const std::string& table, std::size_t width, const auto& use) {
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      const std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
      if (columns.size() >= width) use(columns);
    }
  };
  std::vector<DefaultRoute> routes;
  const auto add = [&](const std::string& interface, unsigned long flags, unsigned long metric) {
    if ((flags & kUp) == 0 || (flags & kReject) != 0) return;
    routes.push_back({interface, static_cast<std::uint32_t>(metric)});
  };
  read(facts.ipv4_routes, 8, [&](const std::vector<std::string>& c) {
    if (c[1] == "00000000" && c[7] == "00000000") add(c[0], number(c[3], 16), number(c[6], 10));
  });
  if (!routes.empty()) return routes;
  read(facts.ipv6_routes, 10, [&](const std::vector<std::string>& c) {
    if (c[0] == std::string(32, '0') && c[1] == "00") add(c[9], number(c[8], 16), number(c[5], 16));
  });
  return routes;
}

std::string joined(std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The interface of the best default route, or else the only one with an address.
Result<std::string> default_interface(const HostFacts& facts) {
  const std::vector<DefaultRoute> routes = default_routes(facts);
  std::vector<std::string> names;
  const auto best = std::ranges::min_element(routes, {}, &DefaultRoute::metric);
  for (const DefaultRoute& route : routes) {
    if (route.metric == best->metric) names.push_back(route.interface);
  }
  if (routes.empty()) {
    for (const InterfaceAddress& address : facts.ip_addresses) {
      if (tells_hosts_apart(address)) names.push_back(address.interface);
    }
  }
  std::string text = joined(names);
  if (text.empty()) {
    return lacking(
        "this host has no IP address but loopback and link-local ones, which other hosts have too: "
        "give a worker id of another origin");
  }
  if (text.find(',') == std::string::npos) return text;
  return lacking("which IP address is meant is not clear, as " + text +
                 (routes.empty() ? " have one each and there is no default route"
                                 : " have default routes of the same metric") +
                 ": name an interface, as address:" + names.front());
}

}  // namespace

namespace detail {

HostFacts host_facts() {
  const char* const variable = std::getenv("XID_MACHINE_ID");
  HostFacts facts{.addresses = hardware_addresses(),
                  .java_addresses = java_addresses(),
                  .ip_addresses = ip_addresses(),
                  .ipv4_routes = read_file("/proc/net/route"),
                  .ipv6_routes = read_file("/proc/net/ipv6_route"),
                  .host_name = host_name(),
                  .platform_id = read_file("/etc/machine-id"),
                  .cpuset = read_file("/proc/self/cpuset"),
                  .xid_machine_id = variable == nullptr ? "" : variable,
                  .process = static_cast<std::uint32_t>(::getpid())};
  if (facts.platform_id.empty()) facts.platform_id = read_file("/sys/class/dmi/id/product_uuid");
  return facts;
}

std::vector<std::string> java_interfaces(std::span<const std::string> ipv4,
                                         const std::string& if_inet6) {
  std::vector<std::string> interfaces;
  const auto add = [&](const std::string& label) {
    std::string name = label.substr(0, label.find(':'));
    if (std::ranges::find(interfaces, name) == interfaces.end()) {
      interfaces.insert(interfaces.begin(), std::move(name));
    }
  };
  std::ranges::for_each(ipv4, add);
  std::istringstream lines(if_inet6);
  for (std::string line; std::getline(lines, line);) add(line.substr(line.rfind(' ') + 1));
  return interfaces;
}

std::optional<HardwareAddress> host_address(std::span<const HardwareAddress> addresses) {
  if (addresses.empty()) return std::nullopt;
  constexpr std::uint8_t kLocallyAdministered = 2;
  const auto made = std::ranges::find_if(
      addresses, [](const HardwareAddress& a) { return (a[0] & kLocallyAdministered) == 0; });
  return made == addresses.end() ? addresses.front() : *made;
}

ProcessIdentity xid_identity(const HostFacts& facts, Entropy& entropy) {
  ProcessIdentity identity;
  const std::string& named = facts.platform_id.empty() ? facts.host_name : facts.platform_id;
  if (const auto number = machine_number(facts.xid_machine_id)) {
    identity.machine = *number;
  } else {
    identity.machine = machine_of(std::as_bytes(std::span(named)), 0, entropy);
  }
  // In a container the process id is often 1; the cpuset then distinguishes processes.
  const std::uint32_t mixed = facts.cpuset.size() > 1 ? crc32(facts.cpuset) : 0;
  identity.process = static_cast<std::uint16_t>(facts.process ^ mixed);
  return identity;
}

ProcessIdentity classic_object_id_identity(const HostFacts& facts, Entropy& entropy) {
  constexpr std::size_t kLastThree = 29;
  const std::optional<HardwareAddress> address = host_address(facts.addresses);
  const std::span<const std::byte> known_by =
      address ? std::as_bytes(std::span(*address)) : std::as_bytes(std::span(facts.host_name));
  return {.machine = machine_of(known_by, kLastThree, entropy),
          .process = static_cast<std::uint16_t>(facts.process)};
}

std::uint32_t worker_from_hardware(std::span<const HardwareAddress> addresses, int bits,
                                   Entropy& entropy) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  for (const HardwareAddress& address : addresses) {
    for (const std::uint8_t byte : address) {
      text += digits[byte >> 4];
      text += digits[byte & 15];
    }
  }
  const std::uint32_t hash =
      text.empty() ? static_cast<std::uint32_t>(entropy.draw()) : java_hash_code(text);
  return hash & static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
}

Result<std::uint32_t> worker_from_ordinal(const HostFacts& facts, int bits) {
  const std::string& name = facts.host_name;
  const std::string quoted = "the host name \"" + name + "\"";
  if (is_address_name(name)) {
    return lacking(quoted +
                   " ends in a part of an address, and not in an ordinal: take the address "
                   "instead, or give a number");
  }
  const std::string_view text = ordinal_text(name);
  if (text.empty()) {
    return lacking(quoted +
                   " has no ordinal at its end, like web-3 of a StatefulSet: give a worker id of "
                   "another origin");
  }
  const std::optional<std::uint32_t> ordinal = whole_number(text);
  if (ordinal && *ordinal <= most_of(bits)) return *ordinal;
  return lacking("the ordinal of " + quoted + " is past " + std::to_string(most_of(bits)) +
                 ", the last worker id of the layout: take one with more bits of worker id, or "
                 "fewer pods");
}

Result<AddressWorker> worker_from_address(const HostFacts& facts, int bits,
                                          std::string_view interface) {
  Result<std::string> name = interface.empty() ? default_interface(facts) : std::string(interface);
  if (!name) return std::unexpected(std::move(name.error()));
  std::vector<InterfaceAddress> found;  // IPv4 addresses, if there are any
  for (const std::size_t size : {4U, 16U}) {
    if (!found.empty()) break;
    std::ranges::copy_if(facts.ip_addresses, std::back_inserter(found),
                         [&](const InterfaceAddress& address) {
                           return address.interface == *name && address.bytes.size() == size &&
                                  tells_hosts_apart(address);
                         });
  }
  if (found.empty()) {
    return lacking("the interface " + *name +
                   " has no IP address but loopback and link-local ones, which other hosts have "
                   "too: name another, or give a worker id of another origin");
  }
  if (found.size() > 1) {
    std::vector<std::string> texts;
    for (const InterfaceAddress& each : found) texts.push_back(text_of(each.bytes, each.prefix));
    return lacking("the interface " + *name + " has several addresses, " + joined(texts) +
                   ": give the worker id as a number, or name an interface with one address");
  }
  const InterfaceAddress& address = found.front();
  AddressWorker worker{.address = text_of(address.bytes, address.prefix)};
  const int width = 8 * static_cast<int>(address.bytes.size());
  if (address.prefix < width - bits) {
    const int needed = width - address.prefix;
    return lacking(
        "the subnet of " + worker.address + " on " + *name + " has more addresses than " +
        std::to_string(bits) + " bits of worker id tell apart: " +
        (needed > kMostWorkerBits ? "" : "take a layout with " + std::to_string(needed) + ", or ") +
        "give a worker id of another origin");
  }
  std::vector<std::uint8_t> block = address.bytes;
  for (int bit = 0; bit < bits; ++bit) {
    std::uint8_t& byte = block[block.size() - 1 - static_cast<std::size_t>(bit / 8)];
    const auto mask = static_cast<std::uint8_t>(1U << bit % 8);
    if ((byte & mask) != 0) worker.worker |= 1U << bit;
    byte &= static_cast<std::uint8_t>(~mask);
  }
  worker.block = text_of(block, width - bits);
  return worker;
}

std::uint32_t java_hash_code(std::string_view text) noexcept {
  std::uint32_t hash = 0;
  for (const char c : text) hash = 31 * hash + static_cast<unsigned char>(c);
  return hash;
}

std::uint32_t crc32(std::string_view text) noexcept {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb8'8320 : 0);
  }
  return ~crc;
}

}  // namespace detail

std::vector<HardwareAddress> hardware_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<HardwareAddress> addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_PACKET) continue;
    if ((i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_ll link;
    std::memcpy(&link, i->ifa_addr, sizeof link);
    HardwareAddress address;
    if (link.sll_halen != address.size()) continue;
    std::memcpy(address.data(), link.sll_addr, address.size());
    if (address != HardwareAddress{}) addresses.push_back(address);
  }
  std::ranges::sort(addresses);
  const auto repeated = std::ranges::unique(addresses);
  addresses.erase(repeated.begin(), repeated.end());
  return addresses;
}

Result<std::uint32_t> worker_from_environment(const std::string& variable, int bits) {
  const char* const text = std::getenv(variable.c_str());
  const std::string range = "a worker id of 0 to " + std::to_string(most_of(bits));
  if (text == nullptr || *text == '\0') {
    return lacking("the environment variable " + variable + " is not set: set it to " + range);
  }
  const std::optional<std::uint32_t> number = whole_number(text);
  if (number && *number <= most_of(bits)) return *number;
  return lacking("the environment variable " + variable + " is \"" +
                 std::string(text).substr(0, 40) + "\": set it to " + range);
}

Result<std::uint32_t> worker_from_ordinal(int bits) {
  return detail::worker_from_ordinal(detail::host_facts(), bits);
}

Result<AddressWorker> worker_from_address(int bits, std::string_view interface) {
  return detail::worker_from_address(detail::host_facts(), bits, interface);
}

std::optional<HardwareAddress> host_address() { return detail::host_address(hardware_addresses()); }

ProcessIdentity xid_identity() {
  return detail::xid_identity(detail::host_facts(), system_entropy());
}

ProcessIdentity classic_object_id_identity() {
  return detail::classic_object_id_identity(detail::host_facts(), system_entropy());
}

std::uint32_t worker_from_hardware(int bits, Entropy& entropy) {
  return detail::worker_from_hardware(java_addresses(), bits, entropy);
}

// 1 - (1 - 1/m)(1 - 2/m)..., computed as a sum of logarithms to keep the digits of small odds. For
// a large number of hosts the loop ends early, when the odds round to 1.
double odds_of_shared_worker(std::uint64_t hosts, int bits) noexcept {
  const std::uint64_t workers = std::uint64_t{1} << bits;
  if (hosts > workers) return 1;
  constexpr double kNone = -40;  // e^-40 is less than half the distance from 1 to the next double
  double log_of_none = 0;
  for (std::uint64_t i = 1; i < hosts && log_of_none > kNone; ++i) {
    log_of_none += std::log1p(-static_cast<double>(i) / static_cast<double>(workers));
  }
  return 0 - std::expm1(log_of_none);  // not -0.0
}

}  // namespace idmint
