// The spare: a mongod of our own on loopback, the target of a restore.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/observer.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Its data folder has two files of ours: idmint-restore.json, which marks it, and the log
// mongod.log.
struct Spare {
  std::string folder;
  std::string program;  // the mongod
  int port = 0;
  bool ran_before = false;  // it was running already

  [[nodiscard]] std::string uri() const {
    return "mongodb://127.0.0.1:" + std::to_string(port) + "/?directConnection=true";
  }
};

// The longest waits for a mongod.
struct SpareLimits {
  // For one that starts, without a new line in its log.
  std::chrono::milliseconds silence{120'000};
  // For one that was told to end, until it has written everything; the second if the user wants to
  // end.
  std::chrono::milliseconds end{300'000};
  std::chrono::milliseconds hurried_end{60'000};
};

// A folder's state, and the contents of its idmint-restore.json.
struct SpareFolder {
  bool fresh = false;  // missing or empty
  bool ours = false;   // a restore created it, or has begun to use it
  // The last entry of a copied data folder, if the copy was recovered.
  std::optional<Timestamp> recovered{};
  int port = 0;                          // of its server
  std::vector<std::string> arguments{};  // of its mongod, beside ours: --directoryperdb
  std::string checked_base{};            // stamp_of_files() of the base that was checked for it
};

// The mongod of a spare.
struct Mongod {
  std::string program;
  // Further arguments, which the folder keeps for each later start. Empty: those that it has.
  std::vector<std::string> arguments{};
};
// kFailedPrecondition: the folder is a symbolic link, or a mongod runs on it and it is not ours.
[[nodiscard]] Result<SpareFolder> look_at(const std::string& folder);

// `program`, or mongod from the PATH. kNotFound: no executable was found.
[[nodiscard]] Result<std::string> find_mongod(const std::string& program);

// The program's version, such as "6.0.5". kFailedPrecondition: it does not run here, or is no
// mongod.
[[nodiscard]] Result<std::string> version_of(const std::string& program,
                                             const SpareLimits& limits = {});

// The data folder of a server, on the server's host. nullopt: the server does not say.
[[nodiscard]] std::optional<std::string> data_folder(Server& server);

// Whether a mongod runs on the folder: it locks a file there.
[[nodiscard]] bool is_locked(const std::string& folder);
// Whether the server at this port of 127.0.0.1 has its data in the folder.
[[nodiscard]] bool is_running(const std::string& folder, int port);

// Starts a mongod on the folder as a daemon. It survives this process, and signals of the terminal
// do not reach it. If an earlier restore's mongod still runs on the folder, uses that. The TTL
// monitor is off, so nothing is deleted. Other users have no access to the folder. `progress` can
// stop the wait for the server to start, or for one that a killed run began to start. Errors:
// - kAlreadyExists: the folder has other contents.
// - kFailedPrecondition: the folder is another user's or was begun with other arguments, or mongod
//   does not start; the message has the logged reason.
// - kResourceExhausted: the disk is full.
// - kUnavailable: the server does not come up.
[[nodiscard]] Result<Spare> start_spare(const std::string& folder, const Mongod& mongod,
                                        const TakeProgress& progress = {},
                                        const SpareLimits& limits = {});
// Notes in the spare's folder, durably, that the base with this stamp was checked.
[[nodiscard]] Result<void> note_checked_base(const Spare& spare, const std::string& stamp);
// Ends the server and waits until it has written everything. Accepts a server that has ended. An
// error of `progress` shortens the wait. kUnavailable: it does not end.
[[nodiscard]] Result<void> stop_spare(const Spare& spare, const TakeProgress& progress = {},
                                      const SpareLimits& limits = {});
// Starts a mongod on a new folder within the system's temporary folder, for remove_spare(). Errors
// are those of start_spare(), and leave nothing behind. kResourceExhausted: there is no room; the
// message names the folder and TMPDIR.
[[nodiscard]] Result<Spare> start_temporary_spare(const Mongod& mongod,
                                                  const TakeProgress& progress = {},
                                                  const SpareLimits& limits = {});
// Kills the mongod on the folder, waits until it is gone, and removes the folder with all data.
// kUnavailable: the process is not gone; the folder is left.
[[nodiscard]] Result<void> remove_spare(const std::string& folder);
// The reason, from its log, why a spare does not run. nullopt: it runs. kResourceExhausted: its
// disk is full. kUnavailable: any other reason.
[[nodiscard]] std::optional<Error> why_it_ended(const Spare& spare);
// The reason why a mongod on the folder did not start, from its log after the offset `from`: the
// last error, or else where to look.
[[nodiscard]] std::string why_not_started(const std::string& folder, std::uintmax_t from);
// The command that ends it.
[[nodiscard]] std::string how_to_stop(const Spare& spare);

// Starts a standalone on a copy of a replica set member's data folder, with complete journal and
// oplog, and finds the last entry of its oplog. A standalone shows only the state of the copy's
// last checkpoint. So a server first recovers the copy from its own oplog, once, and is ended
// cleanly. After a kill the recovery is repeated.
struct RecoveredCopy {
  Spare spare;
  Timestamp last;
};
[[nodiscard]] Result<RecoveredCopy> start_copy(const std::string& folder, const Mongod& mongod,
                                               const TakeProgress& progress = {},
                                               const SpareLimits& limits = {});

}  // namespace idmint::restore
