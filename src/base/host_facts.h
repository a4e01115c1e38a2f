// Properties that identify hosts and processes, and the numbers that formats derive from them.
// Reading is separate from deriving, so that tests can inject facts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/entropy.h"
#include "idmint/host.h"
#include "idmint/result.h"

namespace idmint::detail {

// An IP address of a network interface.
struct InterfaceAddress {
  std::string interface{};
  std::vector<std::uint8_t> bytes{};  // 4 or 16, in network byte order
  int prefix = 0;                     // the number of bits that all hosts of its subnet share
};

// Facts that cannot be read are empty.
struct HostFacts {
  std::vector<HardwareAddress> addresses{};
  std::vector<HardwareAddress> java_addresses{};  // those of java_interfaces(), with repetitions
  std::vector<InterfaceAddress> ip_addresses{};
  std::string ipv4_routes{};  // /proc/net/route, verbatim
  std::string ipv6_routes{};  // /proc/net/ipv6_route, verbatim
  std::string host_name{};
  std::string platform_id{};     // /etc/machine-id, or else the firmware's product_uuid, verbatim
  std::string cpuset{};          // /proc/self/cpuset, verbatim
  std::string xid_machine_id{};  // the variable XID_MACHINE_ID
  std::uint32_t process = 0;
};

[[nodiscard]] HostFacts host_facts();

// The interfaces that Java's NetworkInterface.getNetworkInterfaces() lists on Linux, in its order.
// Java lists interfaces with an IP address, up or down: it reads the interface of each IPv4 address
// (`ipv4`), then of each line of /proc/net/if_inet6, and puts each new one in front. The label
// "eth0:1" means eth0.
[[nodiscard]] std::vector<std::string> java_interfaces(std::span<const std::string> ipv4,
                                                       const std::string& if_inet6);

[[nodiscard]] std::optional<HardwareAddress> host_address(
    std::span<const HardwareAddress> addresses);
// If nothing is known of a machine, or OpenSSL has no SHA-256, its number is drawn from `entropy`.
[[nodiscard]] ProcessIdentity xid_identity(const HostFacts& facts, Entropy& entropy);
[[nodiscard]] ProcessIdentity classic_object_id_identity(const HostFacts& facts, Entropy& entropy);
[[nodiscard]] std::uint32_t worker_from_hardware(std::span<const HardwareAddress> addresses,
                                                 int bits, Entropy& entropy);
[[nodiscard]] Result<std::uint32_t> worker_from_ordinal(const HostFacts& facts, int bits);
[[nodiscard]] Result<AddressWorker> worker_from_address(const HostFacts& facts, int bits,
                                                        std::string_view interface);

// Java's String.hashCode of ASCII text.
[[nodiscard]] std::uint32_t java_hash_code(std::string_view text) noexcept;
// CRC-32 of IEEE 802.3, as in zlib.
[[nodiscard]] std::uint32_t crc32(std::string_view text) noexcept;

}  // namespace idmint::detail
