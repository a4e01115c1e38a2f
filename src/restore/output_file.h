// A new file that is written once, from begin to end.
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

// In blocks of 1 MiB; as gzip data if that is wanted, compressed lightly. Only its owner may read
// it. For one thread.
//
// kResourceExhausted: the disk is full. kPermissionDenied, kUnavailable: it cannot be written.
class OutputFile {
 public:
  // kAlreadyExists: there is one.
  [[nodiscard]] static Result<std::unique_ptr<OutputFile>> create(const std::string& path,
                                                                  bool gzip);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] Result<void> write(std::span<const std::uint8_t> bytes);
  [[nodiscard]] Result<void> write(std::string_view text) {
    return write(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }
  // Writes what is left, and waits until the disk has it. Nothing is written after that.
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] const std::string& path() const { return path_; }
  // Of the bytes that the file has by now, as they are stored.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::string sha256() const { return hash_.hex(); }

 private:
  struct Stream;  // of zlib

  OutputFile(std::string path, int fd);
  [[nodiscard]] Result<void> flush(bool end);
  [[nodiscard]] Result<void> write_file(std::span<const std::uint8_t> bytes);

  const std::string path_;
  const int fd_;
  std::vector<std::uint8_t> block_;
  std::unique_ptr<Stream> stream_;  // nothing: it is not compressed
  std::vector<std::uint8_t> compressed_;
  Sha256 hash_{};
  std::uint64_t bytes_ = 0;
};

// How a failure to write is told.
[[nodiscard]] std::unexpected<Error> unwritable(const std::string& path, int error);

// Gives a file or a folder another name. kAlreadyExists: something has it.
[[nodiscard]] Result<void> rename_new(const std::string& from, const std::string& to);

// Writes a small file for its owner alone, in the place of one that is there: whoever opens it sees
// the old text or the new one, and the disk has the new one when this returns. Errors are those of
// OutputFile.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view text);

// Whether replace_file() could write there, as far as that can be known before. Leaves nothing.
[[nodiscard]] Result<void> check_replaceable(const std::string& path);

// Waits until the disk has the names of what is in a folder.
[[nodiscard]] Result<void> sync_folder(const std::string& path);

}  // namespace idmint::restore
