// Properties that identify this host and this process: hardware addresses, and numbers that formats
// derive from them. Nothing coordinates them, so xids, classic ObjectIds, and worker ids from
// hardware addresses are `practical`. UUID nodes, and worker ids that an operator assigns (by a
// variable, a host name or an IP address), are unique if configured so.
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

// The addresses of the network interfaces of this host, ascending, without loopback, all-zero and
// repeated ones. Empty if there are none (a container without a network).
[[nodiscard]] IDMINT_EXPORT std::vector<HardwareAddress> hardware_addresses();

// The address that represents this host: the first one that its manufacturer assigned, or else the
// first one. Software (containers, bridges, virtual machines) may assign the same address on many
// hosts. Nothing if there are none.
[[nodiscard]] IDMINT_EXPORT std::optional<HardwareAddress> host_address();

struct ProcessIdentity {
  std::uint32_t machine = 0;  // 24 bits
  std::uint16_t process = 0;
};

// As in rs/xid. machine: XID_MACHINE_ID if it is a number of 0 to 16777215; otherwise the first
// three bytes of the SHA-256 of the platform's id (/etc/machine-id, or else the firmware's), or
// else of the host name. process: the process id, XORed with the CRC-32 of /proc/self/cpuset if the
// kernel has it.
[[nodiscard]] IDMINT_EXPORT ProcessIdentity xid_identity();
// As in ObjectIds before 2018. machine: the last three bytes of the SHA-256 of host_address(), or
// else of the host name. process: the low 16 bits of the process id.
[[nodiscard]] IDMINT_EXPORT ProcessIdentity classic_object_id_identity();

// The worker id of `bits` bits that the classic sequence generator, a Java program, has on this
// host. It takes the hardware addresses of the interfaces with an IP address, in the order in which
// Java lists them, as upper-case hexadecimal; joins them; and takes the low bits of Java's
// String.hashCode. Without such an interface the worker id is drawn from `entropy`. It changes when
// an interface gets its first IP address or loses its last one: when a container starts, a VPN ends
// or a cable is pulled. Among n hosts with one address each, odds_of_shared_worker(n, bits) are the
// odds that at least two share a worker id. With up to eight consecutive addresses each, the odds
// are at most odds_of_shared_worker(n, bits - 2). REQUIRES: 0 <= bits <= 31.
[[nodiscard]] IDMINT_EXPORT std::uint32_t worker_from_hardware(int bits,
                                                               Entropy& entropy = system_entropy());

// The functions below return worker ids of `bits` bits that an operator has assigned. Each is
// unique if configured so. kFailedPrecondition: this host has none, or the number needs more bits;
// the message says what it has and what to do. REQUIRES: 0 <= bits <= 31.

// The number in an environment variable.
[[nodiscard]] IDMINT_EXPORT Result<std::uint32_t> worker_from_environment(
    const std::string& variable, int bits);

// N if the host name is NAME-N or NAME-N.DOMAIN: the ordinal of a pod of a Kubernetes StatefulSet.
// Unique among the pods of one StatefulSet. Rejects an N with leading zeros, and ip-A-B-C-D, which
// is an address and not an ordinal.
[[nodiscard]] IDMINT_EXPORT Result<std::uint32_t> worker_from_ordinal(int bits);

struct AddressWorker {
  std::uint32_t worker = 0;
  std::string address{};  // "10.0.3.7/24"
  std::string block{};    // "10.0.0.0/22": the block of addresses that `bits` bits tell apart
};

// The low bits of an IP address of `interface`; if that is empty, of the interface with the default
// route, or else of the only one. Takes the IPv4 address, or else the IPv6 address; ignores
// loopback and link-local addresses. Unique among hosts within the block, which must contain the
// whole subnet of the host. Rejects a larger subnet, and an interface with several addresses.
[[nodiscard]] IDMINT_EXPORT Result<AddressWorker> worker_from_address(
    int bits, std::string_view interface = {});

// The exact odds that at least two of n hosts that draw from 2^bits worker ids share one:
//   1 - (1 - 1/2^bits)(1 - 2/2^bits)...
// REQUIRES: 0 <= bits <= 31.
[[nodiscard]] IDMINT_EXPORT double odds_of_shared_worker(std::uint64_t hosts, int bits) noexcept;

}  // namespace idmint
