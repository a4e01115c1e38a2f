// One line for each source, the oldest first: NAME NANOSECONDS VALUE [DATABASE.COLLECTION:FIELD].
#include "mint/seen.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/data_folder.h"
#include "stores/backend.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{64} << 10;

// Closes its descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Takes the text up to the next blank, and the blank.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Seen> parse(std::string_view line) {
  Seen seen;
  seen.source = take_word(line);
  const auto at = number(take_word(line));
  const auto value = number(take_word(line));
  if (seen.source.empty() || !at || !value) return std::nullopt;
  seen.at = Instant{std::chrono::nanoseconds{*at}};
  seen.value = *value;
  seen.used_in = line;
  return seen;
}

std::string line_of(const Seen& seen) {
  return seen.source + ' ' + std::to_string(seen.at.time_since_epoch().count()) + ' ' +
         std::to_string(seen.value) + (seen.used_in.empty() ? "" : ' ' + seen.used_in) + '\n';
}

std::vector<Seen> read(const fs::path& path) {
  // Non-blocking, because opening a named pipe would wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat opened{};
  if (file.fd < 0 || ::fstat(file.fd, &opened) != 0 || !S_ISREG(opened.st_mode)) return {};
  std::string text(kMostBytes, '\0');
  const ::ssize_t size = ::read(file.fd, text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  std::vector<Seen> all;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    if (auto seen = parse(std::string_view(text).substr(at, end - at))) {
      all.push_back(*std::move(seen));
    }
  }
  return all;
}

fs::path file_of(const fs::path& folder, const SeenStore& store) {
  return folder / ("seen-" + stores::name_on_host(store.id, store.url));
}

// Opens the empty file that will replace another one, and locks it until it is closed. It has one
// fixed name, so that killed processes leave one file at most. -1: another process has it, or it
// cannot be created.
int lock_fresh(const fs::path& fresh) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(fresh.c_str(), kFlags, 0600);
  if (fd < 0 && errno == ENOENT && make_folder(fresh.parent_path()))
    fd = ::open(fresh.c_str(), kFlags, 0600);
  struct stat opened{};
  struct stat named{};
  // Its previous holder may have renamed it to its final name by now.
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &opened) == 0 &&
      S_ISREG(opened.st_mode) && ::lstat(fresh.c_str(), &named) == 0 &&
      named.st_ino == opened.st_ino && ::ftruncate(fd, 0) == 0)
    return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

}  // namespace

std::vector<Seen> read_seen(const SeenStore& store) {
  const Result<fs::path> folder = data_folder();
  return folder ? read(file_of(*folder, store)) : std::vector<Seen>{};
}

std::vector<Seen> read_seen_anywhere(const Uuid& store) {
  std::vector<Seen> all;
  const Result<fs::path> folder = data_folder();
  if (!folder) return all;
  const std::string name = "seen-" + store.to_string();
  std::error_code unreadable;
  for (fs::directory_iterator at(*folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable)) {
    const std::string file = at->path().filename().string();
    if (!file.starts_with(name) || file.ends_with(".new")) continue;
    std::ranges::move(read(at->path()), std::back_inserter(all));
  }
  return all;
}

void note_seen(const SeenStore& store, Seen seen) noexcept try {
  const Result<fs::path> folder = data_folder();
  if (!folder || std::ranges::any_of(seen.used_in, [](unsigned char c) { return c < ' '; })) return;
  const fs::path path = file_of(*folder, store);
  const std::string fresh = path.string() + ".new";
  const Descriptor file{lock_fresh(fresh)};
  if (file.fd < 0) return;
  std::vector<Seen> all = read(path);
  if (const auto old = std::ranges::find(all, seen.source, &Seen::source); old != all.end()) {
    if (seen.used_in.empty()) seen.used_in = std::move(old->used_in);
    all.erase(old);
  }
  all.push_back(std::move(seen));
  std::string text;
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    std::string line = line_of(*each);
    if (text.size() + line.size() > kMostBytes) break;
    text.insert(0, line);
  }
  if (::write(file.fd, text.data(), text.size()) == static_cast<::ssize_t>(text.size()))
    ::rename(fresh.c_str(), path.c_str());
} catch (const std::exception&) {
  return;
}

}  // namespace idmint
