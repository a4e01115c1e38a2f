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
#include "idmint/result.h"

namespace idmint::restore {

// How gzip data begins: its mark, its one method, and none of the flags that nobody has used. Of a
// file of documents the same bytes are a length; two of them would be the length of real ones.
inline constexpr std::size_t kGzipHeader = 4;
[[nodiscard]] bool is_gzip(std::span<const std::uint8_t, kGzipHeader> begin);

// As it is, or of gzip data what was compressed, whatever its name is. For one thread.
class InputFile {
 public:
  enum class As : std::uint8_t { kPlain, kStored };  // kStored: not uncompressed
  // kNotFound, kPermissionDenied, kUnavailable: it cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<InputFile>> open(const std::string& path,
                                                               As as = As::kPlain);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  struct Read {
    std::size_t size = 0;          // 0: the end
    int error = 0;                 // errno
    const char* damage = nullptr;  // what is wrong with the compressed data
  };
  [[nodiscard]] Read read(std::span<std::uint8_t> to);

  // Bytes of the file itself: how many were read, and how many there are.
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // From now on the first so many bytes of the file itself are hashed as they are read. To be
  // called before read().
  void hash_first(std::uint64_t bytes);
  // SHA-256 of those that were read, in hex.
  [[nodiscard]] std::string sha256() const { return hash_ ? hash_->hex() : std::string(); }

 private:
  struct Stream;  // of zlib

  explicit InputFile(int fd);
  int begin(As as);  // 0 or errno
  Read read_file(std::span<std::uint8_t> to);

  const int fd_;
  std::uint64_t size_ = 0;
  std::uint64_t consumed_ = 0;
  bool ended_ = false;              // a member of the gzip file
  std::unique_ptr<Stream> stream_;  // nothing: it is not compressed
  std::vector<std::uint8_t> input_;
  std::optional<Sha256> hash_{};
  std::uint64_t to_hash_ = 0;
};

// How a failure to read is told. kNotFound, kPermissionDenied, kUnavailable.
[[nodiscard]] std::unexpected<Error> unreadable(const std::string& path, int error);

// All of a small file. kDataLoss: larger than `most`, or its compressed data is damaged.
[[nodiscard]] Result<std::string> read_text(const std::string& path, std::size_t most);

}  // namespace idmint::restore
