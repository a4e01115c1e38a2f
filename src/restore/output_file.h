// A new file, written once from beginning to end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "idmint/result.h"

namespace idmint::restore {

// Writes blocks of 1 MiB. Only the owner may read the file. For one thread. Errors:
// - kResourceExhausted: the disk is full.
// - kPermissionDenied, kUnavailable: the file cannot be written.
class OutputFile {
 public:
  // kAlreadyExists: the file exists.
  [[nodiscard]] static Result<std::unique_ptr<OutputFile>> create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] Result<void> write(std::span<const std::uint8_t> bytes);
  [[nodiscard]] Result<void> write(std::string_view text) {
    return write(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }
  // Writes the rest and waits until it is on disk. No write() may follow.
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] const std::string& path() const { return path_; }
  // The size of what write() got; the SHA-256 of the file, after finish().
  [[nodiscard]] std::uint64_t bytes() const { return bytes_ + block_.size(); }
  [[nodiscard]] std::string sha256() const { return hash_.hex(); }

 private:
  OutputFile(std::string path, int fd);
  [[nodiscard]] Result<void> write_file(std::span<const std::uint8_t> bytes);

  const std::string path_;
  const int fd_;
  std::vector<std::uint8_t> block_;
  Sha256 hash_{};
  std::uint64_t bytes_ = 0;
};

// A whole member of a gzip file, compressed at a low level. Members may follow one another.
// kResourceExhausted: there is no memory.
[[nodiscard]] Result<std::vector<std::uint8_t>> gzip_member(std::span<const std::uint8_t> bytes);

// The error for a failed write.
[[nodiscard]] std::unexpected<Error> unwritable(const std::string& path, int error);

// Renames a file or a folder. kAlreadyExists: the new name is taken.
[[nodiscard]] Result<void> rename_new(const std::string& from, const std::string& to);

// Writes a small file for its owner alone, and replaces an existing one atomically: readers see the
// old text or the new one. The new one is on disk when this returns. Errors: those of OutputFile.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view text);

// Whether replace_file() could write there, as far as this can be tested. Leaves nothing behind.
[[nodiscard]] Result<void> check_replaceable(const std::string& path);

// Waits until the names in the folder are on disk.
[[nodiscard]] Result<void> sync_folder(const std::string& path);

}  // namespace idmint::restore
