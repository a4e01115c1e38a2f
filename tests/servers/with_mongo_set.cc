// with_mongo_set DATABASE PROGRAM: runs the program with the URL of a replica set as its argument.
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "tests/servers/mongo.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: with_mongo_set DATABASE PROGRAM\n");
    return 2;
  }
  std::string url = idmint::servers::mongo_set().url(argv[1]);
  char* const words[] = {argv[2], url.data(), nullptr};
  pid_t child = 0;
  int status = 0;
  if (::posix_spawn(&child, argv[2], nullptr, nullptr, words, environ) != 0 ||
      ::waitpid(child, &status, 0) != child)
    return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
