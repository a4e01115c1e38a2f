// A backup in an archive.
#include <algorithm>
#include <map>
#include <utility>

#include "base/errors.h"
#include "restore/backup/archive_format.h"
#include "restore/backup/crc64.h"
#include "restore/backup/metadata.h"
#include "restore/backup/names.h"
#include "restore/backup/parts.h"
#include "restore/document_reader.h"
#include "restore/error_in.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

using Name = std::pair<std::string, std::string>;  // database and collection, as in the blocks

// The destination of a namespace's documents.
struct Namespace {
  std::optional<std::size_t> collection;  // index in collections(); nullopt: left out
};

struct Header {
  Name name;
  bool end = false;
  std::uint64_t crc = 0;
};

std::optional<Header> parse_header(Document document) {
  Header header;
  int known = 0;
  Fields fields(document);
  for (Field field; fields.next(field);) {
    if (field.is("db") && field.type == BSON_TYPE_UTF8) {
      header.name.first = field.text();
      known |= 1;
    } else if (field.is("collection") && field.type == BSON_TYPE_UTF8) {
      header.name.second = field.text();
      known |= 2;
    } else if (field.is("EOF") && field.type == BSON_TYPE_BOOL && field.value[0] <= 1) {
      header.end = field.truth();
      known |= 4;
    } else if (field.is("CRC") && field.type == BSON_TYPE_INT64) {
      header.crc = field.load64();
      known |= 8;
    } else {
      return std::nullopt;
    }
  }
  // The CRC is 0 before any documents.
  return !fields.damaged() && known == 15 && (header.end || header.crc == 0) ? std::optional(header)
                                                                             : std::nullopt;
}

std::string dotted(const Name& name) {
  return name.first.empty() ? name.second : name.first + "." + name.second;
}

class BaseArchive final : public BaseBackup {
 public:
  BaseArchive(std::string path, const BaseOptions& options)
      : path_(std::move(path)), options_(options) {}

  Result<void> open();

  Result<void> check(const TakeProgress& progress) const override;
  Result<void> documents(std::optional<std::size_t> only, const TakeDocuments& take,
                         std::uint64_t passed) const override;
  bool has_oplog() const override { return namespaces_.contains(kOplog); }
  Result<void> oplog(const std::function<Result<void>(const Entry&)>& take) const override;
  std::uint64_t size() const override { return size_; }

 private:
  static inline const Name kOplog{kArchivedOplog.first, kArchivedOplog.second};

  Error damaged(const DocumentReader& reader, const std::string& what) const {
    return {Code::kDataLoss,
            path_ + " is damaged at byte " + std::to_string(reader.position()) + ": " + what};
  }
  // Reads the magic number, and the documents up to the first block.
  Result<void> pass_prelude(DocumentReader& reader,
                            const std::function<Result<void>(Document)>& take) const;
  Result<void> add(Document document);
  // Reads the documents and ends of all blocks. `last`: reads nothing after the end of this block.
  struct Visitor {
    std::function<Result<void>(const Name&, const Namespace&, Document, const DocumentReader&)>
        document;
    std::function<Result<void>(const Namespace&)> end_of_block = [](const Namespace&) {
      return Result<void>{};
    };
    std::optional<Name> last{};
  };
  Result<void> walk(const Visitor& visitor) const;

  const std::string path_;
  const BaseOptions options_;
  std::uint64_t size_ = 0;
  std::map<Name, Namespace> namespaces_;
};

Result<void> BaseArchive::pass_prelude(DocumentReader& reader,
                                       const std::function<Result<void>(Document)>& take) const {
  const Result<std::uint32_t> magic = reader.next_number();
  if (!magic || *magic != kArchiveMagic) {
    if (!magic && magic.error().code != Code::kDataLoss) return error_in(magic);
    return fail(Code::kDataLoss, path_ +
                                     " is no archive of a backup: give an archive, or the "
                                     "folder that has a folder for each database");
  }
  while (true) {
    const Result<bool> ended = reader.passed_terminator();
    if (!ended) return error_in(ended);
    if (*ended) return {};
    const Result<std::optional<Document>> read = reader.next();
    if (!read) return error_in(read);
    const Document document = read->value_or(Document{});
    if (!document) return std::unexpected(damaged(reader, "the archive ends within its prelude"));
    if (Result<void> taken = take(document); !taken)
      return std::unexpected(at_byte(path_, reader.offset(), std::move(taken.error())));
  }
}

Result<void> BaseArchive::open() {
  Result<DocumentReader> reader = DocumentReader::open(path_);
  if (!reader) return error_in(reader);
  size_ = reader->size();
  Result<std::optional<Checksums>> sums = read_checksums(checksums_beside(path_));
  if (!sums) return error_in(sums);
  checksums_ = *std::move(sums);
  bool has_header = false;
  Result<void> done = pass_prelude(*reader, [&](Document document) -> Result<void> {
    if (Result<void> valid = validate(document); !valid) return valid;
    if (std::exchange(has_header, true)) return add(document);
    if (document.text("version") != kArchiveVersion)
      return fail(Code::kUnimplemented,
                  "an archive of another version than " + std::string(kArchiveVersion));
    server_version_ = document.text("server_version");
    tool_ = document.text("tool_version");
    return {};
  });
  if (!done) return done;
  if (!has_header) return std::unexpected(damaged(*reader, "the archive has no header"));
  // Blocks name collections; documents() takes their index in collections().
  std::vector<std::size_t> order(collections_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(collections_[i].database, collections_[i].name);
  });
  std::vector<CollectionFacts> sorted;
  std::vector<std::size_t> place(order.size());
  for (const std::size_t i : order) {
    place[i] = sorted.size();
    sorted.push_back(std::move(collections_[i]));
  }
  collections_ = std::move(sorted);
  for (auto& [name, space] : namespaces_)
    if (space.collection) space.collection = place[*space.collection];
  const auto same = std::ranges::adjacent_find(collections_, {}, &CollectionFacts::ns);
  if (same != collections_.end())
    return fail(Code::kFailedPrecondition, path_ + " has " + same->ns() + " twice");
  return {};
}

// Adds a namespace from the prelude: {db, collection, metadata, size, type}.
Result<void> BaseArchive::add(Document document) {
  const auto refuse = [](const std::string& why) { return fail(Code::kDataLoss, why); };
  for (const char* const key : {"db", "collection", "metadata"})
    if (document.type(key) != BSON_TYPE_UTF8) return refuse(std::string("it has no ") + key);
  const std::string database = text_of(document, "db");
  Name name{database, document.text("collection")};
  Namespace space;
  if (name != kOplog) {
    if (const auto wrong = wrong_database_name(database)) return refuse(*wrong);
    if (const auto wrong = wrong_collection_name(database, name.second)) return refuse(*wrong);
    if (std::optional<CollectionFacts> users = users_of_one_database(options_, name.second)) {
      space.collection = collections_.size();
      collections_.push_back(*std::move(users));
      users_of_ = database;
    } else if (leaves_out(options_, database, name.second)) {
      left_out_.push_back(dotted(name));
    } else {
      Result<CollectionFacts> facts = parse_metadata(document.text("metadata"));
      if (!facts) return refuse("the metadata of " + dotted(name) + ": " + facts.error().message());
      if (!facts->name.empty() && facts->name != name.second)
        return refuse("the metadata of " + dotted(name) + " is of another collection");
      facts->database = database;
      facts->name = name.second;
      name.second = data_name(*facts);
      space.collection = collections_.size();
      collections_.push_back(*std::move(facts));
    }
  }
  if (!namespaces_.emplace(name, space).second) return refuse(dotted(name) + " is there twice");
  return {};
}

Result<void> BaseArchive::walk(const Visitor& visitor) const {
  struct State {
    bool ended = false;
    std::uint64_t crc = 0;
  };
  std::map<Name, State> states;
  Result<DocumentReader> reader = DocumentReader::open(path_);
  if (!reader) return error_in(reader);
  if (Result<void> done = pass_prelude(*reader, [](Document) { return Result<void>{}; }); !done)
    return done;
  while (true) {
    const Result<std::optional<Document>> first = reader->next();
    if (!first) return error_in(first);
    if (!first->has_value()) break;
    const std::optional<Header> header = parse_header(first->value_or(Document{}));
    if (!header) return std::unexpected(damaged(*reader, "a block has no header before it"));
    const auto space = namespaces_.find(header->name);
    if (space == namespaces_.end())
      return std::unexpected(damaged(
          *reader, "a block is of " + dotted(header->name) + ", which the prelude has not"));
    State& state = states[header->name];
    if (state.ended)
      return std::unexpected(
          damaged(*reader, "a block of " + dotted(header->name) + " comes after its end"));
    while (true) {
      const Result<bool> ended = reader->passed_terminator();
      if (!ended) return error_in(ended);
      if (*ended) break;
      const Result<std::optional<Document>> read = reader->next();
      if (!read) return error_in(read);
      const Document document = read->value_or(Document{});
      if (!document)
        return std::unexpected(
            damaged(*reader, "the archive ends within a block of " + dotted(header->name)));
      if (header->end)
        return std::unexpected(
            damaged(*reader, "a document of " + dotted(header->name) + " comes after its end"));
      state.crc = crc64(state.crc, document.bytes());
      Result<void> taken = visitor.document(header->name, space->second, document, *reader);
      if (!taken) return taken;
    }
    if (Result<void> taken = visitor.end_of_block(space->second); !taken) return taken;
    if (!header->end) continue;
    if (state.crc != header->crc)
      return std::unexpected(damaged(
          *reader,
          "the CRC of the documents of " + dotted(header->name) + " is another than theirs"));
    state.ended = true;
    if (header->name == visitor.last) return {};
  }
  for (const auto& [name, space] : namespaces_) {
    if (!states[name].ended)
      return std::unexpected(damaged(*reader, "the archive ends before " + dotted(name) + " does"));
  }
  return {};
}

Result<void> BaseArchive::check(const TakeProgress& progress) const {
  if (checksums_ && !checksums_->files.empty()) {
    const Result<FileSum> is = sum_of_file(path_);
    if (!is) return error_in(is);
    if (Result<void> same = check_sum(path_, *is, checksums_->files.begin()->second); !same)
      return same;
  }
  std::uint64_t entries = 0;
  Result<void> good =
      walk({.document = [&](const Name& name, const Namespace& space, Document document,
                            const DocumentReader& reader) -> Result<void> {
        Result<void> done = validate(document);
        if (done && name == kOplog) {
          ++entries;
          if (const Result<Entry> entry = parse_entry(document); !entry) done = error_in(entry);
        }
        if (!done) return std::unexpected(at_byte(path_, reader.offset(), std::move(done.error())));
        if (!space.collection && !options_.not_sharded)
          done = refuse_sharded(name.first, name.second, document, path_);
        return done ? progress(reader.consumed()) : done;
      }});
  if (good && has_oplog() && entries == 0)
    return fail(Code::kDataLoss, path_ + ": its oplog has no entry");
  return good;
}

Result<void> BaseArchive::documents(std::optional<std::size_t> only, const TakeDocuments& take,
                                    std::uint64_t) const {
  if (only) return fail(Code::kUnimplemented, "an archive is read from begin to end: " + path_);
  Batch batch;
  return walk({.document = [&](const Name& name, const Namespace& space, Document document,
                               const DocumentReader&) -> Result<void> {
                 if (!space.collection)
                   return options_.not_sharded
                              ? Result<void>{}
                              : refuse_sharded(name.first, name.second, document, path_);
                 Result<void> given;
                 if (!batch.has_room(document.bytes().size()))
                   given = batch.give(collections_[*space.collection], take);
                 batch.add(document);
                 return given;
               },
               .end_of_block = [&](const Namespace& space) -> Result<void> {
                 if (!space.collection) return {};
                 return batch.give(collections_[*space.collection], take);
               }});
}

Result<void> BaseArchive::oplog(const std::function<Result<void>(const Entry&)>& take) const {
  if (!has_oplog()) return fail(Code::kNotFound, path_ + " has no oplog");
  std::uint64_t entries = 0;
  Result<void> done =
      walk({.document = [&](const Name& name, const Namespace&, Document document,
                            const DocumentReader& reader) -> Result<void> {
              if (name != kOplog) return {};
              ++entries;
              const Result<Entry> entry = parse_entry(document);
              Result<void> taken = entry ? take(*entry) : Result<void>(error_in(entry));
              if (taken || taken.error().code != Code::kDataLoss) return taken;
              return std::unexpected(at_byte(path_, reader.offset(), std::move(taken.error())));
            },
            .last = kOplog});
  if (done && entries == 0) return fail(Code::kDataLoss, path_ + ": its oplog has no entry");
  return done;
}

}  // namespace

Result<std::unique_ptr<BaseBackup>> open_archive(const std::string& path,
                                                 const BaseOptions& options) {
  auto archive = std::make_unique<BaseArchive>(path, options);
  if (Result<void> opened = archive->open(); !opened) return error_in(opened);
  return archive;
}

}  // namespace idmint::restore
