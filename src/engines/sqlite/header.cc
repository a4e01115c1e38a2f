// The file itself, without its log, accessed through SQLite's own handle: closing another
// descriptor of the file would drop the locks of this process on it (see fcntl(2)).
#include <sqlite3.h>

#include <array>

#include "engines/sqlite/connection.h"
#include "engines/sqlite/schema.h"

namespace idmint::stores::sqlite {
namespace {

// The header of an SQLite file ("Database File Format"). Its numbers are big-endian.
constexpr std::size_t kHeader = 100;
constexpr std::size_t kFormatToWrite = 18;
constexpr std::size_t kUserVersionAt = 60;
constexpr std::size_t kApplicationIdAt = 68;

using Header = std::array<unsigned char, kHeader>;

std::uint32_t number_at(const Header& header, std::size_t at) {
  return static_cast<std::uint32_t>(header[at]) << 24 |
         static_cast<std::uint32_t>(header[at + 1]) << 16 |
         static_cast<std::uint32_t>(header[at + 2]) << 8 | header[at + 3];
}

void put_number(Header& header, std::size_t at, std::int64_t number) {
  for (std::size_t i = 0; i < 4; ++i)
    header[at + i] = static_cast<unsigned char>(number >> (24 - 8 * i));
}

sqlite3_file& file_of(sqlite3* db) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file));
  return *file;
}

int read_header(sqlite3* db, Header& header) {
  sqlite3_file& file = file_of(db);
  return file.pMethods->xRead(&file, header.data(), static_cast<int>(header.size()), 0);
}

}  // namespace

bool Connection::is_in_wal_mode() {
  Header header{};
  read_header(db_, header);
  return header[kFormatToWrite] == 2;
}

Result<std::int64_t> Connection::version_in_file() {
  Header header{};
  const int result = read_header(db_, header);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ)
    return std::unexpected(Error{Code::kUnavailable, "could not read " + path_ + ": " +
                                                         sqlite3_errstr(result) +
                                                         "; check the disk, then ask again"});
  return number_at(header, kUserVersionAt);
}

// The log's index has the number of the last frame at byte 16, and the number of the last frame in
// the file at byte 96 (SQLite's "WAL-mode File Format").
bool Connection::file_has_all_of_log() {
  constexpr int kRegion = 32768;
  sqlite3_file& file = file_of(db_);
  void volatile* index = nullptr;
  if (file.pMethods->xShmMap(&file, 0, kRegion, 0, &index) != SQLITE_OK || index == nullptr)
    return false;
  const auto* const numbers = static_cast<const std::uint32_t volatile*>(index);
  return numbers[16 / 4] == numbers[96 / 4];
}

Result<void> Connection::mark(std::int64_t version) {
  Header header{};
  int result = read_header(db_, header);
  if (result == SQLITE_OK) {
    put_number(header, kUserVersionAt, version | kMark);
    put_number(header, kApplicationIdAt, kApplicationId);  // a new file may have it in the log only
    sqlite3_file& file = file_of(db_);
    constexpr std::size_t kEnd = kApplicationIdAt + 4;
    result = file.pMethods->xWrite(&file, &header[kUserVersionAt], kEnd - kUserVersionAt,
                                   kUserVersionAt);
  }
  if (result != SQLITE_OK) return std::unexpected(not_marked(result));
  synced_ = 0;
  return sync_mark(version);
}

Result<void> Connection::sync_mark(std::int64_t version) {
  if (synced_ == version) return {};
  sqlite3_file& file = file_of(db_);
  const int result = file.pMethods->xSync(&file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
  if (result != SQLITE_OK) return std::unexpected(not_marked(result));
  synced_ = version;
  return {};
}

Error Connection::not_marked(int result) {
  if (result == SQLITE_FULL)
    return {Code::kResourceExhausted, "could not mark " + path_ +
                                          ": no space left; the values of this call are lost; "
                                          "free some and ask again"};
  poison();
  return {Code::kUnknown, "could not mark " + path_ + ": " + sqlite3_errstr(result) +
                              "; the values of this call are lost, and this handle does nothing "
                              "more: check the disk, then open the store again"};
}

}  // namespace idmint::stores::sqlite
