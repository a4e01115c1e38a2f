// The framing of archives.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace idmint::restore {

inline constexpr std::uint32_t kArchiveMagic = 0x8199e26d;
inline constexpr std::uint32_t kTerminator = 0xffffffff;
inline constexpr std::string_view kArchiveVersion = "0.1";
// The database and the collection under which an archive has its slice of the oplog.
inline constexpr std::pair<std::string_view, std::string_view> kArchivedOplog = {"", "oplog"};

}  // namespace idmint::restore
