#include "restore/backup/base.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "mongo/document.h"
#include "restore/backup/writer.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::restore {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

const std::string kFixtures = IDMINT_FIXTURES;

Result<void> no_progress(std::uint64_t) { return {}; }

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Everything in it, or the error that it is refused with; as run does, first check() and then all
// of the rest.
std::vector<std::string> contents(const std::string& path) {
  const auto refused = [](const Error& error) {
    return std::vector<std::string>{"refused: " + error.message()};
  };
  const auto base = open_base(path);
  if (!base) return refused(base.error());
  if (const Result<void> good = (*base)->check(no_progress); !good) return refused(good.error());
  std::vector<std::string> all;
  for (const CollectionFacts& facts : (*base)->collections()) {
    std::string text = facts.database + "." + facts.name + " " +
                       std::to_string(static_cast<int>(facts.kind)) + " " + facts.uuid + " " +
                       to_canonical_json(facts.options.view());
    for (const Bson& index : facts.indexes) text += " " + to_canonical_json(index.view());
    all.push_back(text);
  }
  const auto shown = [](const CollectionFacts& of, Document document) {
    return of.database + "." + of.name + ": " + to_canonical_json(document);
  };
  Result<void> done = (*base)->documents(
      std::nullopt, [&](const CollectionFacts& of, std::span<const Document> documents) {
        for (const Document document : documents) all.push_back(shown(of, document));
        return Result<void>{};
      });
  if (!done) return refused(done.error());
  if (!(*base)->has_oplog()) return all;
  done = (*base)->oplog([&](const Entry& entry) {
    all.push_back("oplog " + print_timestamp(entry.at.ts));
    return Result<void>{};
  });
  return done ? all : refused(done.error());
}

bool is_refused(const std::vector<std::string>& contents) {
  return contents.size() == 1 && contents[0].starts_with("refused: ");
}

CollectionFacts facts_of(const std::string& database, const std::string& name,
                         const std::string& options = "{}", const std::string& index = "") {
  CollectionFacts facts{.database = database, .name = name};
  facts.options = *from_json(options);
  if (options.find("viewOn") != std::string::npos) {
    facts.kind = CollectionKind::kView;
    return facts;
  }
  if (options.find("timeseries") != std::string::npos) facts.kind = CollectionKind::kTimeSeries;
  if (facts.kind == CollectionKind::kCollection) facts.uuid = "683a9e632d184f05a50554a4b61f9263";
  facts.indexes.push_back(*from_json(R"({"v":2,"key":{"_id":1},"name":"_id_"})"));
  if (!index.empty()) facts.indexes.push_back(*from_json(index));
  return facts;
}

std::vector<CollectionFacts> sample() {
  std::vector<CollectionFacts> all;
  all.push_back(facts_of("admin", "system.version"));
  all.push_back(facts_of("app", std::string(230, 'x') + "é/"));
  all.push_back(facts_of(
      "shop", "a/ b%", R"({"collation":{"locale":"de"}})",
      R"({"v":2,"key":{"k":1},"name":"k_1","partialFilterExpression":{"k":{"$exists":true}}})"));
  all.push_back(facts_of("shop", "empty", R"({"capped":true,"size":4096})"));
  all.push_back(facts_of("shop", "seen", R"({"viewOn":"a","pipeline":[{"$match":{"k":1}}]})"));
  all.push_back(facts_of("shop", "weather", R"({"timeseries":{"timeField":"t"}})"));
  return all;
}

Result<void> add(BackupWriter& writer, std::size_t of, Document document) {
  return writer.put(of, std::span(&document, 1));
}
Result<void> add(BackupWriter& writer, std::size_t of, const std::vector<Bson>& documents) {
  std::vector<Document> views;
  for (const Bson& each : documents) views.push_back(each.view());
  return writer.put(of, views);
}

// Three documents of each that has some, and two entries.
Result<void> write_sample(const BackupTarget& target, const std::vector<CollectionFacts>& all) {
  auto writer = write_backup(target, all);
  if (!writer) return std::unexpected(writer.error());
  for (std::size_t c = 0; c < all.size(); ++c) {
    const CollectionFacts& each = all[c];
    if (Result<void> done = (*writer)->begin(c); !done) return done;
    const bool has_documents = each.kind != CollectionKind::kView && each.name != "empty";
    std::vector<Bson> documents;
    for (int i = 0; has_documents && i < 3; ++i)
      documents.push_back(Bson("_id", i, "of", each.name.substr(0, 6)));
    Result<void> done;
    if (has_documents) done = add(**writer, c, documents);
    if (done) done = (*writer)->end(c);
    if (!done) return done;
  }
  std::vector<Bson> entries;
  for (std::uint32_t i = 1; i <= 2; ++i)
    entries.push_back(Bson("ts", BsonTimestamp{100, i}, "op", "n", "ns", "", "o", Bson()));
  Result<void> done = (*writer)->begin(BackupWriter::kOplog);
  if (done) done = add(**writer, BackupWriter::kOplog, entries);
  if (done) done = (*writer)->end(BackupWriter::kOplog);
  if (!done) return done;
  return (*writer)->finish({});
}

std::string sample_at(const std::string& path, BackupForm form, bool gzip) {
  const Result<void> written =
      write_sample({.path = path, .form = form, .gzip = gzip, .server_version = "6.0.5"}, sample());
  EXPECT_TRUE(written) << written.error().message();
  return path;
}

// Real dumps.

TEST(RealFolder, IsRead) {
  const auto base = open_base(kFixtures + "/s2_wrong_inc_ordinal/base-dump");
  ASSERT_TRUE(base) << base.error().message();
  EXPECT_EQ((*base)->server_version(), "6.0.5");
  EXPECT_THAT((*base)->left_out(), ElementsAre("admin.system.version"));
  ASSERT_EQ((*base)->collections().size(), 2);
  const CollectionFacts& accounts = (*base)->collections()[0];
  EXPECT_EQ(accounts.uuid, "270a5455d7e44d92a0c19f88e6298312");
  EXPECT_EQ(accounts.bytes, 11890);
  EXPECT_EQ((*base)->size(), 11890 + 740 + 347);
  ASSERT_EQ(accounts.indexes.size(), 2);
  EXPECT_EQ(to_relaxed_json(accounts.indexes[1].view()),
            R"({ "v" : 2, "key" : { "account" : 1 }, "name" : "account_1", "unique" : true })");
  // Two collections, 200 documents and 10, and an entry.
  EXPECT_THAT(contents(kFixtures + "/s2_wrong_inc_ordinal/base-dump"),
              AllOf(SizeIs(2 + 210 + 1), Contains("oplog 1795230178:630")));
}

TEST(RealArchive, IsReadAndItsCrcIsRight) {
  EXPECT_THAT(contents(kFixtures + "/mongo_tools/with_oplog.archive"),
              AllOf(SizeIs(1 + 25 + 18), Contains("oplog 1538587930:2")));
  const auto base = open_base(kFixtures + "/mongo_tools/with_oplog.archive");
  ASSERT_TRUE(base);
  EXPECT_EQ((*base)->server_version(), "4.0.2");
  EXPECT_THAT((*base)->left_out(), ElementsAre("admin.system.version"));
}

TEST(RealGzip, IsRead) {
  EXPECT_THAT(contents(kFixtures + "/mongo_tools/gzip"),
              ElementsAre(HasSubstr("test.foo 0 47e9795dfa3049f6961a04aca38c4e8e"),
                          HasSubstr(R"("foo" : { "$numberDouble" : "1.0" })")));
  const auto base = open_base(kFixtures + "/mongo_tools/gzip");
  ASSERT_TRUE(base);
  EXPECT_EQ((*base)->server_version(), "7.0.16");
  EXPECT_FALSE((*base)->has_oplog());
  EXPECT_EQ((*base)->oplog([](const Entry&) { return Result<void>{}; }).error().code,
            Code::kNotFound);
}

TEST(Writer, WritesTheFilesThatTheCommonToolWrites) {
  const std::string real = kFixtures + "/s3_mass_delete_exclusive/base-dump";
  const fakes::TempFolder folder;
  const auto base = open_base(real);
  ASSERT_TRUE(base);
  auto writer = write_backup({.path = folder.path("b")}, (*base)->collections());
  ASSERT_TRUE(writer);
  for (std::size_t i = 0; i < (*base)->collections().size(); ++i) {
    ASSERT_TRUE((*writer)->begin(i));
    ASSERT_TRUE(
        (*base)->documents(i, [&](const CollectionFacts&, std::span<const Document> documents) {
          return (*writer)->put(i, documents);
        }));
    ASSERT_TRUE((*writer)->end(i));
  }
  ASSERT_TRUE((*writer)->begin(BackupWriter::kOplog));
  ASSERT_TRUE((*base)->oplog(
      [&](const Entry& entry) { return add(**writer, BackupWriter::kOplog, entry.document); }));
  ASSERT_TRUE((*writer)->end(BackupWriter::kOplog));
  ASSERT_TRUE((*writer)->finish({}));
  for (const char* const file : {"app/events.bson", "app/events.metadata.json", "app/ledger.bson",
                                 "app/ledger.metadata.json", "oplog.bson"})
    EXPECT_EQ(read(folder.path("b/") + file), read(real + "/" + file)) << file;
}

// A base is read as it was written.

class EachForm : public testing::TestWithParam<std::pair<BackupForm, bool>> {};

INSTANTIATE_TEST_SUITE_P(, EachForm,
                         testing::Values(std::pair(BackupForm::kFolder, false),
                                         std::pair(BackupForm::kFolder, true),
                                         std::pair(BackupForm::kArchive, false),
                                         std::pair(BackupForm::kArchive, true)));

TEST_P(EachForm, IsReadAsItWasWritten) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), form, gzip);
  const auto base = open_base(path);
  ASSERT_TRUE(base) << base.error().message();
  EXPECT_EQ((*base)->server_version(), "6.0.5");
  EXPECT_THAT((*base)->left_out(), ElementsAre("admin.system.version"));
  const std::vector<CollectionFacts>& read_back = (*base)->collections();
  const std::vector<CollectionFacts> all = sample();
  ASSERT_EQ(read_back.size() + 1, all.size());
  for (std::size_t i = 0; i < read_back.size(); ++i) {
    const CollectionFacts& written = all[i + 1];
    EXPECT_EQ(read_back[i].database, written.database);
    EXPECT_EQ(read_back[i].name, written.name);
    EXPECT_EQ(read_back[i].kind, written.kind);
    EXPECT_EQ(read_back[i].uuid, written.uuid);
    EXPECT_EQ(to_canonical_json(read_back[i].options.view()),
              to_canonical_json(written.options.view()));
    ASSERT_EQ(read_back[i].indexes.size(), written.indexes.size());
    for (std::size_t j = 0; j < written.indexes.size(); ++j)
      EXPECT_EQ(to_canonical_json(read_back[i].indexes[j].view()),
                to_canonical_json(written.indexes[j].view()));
  }
  // Five collections, three documents of each of three, two entries.
  EXPECT_THAT(contents(path),
              AllOf(SizeIs(5 + 9 + 2), Contains(HasSubstr(R"(shop.weather: { "_id" : )")),
                    Contains(HasSubstr(R"("of" : "a/ b%")")), Contains("oplog 100:2")));
}

TEST_P(EachForm, GivesDocumentsInBatches) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  std::vector<CollectionFacts> all;
  all.push_back(facts_of("d", "c"));
  auto writer = write_backup({.path = folder.path("b"), .form = form, .gzip = gzip}, all);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->begin(0));
  const std::string large(9 << 20, 'x');
  std::vector<Bson> all_documents;
  for (int i = 0; i < 2503; ++i)
    all_documents.push_back(Bson("_id", i, "x", i < 2500 ? "x" : large));
  ASSERT_TRUE(add(**writer, 0, all_documents));
  ASSERT_TRUE((*writer)->end(0));
  ASSERT_TRUE((*writer)->begin(BackupWriter::kOplog));
  ASSERT_TRUE((*writer)->end(BackupWriter::kOplog));
  ASSERT_TRUE((*writer)->finish({}));
  const auto base = open_base(folder.path("b"));
  ASSERT_TRUE(base) << base.error().message();
  std::vector<std::size_t> sizes;
  std::int64_t next = 0;
  ASSERT_TRUE((*base)->documents(std::nullopt,
                                 [&](const CollectionFacts&, std::span<const Document> documents) {
                                   sizes.push_back(documents.size());
                                   for (const Document document : documents)
                                     EXPECT_EQ(document.numeric("_id"), next++);
                                   return Result<void>{};
                                 }));
  EXPECT_THAT(sizes, ElementsAre(1000, 1000, 501, 1, 1));
}

TEST_P(EachForm, IsThereOnlyWhenItIsWhole) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  const std::vector<CollectionFacts> all = sample();
  const BackupTarget target{.path = folder.path("b"), .form = form, .gzip = gzip};
  {
    const auto writer = write_backup(target, all);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->begin(0));
    EXPECT_FALSE(fs::exists(target.path));
    EXPECT_TRUE(fs::exists(target.path + ".partial"));
    const auto second = write_backup(target, all);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kAlreadyExists);
    EXPECT_THAT(second.error().message(), HasSubstr("not finished; remove it"));
  }
  EXPECT_FALSE(fs::exists(target.path + ".partial"));
  ASSERT_TRUE(write_sample(target, all));
  EXPECT_FALSE(fs::exists(target.path + ".partial"));
  EXPECT_EQ(fs::status(target.path).permissions() & (fs::perms::group_all | fs::perms::others_all),
            fs::perms::none);
  const auto third = write_backup(target, all);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kAlreadyExists);
}

TEST_P(EachForm, TakesThePlaceOfNothing) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  const std::string path = folder.path("b");
  std::vector<CollectionFacts> none;
  {
    const auto writer = write_backup({.path = path, .form = form, .gzip = gzip}, none);
    ASSERT_TRUE(writer);
    if (form == BackupForm::kFolder) {
      fs::create_directory(path);
    } else {
      write(path, "another's");
    }
    const Result<void> finished = (*writer)->finish({});
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().code, Code::kAlreadyExists);
  }
  EXPECT_FALSE(fs::exists(path + ".partial"));
  EXPECT_TRUE(form == BackupForm::kFolder ? fs::is_empty(path) : read(path) == "another's");
}

// The length of a document may be the two bytes that gzip data begins with.
TEST_P(EachForm, MayBeginAsCompressedDataDoes) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  std::vector<CollectionFacts> all;
  all.push_back(facts_of("d", "c"));
  auto writer = write_backup({.path = folder.path("b"), .form = form, .gzip = gzip}, all);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->begin(0));
  const std::string filling(0x8b1f - 4 - 1 - (1 + 2 + 4 + 1), 'x');
  const Bson document = Bson("x", filling);
  ASSERT_EQ(document.view().bytes().size(), 0x8b1f);
  ASSERT_TRUE(add(**writer, 0, document.view()));
  ASSERT_TRUE((*writer)->end(0));
  ASSERT_TRUE((*writer)->begin(BackupWriter::kOplog));
  ASSERT_TRUE(add(**writer, BackupWriter::kOplog,
                  from_json(R"({"ts":{"$timestamp":{"t":1,"i":1}},"op":"n"})")->view()));
  ASSERT_TRUE((*writer)->end(BackupWriter::kOplog));
  ASSERT_TRUE((*writer)->finish({}));
  EXPECT_THAT(contents(folder.path("b")), SizeIs(3));
}

// In the name of a file, an escape may stand where a long name is cut.
TEST_P(EachForm, HasLongNamesOfOtherAlphabets) {
  const auto [form, gzip] = GetParam();
  std::string chinese;
  for (int i = 0; i < 27; ++i) chinese += "\u65e5";
  std::string cyrillic;
  for (int i = 0; i < 45; ++i) cyrillic += "\u0436";
  const fakes::TempFolder folder;
  std::vector<CollectionFacts> all;
  all.push_back(facts_of("admin", chinese));  // which is left out
  for (const std::string& name : {cyrillic, chinese}) all.push_back(facts_of("shop", name));
  all.push_back(facts_of("shop", chinese + "t", R"({"timeseries":{"timeField":"t"}})"));
  const Result<void> written =
      write_sample({.path = folder.path("b"), .form = form, .gzip = gzip}, all);
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_THAT(contents(folder.path("b")),
              AllOf(SizeIs(3 + 9 + 2), Contains(HasSubstr("shop." + chinese + ": ")),
                    Contains(HasSubstr("shop." + chinese + "t: ")),
                    Contains(HasSubstr("shop." + cyrillic + ": "))));
}

TEST_P(EachForm, StopsWhereItIsTold) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  const auto base = open_base(sample_at(folder.path("b"), form, gzip));
  ASSERT_TRUE(base);
  const auto stop = [](auto&&...) {
    return Result<void>(std::unexpected(Error{Code::kUnavailable, "stop"}));
  };
  EXPECT_EQ((*base)->check(stop).error().message(), "stop");
  EXPECT_EQ((*base)->documents(std::nullopt, stop).error().message(), "stop");
  EXPECT_EQ((*base)->oplog(stop).error().message(), "stop");
}

TEST(Stamp, DiffersAfterAChangeOfAnyFile) {
  for (const BackupForm form : {BackupForm::kFolder, BackupForm::kArchive}) {
    const fakes::TempFolder folder;
    const std::string path = sample_at(folder.path("b"), form, false);
    const std::string stamp = stamp_of_files(path);
    EXPECT_THAT(stamp, SizeIs(64));
    EXPECT_EQ(stamp_of_files(path), stamp);
    const fs::path one = form == BackupForm::kArchive ? fs::path(checksums_beside(path))
                                                      : fs::path(path) / kChecksumsOfFolder;
    const std::string text = read(one);
    const auto time = fs::last_write_time(one);
    write(one, text);
    fs::last_write_time(one, time);
    EXPECT_NE(stamp_of_files(path), stamp) << "replaced by the same, with the same time";
    fs::remove_all(path);
    EXPECT_EQ(stamp_of_files(path), "");
  }
}

TEST(Folder, GivesDocumentsFromAnOffset) {
  for (const bool gzip : {false, true}) {
    const fakes::TempFolder folder;
    const auto base = open_base(sample_at(folder.path("b"), BackupForm::kFolder, gzip));
    ASSERT_TRUE(base);
    std::vector<std::string> all;
    const auto into = [](std::vector<std::string>& to) {
      return [&to](const CollectionFacts&, std::span<const Document> documents) {
        for (const Document& each : documents) to.push_back(to_canonical_json(each));
        return Result<void>{};
      };
    };
    std::uint64_t first = 0;
    std::size_t collection = 0;
    for (; all.size() < 2; ++collection) {
      all.clear();
      ASSERT_LT(collection, (*base)->collections().size());
      ASSERT_TRUE((*base)->documents(
          collection, [&](const CollectionFacts& facts, std::span<const Document> documents) {
            first = documents.front().bytes().size();
            return into(all)(facts, documents);
          }));
    }
    --collection;
    std::vector<std::string> rest;
    ASSERT_TRUE((*base)->documents(collection, into(rest), first));
    EXPECT_EQ(rest, std::vector<std::string>(all.begin() + 1, all.end()));
    EXPECT_EQ((*base)->documents(collection, into(rest), first - 1).error().code, Code::kDataLoss);
  }
}

TEST(Folder, GivesOneCollectionAlone) {
  const fakes::TempFolder folder;
  const auto base = open_base(sample_at(folder.path("b"), BackupForm::kFolder, false));
  ASSERT_TRUE(base);
  std::vector<std::string> names;
  ASSERT_TRUE((*base)->documents(4, [&](const CollectionFacts& of, std::span<const Document>) {
    names.push_back(of.name);
    return Result<void>{};
  }));
  EXPECT_THAT(names, ElementsAre("weather"));
  const auto archive = open_base(sample_at(folder.path("a"), BackupForm::kArchive, false));
  ASSERT_TRUE(archive);
  EXPECT_EQ((*archive)
                ->documents(0, [](const CollectionFacts&,
                                  std::span<const Document>) { return Result<void>{}; })
                .error()
                .code,
            Code::kUnimplemented);
}

// Damage.

// All files of a backup.
std::vector<fs::path> files_of(const std::string& path) {
  if (fs::is_regular_file(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

// False: the file holds only what a restore leaves out.
bool matters(const fs::path& file) { return file.parent_path().filename() != "admin"; }

bool is_plain_documents(const std::string& text, const fs::path& file) {
  return (file.extension() == ".bson" && !text.starts_with("\x1f\x8b"));
}

// Whether a document ends at `size`: a file without compression that is cut there looks whole.
bool ends_between_documents(const std::string& text, std::size_t size) {
  std::size_t at = 0;
  while (at < size) {
    std::uint32_t length = 0;
    std::memcpy(&length, text.data() + at, sizeof length);
    at += length;
  }
  return at == size;
}

TEST_P(EachForm, ThatIsCutIsRefused) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), form, gzip);
  // The backup is as of another program: the checksums would find each cut.
  fs::remove(fs::is_directory(path) ? path + "/" + std::string(kChecksumsOfFolder)
                                    : checksums_beside(path));
  for (const fs::path& file : files_of(path)) {
    const std::string whole = read(file);
    for (std::size_t size = 0; size < whole.size() && matters(file); ++size) {
      write(file, whole.substr(0, size));
      const std::vector<std::string> found = contents(path);
      if (is_plain_documents(whole, file) && ends_between_documents(whole, size)) {
        EXPECT_EQ(is_refused(found), size == 0 && file.filename() == "oplog.bson") << file;
        continue;
      }
      ASSERT_TRUE(is_refused(found)) << file << " at " << size;
      EXPECT_THAT(found[0], HasSubstr(file.string())) << size;
    }
    write(file, whole);
  }
}

TEST_P(EachForm, WithAFlippedBitIsRefusedOrHasTheSameDocuments) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), form, gzip);
  const std::vector<std::string> good = contents(path);
  const std::vector<std::string> good_documents(good.begin() + 5, good.end());
  for (const fs::path& file : files_of(path)) {
    const std::string whole = read(file);
    // The documents of a folder have no checksum, and a flipped bit in a text is another text.
    if (is_plain_documents(whole, file) || !matters(file)) continue;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      write(file, flipped);
      const std::vector<std::string> found = contents(path);
      if (is_refused(found)) continue;
      // Metadata has none either: what a flipped bit there changes is a name or a number.
      ASSERT_EQ(found.size(), good.size()) << file << " at " << at;
      if (gzip) {
        ASSERT_EQ(found, good) << file << " at " << at;
      }
    }
    write(file, whole);
  }
}

// The archive in its pieces: the prelude, and each block with its header.
struct Archive {
  std::string prelude;
  std::vector<std::string> blocks;

  static Archive read(const std::string& path) {
    const std::string text = restore::read(path);
    Archive archive;
    std::size_t begin = 0;
    std::size_t at = 4;
    while (at < text.size()) {
      std::uint32_t length = 0;
      std::memcpy(&length, text.data() + at, sizeof length);
      at += length == 0xffffffff ? 4 : length;
      if (length != 0xffffffff) continue;
      const std::string piece = text.substr(begin, at - begin);
      if (begin == 0) {
        archive.prelude = piece;
      } else {
        archive.blocks.push_back(piece);
      }
      begin = at;
    }
    return archive;
  }
  void write(const std::string& path) const {
    std::string text = prelude;
    for (const std::string& block : blocks) text += block;
    restore::write(path, text);
    fs::remove(checksums_beside(path));  // which would find all of it
  }
};

TEST(Archive, AnyFlippedBitAfterThePreludeIsFound) {
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), BackupForm::kArchive, false);
  fs::remove(checksums_beside(path));  // which would find all of it
  const std::string whole = read(path);
  const auto base = open_base(path);
  ASSERT_TRUE(base);
  ASSERT_TRUE((*base)->check(no_progress));
  for (std::size_t at = Archive::read(path).prelude.size(); at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    write(path, flipped);
    ASSERT_FALSE((*base)->check(no_progress)) << at;
  }
}

TEST(Archive, BlocksMayInterleave) {
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), BackupForm::kArchive, false);
  const std::vector<std::string> good = contents(path);
  Archive archive = Archive::read(path);
  // Documents and end of each: admin, app, shop's four, oplog.
  ASSERT_EQ(archive.blocks.size(), 14);
  std::vector<std::string>& blocks = archive.blocks;
  // The documents of weather in two blocks, with all others between them.
  const std::string block = blocks[10];
  std::uint32_t header = 0;
  std::memcpy(&header, block.data(), sizeof header);
  std::uint32_t document = 0;
  std::memcpy(&document, block.data() + header, sizeof document);
  blocks[10] = block.substr(0, header) + block.substr(header + document);
  blocks.insert(blocks.begin(), block.substr(0, header + document) + "\xff\xff\xff\xff");
  std::rotate(blocks.begin() + 4, blocks.begin() + 5, blocks.end());  // app's end is the last
  archive.write(path);
  EXPECT_THAT(contents(path), testing::UnorderedElementsAreArray(good));
}

TEST(Archive, SwappedAndMissingBlocksAreFound) {
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), BackupForm::kArchive, false);
  const Archive good = Archive::read(path);
  const auto with = [&](auto change) {
    Archive archive = good;
    change(archive.blocks);
    archive.write(path);
    return contents(path);
  };
  using Blocks = std::vector<std::string>;
  EXPECT_THAT(with([](Blocks& blocks) { std::swap(blocks[2], blocks[3]); }),
              ElementsAre(AllOf(HasSubstr(path + " is damaged at byte "),
                                AnyOf(HasSubstr("CRC"), HasSubstr("after its end")))));
  EXPECT_THAT(with([](Blocks& blocks) { blocks.erase(blocks.begin() + 2); }),
              ElementsAre(HasSubstr("CRC")));
  EXPECT_THAT(with([](Blocks& blocks) { blocks.erase(blocks.begin() + 3); }),
              ElementsAre(HasSubstr("the archive ends before app.")));
  EXPECT_THAT(with([](Blocks& blocks) { blocks.resize(12); }),
              ElementsAre(HasSubstr("the archive ends before oplog does")));
  EXPECT_THAT(with([](Blocks& blocks) { blocks.insert(blocks.begin() + 2, blocks[2]); }),
              ElementsAre(HasSubstr("CRC")));
  EXPECT_THAT(with([](Blocks& blocks) { blocks.push_back(blocks[3]); }),
              ElementsAre(HasSubstr("after its end")));
  // Two documents of one collection, whose places were changed.
  EXPECT_THAT(with([](Blocks& blocks) {
                std::string& block = blocks[4];
                const std::size_t size =
                    (block.size() - 4) - block.find(std::string("\0\0\0\x10_id", 7));
                ASSERT_LT(size, block.size());
                const std::size_t first = block.find("\x10_id") + 5;
                const std::size_t second = block.find("\x10_id", first) + 5;
                std::swap(block[first], block[second]);
              }),
              ElementsAre(HasSubstr("CRC")));
}

TEST(Archive, OfAnotherKindIsRefused) {
  const fakes::TempFolder folder;
  const std::string path = folder.path("a");
  write(path, "");
  EXPECT_THAT(contents(path), ElementsAre(HasSubstr("is no archive")));
  write(path, "mDump is not one");
  EXPECT_THAT(contents(path), ElementsAre(HasSubstr("is no archive")));
  EXPECT_EQ(open_base(folder.path("none")).error().code, Code::kNotFound);
  write(path, std::string("\x6d\xe2\x99\x81\xff\xff\xff\xff", 8));
  EXPECT_THAT(contents(path), ElementsAre(HasSubstr("no header")));
  write(path, read(kFixtures + "/s2_wrong_inc_ordinal/base-dump/oplog.bson"));
  EXPECT_EQ(open_base(path).error().code, Code::kDataLoss);
}

TEST(Folder, EmptyFilesAreRefusedWhereNoToolWritesThem) {
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), BackupForm::kFolder, true);
  for (const char* const file : {"oplog.bson", "prelude.json.gz", "shop/empty.bson.gz",
                                 "shop/empty.metadata.json.gz", "shop/a%2F+b%25.bson.gz"}) {
    const std::string whole = read(path + "/" + file);
    ASSERT_FALSE(whole.empty()) << file;
    write(path + "/" + file, "");
    EXPECT_THAT(contents(path), ElementsAre(HasSubstr(file)));
    write(path + "/" + file, whole);
  }
}

// The length and the last byte are right, and what is between is not.
TEST_P(EachForm, WithInvalidBsonIsRefused) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  std::vector<CollectionFacts> all;
  all.push_back(facts_of("d", "c"));
  auto writer = write_backup({.path = folder.path("b"), .form = form, .gzip = gzip}, all);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->begin(0));
  constexpr std::array<std::uint8_t, 8> invalid = {8, 0, 0, 0, 0x55, 'a', 0, 0};
  ASSERT_TRUE(add(**writer, 0, from_json(R"({"_id":1})")->view()));
  ASSERT_TRUE(add(**writer, 0, Document::of(invalid)));
  ASSERT_TRUE((*writer)->end(0));
  ASSERT_TRUE((*writer)->begin(BackupWriter::kOplog));
  ASSERT_TRUE(add(**writer, BackupWriter::kOplog,
                  from_json(R"({"ts":{"$timestamp":{"t":1,"i":1}},"op":"n"})")->view()));
  ASSERT_TRUE((*writer)->end(BackupWriter::kOplog));
  ASSERT_TRUE((*writer)->finish({}));
  EXPECT_THAT(contents(folder.path("b")),
              ElementsAre(AllOf(HasSubstr(form == BackupForm::kFolder ? "c.bson" : "b, "),
                                HasSubstr("byte "), HasSubstr("damaged BSON"))));
}

struct Trick {
  std::vector<std::string> files;
  Code code;
  const char* says;
};

TEST(Folder, NamesThatTrickAreRefused) {
  const std::string id = R"({"indexes":[{"v":2,"key":{"_id":1},"name":"_id_"}])";
  for (const auto& [files, code, says] : {
           Trick{{"a b/x.bson"}, Code::kDataLoss, "none can have"},
           Trick{{"a$b/x.bson"}, Code::kDataLoss, "none can have"},
           Trick{{"a.b/x.bson"}, Code::kDataLoss, "none can have"},
           Trick{{"d/%00.bson"}, Code::kDataLoss, "no escaped name"},
           Trick{{"d/a%00.metadata.json", "d/a%00.bson"}, Code::kDataLoss, "no escaped name"},
           Trick{{"d/%2.metadata.json", "d/%2.bson"}, Code::kDataLoss, "no escaped name"},
           Trick{{"d/..%2Fup.metadata.json", "d/..%2Fup.bson"}, Code::kDataLoss, "none can have"},
           Trick{{"d/x.bson"}, Code::kDataLoss, "metadata.json is missing"},
           Trick{{"d/x.metadata.json"}, Code::kDataLoss, "documents of its collection are missing"},
           Trick{{"d/x.metadata.json", "d/x.bson", "d/x.bson.gz"},
                 Code::kFailedPrecondition,
                 "two files for one collection"},
           Trick{{"d/%78.metadata.json", "d/%78.bson"}, Code::kDataLoss, "no escaped name"},
           Trick{{"oplog.bson", "oplog.bson.gz"}, Code::kFailedPrecondition, "two oplogs"},
           Trick{{"x.bson", "x.metadata.json"}, Code::kNotFound, "the folder of one database"},
           Trick{{"readme"}, Code::kNotFound, "no folder of a database"},
       }) {
    const fakes::TempFolder folder;
    for (const std::string& file : files)
      write(folder.path(file), file.find("metadata") != std::string::npos ? id + "}" : "");
    const auto base = open_base(folder.path(""));
    ASSERT_FALSE(base) << files[0];
    EXPECT_EQ(base.error().code, code) << files[0];
    EXPECT_THAT(base.error().message(), HasSubstr(says)) << files[0];
  }
}

TEST(Folder, OneThatHoldsDumpsNamesThem) {
  const fakes::TempFolder folder;
  const auto message = [&](const std::string& path) {
    const auto base = open_base(path);
    EXPECT_FALSE(base) << path;
    if (base) return std::string();
    EXPECT_EQ(base.error().code, Code::kNotFound);
    return base.error().message();
  };
  const std::string parent = folder.path("backups");
  fs::create_directories(parent);
  const std::string dump = sample_at(parent + "/monday", BackupForm::kFolder, false);
  EXPECT_TRUE(open_base(dump));
  EXPECT_EQ(message(parent), parent + " is no dump, but holds monday: give --base " + dump);
  // One of a single database has nothing beside its folder.
  sample_at(parent + "/tuesday", BackupForm::kFolder, true);
  for (const std::string beside : {"oplog.bson.gz", "prelude.json.gz"})
    fs::remove(parent + "/tuesday/" + beside);
  EXPECT_EQ(message(parent), parent + " is no dump, but holds monday, tuesday: give --base " +
                                 dump + ", or another one");
  // A dump with a collection of that name is no parent.
  write(dump + "/shop/oplog.bson", "");
  fs::copy_file(dump + "/shop/empty.metadata.json", dump + "/shop/oplog.metadata.json");
  EXPECT_THAT(contents(dump), ElementsAre(HasSubstr("of another collection")));
}

TEST(Folder, MetadataOfAnotherCollectionIsRefused) {
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), BackupForm::kFolder, false);
  fs::rename(path + "/shop/empty.metadata.json", path + "/shop/full.metadata.json");
  fs::rename(path + "/shop/empty.bson", path + "/shop/full.bson");
  EXPECT_THAT(contents(path), ElementsAre(HasSubstr("of another collection")));
}

TEST(Folder, WhatIsNoBackupIsPassedOver) {
  const fakes::TempFolder folder;
  const std::string path = sample_at(folder.path("b"), BackupForm::kFolder, false);
  const std::vector<std::string> good = contents(path);
  write(path + "/.DS_Store", "x");
  write(path + "/.snapshot/x", "x");
  write(path + "/notes.txt", "x");
  write(path + "/shop/notes.txt", "x");
  write(path + "/shop/$admin.system.users.bson", "");
  write(path + "/local/oplog.rs.bson", "");
  EXPECT_EQ(contents(path), good);
}

// mongodump writes those of one database with --dumpDbUsersAndRoles as $admin.system.users.
TEST_P(EachForm, UsersAndRolesAreReadOnRequest) {
  const auto [form, gzip] = GetParam();
  const fakes::TempFolder folder;
  std::vector<CollectionFacts> all;
  all.push_back(facts_of("admin", "system.roles"));
  all.push_back(facts_of("shop", "$admin.system.users"));
  all.push_back(facts_of("shop", "orders"));
  const BackupTarget target{.path = folder.path("b"), .form = form, .gzip = gzip};
  ASSERT_TRUE(write_sample(target, all));
  const auto without = open_base(target.path);
  ASSERT_TRUE(without);
  EXPECT_THAT((*without)->left_out(),
              ElementsAre("admin.system.roles", "shop.$admin.system.users"));
  EXPECT_THAT((*without)->collections(), SizeIs(1));
  const auto base = open_base(target.path, {.users = true});
  ASSERT_TRUE(base) << base.error().message();
  EXPECT_THAT((*base)->left_out(), IsEmpty());
  EXPECT_EQ((*base)->users_of(), "shop");
  std::map<std::string, std::size_t> documents;
  ASSERT_TRUE((*base)->check(no_progress));
  ASSERT_TRUE((*base)->documents(
      {}, [&](const CollectionFacts& of, std::span<const Document> some) -> Result<void> {
        documents[of.ns()] += some.size();
        return {};
      }));
  EXPECT_THAT(documents, ElementsAre(Pair("admin.system.roles", 3), Pair("admin.system.users", 3),
                                     Pair("shop.orders", 3)));
  EXPECT_EQ((*base)->collections().front().ns(), "admin.system.roles") << "sorted";

  all.push_back(facts_of("zoo", "$admin.system.users"));
  const BackupTarget twice{.path = folder.path("c"), .form = form, .gzip = gzip};
  ASSERT_TRUE(write_sample(twice, all));
  EXPECT_TRUE(open_base(twice.path));
  const auto refused = open_base(twice.path, {.users = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition) << refused.error().message();
}

TEST(Archive, NamesThatTrickAreRefused) {
  for (const auto& [database, collection] :
       {std::pair("../etc", "a"), std::pair("a/b", "c"), std::pair("", "a"), std::pair("a", ""),
        std::pair("a", ".b"), std::pair("a", "b$c")}) {
    const fakes::TempFolder folder;
    std::vector<CollectionFacts> all;
    all.push_back(facts_of(database, collection));
    const auto writer = write_backup({.path = folder.path("a"), .form = BackupForm::kArchive}, all);
    ASSERT_FALSE(writer) << database;
    EXPECT_EQ(writer.error().code, Code::kInvalidArgument);

    const Bson header = Bson("version", "0.1");
    const Bson row = Bson("db", database, "collection", collection, "metadata", R"({"indexes":[]})",
                          "size", 0, "type", "");
    std::string text("\x6d\xe2\x99\x81", 4);
    for (const Bson* const each : {&header, &row}) {
      const std::span<const std::uint8_t> bytes = each->view().bytes();
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    write(folder.path("a"), text + std::string("\xff\xff\xff\xff", 4));
    const auto base = open_base(folder.path("a"));
    ASSERT_FALSE(base) << database;
    EXPECT_EQ(base.error().code, Code::kDataLoss);
    EXPECT_THAT(base.error().message(), HasSubstr("byte 26"));
  }
}

// Sharded clusters.

TEST_P(EachForm, OfAShardedClusterIsRefused) {
  const auto [form, gzip] = GetParam();
  struct Sign {
    const char* database;
    const char* collection;
    const char* document;
    bool refused;
  };
  for (const auto& [database, collection, document, refused] :
       {Sign{"admin", "system.version", R"({"_id":"shardIdentity","shardName":"a"})", true},
        Sign{"admin", "system.version", R"({"_id":"featureCompatibilityVersion"})", false},
        Sign{"config", "shards", R"({"_id":"a"})", true},
        Sign{"config", "collections", R"({"_id":"d.c"})", true},
        Sign{"config", "chunks", R"({"_id":"x"})", true}, Sign{"config", "shards", nullptr, false},
        Sign{"config", "settings", R"({"_id":"x"})", false}}) {
    const fakes::TempFolder folder;
    std::vector<CollectionFacts> all;
    all.push_back(facts_of(database, collection));
    auto writer = write_backup({.path = folder.path("b"), .form = form, .gzip = gzip}, all);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->begin(0));
    if (document != nullptr) {
      ASSERT_TRUE(add(**writer, 0, from_json(document)->view()));
    }
    ASSERT_TRUE((*writer)->end(0));
    ASSERT_TRUE((*writer)->begin(BackupWriter::kOplog));
    ASSERT_TRUE(
        add(**writer, BackupWriter::kOplog, Bson("ts", BsonTimestamp{1, 1}, "op", "n").view()));
    ASSERT_TRUE((*writer)->end(BackupWriter::kOplog));
    ASSERT_TRUE((*writer)->finish({}));
    const auto base = open_base(folder.path("b"));
    const Result<void> good =
        base ? (*base)->check(no_progress) : Result<void>(std::unexpected(base.error()));
    EXPECT_EQ(!good, refused) << database << "." << collection;
    if (good) continue;
    EXPECT_EQ(good.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(good.error().message(), HasSubstr("of a sharded cluster"));
  }
}

}  // namespace
}  // namespace idmint::restore
