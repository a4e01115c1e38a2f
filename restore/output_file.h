// A new file, written once from beginning to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "restore/error_in.h"

namespace idmint::restore {

// Writes blocks of 1 MiB, past the page cache where the file system can (O_DIRECT): a base is
// larger than that cache, and would push out of it what a server on the same machine reads. Only
// the owner may read the file. For one thread. Errors:
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
  [[nodiscard]] std::uint64_t bytes() const { return bytes_ + used_; }
  [[nodiscard]] std::string sha256() const { return hash_.hex(); }

 private:
  struct alignas(4096) Page {
    std::uint8_t bytes[4096];
  };

  OutputFile(std::string path, int fd);
  [[nodiscard]] std::uint8_t* block() { return block_[0].bytes; }
  void set_direct(bool direct);
  [[nodiscard]] Result<void> write_block();

  const std::string path_;
  const int fd_;
  const std::unique_ptr<Page[]> block_;
  std::size_t used_ = 0;  // bytes of the block
  bool direct_ = false;
  bool may_be_direct_ = true;
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
