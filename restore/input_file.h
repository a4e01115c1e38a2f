// The bytes of a file that may be compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "restore/error_in.h"

namespace idmint::restore {

// The header of gzip data: the magic number, the only method, no reserved flag. A file of documents
// begins with a length instead, and two of these headers could be the length of a real document.
inline constexpr std::size_t kGzipHeader = 4;
[[nodiscard]] bool is_gzip(std::span<const std::uint8_t, kGzipHeader> begin);

// Reads a plain file as it is and uncompresses gzip data, whatever the file's name. For one thread.
class InputFile {
 public:
  enum class As : std::uint8_t { kPlain, kStored };  // kStored: does not uncompress
  // kNotFound, kPermissionDenied, kUnavailable: the file cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<InputFile>> open(const std::string& path,
                                                               As as = As::kPlain);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  struct Read {
    std::size_t size = 0;          // 0: the end
    int error = 0;                 // errno
    const char* damage = nullptr;  // the fault in the compressed data
  };
  [[nodiscard]] Read read(std::span<std::uint8_t> to);
  // Goes on behind the first `bytes` bytes, unread. Call it before read(). False: the data is
  // compressed, or has fewer.
  [[nodiscard]] bool skip(std::uint64_t bytes);

  // Bytes of the stored file that were read, and its size.
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Hashes the first `bytes` bytes of the stored file while they are read. Call it before read().
  void hash_first(std::uint64_t bytes);
  // SHA-256, in hex, of the hashed bytes read so far.
  [[nodiscard]] std::string sha256() const { return hash_ ? hash_->hex() : std::string(); }

 private:
  struct Stream;  // zlib's

  explicit InputFile(int fd);
  int begin(As as);  // 0 or errno
  Read read_file(std::span<std::uint8_t> to);

  const int fd_;
  std::uint64_t size_ = 0;
  std::uint64_t consumed_ = 0;
  bool ended_ = false;              // the current gzip member has ended
  std::unique_ptr<Stream> stream_;  // null: the file is not compressed
  std::vector<std::uint8_t> input_;
  std::optional<Sha256> hash_{};
  std::uint64_t to_hash_ = 0;
};

// The error for a failed read. kNotFound, kPermissionDenied or kUnavailable, by errno.
[[nodiscard]] std::unexpected<Error> unreadable(const std::string& path, int error);

// The text of a small file. kDataLoss: it is larger than `most`, or its compressed data is damaged.
[[nodiscard]] Result<std::string> read_text(const std::string& path, std::size_t most);

}  // namespace idmint::restore
