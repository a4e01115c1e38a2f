// A new replica set from the data folder of a spare: what was restored becomes production as a
// whole, without a dump.
#pragma once

#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/observer.h"

namespace idmint::restore {

struct SeedMember {
  std::string host{};  // as the others and the clients know it
  int port = 0;
  std::string folder{};  // a new one on this host; empty: it is on another
};
// HOST:PORT=DIR, or HOST:PORT of another host. kInvalidArgument: no such text.
[[nodiscard]] Result<SeedMember> parse_member(std::string_view text);

struct SeedOptions {
  std::string spare{};                   // the folder of run --spare, or the copy of --data-copy
  std::string set{};                     // the name of the new set
  std::vector<SeedMember> members{};     // the first one is on this host
  std::string mongod{};                  // a program; empty: that on the PATH
  std::vector<std::string> arguments{};  // of each mongod, beside the name of the set and the like
};

// Watches it, in the thread that seeds.
class SeedObserver {
 public:
  virtual ~SeedObserver() = default;
  // A step is about to be done here: the command that does it by hand. An error stops before it.
  [[nodiscard]] virtual Result<void> about_to(const std::string& command) = 0;
  // A step for another host, which is left to its operator.
  virtual void left_to_do(const std::string& command) = 0;
  [[nodiscard]] virtual Result<void> wait() = 0;  // called while it waits; an error stops it
};

// Takes the record of the restore away, ends the spare, copies its folder to the first member,
// makes that a set of one, and copies it to the others here, which follow without an initial sync.
// The same call again goes on where one was stopped. kNotFound: the spare is no folder of a
// restore. kFailedPrecondition: its restore is not done; or a mongod does not start, with where its
// log is. kAlreadyExists: a folder holds something else. kUnavailable: a member did not come up in
// time.
[[nodiscard]] Result<void> seed(const SeedOptions& options, SeedObserver& observer);

// All of the commands, in their order; nothing is done.
[[nodiscard]] Result<std::vector<std::string>> seed_steps(const SeedOptions& options);

}  // namespace idmint::restore
