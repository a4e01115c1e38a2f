#include "idmint/host.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/host_facts.h"

namespace idmint {
namespace {

constexpr std::uint32_t kMachineMask = 0xff'ffff;

// Three bytes of the SHA-256 of what the machine is known by, from `at` on.
std::uint32_t machine_of(std::span<const std::byte> known_by, std::size_t at, Entropy& entropy) {
  const Result<DigestBytes> hash = digest_of(Digest::kSha256, {known_by});
  if (known_by.empty() || !hash) return static_cast<std::uint32_t>(entropy.draw()) & kMachineMask;
  const std::uint8_t* const bytes = hash->data() + at;
  return std::uint32_t{bytes[0]} << 16 | std::uint32_t{bytes[1]} << 8 | bytes[2];
}

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  return name;
}

// As XID_MACHINE_ID has to be: a decimal number of 24 bits.
std::optional<std::uint32_t> machine_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [parsed, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc{} || parsed != text.end() || number > kMachineMask) return std::nullopt;
  return number;
}

}  // namespace

namespace detail {

HostFacts host_facts() {
  const char* const variable = std::getenv("XID_MACHINE_ID");
  HostFacts facts{.addresses = hardware_addresses(),
                  .host_name = host_name(),
                  .platform_id = read_file("/etc/machine-id"),
                  .cpuset = read_file("/proc/self/cpuset"),
                  .xid_machine_id = variable == nullptr ? "" : variable,
                  .process = static_cast<std::uint32_t>(::getpid())};
  if (facts.platform_id.empty()) facts.platform_id = read_file("/sys/class/dmi/id/product_uuid");
  return facts;
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
  // In a container the process is often number 1; its cpuset then tells it from others.
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

std::optional<HardwareAddress> host_address() { return detail::host_address(hardware_addresses()); }

ProcessIdentity xid_identity() {
  return detail::xid_identity(detail::host_facts(), system_entropy());
}

ProcessIdentity classic_object_id_identity() {
  return detail::classic_object_id_identity(detail::host_facts(), system_entropy());
}

std::uint32_t worker_from_hardware(int bits, Entropy& entropy) {
  return detail::worker_from_hardware(hardware_addresses(), bits, entropy);
}

// 1 - (1 - 1/m)(1 - 2/m)...: as a sum of logarithms, so that small odds keep their digits. Long
// before there are as many terms as hosts of a large number, no odds are left of not sharing.
double odds_of_shared_worker(std::uint64_t hosts, int bits) noexcept {
  const std::uint64_t workers = std::uint64_t{1} << bits;
  if (hosts > workers) return 1;
  constexpr double kNone = -40;  // e^-40 is less than half the distance from 1 to its neighbour
  double log_of_none = 0;
  for (std::uint64_t i = 1; i < hosts && log_of_none > kNone; ++i) {
    log_of_none += std::log1p(-static_cast<double>(i) / static_cast<double>(workers));
  }
  return -std::expm1(log_of_none);
}

}  // namespace idmint
