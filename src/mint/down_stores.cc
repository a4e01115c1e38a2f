#include "mint/down_stores.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <system_error>

#include "base/data_folder.h"
#include "base/url.h"

namespace idmint {
namespace {

// FNV-1a, as the name of a file.
std::string hashed(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return std::to_string(hash);
}

}  // namespace

std::filesystem::path DownStores::file_of(std::string_view url) const {
  return folder_ / ("down-" + hashed(place_of(without_secrets(url))));
}

bool DownStores::has(std::string_view url) const {
  if (folder_.empty()) return false;
  struct stat there{};
  if (::lstat(file_of(url).c_str(), &there) != 0 || !S_ISREG(there.st_mode)) return false;
  const Instant at{std::chrono::seconds{there.st_mtim.tv_sec} +
                   std::chrono::nanoseconds{there.st_mtim.tv_nsec}};
  const auto ago = clock_.now() - at;
  return ago >= ago.zero() && ago < kRemembered;
}

void DownStores::add(std::string_view url) const {
  if (folder_.empty() || !make_folder(folder_)) return;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int file = ::open(file_of(url).c_str(), kFlags, 0600);
  if (file < 0) return;
  const auto now = clock_.now().time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const timespec at{.tv_sec = seconds.count(), .tv_nsec = (now - seconds).count()};
  const std::array<timespec, 2> times = {at, at};
  ::futimens(file, times.data());
  ::close(file);
}

void DownStores::remove(std::string_view url) const {
  std::error_code failed;
  if (!folder_.empty()) std::filesystem::remove(file_of(url), failed);
}

}  // namespace idmint
