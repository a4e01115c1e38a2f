// The entries of an oplog that was dumped to a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idmint/result.h"
#include "restore/document_reader.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The oplog at `path`: the file itself, or of a folder oplog.bson, oplog.rs.bson, or one of them in
// its subfolder local/, also with .gz. kNotFound: none. kFailedPrecondition: several.
[[nodiscard]] Result<std::string> find_oplog_file(const std::string& path);

// In constant memory, in the order of the file, which is not checked here. For one thread.
class OplogReader {
 public:
  // `path` as find_oplog_file() takes it. Errors as DocumentReader.
  [[nodiscard]] static Result<OplogReader> open(const std::string& path);

  // Valid until the next call. Nothing: the end. kDataLoss: damaged, or no entry of an oplog, with
  // the offset and the last good timestamp.
  [[nodiscard]] Result<std::optional<Entry>> next();

  // Of the entry that next() gave last.
  [[nodiscard]] std::uint64_t offset() const { return reader_.offset(); }
  [[nodiscard]] const std::string& path() const { return reader_.path(); }
  // Bytes of the file, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return reader_.consumed(); }
  [[nodiscard]] std::uint64_t size() const { return reader_.size(); }
  // As InputFile has them; to be called before anything is read.
  void hash_first(std::uint64_t bytes) { reader_.hash_first(bytes); }
  [[nodiscard]] std::string sha256() const { return reader_.sha256(); }

 private:
  explicit OplogReader(DocumentReader reader) : reader_(std::move(reader)) {}

  DocumentReader reader_;
  Timestamp last_{};
};

}  // namespace idmint::restore
