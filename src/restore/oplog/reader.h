// Reads a dumped oplog from a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idmint/result.h"
#include "restore/document_reader.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The oplog at `path`: the file itself, or a folder with oplog.bson or oplog.rs.bson, directly or
// in its subfolder local/, also as .gz. kNotFound: there is none. kFailedPrecondition: there are
// several.
[[nodiscard]] Result<std::string> find_oplog_file(const std::string& path);

// Reads in constant memory, in the order of the file, which it does not check. For one thread.
class OplogReader {
 public:
  // `path`: as find_oplog_file(). Errors: those of DocumentReader.
  [[nodiscard]] static Result<OplogReader> open(const std::string& path);

  // Valid until the next call. nullopt: the end. kDataLoss: the file is damaged, or a document is
  // no entry; the message has the offset and the last good timestamp.
  [[nodiscard]] Result<std::optional<Entry>> next();

  // After an error of next(): whether only this document is no entry, and next() goes on behind it.
  [[nodiscard]] bool goes_on() const { return goes_on_; }

  // Of the last entry from next().
  [[nodiscard]] std::uint64_t offset() const { return reader_.offset(); }
  [[nodiscard]] const std::string& path() const { return reader_.path(); }
  // Bytes of the file, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return reader_.consumed(); }
  [[nodiscard]] std::uint64_t size() const { return reader_.size(); }
  // As InputFile's. Call it before anything is read.
  void hash_first(std::uint64_t bytes) { reader_.hash_first(bytes); }
  [[nodiscard]] std::string sha256() const { return reader_.sha256(); }

 private:
  explicit OplogReader(DocumentReader reader) : reader_(std::move(reader)) {}

  DocumentReader reader_;
  Timestamp last_{};
  bool goes_on_ = false;
};

}  // namespace idmint::restore
