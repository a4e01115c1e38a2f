// A value that a command printed is a line NAME NANOSECONDS VALUE [DATABASE.COLLECTION:FIELD]. What
// is compared with the store has a checksum, so that a damaged line is no evidence; its words are
// separated by tabs, and begin with one: NAME NANOSECONDS VALUE KIND SETTLED CRC. The line of the
// store has no name: "" URL CRC. A line that is none of these is replaced by kDamage.
#include "mint/seen.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/data_folder.h"
#include "base/host_facts.h"
#include "base/url.h"

namespace idmint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::string_view kDamage = "#damaged";

// Closes its descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Takes the text up to the next separator, and the separator.
std::string_view take_word(std::string_view& text, char separator = ' ') {
  const std::string_view word = text.substr(0, text.find(separator));
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

// With its checksum.
std::string checked(const std::string& words) {
  std::array<char, 16> crc{};
  std::snprintf(crc.data(), crc.size(), "\t%08x\n", detail::crc32(words));
  return words + crc.data();
}

// Without its checksum; nothing: it is damaged.
std::optional<std::string_view> unchecked(std::string_view line) {
  const std::size_t tab = line.rfind('\t');
  const std::string_view words = line.substr(0, tab);
  if (checked(std::string(words)) != std::string(line) + '\n') return std::nullopt;
  return words;
}

constexpr char kLostClaims = 'l';  // a kClaim

std::optional<Seen> parse_counter(std::string_view words) {
  constexpr std::string_view kKinds = "vicbl";
  Seen seen;
  if (!words.starts_with('\t')) return std::nullopt;
  words.remove_prefix(1);
  seen.source = take_word(words, '\t');
  const auto at = number(take_word(words, '\t'));
  const auto value = number(take_word(words, '\t'));
  const std::string_view kind = take_word(words, '\t');
  const auto settled = number(words);
  if (seen.source.empty() || !at || !value || kind.size() != 1 || !kKinds.contains(kind) ||
      !settled)
    return std::nullopt;
  seen.at = Instant{std::chrono::nanoseconds{*at}};
  seen.value = *value;
  seen.lost_claims = kind.front() == kLostClaims;
  seen.kind = seen.lost_claims ? LastIssued::Kind::kClaim : LastIssued::Kind{kind.front()};
  seen.settled = *settled;
  return seen;
}

std::string line_of(const Seen& seen) {
  const std::string at = std::to_string(seen.at.time_since_epoch().count());
  if (!seen.kind)
    return seen.source + ' ' + at + ' ' + std::to_string(seen.value) +
           (seen.used_in.empty() ? "" : ' ' + seen.used_in) + '\n';
  const char kind = seen.lost_claims ? kLostClaims : static_cast<char>(*seen.kind);
  return checked('\t' + seen.source + '\t' + at + '\t' + std::to_string(seen.value) + '\t' + kind +
                 '\t' + std::to_string(seen.settled));
}

void parse_into(SeenFile& file, std::string_view line) {
  if (!line.starts_with('\t')) {
    auto seen = line != kDamage ? parse(line) : std::nullopt;
    if (seen) return file.all.push_back(*std::move(seen));
  } else if (const auto words = unchecked(line)) {
    if (words->starts_with("\t\t")) {
      file.url = words->substr(2);
      return;
    }
    if (auto seen = parse_counter(*words)) return file.all.push_back(*std::move(seen));
  }
  file.state = SeenFile::State::kDamaged;
}

SeenFile unreadable(const fs::path& path, int why) {
  return {.state = SeenFile::State::kUnreadable,
          .path = path,
          .why = std::generic_category().message(why)};
}

SeenFile read(const fs::path& path) {
  // Non-blocking, because opening a named pipe would wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0) {
    // A link is replaced.
    if (errno == ENOENT || errno == ELOOP) return {.path = path};
    return unreadable(path, errno);
  }
  struct stat opened{};
  if (::fstat(file.fd, &opened) != 0) return unreadable(path, errno);
  if (S_ISDIR(opened.st_mode)) return unreadable(path, EISDIR);  // nothing can replace it
  if (!S_ISREG(opened.st_mode)) return {.path = path};
  SeenFile all{.state = SeenFile::State::kRead, .path = path};
  std::string text(
      std::min(kMostBytes, static_cast<std::size_t>(std::max<::off_t>(opened.st_size, 0))), '\0');
  const ::ssize_t size = ::read(file.fd, text.data(), text.size());
  if (size < 0) return unreadable(path, errno);
  text.resize(static_cast<std::size_t>(size));
  std::size_t at = 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    parse_into(all, std::string_view(text).substr(at, end - at));
  // It is written whole, and has the line of the store.
  if (at != text.size() || text.empty()) all.state = SeenFile::State::kDamaged;
  return all;
}

fs::path file_of(const fs::path& folder, const SeenStore& store) {
  return folder / ("seen-" + store.name);
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

// As lock_fresh(), waiting a little for other processes.
int lock_fresh_soon(const fs::path& fresh) {
  constexpr int kTries = 50;
  for (int i = 0;; ++i) {
    const int fd = lock_fresh(fresh);
    if (fd >= 0 || i == kTries || !fs::is_regular_file(fs::symlink_status(fresh))) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

// Puts newer lines in their places among the others, each as the last one.
class Merged {
 public:
  explicit Merged(std::vector<Seen>& all) : all_(all) {
    for (std::size_t i = 0; i < all_.size(); ++i) at_[key_of(all_[i])] = i;
  }
  ~Merged() {
    std::erase_if(all_, [](const Seen& each) { return each.source.empty(); });
  }
  Merged(const Merged&) = delete;
  Merged& operator=(const Merged&) = delete;

  void add(Seen seen) {
    const auto [at, is_new] = at_.try_emplace(key_of(seen), all_.size());
    if (!is_new) {
      Seen& old = all_[at->second];
      if (!seen.kind) {
        if (seen.used_in.empty()) seen.used_in = std::move(old.used_in);
      } else if (old.settled > seen.settled) {
        return;
      } else if (old.settled == seen.settled) {
        if (seen.kind != LastIssued::Kind::kClaim && old.value >= seen.value) return;
        seen.lost_claims = seen.lost_claims || old.lost_claims;
      }
      old.source.clear();
      at->second = all_.size();
    }
    all_.push_back(std::move(seen));
  }

 private:
  static std::string key_of(const Seen& seen) {
    return (seen.kind ? std::string{'\t', static_cast<char>(*seen.kind)} : std::string()) +
           seen.source;
  }

  std::vector<Seen>& all_;
  std::unordered_map<std::string, std::size_t> at_;
};

// The newest lines that there is room for, the oldest first; those of worker ids as far as the
// others leave room.
std::string text_of(const SeenFile& file, std::string_view url) {
  std::string head;
  if (file.state == SeenFile::State::kDamaged) head += std::string(kDamage) + '\n';
  const std::string place = place_of(url);
  if (std::ranges::none_of(place, [](unsigned char c) { return c < ' '; }))
    head += checked("\t\t" + place);
  std::size_t room = kMostBytes - std::min(kMostBytes, head.size());
  std::vector<std::string> lines(file.all.size());
  for (const bool bounds : {false, true}) {
    for (std::size_t i = lines.size(); i-- > 0;) {
      if ((file.all[i].kind == LastIssued::Kind::kBound) != bounds) continue;
      std::string line = line_of(file.all[i]);
      if (line.size() > room) break;
      room -= line.size();
      lines[i] = std::move(line);
    }
  }
  for (const std::string& line : lines) head += line;
  return head;
}

// Replaces the file by what `change` makes of it. False: it was not.
template <class Change>
bool rewrite(const SeenStore& store, const Change& change) {
  const Result<fs::path> folder = data_folder();
  if (!folder) return false;
  const fs::path path = file_of(*folder, store);
  const std::string fresh = path.string() + ".new";
  const Descriptor file{lock_fresh_soon(fresh)};
  if (file.fd < 0) return false;
  SeenFile all = read(path);
  if (all.state == SeenFile::State::kUnreadable) return false;  // it may know more than we do
  change(all);
  const std::string text = text_of(all, store.url);
  return ::write(file.fd, text.data(), text.size()) == static_cast<::ssize_t>(text.size()) &&
         ::rename(fresh.c_str(), path.c_str()) == 0;
}

// Calls act(file) for the records in the data folder whose names begin so.
template <class Act>
void for_each_record(const std::string& prefix, const Act& act) {
  const Result<fs::path> folder = data_folder();
  if (!folder) return;
  std::error_code failed;
  for (fs::directory_iterator at(*folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix) && !name.ends_with(".new")) act(read(at->path()));
  }
}

}  // namespace

SeenFile read_seen_file(const SeenStore& store) {
  const Result<fs::path> folder = data_folder();
  if (folder) return read(file_of(*folder, store));
  return {.state = SeenFile::State::kUnreadable, .why = folder.error().message()};
}

std::vector<Seen> read_seen(const SeenStore& store) { return read_seen_file(store).all; }

std::vector<Seen> read_seen_anywhere(const Uuid& store) {
  std::vector<Seen> all;
  for_each_record("seen-" + store.to_string(),
                  [&](SeenFile file) { std::ranges::move(file.all, std::back_inserter(all)); });
  return all;
}

std::vector<Seen> read_seen_at(std::string_view url, std::string_view source) {
  std::vector<Seen> all;
  const std::string place = place_of(url);
  const std::string counters = std::string(source) + "/";
  for_each_record("seen-", [&](const SeenFile& file) {
    if (file.url != place) return;
    Merged merged(all);
    for (Seen seen : file.all) {
      if (seen.source != source && !seen.source.starts_with(counters)) continue;
      seen.settled = 0;
      merged.add(std::move(seen));
    }
  });
  return all;
}

bool note_seen(const SeenStore& store, std::span<const Seen> seen) noexcept try {
  return rewrite(store, [&](SeenFile& file) {
    Merged merged(file.all);
    for (const Seen& each : seen) {
      const auto is_control = [](unsigned char c) { return c < ' '; };
      if (std::ranges::none_of(each.source, is_control) &&
          std::ranges::none_of(each.used_in, is_control))
        merged.add(each);
    }
  });
} catch (const std::exception&) {
  return false;
}

bool note_seen(const SeenStore& store, const Seen& seen) noexcept {
  return note_seen(store, std::span(&seen, 1));
}

void void_seen(const SeenStore& store) noexcept try {
  if (std::ranges::none_of(read_seen(store),
                           [](const Seen& each) { return each.kind.has_value(); }))
    return;
  rewrite(store, [](SeenFile& file) {
    std::erase_if(file.all, [](const Seen& each) { return each.kind.has_value(); });
  });
} catch (const std::exception&) {
  return;
}

void accept_seen(const SeenStore& store, std::int64_t settled) noexcept try {
  const SeenFile there = read_seen_file(store);
  const auto is_later = [&](const Seen& each) { return each.kind && each.settled > settled; };
  if (std::ranges::none_of(there.all, is_later)) return;
  rewrite(store, [&](SeenFile& file) {
    for (Seen& each : file.all) each.settled = std::min(each.settled, settled);
  });
} catch (const std::exception&) {
  return;
}

}  // namespace idmint
