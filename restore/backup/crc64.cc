#include "restore/backup/crc64.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace idmint::restore {
namespace {

using Table = std::array<std::uint64_t, 256>;

// [n][b]: the CRC of the byte b followed by n zeros. Eight bytes are looked up at once.
constexpr std::array<Table, 8> kTables = [] {
  constexpr std::uint64_t reflected_polynomial = 0xc96c5795d7870f42;
  std::array<Table, 8> tables{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t zeros = 1; zeros < tables.size(); ++zeros) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint64_t crc = tables[zeros - 1][byte];
      tables[zeros][byte] = tables[0][crc & 0xff] ^ (crc >> 8);
    }
  }
  return tables;
}();

}  // namespace

std::uint64_t crc64(std::uint64_t crc, std::span<const std::uint8_t> bytes) {
  static_assert(std::endian::native == std::endian::little);
  crc = ~crc;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), sizeof eight);
    eight ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(eight >> (8 * i)) & 0xff];
  }
  for (const std::uint8_t byte : bytes) crc = kTables[0][(crc ^ byte) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace idmint::restore
