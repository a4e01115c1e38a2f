// Reads BSON documents from a file, one after the other, in constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/input_file.h"

namespace idmint::restore {

// Of a file as it is, or gzip, whatever its name is: by its first two bytes (1f 8b). For one
// thread.
//
// Errors name the file and the offset at which the document begins, in what was uncompressed.
// kDataLoss: it is cut, or no document. kNotFound, kPermissionDenied, kUnavailable: it cannot be
// read.
class DocumentReader {
 public:
  [[nodiscard]] static Result<DocumentReader> open(const std::string& path);

  // Valid until the next call. Nothing: the end of the file.
  [[nodiscard]] Result<std::optional<Document>> next();
  // Whether 4 bytes with all bits set come next, as in archives; then they are passed.
  [[nodiscard]] Result<bool> passed_terminator();
  // The next 4 bytes as a little-endian number, which are passed.
  [[nodiscard]] Result<std::uint32_t> next_number();

  // Where the last document begins, and where the next does.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Bytes of the file: how many were read, and how many there are. For progress.
  [[nodiscard]] std::uint64_t consumed() const { return file_->consumed(); }
  [[nodiscard]] std::uint64_t size() const { return file_->size(); }
  // As InputFile has them; to be called before anything is read.
  void hash_first(std::uint64_t bytes) { file_->hash_first(bytes); }
  [[nodiscard]] std::string sha256() const { return file_->sha256(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  DocumentReader(std::string path, std::unique_ptr<InputFile> file);
  // Whether so many bytes are in the buffer from begin_ on; fewer: the file ended.
  [[nodiscard]] Result<bool> have(std::size_t size);
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& what) const;

  std::string path_;
  std::unique_ptr<InputFile> file_;
  std::vector<std::uint8_t> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace idmint::restore
