// A backup in a folder.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"
#include "restore/backup/metadata.h"
#include "restore/backup/names.h"
#include "restore/backup/parts.h"
#include "restore/document_reader.h"
#include "restore/error_in.h"
#include "restore/input_file.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/reader.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestMetadata = std::size_t{64} << 20;

std::unexpected<Error> damaged(const std::string& path, const std::string& what) {
  return fail(Code::kDataLoss, path + ": " + what);
}

// The files of one collection; empty: no such file.
struct Files {
  std::string documents;
  std::string metadata;
};

struct Extension {
  std::string_view text;
  std::string Files::* member;
};
constexpr std::array kExtensions = {
    Extension{".metadata.json", &Files::metadata},
    Extension{".metadata.json.gz", &Files::metadata},
    Extension{".bson", &Files::documents},
    Extension{".bson.gz", &Files::documents},
};

// 0 if it cannot be examined. Reading it will report the error.
std::uint64_t size_of(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = path.empty() ? 0 : fs::file_size(path, error);
  return error ? 0 : size;
}

// The files and subfolders of a folder, sorted. Skips hidden ones, but not "..x", which is a trick.
Result<std::vector<fs::directory_entry>> entries_of(const std::string& path) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    if ((!name.starts_with('.') || name.starts_with("..")) &&
        (at->is_directory(ignored) || at->is_regular_file(ignored)))
      entries.push_back(*at);
  }
  if (error) return unreadable(path, error.value());
  std::ranges::sort(entries);
  return entries;
}

bool is_metadata(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.ends_with(".metadata.json") || name.ends_with(".metadata.json.gz");
}

// Whether the folder with these entries is a dump: it has a file that is written beside the folders
// of databases, or the folder of a database. The folder of `local` is no sign: a dump of the oplog
// has it, too.
bool is_dump(const std::vector<fs::directory_entry>& entries) {
  constexpr std::array<std::string_view, 4> kBeside = {"oplog.bson", "oplog.bson.gz",
                                                       "prelude.json", "prelude.json.gz"};
  return std::ranges::any_of(entries, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (!entry.is_directory(ignored)) return std::ranges::find(kBeside, name) != kBeside.end();
    const auto files = entries_of(entry.path().string());
    return name != "local" && files && std::ranges::any_of(*files, is_metadata);
  });
}

// kNotFound: the folder with these entries is no dump but holds some.
Result<void> check_depth(const std::string& path, const std::vector<fs::directory_entry>& entries) {
  if (is_dump(entries)) return {};
  std::string names;
  std::string first;
  for (const fs::directory_entry& entry : entries) {
    std::error_code ignored;
    if (!entry.is_directory(ignored)) continue;
    const auto inner = entries_of(entry.path().string());
    if (!inner || !is_dump(*inner)) continue;
    if (first.empty()) first = entry.path().string();
    names += (names.empty() ? "" : ", ") + entry.path().filename().string();
  }
  if (first.empty()) return {};
  return fail(Code::kNotFound, path + " is no dump, but holds " + names + ": give --base " +
                                   shell_word(first) +
                                   (names.contains(", ") ? ", or another one" : ""));
}

class BaseFolder final : public BaseBackup {
 public:
  BaseFolder(std::string path, const BaseOptions& options)
      : path_(std::move(path)), options_(options) {}

  Result<void> open();

  Result<void> check(const TakeProgress& progress) const override;
  Result<void> documents(std::optional<std::size_t> only, const TakeDocuments& take,
                         std::uint64_t passed) const override;
  bool has_oplog() const override { return !oplog_.empty(); }
  Result<void> oplog(const std::function<Result<void>(const Entry&)>& take) const override;
  std::uint64_t size() const override;

 private:
  Result<void> open_database(const std::string& database);
  Result<void> open_collection(const std::string& database, const std::string& stem,
                               std::map<std::string, Files>& all);
  // Sorts by database and name. kFailedPrecondition: two files are for one collection.
  Result<void> sort();
  Result<void> read_prelude(const std::string& path);
  // Receives each document of a file; the reader tells how much of the file was read.
  using TakeDocument = std::function<Result<void>(Document, const DocumentReader&)>;
  Result<void> read(const std::string& file, const TakeDocument& take, bool hashed = false,
                    std::uint64_t passed = 0) const;
  // The checksum of a file. nullopt: the folder has no checksums. kDataLoss: it is not among the
  // files that were written.
  Result<std::optional<FileSum>> sum_of(const std::string& file) const;
  // Checks the files that check() does not read otherwise.
  Result<void> check_small_files() const;

  const std::string path_;
  const BaseOptions options_;
  std::string oplog_;
  std::vector<std::string> data_;  // one for each of collections_; empty: a view
};

Result<void> BaseFolder::open() {
  const Result<std::vector<fs::directory_entry>> entries = entries_of(path_);
  if (!entries) return error_in(entries);
  if (Result<void> here = check_depth(path_, *entries); !here) return here;
  Result<std::optional<Checksums>> sums =
      read_checksums((fs::path(path_) / kChecksumsOfFolder).string());
  if (!sums) return error_in(sums);
  checksums_ = *std::move(sums);
  bool any = false;
  bool of_one_database = false;
  for (const fs::directory_entry& entry : *entries) {
    const std::string name = entry.path().filename().string();
    const std::string file = entry.path().string();
    std::error_code ignored;
    Result<void> done;
    if (entry.is_directory(ignored)) {
      if (const auto wrong = wrong_database_name(name)) return damaged(file, *wrong);
      done = open_database(name);
      any = true;
    } else if (name == "oplog.bson" || name == "oplog.bson.gz") {
      if (!oplog_.empty())
        return fail(Code::kFailedPrecondition,
                    "two oplogs in " + path_ + ": " + oplog_ + " and " + file + "; remove one");
      oplog_ = file;
      any = true;
    } else if (name == "prelude.json" || name == "prelude.json.gz") {
      done = read_prelude(file);
    } else {
      of_one_database |= name.ends_with(".bson") || name.ends_with(".bson.gz");
    }
    if (!done) return done;
  }
  if (any) return sort();
  return fail(
      Code::kNotFound,
      "no backup in " + path_ +
          (of_one_database ? ": it is the folder of one database; give the folder that it is in"
                           : ": it has no folder of a database"));
}

Result<void> BaseFolder::read_prelude(const std::string& path) {
  const Result<std::string> text = read_text(path, kLongestMetadata);
  if (!text) return error_in(text);
  const Result<Bson> prelude = read_extended_json(*text);
  if (!prelude) return damaged(path, prelude.error().message());
  server_version_ = prelude->view().text("ServerVersion");
  tool_ = prelude->view().text("ToolVersion");
  return {};
}

Result<void> BaseFolder::open_database(const std::string& database) {
  const Result<std::vector<fs::directory_entry>> entries =
      entries_of((fs::path(path_) / database).string());
  if (!entries) return error_in(entries);
  std::map<std::string, Files> files;
  for (const fs::directory_entry& entry : *entries) {
    const std::string name = entry.path().filename().string();
    const auto* const row = std::ranges::find_if(
        kExtensions, [&](const Extension& each) { return name.ends_with(each.text); });
    if (row == kExtensions.end()) continue;
    std::string& file = files[name.substr(0, name.size() - row->text.size())].*row->member;
    if (!file.empty())
      return fail(Code::kFailedPrecondition, "two files for one collection: " + file + " and " +
                                                 entry.path().string() + "; remove one");
    file = entry.path().string();
  }
  std::vector<std::string> stems;
  for (const auto& [stem, each] : files)
    if (!each.metadata.empty()) stems.push_back(stem);
  for (const std::string& stem : stems)
    if (Result<void> done = open_collection(database, stem, files); !done) return done;
  for (const auto& [stem, each] : files) {
    if (each.documents.empty()) continue;
    // Cut names are left out only as a part of a database that is left out.
    const std::optional<std::string> name = is_cut_stem(stem) ? stem : unescape_stem(stem);
    if (!name) return damaged(each.documents, "its name is no escaped name of a collection");
    if (std::optional<CollectionFacts> users = users_of_one_database(options_, *name)) {
      users->bytes = size_of(each.documents);
      collections_.push_back(*std::move(users));
      data_.push_back(each.documents);
      users_of_ = database;
      continue;
    }
    if (!leaves_out(options_, database, *name))
      return damaged(each.documents,
                     "its .metadata.json is missing: without it, indexes and options are lost");
    left_out_.push_back(database + "." + *name);
    if (options_.not_sharded || !may_show_sharding(database, *name)) continue;
    Result<void> done = read(each.documents, [&](Document document, const DocumentReader& reader) {
      return refuse_sharded(database, *name, document, reader.path());
    });
    if (!done) return done;
  }
  return {};
}

// The order of the escaped names is different.
Result<void> BaseFolder::sort() {
  std::vector<std::size_t> order(collections_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(std::string_view(collections_[i].database),
                     std::string_view(collections_[i].name));
  });
  std::vector<CollectionFacts> collections;
  std::vector<std::string> data;
  for (const std::size_t i : order) {
    if (!collections.empty() && collections.back().ns() == collections_[i].ns())
      return fail(Code::kFailedPrecondition, "two files for one collection: " + data.back() +
                                                 " and " + data_[i] + "; remove one");
    collections.push_back(std::move(collections_[i]));
    data.push_back(std::move(data_[i]));
  }
  collections_ = std::move(collections);
  data_ = std::move(data);
  return {};
}

Result<void> BaseFolder::open_collection(const std::string& database, const std::string& stem,
                                         std::map<std::string, Files>& all) {
  const std::string path = all[stem].metadata;
  const Result<std::string> text = read_text(path, kLongestMetadata);
  if (!text) return error_in(text);
  Result<CollectionFacts> facts = parse_metadata(*text);
  if (!facts) return damaged(path, facts.error().message());
  facts->database = database;
  if (facts->name.empty()) {  // an older dump
    if (is_cut_stem(stem)) return damaged(path, "it does not say the whole name of its collection");
    const std::optional<std::string> name = name_of_stem(stem);
    if (!name) return damaged(path, "its name is no escaped name of a collection");
    facts->name = *name;
  } else if (file_stem(facts->name) != stem) {
    return damaged(path, "it is the metadata of another collection");
  }
  if (const auto wrong = wrong_collection_name(database, facts->name)) return damaged(path, *wrong);
  if (leaves_out(options_, database, facts->name)) return {};  // its documents are seen later
  const auto data =
      all.find(facts->kind == CollectionKind::kTimeSeries ? file_stem(data_name(*facts)) : stem);
  std::string documents;
  if (data != all.end()) documents = std::exchange(data->second.documents, {});
  if (facts->kind == CollectionKind::kView && !documents.empty())
    return damaged(documents, "a view has documents");
  if (facts->kind != CollectionKind::kView && documents.empty())
    return damaged(path, "the documents of its collection are missing");
  facts->bytes = size_of(documents);
  collections_.push_back(*std::move(facts));
  data_.push_back(std::move(documents));
  return {};
}

Result<std::optional<FileSum>> BaseFolder::sum_of(const std::string& file) const {
  if (!checksums_) return std::nullopt;
  const std::string name = fs::path(file).lexically_relative(path_).generic_string();
  const auto known = checksums_->files.find(name);
  if (known != checksums_->files.end()) return known->second;
  return damaged(file, "it was not written with the others, by " + std::string(kChecksumsOfFolder));
}

Result<void> BaseFolder::check_small_files() const {
  if (!checksums_) return {};
  for (const auto& [name, sum] : checksums_->files) {
    const std::string file = (fs::path(path_) / name).string();
    std::error_code error;
    if (!fs::exists(file, error))
      return fail(Code::kDataLoss, file + " is missing, by " + std::string(kChecksumsOfFolder) +
                                       ": take another copy of the dump");
    if (file == oplog_ || std::ranges::find(data_, file) != data_.end()) continue;
    const Result<FileSum> is = sum_of_file(file);
    if (!is) return error_in(is);
    if (Result<void> same = check_sum(file, *is, sum); !same) return same;
  }
  return {};
}

Result<void> BaseFolder::read(const std::string& file, const TakeDocument& take, bool hashed,
                              std::uint64_t passed) const {
  if (file.empty()) return {};
  std::optional<FileSum> sum;
  if (hashed) {
    Result<std::optional<FileSum>> known = sum_of(file);
    if (!known) return error_in(known);
    sum = *std::move(known);
  }
  Result<DocumentReader> reader = DocumentReader::open(file);
  if (!reader) return error_in(reader);
  if (sum) reader->hash_first(reader->size());
  // An empty collection is an empty file, but its compressed form is not empty.
  if (reader->size() == 0 && file.ends_with(".gz"))
    return damaged(file, "it is empty, and no compressed data");
  if (Result<void> passed_over = reader->pass_over(passed); !passed_over) return passed_over;
  while (true) {
    const Result<std::optional<Document>> read = reader->next();
    if (!read) return error_in(read);
    const Document document = read->value_or(Document{});
    if (!document && sum)
      return check_sum(file, {.bytes = reader->size(), .sha256 = reader->sha256()}, *sum);
    if (!document) return {};
    if (Result<void> taken = take(document, *reader); !taken) return taken;
  }
}

std::uint64_t BaseFolder::size() const {
  std::uint64_t size = size_of(oplog_);
  for (const std::string& file : data_) size += size_of(file);
  return size;
}

Result<void> BaseFolder::check(const TakeProgress& progress) const {
  if (Result<void> good = check_small_files(); !good) return good;
  std::uint64_t before = 0;
  for (const std::string& file : data_) {
    std::uint64_t read_here = 0;
    Result<void> good = read(
        file,
        [&](Document document, const DocumentReader& reader) {
          Result<void> valid = validate(document);
          if (!valid)
            return Result<void>(
                std::unexpected(at_byte(reader.path(), reader.offset(), std::move(valid.error()))));
          read_here = reader.consumed();
          return progress(before + read_here);
        },
        true);
    if (!good) return good;
    before += read_here;
  }
  if (!has_oplog()) return {};
  return oplog([&](const Entry& entry) {
    Result<void> valid = validate(entry.document);
    return valid ? progress(before) : valid;
  });
}

Result<void> BaseFolder::documents(std::optional<std::size_t> only, const TakeDocuments& take,
                                   std::uint64_t passed) const {
  const std::size_t begin = only.value_or(0);
  const std::size_t end = only ? *only + 1 : data_.size();
  Batch batch;
  for (std::size_t i = begin; i < end; ++i) {
    Result<void> done = read(
        data_[i],
        [&](Document document, const DocumentReader&) {
          Result<void> given;
          if (!batch.has_room(document.bytes().size())) given = batch.give(collections_[i], take);
          batch.add(document);
          return given;
        },
        false, passed);
    if (done) done = batch.give(collections_[i], take);
    if (!done) return done;
  }
  return {};
}

Result<void> BaseFolder::oplog(const std::function<Result<void>(const Entry&)>& take) const {
  if (!has_oplog()) return fail(Code::kNotFound, path_ + " has no oplog.bson");
  const Result<std::optional<FileSum>> known = sum_of(oplog_);
  if (!known) return error_in(known);
  const std::optional<FileSum>& sum = *known;
  Result<OplogReader> reader = OplogReader::open(oplog_, {.sum = sum});
  if (!reader) return error_in(reader);
  for (bool any = false;; any = true) {
    const Result<std::optional<Entry>> read = reader->next();
    if (!read) return error_in(read);
    const std::optional<Entry>& entry = *read;
    if (!entry && any && sum && reader->unchecked() != 0)
      return check_sum(oplog_, {.bytes = reader->size()}, *sum);
    if (!entry) return any ? Result<void>{} : damaged(oplog_, "it has no entry");
    if (Result<void> taken = take(*entry); !taken) {
      if (taken.error().code != Code::kDataLoss) return taken;
      return std::unexpected(at_byte(oplog_, reader->offset(), std::move(taken.error())));
    }
  }
}

}  // namespace

Result<std::unique_ptr<BaseBackup>> open_folder(const std::string& path,
                                                const BaseOptions& options) {
  auto folder = std::make_unique<BaseFolder>(path, options);
  if (Result<void> opened = folder->open(); !opened) return error_in(opened);
  return folder;
}

}  // namespace idmint::restore
