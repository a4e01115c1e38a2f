// What sets this host and this process apart from others: hardware addresses, and the numbers that
// formats make of them. None of it is coordinated: what is built on it is `practical`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "idmint/entropy.h"
#include "idmint/export.h"

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

// A worker id of `bits` bits made of all hardware addresses as the classic sequence generator does
// it: in upper-case hexadecimal, joined, Java's String.hashCode, its low bits; drawn from `entropy`
// where there is no address. Two of n hosts share one with odds of about n^2 / 2^(bits + 1).
// REQUIRES: 0 <= bits <= 31.
[[nodiscard]] IDMINT_EXPORT std::uint32_t worker_from_hardware(int bits,
                                                               Entropy& entropy = system_entropy());

// The odds that at least two of n hosts that draw from 2^bits worker ids share one, exactly:
// 1 - (1 - 1/2^bits)(1 - 2/2^bits)... REQUIRES: 0 <= bits <= 31.
[[nodiscard]] IDMINT_EXPORT double odds_of_shared_worker(std::uint64_t hosts, int bits) noexcept;

}  // namespace idmint
