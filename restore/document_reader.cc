#include "restore/document_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/errors.h"

namespace idmint::restore {
namespace {

// The bounds of the buffer. It is small for a small file: a backup may have thousands.
constexpr std::size_t kSmallest = std::size_t{16} << 10;
constexpr std::size_t kLargest = std::size_t{1} << 20;

// Files that people give for one of documents, by their first four bytes as a number. None can be
// the length of a document.
struct Kind {
  std::uint32_t begin;
  std::uint32_t mask;
  const char* name;
};
constexpr std::array kKinds = {
    Kind{0x8199e26d, UINT32_MAX,
         "an archive of mongodump, not a file of documents: give it as --base; an oplog is dumped "
         "by idmint-restore oplog, or by mongodump to a folder"},
    Kind{0xfd2fb528, UINT32_MAX, "compressed by zstd: uncompress it with zstd -d"},
    Kind{0x587a37fd, UINT32_MAX, "compressed by xz: uncompress it with xz -d"},
    Kind{0x184d2204, UINT32_MAX, "compressed by lz4: uncompress it with lz4 -d"},
    Kind{0x30685a42, 0xf0ffffff, "compressed by bzip2: uncompress it with bzip2 -d"},
    Kind{0x04034b50, UINT32_MAX, "a zip file: unpack it"},
};

// Null: none of them.
const char* kind_of(std::uint32_t begin) {
  for (const Kind& each : kKinds)
    if ((begin & each.mask) == each.begin) return each.name;
  return nullptr;
}

}  // namespace

Result<DocumentReader> DocumentReader::open(const std::string& path) {
  Result<std::unique_ptr<InputFile>> file = InputFile::open(path);
  if (!file) return error_in(file);
  return DocumentReader(path, *std::move(file));
}

DocumentReader::DocumentReader(std::string path, std::unique_ptr<InputFile> file)
    : path_(std::move(path)),
      file_(std::move(file)),
      buffer_(std::clamp<std::size_t>(4 * file_->size(), kSmallest, kLargest)) {}

std::unexpected<Error> DocumentReader::damaged(const std::string& what) const {
  return fail(Code::kDataLoss,
              path_ + " is damaged at byte " + std::to_string(position_) + ": " + what);
}

Result<bool> DocumentReader::have(std::size_t size) {
  if (end_ - begin_ >= size) return true;
  if (buffer_.size() - begin_ < size) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  while (end_ - begin_ < size) {
    // Grows with the data that arrives, not to a size that a damaged length claims.
    if (end_ == buffer_.size()) buffer_.resize(std::min(2 * end_, begin_ + size));
    const InputFile::Read read = file_->read(std::span(buffer_).subspan(end_));
    if (read.error != 0) return unreadable(path_, read.error);
    if (read.damage != nullptr) return damaged(read.damage);
    if (read.size == 0) return false;
    end_ += read.size;
  }
  return true;
}

Result<std::optional<Document>> DocumentReader::next() {
  const Result<bool> begins = have(4);
  if (!begins) return error_in(begins);
  if (!*begins) {
    if (end_ == begin_) return std::nullopt;
    is_cut_ = true;
    return damaged("the file ends within the length of a document");
  }
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + begin_, sizeof length);
  length = BSON_UINT32_FROM_LE(length);
  if (const char* const kind = position_ == 0 ? kind_of(length) : nullptr; kind != nullptr)
    return fail(Code::kInvalidArgument, path_ + " is " + kind);
  if (length < 5 || length > kLargestDocument)
    return damaged("a document cannot be " + std::to_string(length) + " bytes long");
  const Result<bool> whole = have(length);
  if (!whole) return error_in(whole);
  is_cut_ = !*whole;
  if (is_cut_)
    return damaged("the file ends after " + std::to_string(end_ - begin_) + " of the " +
                   std::to_string(length) + " bytes of a document");
  const Document document = Document::of({buffer_.data() + begin_, length});
  if (!document) return damaged("a document does not end where its length says");
  offset_ = position_;
  position_ += length;
  begin_ += length;
  return document;
}

Result<void> DocumentReader::pass_over(std::uint64_t bytes) {
  if (file_->skip(bytes)) {
    offset_ = position_ = bytes;
    return {};
  }
  while (position_ < bytes) {
    const Result<std::optional<Document>> passed = next();
    if (!passed) return error_in(passed);
    if (!*passed) break;
  }
  if (position_ == bytes) return {};
  return damaged("no document ends at byte " + std::to_string(bytes) + ", as one did");
}

Result<bool> DocumentReader::passed_terminator() {
  const Result<bool> there = have(4);
  if (!there) return error_in(there);
  constexpr std::array<std::uint8_t, 4> terminator{0xff, 0xff, 0xff, 0xff};
  if (!*there || !std::equal(terminator.begin(), terminator.end(),
                             buffer_.begin() + static_cast<std::ptrdiff_t>(begin_)))
    return false;
  begin_ += 4;
  position_ += 4;
  return true;
}

Result<std::uint32_t> DocumentReader::next_number() {
  const Result<bool> there = have(4);
  if (!there) return error_in(there);
  if (!*there) return damaged("the file ends where a number is due");
  std::uint32_t number = 0;
  std::memcpy(&number, buffer_.data() + begin_, sizeof number);
  if (const char* const kind = position_ == 0 ? kind_of(BSON_UINT32_FROM_LE(number)) : nullptr;
      kind != nullptr && BSON_UINT32_FROM_LE(number) != kKinds.front().begin)
    return fail(Code::kInvalidArgument, path_ + " is " + kind);
  begin_ += 4;
  position_ += 4;
  return BSON_UINT32_FROM_LE(number);
}

}  // namespace idmint::restore
