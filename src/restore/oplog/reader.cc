#include "restore/oplog/reader.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace idmint::restore {

Result<std::string> find_oplog_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::vector<std::string> found;
  for (const char* const name :
       {"oplog.bson", "oplog.bson.gz", "oplog.rs.bson", "oplog.rs.bson.gz", "local/oplog.rs.bson",
        "local/oplog.rs.bson.gz", "local/oplog.bson"}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, error)) found.push_back(file.string());
  }
  if (found.empty())
    return std::unexpected(
        Error{Code::kNotFound,
              "no oplog in " + path + ": neither oplog.bson nor local/oplog.rs.bson is there"});
  if (found.size() > 1)
    return std::unexpected(Error{Code::kFailedPrecondition, "two oplogs in " + path + ": name " +
                                                                found[0] + " or " + found[1]});
  return found.front();
}

Result<OplogReader> OplogReader::open(const std::string& path) {
  const Result<std::string> file = find_oplog_file(path);
  if (!file) return std::unexpected(file.error());
  Result<DocumentReader> reader = DocumentReader::open(*file);
  if (!reader) return std::unexpected(std::move(reader.error()));
  return OplogReader(std::move(*reader));
}

Result<std::optional<Entry>> OplogReader::next() {
  const auto with_last = [this](std::string message) {
    return std::move(message) + (last_ == Timestamp{}
                                     ? "; no entry before it is good"
                                     : "; the last good entry is " + print_timestamp(last_));
  };
  const Result<std::optional<Document>> read = reader_.next();
  goes_on_ = read.has_value();
  if (!read) {
    Error error = read.error();
    if (error.code == Code::kDataLoss) error.message = with_last(std::move(error.message));
    return std::unexpected(std::move(error));
  }
  const std::optional<Document>& document = *read;
  if (!document) return std::nullopt;
  Result<Entry> entry = parse_entry(*document);
  if (!entry)
    return std::unexpected(
        Error{entry.error().code, with_last(reader_.path() + ", byte " + std::to_string(offset()) +
                                            ": " + entry.error().message)});
  last_ = entry->at.ts;
  return *std::move(entry);
}

}  // namespace idmint::restore
