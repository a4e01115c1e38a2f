#include "restore/backup/writer.h"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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
      return std::unexpected(
          Error{Code::kAlreadyExists,
                path + " is there already: " +
                    (path == path_ ? "give another name"
                                   : "it is of a backup that was not finished; remove it")});
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

class FolderWriter final : public BackupWriter {
 public:
  explicit FolderWriter(const BackupTarget& target) : target_(target), place_(target.path) {}

  Result<void> open() {
    if (Result<void> free = place_.is_free(); !free) return free;
    if (Result<void> done = make_folder(place_.partial()); !done) return done;
    place_.made();
    return {};
  }

  Result<void> begin(const CollectionFacts& collection) override {
    const std::string folder = place_.partial() + "/" + collection.database;
    if (folders_.empty() || folders_.back() != folder) {
      if (Result<void> done = make_folder(folder); !done) return done;
      folders_.push_back(folder);
    }
    const Result<std::string> json = print_metadata(collection);
    if (!json) return std::unexpected(json.error());
    Result<void> done =
        write_text(folder + "/" + file_stem(collection.name) + ".metadata.json", *json);
    if (!done || collection.kind == CollectionKind::kView) return done;
    return open_file(folder + "/" + file_stem(data_name(collection)) + ".bson" +
                     (target_.gzip ? ".gz" : ""));
  }
  // The name is the same if it is compressed.
  Result<void> begin_oplog() override { return open_file(place_.partial() + "/oplog.bson"); }
  Result<void> add(Document document) override { return file_->write(document.bytes()); }
  Result<void> end() override {
    if (!file_) return {};  // a view
    Result<void> done = file_->finish();
    note(*file_);
    file_.reset();
    return done;
  }
  Result<void> finish(const Checksums& slice) override {
    Bson prelude;
    BSON_APPEND_UTF8(prelude.get(), "ServerVersion", target_.server_version.c_str());
    BSON_APPEND_UTF8(prelude.get(), "ToolVersion", std::string(kTool).c_str());
    const Result<std::string> json = write_extended_json(prelude.view());
    if (!json) return std::unexpected(json.error());
    Result<void> done = write_text(place_.partial() + "/prelude.json", *json);
    sums_.first = slice.first;
    sums_.last = slice.last;
    sums_.entries = slice.entries;
    sums_.excluded = target_.excluded;
    if (done)
      done = write_checksums(place_.partial() + "/" + std::string(kChecksumsOfFolder), sums_);
    for (const std::string& folder : folders_) {
      if (done) done = sync_folder(folder);
    }
    if (done) done = sync_folder(place_.partial());
    return done ? place_.finish() : done;
  }

 private:
  static Result<void> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0) return unwritable(path, errno);
    return {};
  }
  Result<void> open_file(const std::string& path) {
    Result<std::unique_ptr<OutputFile>> file = OutputFile::create(path, target_.gzip);
    if (!file) return std::unexpected(std::move(file.error()));
    file_ = *std::move(file);
    return {};
  }
  Result<void> write_text(const std::string& path, const std::string& text) {
    const Result<std::unique_ptr<OutputFile>> file =
        OutputFile::create(path + (target_.gzip ? ".gz" : ""), target_.gzip);
    if (!file) return std::unexpected(file.error());
    Result<void> done = (*file)->write(text);
    if (done) done = (*file)->finish();
    note(**file);
    return done;
  }
  void note(const OutputFile& file) {
    sums_.files[file.path().substr(place_.partial().size() + 1)] = {.bytes = file.bytes(),
                                                                    .sha256 = file.sha256()};
  }

  const BackupTarget target_;
  Slot place_;
  Checksums sums_{};
  std::vector<std::string> folders_;
  std::unique_ptr<OutputFile> file_;
};

class ArchiveWriter final : public BackupWriter {
 public:
  explicit ArchiveWriter(const BackupTarget& target) : target_(target), place_(target.path) {}

  Result<void> open(std::span<const CollectionFacts> collections) {
    if (Result<void> free = place_.is_free(); !free) return free;
    Result<std::unique_ptr<OutputFile>> file = OutputFile::create(place_.partial(), target_.gzip);
    if (!file) return std::unexpected(std::move(file.error()));
    file_ = *std::move(file);
    place_.made();
    const Bson header = Bson("concurrent_collections", 1, "version", kArchiveVersion,
                             "server_version", target_.server_version, "tool_version", kTool);
    Result<void> done = number(kArchiveMagic);
    if (done) done = file_->write(header.view().bytes());
    for (const CollectionFacts& each : collections) {
      const Result<std::string> json = print_metadata(each);
      if (!json) return std::unexpected(json.error());
      if (done)
        done = describe(each.database, each.name, *json, std::string(name(each.kind)).c_str());
    }
    if (done)
      done =
          describe(std::string(kArchivedOplog.first), std::string(kArchivedOplog.second), "", "");
    return done ? number(kTerminator) : done;
  }

  // A view has a block without documents, which makes the common tools create it.
  Result<void> begin(const CollectionFacts& collection) override {
    return begin(collection.database, data_name(collection));
  }
  Result<void> begin_oplog() override {
    return begin(std::string(kArchivedOplog.first), std::string(kArchivedOplog.second));
  }
  Result<void> add(Document document) override {
    crc_ = crc64(crc_, document.bytes());
    return file_->write(document.bytes());
  }
  Result<void> end() override {
    Result<void> done = number(kTerminator);
    if (done) done = header(true);
    return done ? number(kTerminator) : done;
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
  Result<void> number(std::uint32_t number) {
    std::array<std::uint8_t, 4> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
    return file_->write(bytes);
  }
  Result<void> describe(const std::string& database, const std::string& collection,
                        const std::string& metadata, const char* type) {
    const Bson row = Bson("db", database, "collection", collection, "metadata", metadata, "size", 0,
                          "type", type);
    return file_->write(row.view().bytes());
  }
  Result<void> header(bool end) {
    const Bson row = Bson("db", database_, "collection", collection_, "EOF", end, "CRC",
                          end ? static_cast<std::int64_t>(crc_) : 0);
    return file_->write(row.view().bytes());
  }
  Result<void> begin(std::string database, std::string collection) {
    database_ = std::move(database);
    collection_ = std::move(collection);
    crc_ = 0;
    return header(false);
  }

  const BackupTarget target_;
  Slot place_;
  std::unique_ptr<OutputFile> file_;
  std::string database_;
  std::string collection_;
  std::uint64_t crc_ = 0;
};

template <class Writer, class... Arguments>
Result<std::unique_ptr<BackupWriter>> opened(const BackupTarget& target,
                                             const Arguments&... arguments) {
  auto writer = std::make_unique<Writer>(target);
  if (Result<void> done = writer->open(arguments...); !done)
    return std::unexpected(std::move(done.error()));
  return writer;
}

}  // namespace

Result<std::unique_ptr<BackupWriter>> write_backup(const BackupTarget& target,
                                                   std::span<const CollectionFacts> collections) {
  for (const CollectionFacts& each : collections) {
    auto wrong = wrong_database_name(each.database);
    if (!wrong) wrong = wrong_collection_name(each.database, each.name);
    if (wrong) return std::unexpected(Error{Code::kInvalidArgument, *std::move(wrong)});
  }
  return target.form == BackupForm::kFolder ? opened<FolderWriter>(target)
                                            : opened<ArchiveWriter>(target, collections);
}

}  // namespace idmint::restore
