#include "terminal/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_order_mark.h"
#include "base/errors.h"
#include "base/shell.h"
#include "base/text.h"
#include "base/url.h"

namespace idmint {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  const int fd_;
};

constexpr std::size_t kLongestUrl = 16'384;

// The text after env: and file: is shown if it can be the name of a variable or a file. It may be
// the URL itself.
std::string shown_name(const std::string& name) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return std::ranges::all_of(name, is_part) ? shell_word(name) : "***";
}
std::string shown_path(const std::string& path) {
  return path.contains("://") || path.contains('@') || path.starts_with("//") ? "***"
                                                                              : shell_word(path);
}

// The only line, a URL, without its end. Errors show nothing of a text that is no URL: it may be a
// password.
Result<std::string> only_line(const std::string& where, std::string_view text) {
  const Result<std::string_view> unmarked = without_mark(text);
  if (!unmarked) return refused(where, unmarked.error());
  text = *unmarked;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) return refuse(where + " is empty: put the URL there");
  if (text.size() > kLongestUrl) return refuse(where + " is longer than a URL: put one there");
  if (text.contains('\n')) return refuse(where + " is to hold one line, the URL");
  const std::string_view scheme = text.substr(0, text.find(':'));
  if (scheme.size() == text.size() || scheme.empty() || scheme.contains('@') ||
      scheme.contains('/') || scheme == "env" || scheme == "file")
    return refuse(where + " holds no URL: put one there, such as mongodb://USER:PASSWORD@HOST/DB");
  return std::string(text);
}

Result<std::string> from_file(const std::string& where, const std::string& path) {
  const auto failed = [&](int error) {
    return std::unexpected(Error{error == ENOENT || error == ENOTDIR ? Code::kNotFound
                                 : error == EACCES                   ? Code::kPermissionDenied
                                                                     : Code::kUnavailable,
                                 where + ": " + std::generic_category().message(error)});
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return failed(errno);
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return failed(errno);
  if (!S_ISREG(facts.st_mode))
    return std::unexpected(Error{Code::kInvalidArgument, where + " is no plain file"});
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return std::unexpected(Error{Code::kPermissionDenied,
                                 where + " is open to other users: chmod 600 " + shown_path(path)});
  std::array<char, kLongestUrl + 2> text{};  // a line end, and one more to know a longer one
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return failed(errno);
  return only_line(where, {text.data(), static_cast<std::size_t>(size)});
}

std::atomic<int> came = 0;                             // arrived during the question
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may store to it

void note_coming(int signal) { came.store(signal); }

// Reads a line from the terminal, without echo. A signal that arrives meanwhile is raised again
// after the terminal is restored.
Result<std::string> ask(const std::string& prompt, const Error& no_terminal) {
  const Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
  struct termios before{};
  if (terminal.get() < 0 || ::tcgetattr(terminal.get(), &before) != 0)
    return std::unexpected(no_terminal);
  constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
  std::array<struct sigaction, signals.size()> actions{};
  struct sigaction note{};
  note.sa_handler = note_coming;
  came = 0;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &note, &actions[i]);

  struct termios silent = before;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  bool whole = ::tcsetattr(terminal.get(), TCSAFLUSH, &silent) == 0;
  const std::string question = escaped(prompt);
  whole = whole && ::write(terminal.get(), question.data(), question.size()) >= 0;
  std::string password;
  while (whole && came == 0) {
    char c = 0;
    const ssize_t size = ::read(terminal.get(), &c, 1);
    if (size == 1 && c == '\n') break;
    if (size == 1) {
      password += c;
    } else if (size == 0 || errno != EINTR) {
      whole = false;
    }
  }
  whole = ::tcsetattr(terminal.get(), TCSAFLUSH, &before) == 0 && whole;
  whole = ::write(terminal.get(), "\n", 1) == 1 && whole;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &actions[i], nullptr);
  if (const int signal = came; signal != 0) {
    ::raise(signal);
    return std::unexpected(Error{Code::kUnavailable, "stopped while it asked for a password"});
  }
  if (!whole) return std::unexpected(no_terminal);
  return password;
}

}  // namespace

Result<std::string> url_given(std::string_view option, const std::string& given) {
  constexpr std::string_view variable = "env:";
  constexpr std::string_view file = "file:";
  Result<std::string> url = given;
  if (given.starts_with(variable)) {
    const std::string name = given.substr(variable.size());
    const char* const value = std::getenv(name.c_str());
    const std::string where = std::string(option) + ": the variable " + shown_name(name);
    if (value == nullptr) return std::unexpected(Error{Code::kNotFound, where + " is not set"});
    url = only_line(where, value);
  } else if (given.starts_with(file)) {
    const std::string path = given.substr(file.size());
    url = from_file(std::string(option) + ": the file " + shown_path(path), path);
  }
  if (!url) return url;
  const std::string user = user_without_password(*url);
  if (user.empty()) return url;
  const std::string shown = redacted(*url);
  const std::string of = "the password of " +
                         (shown.contains("://" + user + "@") ? user : "the user") + " in " + shown;
  Result<std::string> password =
      ask(of + ": ", {Code::kUnauthenticated,
                      std::string(option) + ": " + of +
                          " is missing, and there is no terminal to ask on: give the URL with it "
                          "as env:NAME, in a variable, or as file:PATH"});
  if (!password) return password;
  return with_password(*url, *password);
}

Result<void> read_url(CLI::Option& option) {
  if (option.empty()) return {};
  std::vector<std::string> urls;
  for (const std::string& given : option.results()) {
    Result<std::string> url = url_given(option.get_name(), given);
    if (!url) return std::unexpected(std::move(url.error()));
    urls.push_back(*std::move(url));
  }
  option.clear();
  for (std::string& url : urls) option.add_result(std::move(url));
  option.run_callback();
  return {};
}

}  // namespace idmint
