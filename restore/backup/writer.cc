#include "restore/backup/writer.h"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "restore/backup/archive_format.h"
#include "restore/backup/crc64.h"
#include "restore/backup/metadata.h"
#include "restore/backup/names.h"
#include "restore/output_file.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTool = "idmint-restore " IDMINT_VERSION;

// Removes trailing slashes.
std::string trimmed(const std::string& path) {
  return path.substr(0, path.find_last_not_of('/') + 1);
}

// The place of a backup until it is complete.
class Slot {
 public:
  explicit Slot(const std::string& path) : path_(trimmed(path)), partial_(path_ + ".partial") {}
  ~Slot() {
    std::error_code ignored;
    if (made_) fs::remove_all(partial_, ignored);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  [[nodiscard]] const std::string& partial() const { return partial_; }
  [[nodiscard]] Result<void> is_free() const {
    for (const std::string& path : {path_, partial_}) {
      std::error_code error;
      if (fs::symlink_status(path, error).type() == fs::file_type::not_found) continue;
      return fail(Code::kAlreadyExists,
                  path + " is there already: " +
                      (path == path_ ? "give another name"
                                     : "it is of a backup that was not finished; remove it"));
    }
    return {};
  }
  // The destructor removes it from now on.
  void made() { made_ = true; }
  [[nodiscard]] Result<void> finish() {
    if (Result<void> done = rename_new(partial_, path_); !done) return done;
    made_ = false;
    const fs::path folder = fs::path(path_).parent_path();
    return sync_folder(folder.empty() ? "." : folder.string());
  }

 private:
  const std::string path_;
  const std::string partial_;
  bool made_ = false;
};

// Compressed if the backup is.
Result<Block> block_of(std::vector<std::uint8_t> bytes, bool gzip) {
  Block block{.bytes = std::move(bytes)};
  if (!gzip) return block;
  Result<std::vector<std::uint8_t>> compressed = gzip_member(block.bytes);
  if (!compressed) return error_in(compressed);
  block.compressed = *std::move(compressed);
  return block;
}
Result<void> write(OutputFile& file, const Block& block) {
  return file.write(block.compressed.empty() ? block.bytes : block.compressed);
}
Result<void> write(OutputFile& file, std::vector<std::uint8_t> bytes, bool gzip) {
  const Result<Block> block = block_of(std::move(bytes), gzip);
  return block ? write(file, *block) : error_in(block);
}

void append(std::vector<std::uint8_t>& to, std::span<const std::uint8_t> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}
std::size_t size_of(std::span<const Document> documents) {
  std::size_t size = 0;
  for (const Document each : documents) size += each.bytes().size();
  return size;
}

class FolderWriter final : public BackupWriter {
 public:
  FolderWriter(const BackupTarget& target, std::span<const CollectionFacts> collections)
      : target_(target), collections_(collections), place_(target.path) {}

  Result<void> open() {
    if (Result<void> free = place_.is_free(); !free) return free;
    if (Result<void> done = make_folder(place_.partial()); !done) return done;
    place_.made();
    return {};
  }

  bool compresses() const override { return target_.gzip; }
  Result<Block> pack(std::size_t, std::span<const Document> documents) const override {
    std::vector<std::uint8_t> bytes;
    bytes.reserve(size_of(documents));
    for (const Document each : documents) append(bytes, each.bytes());
    return block_of(std::move(bytes), target_.gzip);
  }
  Result<void> begin(std::size_t of) override {
    // The name is the same if it is compressed.
    if (of == kOplog) return open_file(of, place_.partial() + "/oplog.bson");
    const CollectionFacts& collection = collections_[of];
    const std::string folder = place_.partial() + "/" + collection.database;
    if (!folders_.contains(folder)) {
      if (Result<void> done = make_folder(folder); !done) return done;
      folders_.insert(folder);
    }
    const Result<std::string> json = print_metadata(collection);
    if (!json) return error_in(json);
    Result<void> done =
        write_text(folder + "/" + file_stem(collection.name) + ".metadata.json", *json);
    if (!done || collection.kind == CollectionKind::kView) return done;
    return open_file(of, folder + "/" + file_stem(data_name(collection)) + ".bson" +
                             (target_.gzip ? ".gz" : ""));
  }
  Result<void> add(std::size_t of, const Block& block) override {
    return write(*files_.at(of), block);
  }
  Result<void> put(std::size_t of, std::span<const Document> documents) override {
    if (target_.gzip) return BackupWriter::put(of, documents);
    OutputFile& file = *files_.at(of);
    for (const Document each : documents)
      if (Result<void> done = file.write(each.bytes()); !done) return done;
    return {};
  }
  Result<void> end(std::size_t of) override {
    const auto file = files_.find(of);
    if (file == files_.end()) return {};  // a view
    Result<void> done;
    if (file->second->bytes() == 0) done = write(*file->second, {}, target_.gzip);
    if (done) done = close(*file->second);
    files_.erase(file);
    return done;
  }
  Result<void> finish(const Checksums& slice) override {
    Bson prelude;
    BSON_APPEND_UTF8(prelude.get(), "ServerVersion", target_.server_version.c_str());
    BSON_APPEND_UTF8(prelude.get(), "ToolVersion", std::string(kTool).c_str());
    const Result<std::string> json = write_extended_json(prelude.view());
    if (!json) return error_in(json);
    Result<void> done = write_text(place_.partial() + "/prelude.json", *json);
    sums_.first = slice.first;
    sums_.last = slice.last;
    sums_.entries = slice.entries;
    sums_.excluded = target_.excluded;
    if (done)
      done = write_checksums(place_.partial() + "/" + std::string(kChecksumsOfFolder), sums_);
    for (const std::string& folder : folders_)
      if (done) done = sync_folder(folder);
    if (done) done = sync_folder(place_.partial());
    return done ? place_.finish() : done;
  }

 private:
  static Result<void> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0) return unwritable(path, errno);
    return {};
  }
  Result<void> open_file(std::size_t of, const std::string& path) {
    Result<std::unique_ptr<OutputFile>> file = OutputFile::create(path);
    if (!file) return error_in(file);
    files_[of] = *std::move(file);
    return {};
  }
  Result<void> write_text(const std::string& path, const std::string& text) {
    const Result<std::unique_ptr<OutputFile>> file =
        OutputFile::create(path + (target_.gzip ? ".gz" : ""));
    if (!file) return error_in(file);
    Result<void> done = write(**file, {text.begin(), text.end()}, target_.gzip);
    return done ? close(**file) : done;
  }
  // Waits until it is on disk, and notes its checksum.
  Result<void> close(OutputFile& file) {
    Result<void> done = file.finish();
    sums_.files[file.path().substr(place_.partial().size() + 1)] = {.bytes = file.bytes(),
                                                                    .sha256 = file.sha256()};
    return done;
  }

  const BackupTarget target_;
  const std::span<const CollectionFacts> collections_;
  Slot place_;
  Checksums sums_{};
  std::set<std::string> folders_;
  std::map<std::size_t, std::unique_ptr<OutputFile>> files_;  // those that are open
};

std::array<std::uint8_t, 4> number_of_archive(std::uint32_t number) {
  std::array<std::uint8_t, 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return bytes;
}

// Each block is the header of its collection, documents and a terminator. Blocks of several
// collections may be mixed. The last block of each has no documents, and their CRC.
class ArchiveWriter final : public BackupWriter {
 public:
  ArchiveWriter(const BackupTarget& target, std::span<const CollectionFacts> collections)
      : target_(target), collections_(collections), place_(target.path) {}

  Result<void> open() {
    if (Result<void> free = place_.is_free(); !free) return free;
    Result<std::unique_ptr<OutputFile>> file = OutputFile::create(place_.partial());
    if (!file) return error_in(file);
    file_ = *std::move(file);
    place_.made();
    std::vector<std::uint8_t> prelude;
    append(prelude, number_of_archive(kArchiveMagic));
    const Bson header =
        Bson("concurrent_collections", static_cast<std::int32_t>(target_.at_once), "version",
             kArchiveVersion, "server_version", target_.server_version, "tool_version", kTool);
    append(prelude, header.view().bytes());
    for (const CollectionFacts& each : collections_) {
      const Result<std::string> json = print_metadata(each);
      if (!json) return error_in(json);
      describe(prelude, each.database, each.name, *json, name(each.kind));
    }
    describe(prelude, kArchivedOplog.first, kArchivedOplog.second, "", "");
    append(prelude, number_of_archive(kTerminator));
    return write(*file_, std::move(prelude), target_.gzip);
  }

  bool compresses() const override { return target_.gzip; }
  Result<Block> pack(std::size_t of, std::span<const Document> documents) const override {
    return block_of(framed(of, false, 0, documents), target_.gzip);
  }
  Result<void> begin(std::size_t) override { return {}; }
  Result<void> add(std::size_t of, const Block& block) override {
    const std::span<const std::uint8_t> bytes(block.bytes);
    const std::size_t header = framed(of, false, 0, {}).size() - kFrameEnd;
    std::uint64_t& crc = crcs_[of];
    crc = crc64(crc, bytes.subspan(header, bytes.size() - header - kFrameEnd));
    return write(*file_, block);
  }
  // A block without documents makes the common tools create a view, or an empty collection.
  Result<void> end(std::size_t of) override {
    Result<void> done;
    if (!crcs_.contains(of)) done = write(*file_, framed(of, false, 0, {}), target_.gzip);
    if (done) done = write(*file_, framed(of, true, crcs_[of], {}), target_.gzip);
    return done;
  }
  Result<void> finish(const Checksums& slice) override {
    Result<void> done = file_->finish();
    if (!done) return done;
    Checksums sums = slice;
    sums.excluded = target_.excluded;
    const std::string path = trimmed(target_.path);
    sums.files[std::filesystem::path(path).filename().string()] = {.bytes = file_->bytes(),
                                                                   .sha256 = file_->sha256()};
    // Written first, so that a backup with its final name is complete.
    done = write_checksums(checksums_beside(path), sums);
    return done ? place_.finish() : done;
  }

 private:
  static constexpr std::size_t kFrameEnd = 4;  // the bytes of the terminator

  static void describe(std::vector<std::uint8_t>& to, std::string_view database,
                       std::string_view collection, const std::string& metadata,
                       std::string_view type) {
    const Bson row = Bson("db", database, "collection", collection, "metadata", metadata, "size", 0,
                          "type", type);
    append(to, row.view().bytes());
  }
  [[nodiscard]] std::vector<std::uint8_t> framed(std::size_t of, bool end, std::uint64_t crc,
                                                 std::span<const Document> documents) const {
    std::string database(kArchivedOplog.first);
    std::string collection(kArchivedOplog.second);
    if (of != kOplog) {
      database = collections_[of].database;
      collection = data_name(collections_[of]);
    }
    const Bson header = Bson("db", database, "collection", collection, "EOF", end, "CRC",
                             static_cast<std::int64_t>(crc));
    std::vector<std::uint8_t> bytes;
    bytes.reserve(header.view().bytes().size() + size_of(documents) + kFrameEnd);
    append(bytes, header.view().bytes());
    for (const Document each : documents) append(bytes, each.bytes());
    append(bytes, number_of_archive(kTerminator));
    return bytes;
  }

  const BackupTarget target_;
  const std::span<const CollectionFacts> collections_;
  Slot place_;
  std::unique_ptr<OutputFile> file_;
  std::map<std::size_t, std::uint64_t> crcs_;  // of those that have a block
};

template <class Writer>
Result<std::unique_ptr<BackupWriter>> opened(const BackupTarget& target,
                                             std::span<const CollectionFacts> collections) {
  auto writer = std::make_unique<Writer>(target, collections);
  if (Result<void> done = writer->open(); !done) return error_in(done);
  return writer;
}

}  // namespace

Result<std::unique_ptr<BackupWriter>> write_backup(const BackupTarget& target,
                                                   std::span<const CollectionFacts> collections) {
  for (const CollectionFacts& each : collections) {
    auto wrong = wrong_database_name(each.database);
    if (!wrong) wrong = wrong_collection_name(each.database, each.name);
    if (wrong) return fail(Code::kInvalidArgument, *std::move(wrong));
  }
  return target.form == BackupForm::kFolder ? opened<FolderWriter>(target, collections)
                                            : opened<ArchiveWriter>(target, collections);
}

}  // namespace idmint::restore
