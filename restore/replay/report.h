// The report of a finished restore: a file beside the spare's folder. It has the contents of the
// server's record. So the server keeps nothing of ours and compares equal to production, while
// verify, fence and promote still know what was restored.
//
// JSON: {"idmint_restore": 1, "server", "identity", "finished", "documents", "indexes", "slice",
// "replayed", "notes", "collections": {NAMESPACE: UUID}, "record": [documents of the record,
// canonical extended JSON]}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "restore/error_in.h"
#include "restore/replay/record.h"
#include "restore/replay/replay.h"
#include "restore/server.h"

namespace idmint::restore {

// The counts of a restore, as its commands print them.
struct Restored {
  std::uint64_t documents = 0;  // in the base
  std::size_t indexes = 0;
  ReplayCounts slice{};
  ReplayCounts oplog{};              // if `missed` is not 0, the result is incomplete
  std::vector<std::string> notes{};  // of the plan, and of the run
};
// Without first_missed and notes.
[[nodiscard]] nlohmann::ordered_json json_of(const ReplayCounts& counts);

// The report's path for the folder of a spare or a data copy: "/var/lib/spare.report.json". For a
// server that was not started here: a name in the current folder with the server's host and port.
[[nodiscard]] std::string report_beside(const std::string& folder);
[[nodiscard]] std::string report_here(const Server& server);

// Writes the report and replaces an older one at `path`. It is on disk when this returns. Errors:
// those of replace_file().
[[nodiscard]] Result<void> write_report(Record& record, const Restored& restored,
                                        const std::string& path);

struct DoneRestore {
  Record record;
  Restored restored{};
  bool is_there = false;  // a restored collection still exists, by its UUID
};
// Reads the report at `path`. nullopt: there is no file, or it is of another server. kDataLoss: it
// is damaged.
[[nodiscard]] Result<std::optional<DoneRestore>> read_report(Server& server,
                                                             const std::string& path);

// Finds the record of the restore that made this server: on the server if the restore is not done,
// otherwise in the report. `path` is the report's; empty: beside the server's data folder, if that
// is on this host, or in the current folder. nullopt: there is no record. Errors:
// - kNotFound: there is no report at `path`.
// - kFailedPrecondition: the report is of another server.
struct FoundRecord {
  Record record;
  std::string report{};  // empty: the record is on the server
};
[[nodiscard]] Result<std::optional<FoundRecord>> find_record(Server& server,
                                                             const std::string& path);

}  // namespace idmint::restore
