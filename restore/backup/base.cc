#include "restore/backup/base.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/errors.h"
#include "restore/backup/names.h"
#include "restore/backup/parts.h"
#include "restore/namespaces.h"

namespace idmint::restore {

std::string data_name(const CollectionFacts& collection) {
  return collection.kind == CollectionKind::kTimeSeries ? std::string(kBuckets) + collection.name
                                                        : collection.name;
}

void Batch::add(Document document) {
  bytes_.insert(bytes_.end(), document.bytes().begin(), document.bytes().end());
  sizes_.push_back(document.bytes().size());
}

Result<void> Batch::give(const CollectionFacts& collection, const TakeDocuments& take) {
  if (sizes_.empty()) return {};
  documents_.clear();
  std::span<const std::uint8_t> rest = bytes_;
  for (const std::size_t size : sizes_) {
    documents_.push_back(Document::of(rest.first(size)));
    rest = rest.subspan(size);
  }
  Result<void> taken = take(collection, documents_);
  bytes_.clear();
  sizes_.clear();
  return taken;
}

bool leaves_out(const BaseOptions& options, const std::string& database,
                const std::string& collection) {
  return is_left_out(database, collection) &&
         !(options.users && is_users(database + "." + collection));
}

std::optional<CollectionFacts> users_of_one_database(const BaseOptions& options,
                                                     std::string_view collection) {
  const std::string ns(collection.substr(collection.starts_with('$') ? 1 : 0));
  if (!options.users || ns.size() == collection.size() || !is_users(ns)) return std::nullopt;
  CollectionFacts facts{.database = "admin", .name = collection_of(ns)};
  facts.indexes.push_back(Bson("v", 2, "key", Bson("_id", 1), "name", "_id_"));
  return facts;
}

bool may_show_sharding(std::string_view database, std::string_view collection) {
  constexpr std::array<std::string_view, 3> of_clusters = {"shards", "collections", "chunks"};
  return database == "config" ? std::ranges::find(of_clusters, collection) != of_clusters.end()
                              : database == "admin" && collection == "system.version";
}

Result<void> refuse_sharded(std::string_view database, std::string_view collection,
                            Document document, const std::string& path) {
  if (!may_show_sharding(database, collection)) return {};
  std::string shows;
  if (database == "config") {
    shows = "config." + std::string(collection) + " is not empty";
  } else if (document.text("_id") == "shardIdentity") {
    shows = "it has a shard identity";
  }
  if (shows.empty()) return {};
  return fail(
      Code::kFailedPrecondition,
      path + " is of a sharded cluster, as " + shows +
          ": that is not restored by one oplog, as chunks move between its shards; use a "
          "backup that covers the whole cluster; where you know that it is of a plain replica "
          "set, add --not-sharded");
}

Error at_byte(const std::string& path, std::uint64_t offset, Error error) {
  return in_context(path + ", byte " + std::to_string(offset), std::move(error));
}

std::string stamp_of_files(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  std::vector<std::string> files = {path};
  if (fs::is_directory(path, failed)) {
    for (fs::recursive_directory_iterator
             at(path, fs::directory_options::follow_directory_symlink, failed),
         end;
         !failed && at != end; at.increment(failed))
      files.push_back(at->path().string());
  } else if (fs::exists(checksums_beside(path), failed)) {
    files.push_back(checksums_beside(path));
  }
  if (failed) return {};
  std::ranges::sort(files);
  Sha256 stamp;
  for (const std::string& file : files) {
    struct stat facts{};
    if (::stat(file.c_str(), &facts) != 0) return {};
    std::string text = fs::path(file).lexically_relative(path).string() + '\0';
    for (const auto number :
         {static_cast<std::int64_t>(facts.st_dev), static_cast<std::int64_t>(facts.st_ino),
          static_cast<std::int64_t>(facts.st_size), static_cast<std::int64_t>(facts.st_mtim.tv_sec),
          static_cast<std::int64_t>(facts.st_mtim.tv_nsec),
          static_cast<std::int64_t>(facts.st_ctim.tv_sec),
          static_cast<std::int64_t>(facts.st_ctim.tv_nsec)})
      text += std::to_string(number) + ' ';
    stamp.add({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  return stamp.hex();
}

Result<std::unique_ptr<BaseBackup>> open_base(const std::string& path, const BaseOptions& options) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? open_folder(path, options)
                                                    : open_archive(path, options);
}

}  // namespace idmint::restore
