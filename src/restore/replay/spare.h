// A mongod of our own, on loopback: the spare server that a restore goes to.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "restore/observer.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Its data folder has a file, idmint-restore.json, that says so, and its log, mongod.log.
struct Spare {
  std::string folder;
  std::string program;  // the mongod
  int port = 0;
  bool ran_before = false;  // it was not started just now

  [[nodiscard]] std::string uri() const {
    return "mongodb://127.0.0.1:" + std::to_string(port) + "/?directConnection=true";
  }
};

// How long a mongod is waited for.
struct SpareLimits {
  // One that starts, and logs nothing.
  std::chrono::milliseconds silence{120'000};
  // One that was told to end, until it has written everything; and where somebody wants to go.
  std::chrono::milliseconds end{300'000};
  std::chrono::milliseconds hurried_end{60'000};
};

// What a folder is, and what idmint-restore.json says in it.
struct SpareFolder {
  bool fresh = false;  // not there, or empty
  bool ours = false;   // a restore made it, or has begun with it
  // Of a copy of a member's data folder: the copy was recovered, and this was its last entry.
  std::optional<Timestamp> recovered{};
  int port = 0;  // that its server had
};
// kFailedPrecondition: it is a symbolic link; or it is not ours, and a mongod runs on it.
[[nodiscard]] Result<SpareFolder> look_at(const std::string& folder);

// `program`, or mongod on the PATH. kNotFound: there is none that can be run.
[[nodiscard]] Result<std::string> find_mongod(const std::string& program);

// "6.0.5", as it says of itself. kFailedPrecondition: it does not run here, or is no mongod.
[[nodiscard]] Result<std::string> version_of(const std::string& program,
                                             const SpareLimits& limits = {});

// Where a server has its data, on its own host. Nothing: it does not tell.
[[nodiscard]] std::optional<std::string> data_folder(Server& server);

// Whether the server at that port of 127.0.0.1 has its data there.
[[nodiscard]] bool is_running(const std::string& folder, int port);

// Starts it as a daemon: it goes on without us, and signals of the terminal do not reach it. One
// that runs already on that folder since an earlier restore is taken as it is. It deletes nothing
// by itself: its TTL monitor is off. `progress` may stop the wait for a server that a killed run
// began to start, and for the one that starts. The folder is closed to other users. kAlreadyExists:
// it holds something else. kFailedPrecondition: it is another user's, or mongod does not start,
// with the reason that it logged. kResourceExhausted: its disk is full. kUnavailable: it does not
// come up.
[[nodiscard]] Result<Spare> start_spare(const std::string& folder, const std::string& program,
                                        const TakeProgress& progress = {},
                                        const SpareLimits& limits = {});
// Ends it, and waits until it has written everything. One that has ended already is fine. An error
// of `progress` shortens the wait. kUnavailable: it does not end.
[[nodiscard]] Result<void> stop_spare(const Spare& spare, const TakeProgress& progress = {},
                                      const SpareLimits& limits = {});
// Of one that should run: why it does not, as it logged that. Nothing: it runs. kResourceExhausted:
// its disk is full. kUnavailable: anything else.
[[nodiscard]] std::optional<Error> why_it_ended(const Spare& spare);
// The command that ends it.
[[nodiscard]] std::string how_to_stop(const Spare& spare);

// Starts a plain server on a copy of the data folder of a member of a replica set, its journal and
// oplog complete, and says which entry of its oplog was the last. A plain mongod shows only what
// was in the copy's last checkpoint; so the copy is first recovered from its own oplog, once, by a
// server that is ended cleanly. Killed meanwhile it does that again.
struct RecoveredCopy {
  Spare spare;
  Timestamp last;
};
[[nodiscard]] Result<RecoveredCopy> start_copy(const std::string& folder,
                                               const std::string& program,
                                               const TakeProgress& progress = {},
                                               const SpareLimits& limits = {});

}  // namespace idmint::restore
