// A Unix socket of the daemon: who may connect, and what happens to its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "server/server.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::server {
namespace {

using fakes::code_of;
using fakes::TempFolder;
using testing::HasSubstr;

TEST(UnixSocket, AUnixSocketThatWasLeftIsTakenOver) {
  const TempFolder folder;
  const std::string path = folder.path("socket");
  {
    const int left = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(left);
  }
  ServerOptions options;
  options.listen = {{Protocol::kRedis, "unix:" + path}};
  const Result<std::unique_ptr<Server>> server = Server::open(options);
  ASSERT_TRUE(server) << server.error().message();
  EXPECT_EQ(code_of(Server::open(options)), Code::kUnavailable);  // it is in use now
}

// Another user who may write in the folder of the socket swaps a symbolic link in as soon as it is
// there.
TEST(UnixSocket, NothingElseIsChangedOrRemovedInPlaceOfAUnixSocket) {
  const TempFolder folder;
  const std::string path = folder.path("socket");
  const std::string victim = folder.path("victim");
  const std::string link = folder.path("link");
  std::ofstream(victim) << "mine";
  ASSERT_EQ(::chmod(victim.c_str(), 0646), 0);
  std::atomic<bool> ends = false;
  std::thread swapper([&] {
    while (!ends) {
      [[maybe_unused]] const int made = ::symlink(victim.c_str(), link.c_str());
      struct stat file{};
      while (!ends && (::lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode))) {
      }
      ::rename(link.c_str(), path.c_str());
    }
  });
  ServerOptions options;
  options.listen = {{Protocol::kRedis, "unix:" + path}};
  for (int i = 0; i < 100; ++i) {
    {
      const Result<std::unique_ptr<Server>> server = Server::open(options);
      if (!server) {
        EXPECT_THAT(server.error().message(), HasSubstr("cannot listen on"));
      }
    }
    ::unlink(path.c_str());
  }
  ends = true;
  swapper.join();
  struct stat file{};
  ASSERT_EQ(::lstat(victim.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0646U);
  ::unlink(path.c_str());
  ::unlink(link.c_str());

  Result<std::unique_ptr<Server>> server = Server::open(options);
  ASSERT_TRUE(server) << server.error().message();
  ASSERT_EQ(::lstat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0007U, 0U);
  ASSERT_EQ(::symlink(victim.c_str(), link.c_str()), 0);
  ASSERT_EQ(::rename(link.c_str(), path.c_str()), 0);
  server->reset();
  EXPECT_EQ(::lstat(path.c_str(), &file), 0) << "the link is not the server's own";
  EXPECT_TRUE(S_ISLNK(file.st_mode));
}

TEST(UnixSocket, AUnixSocketIsGoneWithItsServer) {
  const TempFolder folder;
  const std::string path = folder.path("socket");
  ServerOptions options;
  options.listen = {{Protocol::kRedis, "unix:" + path}};
  Result<std::unique_ptr<Server>> server = Server::open(options);
  ASSERT_TRUE(server);
  server->reset();
  struct stat file{};
  EXPECT_NE(::lstat(path.c_str(), &file), 0);
}

}  // namespace
}  // namespace idmint::server
