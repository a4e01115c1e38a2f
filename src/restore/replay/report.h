// The report of a restore that is done: a file beside the spare's folder. It has what the record on
// the server had, so that the server holds nothing of ours and compares equal to production, and
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
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/replay/record.h"
#include "restore/replay/replay.h"
#include "restore/server.h"

namespace idmint::restore {

// The counts of a restore, as its commands print them.
struct Restored {
  std::uint64_t documents = 0;  // of the base
  std::size_t indexes = 0;
  ReplayCounts slice{};
  ReplayCounts oplog{};              // with `missed` it is not what it should be
  std::vector<std::string> notes{};  // those of the plan, and what happened
};
// Without what is in words.
[[nodiscard]] nlohmann::ordered_json json_of(const ReplayCounts& counts);

// "/var/lib/spare.report.json" for the folder of a spare or a data copy; for a server that was not
// started here a name in the current folder that has its host and port.
[[nodiscard]] std::string report_beside(const std::string& folder);
[[nodiscard]] std::string report_here(const Server& server);

// Writes the report; an older one of that path is replaced. The disk has it when this returns.
// Errors are those of replace_file().
[[nodiscard]] Result<void> write_report(Record& record, const Restored& restored,
                                        const std::string& path);

struct DoneRestore {
  Record record;
  Restored restored{};
  bool is_there = false;  // a collection that was restored is there still, by its UUID
};
// The report in the file, if it is of this server. Nothing: the file is not there, or is of another
// server. kDataLoss: it is damaged.
[[nodiscard]] Result<std::optional<DoneRestore>> read_report(Server& server,
                                                             const std::string& path);

// The record of the restore that made this server: that on the server, where the restore is not
// done; otherwise that of the report. `path` is where the report is; empty: beside the folder of
// the server's data, if that is on this host, or in the current folder. Nothing: there is none.
// kNotFound: there is no report at `path`. kFailedPrecondition: it is of another server.
struct FoundRecord {
  Record record;
  std::string report{};  // empty: it is on the server
};
[[nodiscard]] Result<std::optional<FoundRecord>> find_record(Server& server,
                                                             const std::string& path);

}  // namespace idmint::restore
