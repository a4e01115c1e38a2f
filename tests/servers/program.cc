#include "tests/servers/program.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace idmint::servers {

std::string path_of_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(std::string(path != nullptr ? path : "") + ":/usr/sbin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string program = folder + "/" + name; ::access(program.c_str(), X_OK) == 0)
      return program;
  give_up(name + " is not installed: run scripts/setup test");
}

const passwd* user_of_servers(const char* name) {
  if (::geteuid() != 0) return nullptr;
  const passwd* user = ::getpwnam(name);
  if (user == nullptr) user = ::getpwnam("nobody");
  if (user == nullptr)
    give_up(std::string("run by root, and there is neither a user ") + name + " nor nobody");
  return user;
}

void hand_over(const std::string& path, const passwd* user) {
  if (user != nullptr && ::chown(path.c_str(), user->pw_uid, user->pw_gid) != 0)
    give_up("cannot hand over " + path);
}

pid_t spawn(std::vector<std::string> words, const passwd* user, const std::string& log,
            const std::string& in) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) give_up("cannot fork");
  if (child > 0) return child;
  const int input = ::open(in.c_str(), O_RDONLY);
  const int out = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
  ::dup2(input, 0);
  for (const int fd : {1, 2}) ::dup2(out, fd);
  if (user != nullptr && (::initgroups(user->pw_name, user->pw_gid) != 0 ||
                          ::setgid(user->pw_gid) != 0 || ::setuid(user->pw_uid) != 0))
    ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of user, which clears it
  if (::getppid() != parent) ::_exit(1);
  if (::chdir("/") != 0) ::_exit(1);
  ::execvp(pointers[0], pointers.data());
  ::_exit(127);
}

void run_program(std::vector<std::string> words, const passwd* user, const std::string& log,
                 const std::string& in) {
  const std::string what = words[0];
  const pid_t child = spawn(std::move(words), user, log, in);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0)
    give_up(what + " failed:\n" + contents(log));
}

std::string contents(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  // An iterator would throw if a process ended while its file in /proc is read.
  text << file.rdbuf();
  return text.str();
}

void append(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream file(path, std::ios::app);
  for (const std::string& line : lines) file << line << '\n';
}

}  // namespace idmint::servers
