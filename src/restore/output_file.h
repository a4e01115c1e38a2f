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

// Writes blocks of 1 MiB; with `gzip` compresses them at a low level. Only the owner may read the
// file. For one thread. Errors:
// - kResourceExhausted: the disk is full.
// - kPermissionDenied, kUnavailable: the file cannot be written.
class OutputFile {
 public:
  // kAlreadyExists: the file exists.
  [[nodiscard]] static Result<std::unique_ptr<OutputFile>> create(const std::string& path,
                                                                  bool gzip);
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
  // The size and the SHA-256 of the stored bytes so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string sha256() const { return hash_.hex(); }

 private:
  struct Stream;  // zlib's

  OutputFile(std::string path, int fd);
  [[nodiscard]] Result<void> flush(bool end);
  [[nodiscard]] Result<void> write_file(std::span<const std::uint8_t> bytes);

  const std::string path_;
  const int fd_;
  std::vector<std::uint8_t> block_;
  std::unique_ptr<Stream> stream_;  // null: the file is not compressed
  std::vector<std::uint8_t> compressed_;
  Sha256 hash_{};
  std::uint64_t bytes_ = 0;
};

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
