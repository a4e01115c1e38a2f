// The properties that set this host and this process apart from others: hardware addresses, and the
// numbers that formats make of them. Nothing coordinates them, so ids that rest on them are
// `practical`. The exceptions are worker ids that an operator assigns: by a variable, a host name
// or an IP address.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/entropy.h"
#include "idmint/result.h"

namespace idmint {

// A 48-bit IEEE 802 address.
using HardwareAddress = std::array<std::uint8_t, 6>;

// Of the network interfaces of this host, in ascending order, without loopback, all-zero and
// repeated ones; empty where there are none (containers without a network).
[[nodiscard]] IDMINT_EXPORT std::vector<HardwareAddress> hardware_addresses();

// The one of them that stands for this host: the first that its maker gave, because those that
// software gave (of containers, bridges, virtual machines) may be the same on many hosts; or else
// the first. Nothing where there are none.
[[nodiscard]] IDMINT_EXPORT std::optional<HardwareAddress> host_address();

struct ProcessIdentity {
  std::uint32_t machine = 0;  // 24 bits
  std::uint16_t process = 0;
};

// As rs/xid has it: XID_MACHINE_ID if that is a number of 0 to 16777215, else the first three bytes
// of the SHA-256 of the platform's id (/etc/machine-id, or else the firmware's) or else of the host
// name; the process id, exclusive or the CRC-32 of /proc/self/cpuset where the kernel has it.
[[nodiscard]] IDMINT_EXPORT ProcessIdentity xid_identity();
// As ObjectIds had it before 2018: the last three bytes of the SHA-256 of host_address(), or of the
// host name where there is none; the low 16 bits of the process id.
[[nodiscard]] IDMINT_EXPORT ProcessIdentity classic_object_id_identity();

// The worker id of `bits` bits that the classic sequence generator, a Java program, has on this
// host: the hardware addresses of the interfaces that have an IP address, in the order in which
// Java lists them, in upper-case hexadecimal, joined, Java's String.hashCode, its low bits. Without
// such an interface it is drawn from `entropy`. It changes when an interface gets its first IP
// address or loses its last one: when a container starts, a VPN ends, a cable is pulled. At least
// two of n hosts with one address each share a worker id with odds_of_shared_worker(n, bits). With
// up to eight consecutive addresses each, the odds are at most those of (n, bits - 2). REQUIRES: 0
// <= bits <= 31.
[[nodiscard]] IDMINT_EXPORT std::uint32_t worker_from_hardware(int bits,
                                                               Entropy& entropy = system_entropy());

// The worker ids here are numbers of `bits` bits that somebody else has dealt out; each is unique
// if configured so. kFailedPrecondition: there is none on this host, or it takes more bits; the
// message has what there is, and what to do. REQUIRES: 0 <= bits <= 31.

// The number in an environment variable.
[[nodiscard]] IDMINT_EXPORT Result<std::uint32_t> worker_from_environment(
    const std::string& variable, int bits);

// N where the host name is NAME-N, or NAME-N.DOMAIN: the ordinal of a pod of a Kubernetes
// StatefulSet. Unique among the pods of one StatefulSet. Refused: N with leading zeros; ip-A-B-C-D,
// which is an address and no ordinal.
[[nodiscard]] IDMINT_EXPORT Result<std::uint32_t> worker_from_ordinal(int bits);

struct AddressWorker {
  std::uint32_t worker = 0;
  std::string address{};  // "10.0.3.7/24"
  std::string block{};    // "10.0.0.0/22": the addresses that can be told apart by so many bits
};

// The low bits of the IP address of a network interface, or where none is named, of the one with
// the default route, or of the only one. Its IPv4 address, or where it has none its IPv6 address,
// loopback and link-local ones apart. Unique among hosts within the block, which holds the host's
// whole subnet: one with more addresses is refused. So is an interface with several addresses.
[[nodiscard]] IDMINT_EXPORT Result<AddressWorker> worker_from_address(
    int bits, std::string_view interface = {});

// The odds that at least two of n hosts that draw from 2^bits worker ids share one, exactly:
// 1 - (1 - 1/2^bits)(1 - 2/2^bits)... REQUIRES: 0 <= bits <= 31.
[[nodiscard]] IDMINT_EXPORT double odds_of_shared_worker(std::uint64_t hosts, int bits) noexcept;

}  // namespace idmint
