// Creates a new replica set from the data folder of a spare. The restored data becomes production
// as a whole, without a dump.
#pragma once

#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"

namespace idmint::restore {

struct SeedMember {
  std::string host{};  // as other members and clients reach it
  int port = 0;
  std::string folder{};  // a new one on this host; empty: the member is on another host
};
// Parses HOST:PORT=DIR, or HOST:PORT for another host. kInvalidArgument: the text has another form.
[[nodiscard]] Result<SeedMember> parse_member(std::string_view text);

struct SeedOptions {
  std::string spare{};                   // the folder of run --spare, or the copy of --data-copy
  std::string set{};                     // the name of the new set
  std::vector<SeedMember> members{};     // the first one is on this host
  std::string mongod{};                  // the program; empty: mongod from the PATH
  std::vector<std::string> arguments{};  // for each mongod, besides those for the set
};

// Deletes the record of the restore, ends the spare, copies its folder to the first member, and
// makes that a set of one. Then copies the folder to the other members on this host, which follow
// without an initial sync. The same call continues an interrupted one. The observer is told each
// step here as the command that does it by hand, and those on other hosts as notices. Errors:
// - kNotFound: the spare is not the folder of a restore.
// - kFailedPrecondition: the restore is not done, or a mongod does not start; the message has the
//   path of its log.
// - kAlreadyExists: a folder has other contents.
// - kUnavailable: a member did not start in time.
[[nodiscard]] Result<void> seed(const SeedOptions& options, Observer& observer);

// All commands in order. Does nothing else.
[[nodiscard]] Result<std::vector<std::string>> seed_steps(const SeedOptions& options);

}  // namespace idmint::restore
