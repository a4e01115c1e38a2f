// Checksums of a dump: a file beside the output of dump and oplog. They reveal a changed, cut or
// missing file before anything is restored. A folder has checksums.json in it; an archive or an
// oplog has a file beside it, with its name and ".checksums.json".
//
// JSON: {"idmint_checksums": 1, "tool", "made", "oplog": {"first", "last", "entries"}, "excluded":
// [patterns], "files": {NAME: {"bytes", "sha256"}}}. Names are relative to the file's folder. Sums
// cover the bytes as stored, that is, compressed bytes of compressed files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restore/error_in.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct FileSum {
  std::uint64_t bytes = 0;
  std::string sha256{};  // in hex
};

struct Checksums {
  std::map<std::string, FileSum, std::less<>> files{};
  // The entries of the dumped oplog, or of the slice in a base.
  Timestamp first{};
  Timestamp last{};
  std::int64_t entries = 0;
  std::vector<std::string> excluded{};  // patterns of the namespaces that the base lacks
};

inline constexpr std::string_view kChecksumsOfFolder = "checksums.json";
[[nodiscard]] std::string checksums_beside(const std::string& path);

// Errors: those of replace_file().
[[nodiscard]] Result<void> write_checksums(const std::string& path, const Checksums& checksums);
// nullopt: there is no such file. kDataLoss: it is damaged.
[[nodiscard]] Result<std::optional<Checksums>> read_checksums(const std::string& path);

// kDataLoss: the file has changed since it was written.
[[nodiscard]] Result<void> check_sum(const std::string& path, const FileSum& is,
                                     const FileSum& should_be);
// The sum that the checksums beside `path`, the file of a dumped oplog, hold. It covers a beginning
// of the file if the dump was killed. nullopt: there are no checksums. kDataLoss: they are damaged.
[[nodiscard]] Result<std::optional<FileSum>> sum_of_oplog_dump(const std::string& path);
// Compares the dumped oplog in the file `path` with the checksums beside it, if there are any.
// Reads the part that they cover once. kDataLoss: the file has changed since it was written.
[[nodiscard]] Result<void> check_oplog_dump(const std::string& path);
// The sum of the whole file. Errors: those of InputFile.
[[nodiscard]] Result<FileSum> sum_of_file(const std::string& path);
// The sum of the first `bytes` bytes, or of the whole file if it is shorter.
[[nodiscard]] Result<FileSum> sum_of_beginning(const std::string& path, std::uint64_t bytes);

}  // namespace idmint::restore
