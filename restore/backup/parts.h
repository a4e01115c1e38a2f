// The parts that both kinds of base backup share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mongo/document.h"
#include "restore/backup/base.h"

namespace idmint::restore {

// Collects the documents of one collection until a batch is full.
class Batch {
 public:
  [[nodiscard]] bool has_room(std::size_t size) const {
    return sizes_.size() < kMostDocuments && bytes_.size() + size <= kMostBytes;
  }
  void add(Document document);
  // Hands all documents to `take` and clears the batch. Does not call `take` if there are none.
  [[nodiscard]] Result<void> give(const CollectionFacts& collection, const TakeDocuments& take);

 private:
  static constexpr std::size_t kMostDocuments = 1000;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  std::vector<std::uint8_t> bytes_;
  std::vector<std::size_t> sizes_;
  std::vector<Document> documents_;
};

// Whether the collection is left out: is_left_out(), or users and roles that nobody asked for.
[[nodiscard]] bool leaves_out(const BaseOptions& options, const std::string& database,
                              const std::string& collection);
// The collection that mongodump --dumpDbUsersAndRoles writes, without metadata, under this name
// into the dump of a database: admin.system.users for $admin.system.users. nullopt: another name,
// or nobody asked for users.
[[nodiscard]] std::optional<CollectionFacts> users_of_one_database(const BaseOptions& options,
                                                                   std::string_view collection);

// Whether documents of this collection, which restores leave out, can reveal a sharded cluster.
[[nodiscard]] bool may_show_sharding(std::string_view database, std::string_view collection);
// kFailedPrecondition: this document of such a collection reveals one.
[[nodiscard]] Result<void> refuse_sharded(std::string_view database, std::string_view collection,
                                          Document document, const std::string& path);

// The error, with the file and the offset in front of its message.
[[nodiscard]] Error at_byte(const std::string& path, std::uint64_t offset, Error error);

[[nodiscard]] Result<std::unique_ptr<BaseBackup>> open_folder(const std::string& path,
                                                              const BaseOptions& options);
[[nodiscard]] Result<std::unique_ptr<BaseBackup>> open_archive(const std::string& path,
                                                               const BaseOptions& options);

}  // namespace idmint::restore
