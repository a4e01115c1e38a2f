// What a host and a process are told apart by, and what formats make of it: apart from where it is
// read, so that a test can say what it is.
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
  std::vector<std::uint8_t> bytes{};  // 4 or 16, the first one first
  int prefix = 0;                     // how many bits the hosts of its subnet have in common
};

// What cannot be read is empty.
struct HostFacts {
  std::vector<HardwareAddress> addresses{};
  std::vector<InterfaceAddress> ip_addresses{};
  std::string ipv4_routes{};  // /proc/net/route, as it is
  std::string ipv6_routes{};  // /proc/net/ipv6_route, as it is
  std::string host_name{};
  std::string platform_id{};  // /etc/machine-id, or else the firmware's product_uuid, as they are
  std::string cpuset{};       // /proc/self/cpuset, as it is
  std::string xid_machine_id{};  // the variable XID_MACHINE_ID
  std::uint32_t process = 0;
};

[[nodiscard]] HostFacts host_facts();

[[nodiscard]] std::optional<HardwareAddress> host_address(
    std::span<const HardwareAddress> addresses);
// A machine that nothing is known of has a number drawn from `entropy`; so has every machine where
// OpenSSL has no SHA-256.
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
