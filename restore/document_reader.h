// Reads BSON documents from a file, one after the other, in constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/input_file.h"

namespace idmint::restore {

// Reads plain or gzip files. The first bytes of the file decide which, not its name (is_gzip()).
// For one thread.
//
// Errors name the file and the offset in the uncompressed data at which the document begins:
// - kDataLoss: the document is cut or invalid.
// - kNotFound, kPermissionDenied, kUnavailable: the file cannot be read.
class DocumentReader {
 public:
  [[nodiscard]] static Result<DocumentReader> open(const std::string& path);

  // The document is valid until the next call. nullopt: the end of the file.
  [[nodiscard]] Result<std::optional<Document>> next();
  // Passes over the first `bytes` bytes, which end with a document. Call it before anything is
  // read. A plain file is not read for it. kDataLoss: no document ends there, as the file has
  // changed.
  [[nodiscard]] Result<void> pass_over(std::uint64_t bytes);
  // Whether the next 4 bytes have all bits set, as in archives. If so, skips them.
  [[nodiscard]] Result<bool> passed_terminator();
  // Reads the next 4 bytes as a little-endian number.
  [[nodiscard]] Result<std::uint32_t> next_number();

  // After kDataLoss: whether the file ends within the document, as where somebody is writing it.
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  // The offsets at which the last document begins and the next one will begin.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Bytes of the file that were read, and its size. For progress.
  [[nodiscard]] std::uint64_t consumed() const { return file_->consumed(); }
  [[nodiscard]] std::uint64_t size() const { return file_->size(); }
  // As InputFile's. Call it before anything is read.
  void hash_first(std::uint64_t bytes) { file_->hash_first(bytes); }
  [[nodiscard]] std::string sha256() const { return file_->sha256(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  DocumentReader(std::string path, std::unique_ptr<InputFile> file);
  // Whether the buffer has `size` bytes from begin_ on. False: the file ends before that.
  [[nodiscard]] Result<bool> have(std::size_t size);
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& what) const;

  std::string path_;
  std::unique_ptr<InputFile> file_;
  std::vector<std::uint8_t> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t position_ = 0;
  bool is_cut_ = false;
};

}  // namespace idmint::restore
