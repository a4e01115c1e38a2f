// Checksums of a dump: a file beside what dump and oplog write, by which a changed, cut or missing
// file is noticed before anything is restored. Of a base that is a folder: checksums.json in it; of
// an archive or an oplog: its name and ".checksums.json".
//
// JSON: {"idmint_checksums": 1, "tool", "made", "oplog": {"first", "last", "entries"}, "excluded":
// [patterns], "files": {NAME: {"bytes", "sha256"}}}. Names are relative to the file's folder; sums
// are of the bytes as they are stored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct FileSum {
  std::uint64_t bytes = 0;
  std::string sha256{};  // in hex
};

struct Checksums {
  std::map<std::string, FileSum, std::less<>> files{};
  // Of the slice of a base, or of an oplog.
  Timestamp first{};
  Timestamp last{};
  std::int64_t entries = 0;
  std::vector<std::string> excluded{};  // patterns of what a base lacks
};

inline constexpr std::string_view kChecksumsOfFolder = "checksums.json";
[[nodiscard]] std::string checksums_beside(const std::string& path);

// Errors are those of replace_file().
[[nodiscard]] Result<void> write_checksums(const std::string& path, const Checksums& checksums);
// Nothing: there is no such file. kDataLoss: it is damaged.
[[nodiscard]] Result<std::optional<Checksums>> read_checksums(const std::string& path);

// kDataLoss: the file is not as it was written.
[[nodiscard]] Result<void> check_sum(const std::string& path, const FileSum& is,
                                     const FileSum& should_be);
// What its checksums say of the dump of an oplog at `path`, a file; of its beginning if it was
// killed. Nothing: it has none. kDataLoss: they are damaged.
[[nodiscard]] Result<std::optional<FileSum>> sum_of_oplog_dump(const std::string& path);
// The dump of an oplog at `path`, a file, against the checksums beside it, if there are any.
// kDataLoss: it is not as it was written. It is read whole once for that.
[[nodiscard]] Result<void> check_oplog_dump(const std::string& path);
// Of the whole file. Errors are those of InputFile.
[[nodiscard]] Result<FileSum> sum_of_file(const std::string& path);
// Of its first bytes, or of as many as there are.
[[nodiscard]] Result<FileSum> sum_of_beginning(const std::string& path, std::uint64_t bytes);

}  // namespace idmint::restore
