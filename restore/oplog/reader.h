// Reads a dumped oplog from a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restore/checksums.h"
#include "restore/document_reader.h"
#include "restore/error_in.h"
#include "restore/oplog/entry.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The oplog at `path`: the file itself, or a folder with oplog.bson or oplog.rs.bson, directly or
// in its subfolder local/, also as .gz. For a folder of kept backups, or its subfolder oplog/,
// the slices in order. kNotFound: there is none. kFailedPrecondition: there are several oplogs.
[[nodiscard]] Result<std::vector<std::string>> find_oplog_files(const std::string& path);

// A slice of an oplog is named by its first entry, which is the last one of the slice before it:
// "1795230181-0000000016.bson".
[[nodiscard]] std::string slice_name(Timestamp first);
// nullopt: it is no name of a slice.
[[nodiscard]] std::optional<Timestamp> first_of_slice(std::string_view file_name);

struct OplogReadOptions {
  OplogSpan span{};              // of a folder of slices, those before and after it are left out
  bool compare = false;          // each file with the checksums beside it, if there are any
  std::optional<FileSum> sum{};  // what the only file is compared with
  // Missing entries between two slices are passed over. Otherwise they are an error.
  bool over_holes = false;
};

// Reads in constant memory, in the order of the file, which it does not check. Slices are read one
// after the other; a part of an entry at the end of the newest one is passed over, as somebody is
// writing it, or was killed in that. For one thread.
class OplogReader {
 public:
  // `path`: as find_oplog_files(). Errors: those of DocumentReader, and:
  // - kDataLoss: checksums are damaged.
  // - kOutOfRange: no slice has a part of the span.
  [[nodiscard]] static Result<OplogReader> open(const std::string& path,
                                                const OplogReadOptions& options = {});

  // Valid until the next call. nullopt: the end. Errors:
  // - kDataLoss: the file is damaged or has changed, or a document is no entry; the message has the
  //   offset and the last good timestamp.
  // - kOutOfRange: entries are missing between two slices.
  [[nodiscard]] Result<std::optional<Entry>> next();

  // After kDataLoss: whether the file ends within an entry.
  [[nodiscard]] bool is_cut() const { return reader_.is_cut(); }
  // After an error of next(): whether only this document is no entry, and next() goes on behind it.
  [[nodiscard]] bool goes_on() const { return goes_on_; }

  // The file of the last entry from next(), and its offset there.
  [[nodiscard]] const std::string& path() const { return reader_.path(); }
  [[nodiscard]] std::uint64_t offset() const { return reader_.offset(); }
  // Bytes of all files, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return before_ + reader_.consumed(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // At the end, if compared: whether all files have checksums, and the bytes that these do not
  // cover.
  [[nodiscard]] bool has_checksums() const { return has_checksums_; }
  [[nodiscard]] std::uint64_t unchecked() const { return unchecked_; }
  // The bytes that the newest slice lacks of those that its checksums cover, as a copy of a slice
  // that grows may. The others are not compared.
  [[nodiscard]] std::uint64_t lacking() const { return lacking_; }

 private:
  OplogReader(DocumentReader reader, std::vector<std::string> rest, const OplogReadOptions& options)
      : reader_(std::move(reader)), rest_(std::move(rest)), options_(options) {}

  // Reads the checksums of the present file.
  [[nodiscard]] Result<void> begin_file();
  // Compares it with them.
  [[nodiscard]] Result<void> end_file();
  // Whether the error is a part of an entry behind what the checksums of the newest slice cover.
  [[nodiscard]] bool may_end_here() const;
  [[nodiscard]] bool is_newest() const { return is_sliced_ && rest_.empty(); }
  // The next file. False: there is none.
  [[nodiscard]] Result<bool> next_file();

  DocumentReader reader_;
  std::vector<std::string> rest_;  // the next one last
  OplogReadOptions options_;
  bool is_sliced_ = false;
  std::optional<FileSum> sum_{};  // of the present file
  bool has_checksums_ = true;
  bool overlaps_ = false;  // the first entry of this file must be the last one of the file before
  std::uint64_t unchecked_ = 0;
  std::uint64_t lacking_ = 0;
  std::uint64_t before_ = 0;
  std::uint64_t size_ = 0;
  Timestamp last_{};
  bool goes_on_ = false;
};

}  // namespace idmint::restore
