// The load of a base that is stopped and goes on, and indexes that wait for the end of the oplog.
#include "restore/replay/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "restore/backup/writer.h"
#include "restore/checksums.h"
#include "restore/replay/restore.h"
#include "restore/replay/state.h"
#include "restore/tests/oplog_builder.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr std::int32_t kDocuments = 20'000;
constexpr std::uint64_t kNoteEvery = 100'000;  // bytes: 1,000 documents or so

CollectionFacts collection_named(const std::string& name) {
  CollectionFacts facts;
  facts.database = "shop";
  facts.name = name;
  facts.options = Bson();
  facts.indexes.push_back(Bson("v", 2, "key", Bson("_id", 1), "name", "_id_"));
  return facts;
}

Bson document_with(std::int32_t id, const std::string& text) {
  return Bson("_id", id, "text", text + std::string(80, 'x'));
}

// A base that remembers from where its documents were read.
class Watched final : public BaseBackup {
 public:
  explicit Watched(std::unique_ptr<BaseBackup> base) : base_(std::move(base)) {
    for (const CollectionFacts& each : base_->collections()) {
      CollectionFacts facts = collection_named(each.name);
      facts.bytes = each.bytes;
      collections_.push_back(std::move(facts));
    }
  }
  Result<void> check(const TakeProgress& progress) const override { return base_->check(progress); }
  Result<void> documents(std::optional<std::size_t> only, const TakeDocuments& take,
                         std::uint64_t passed) const override {
    passed_over = passed;
    return base_->documents(
        only,
        [&](const CollectionFacts& facts, std::span<const Document> documents) {
          const auto i = static_cast<std::size_t>(&facts - base_->collections().data());
          return take(collections_[i], documents);
        },
        passed);
  }
  bool has_oplog() const override { return base_->has_oplog(); }
  Result<void> oplog(const std::function<Result<void>(const Entry&)>& take) const override {
    return base_->oplog(take);
  }
  std::uint64_t size() const override { return base_->size(); }

  mutable std::uint64_t passed_over = 0;

 private:
  const std::unique_ptr<BaseBackup> base_;
};

Result<void> write(BackupWriter& writer, std::size_t of, const std::vector<Bson>& documents) {
  if (Result<void> begun = writer.begin(of); !begun) return begun;
  std::vector<Document> views;
  for (const Bson& each : documents) views.push_back(each.view());
  Result<void> added = writer.put(of, views);
  return added ? writer.end(of) : added;
}
Result<void> write_one(BackupWriter& writer, std::size_t of, Bson document) {
  std::vector<Bson> documents;
  documents.push_back(std::move(document));
  return write(writer, of, documents);
}

struct Form {
  BackupForm form = BackupForm::kFolder;
  bool gzip = false;
};

class Load : public testing::Test {
 protected:
  // Documents with these numbers, in this order.
  void make_base(const std::vector<std::int32_t>& ids, const Form& form = {}) {
    std::vector<CollectionFacts> all;
    all.push_back(collection_named("orders"));
    auto writer =
        write_backup({.path = folder_.path("base"), .form = form.form, .gzip = form.gzip}, all);
    ASSERT_TRUE(writer) << writer.error().message();
    std::vector<Bson> documents;
    for (const std::int32_t id : ids) documents.push_back(document_with(id, "a"));
    ASSERT_TRUE(write(**writer, 0, documents));
    // An archive has one always.
    std::vector<Bson> entries;
    entries.push_back(Bson("op", "n"));
    ASSERT_TRUE(write(**writer, BackupWriter::kOplog, entries));
    ASSERT_TRUE((*writer)->finish({}));
    auto base = open_base(folder_.path("base"));
    ASSERT_TRUE(base) << base.error().message();
    base_ = std::make_unique<Watched>(*std::move(base));
  }
  static std::vector<std::int32_t> numbers(std::int32_t count) {
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < count; ++id) ids.push_back(id);
    return ids;
  }

  // A run of its own; it is stopped after `stop` bytes, if that is given.
  Result<LoadCounts> load(std::optional<std::uint64_t> stop = {}, bool sliced = false) {
    Result<Record> record = Record::begin(server_, fingerprint_.view());
    if (!record) return std::unexpected(std::move(record.error()));
    first_progress_.reset();
    given_ = 0;
    return load_base(*base_, server_, *record,
                     {.writers = 2, .sliced = sliced, .note_every = kNoteEvery},
                     [&](std::uint64_t bytes) -> Result<void> {
                       if (bytes != 0 && !first_progress_) first_progress_ = bytes;
                       if (!stop) return {};
                       // Waits until the documents given before are written, so that there are
                       // notes.
                       while (there() < given_) {
                       }
                       given_ = bytes / document_with(0, "a").view().bytes().size();
                       if (bytes < *stop) return {};
                       return std::unexpected(Error{Code::kUnavailable, "enough"});
                     });
  }
  std::uint64_t noted() {
    Result<std::optional<Record>> record = Record::find(server_);
    if (!record || !*record) return 0;
    const Result<std::optional<Bson>> note = (*record)->get("begun:shop.orders");
    return note && *note ? static_cast<std::uint64_t>((*note)->view().number("bytes")) : 0;
  }
  std::uint64_t there() {
    const Result<std::uint64_t> count = count_documents(another_, "shop.orders");
    return count ? *count : 0;
  }
  void ask(const std::string& json) { servers::mongo_command(mongod_.url(""), "shop", json); }

  const fakes::TempFolder folder_;
  servers::MongoServer mongod_;
  Server server_ = *Server::connect(mongod_.url("?directConnection=true"));
  Server another_ = *server_.another();
  const Bson fingerprint_ = Bson("of", "a test");
  std::unique_ptr<Watched> base_;
  std::optional<std::uint64_t> first_progress_;
  std::uint64_t given_ = 0;  // documents, before the current batch
};

TEST_F(Load, GoesOnWithACollectionThatItHadBegun) {
  for (const Form form : {Form{}, Form{.gzip = true}, Form{.form = BackupForm::kArchive}}) {
    std::filesystem::remove_all(folder_.path("base"));
    ask(R"({"dropDatabase":1})");
    ASSERT_TRUE(Record::forget(server_));
    make_base(numbers(kDocuments), form);
    const Result<LoadCounts> stopped = load(1'500'000);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().message(), "enough");
    const std::uint64_t note = noted();
    EXPECT_GE(note, kNoteEvery);
    const std::uint64_t before = there();
    EXPECT_GT(before, 0U);
    EXPECT_LT(before, static_cast<std::uint64_t>(kDocuments));
    const Result<LoadCounts> done = load();
    ASSERT_TRUE(done) << done.error().message();
    if (form.form == BackupForm::kFolder) {
      EXPECT_EQ(base_->passed_over, note);
      EXPECT_GT(first_progress_, note);
    }
    EXPECT_EQ(done->documents, static_cast<std::uint64_t>(kDocuments));
    EXPECT_EQ(done->twice, 0U);
    EXPECT_EQ(there(), static_cast<std::uint64_t>(kDocuments));
  }
}

TEST_F(Load, ALossBeforeTheNoteIsSeenAndLoadedAgain) {
  make_base(numbers(kDocuments));
  ASSERT_FALSE(load(1'500'000));
  ASSERT_GT(noted(), 0U);
  ask(R"({"delete":"orders","deletes":[{"q":{"_id":7},"limit":1}]})");
  const Result<LoadCounts> lost = load();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kUnavailable);
  EXPECT_THAT(lost.error().message(), HasSubstr("has 19999 documents"));
  EXPECT_EQ(noted(), 0U);
  const Result<LoadCounts> again = load();
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(there(), static_cast<std::uint64_t>(kDocuments));
}

TEST_F(Load, ACollectionThatIsGoneIsLoadedFromItsBeginning) {
  make_base(numbers(kDocuments));
  ASSERT_FALSE(load(1'500'000));
  ASSERT_GT(noted(), 0U);
  ask(R"({"drop":"orders"})");
  const Result<LoadCounts> done = load();
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(base_->passed_over, 0U);
  EXPECT_EQ(there(), static_cast<std::uint64_t>(kDocuments));
}

TEST_F(Load, DocumentsThatAreTwiceInTheBaseAreCountedOnceByAContinuedRun) {
  std::vector<std::int32_t> ids = numbers(kDocuments);
  for (const std::int32_t again : {3, 5'000, 19'000}) ids.push_back(again);
  make_base(ids);
  ASSERT_FALSE(load(1'500'000, true));
  ASSERT_GT(noted(), 0U);
  const Result<LoadCounts> done = load({}, true);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->twice, 3U);
  EXPECT_EQ(done->documents, static_cast<std::uint64_t>(kDocuments));
}

TEST_F(Load, WithoutASliceADocumentThatIsTwiceIsRefusedByAContinuedRunToo) {
  std::vector<std::int32_t> ids = numbers(kDocuments);
  ids.push_back(3);
  make_base(ids);
  ASSERT_FALSE(load(1'500'000));
  ASSERT_GT(noted(), 0U);
  const Result<LoadCounts> continued = load();
  ASSERT_FALSE(continued);
  EXPECT_EQ(continued.error().code, Code::kUnavailable);  // the same command loads it again
  const Result<LoadCounts> anew = load();
  ASSERT_FALSE(anew);
  EXPECT_EQ(anew.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(anew.error().message(), HasSubstr("3"));
}

// The indexes that are there when the oplog begins.
class AtOplog final : public Observer {
 public:
  explicit AtOplog(Server& server) : server_(&server) {}
  void begin(std::string_view step, std::optional<std::uint64_t>) override {
    if (step == restore_step::kReplayOplog) indexes = names(*server_);
  }

  static std::set<std::string> names(Server& server) {
    std::set<std::string> all;
    const Result<std::vector<CollectionFacts>> there = list_collections(server);
    if (!there) return all;
    for (const CollectionFacts& each : *there) {
      for (const Bson& index : each.indexes)
        if (text_of(index.view(), "name") != "_id_")
          all.insert(each.name + " " + text_of(index.view(), "name"));
    }
    return all;
  }

  std::set<std::string> indexes{};

 private:
  Server* server_;
};

TEST_F(Load, IndexesThatNoCommandConcernsWaitForTheEndOfTheOplog) {
  std::vector<CollectionFacts> all;
  for (const char* const name : {"changed", "plain"}) {
    CollectionFacts facts = collection_named(name);
    facts.indexes.push_back(Bson("v", 2, "key", Bson("text", 1), "name", "text_1"));
    facts.indexes.push_back(
        Bson("v", 2, "key", Bson("text", 1, "_id", 1), "name", "unique", "unique", true));
    all.push_back(std::move(facts));
  }
  OplogBuilder oplog;
  oplog.noop()
      .insert("shop.plain", R"({"_id":{"$numberInt":"7"},"text":"new"})")
      .command("shop", R"({"collMod":"changed","index":{"name":"text_1","hidden":true}})");
  auto writer = write_backup({.path = folder_.path("base"), .server_version = "6.0.5"}, all);
  ASSERT_TRUE(writer) << writer.error().message();
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_TRUE(write_one(**writer, i, document_with(1, "a")));
  ASSERT_TRUE((*writer)->finish({}));
  oplog.write(folder_.path("oplog.bson"));
  const RestoreOptions options{.base = folder_.path("base"),
                               .base_at = Timestamp{.seconds = 100, .ordinal = 1},
                               .oplog = folder_.path("oplog.bson"),
                               .target = mongod_.url("?directConnection=true"),
                               .report = folder_.path("report.json")};
  AtOplog observer(server_);
  Result<RestorePlan> plan = plan_restore(options, observer);
  ASSERT_TRUE(plan) << plan.error().message();
  const Result<RestoreReport> report = restore(*plan, observer);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(observer.indexes,
              UnorderedElementsAre("changed text_1", "changed unique", "plain unique"));
  EXPECT_THAT(AtOplog::names(server_), UnorderedElementsAre("changed text_1", "changed unique",
                                                            "plain text_1", "plain unique"));
  EXPECT_EQ(report->indexes, 4U);
}

// Another base of the same size, without checksums, would be mixed with the one that was begun.
TEST_F(Load, DoesNotGoOnWithFilesThatChangedAndHaveNoChecksums) {
  std::vector<CollectionFacts> all;
  all.push_back(collection_named("plain"));
  auto writer = write_backup({.path = folder_.path("base"), .server_version = "6.0.5"}, all);
  ASSERT_TRUE(writer) << writer.error().message();
  ASSERT_TRUE(write_one(**writer, 0, document_with(1, "old")));
  ASSERT_TRUE((*writer)->finish({}));
  std::filesystem::remove(folder_.path("base") + "/" + std::string(kChecksumsOfFolder));
  const RestoreOptions options{.base = folder_.path("base"),
                               .base_at = Timestamp{.seconds = 100, .ordinal = 1},
                               .target = mongod_.url("?directConnection=true"),
                               .report = folder_.path("report.json")};
  AtOplog observer(server_);
  Result<RestorePlan> plan = plan_restore(options, observer);
  ASSERT_TRUE(plan) << plan.error().message();
  // As a run that was killed in the load leaves it.
  {
    Result<Record> record = Record::begin(server_, plan->fingerprint.view());
    ASSERT_TRUE(record);
    const Bson stamp = Bson("stamp", plan->base_stamp);
    ASSERT_TRUE(record->put("base files", stamp));
    ASSERT_TRUE(record->reach(RunStage::kBase));
  }
  const std::string data = folder_.path("base") + "/shop/plain.bson";
  std::filesystem::copy_file(data, data + ".copy");
  std::filesystem::rename(data + ".copy", data);
  plan = plan_restore(options, observer);
  ASSERT_TRUE(plan) << plan.error().message();
  const Result<RestoreReport> mixed = restore(*plan, observer);
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, Code::kUnknown) << "a part was written before";
  EXPECT_THAT(mixed.error().message(), HasSubstr("have no checksums"));
}

TEST_F(Load, AnIndexThatIsRefusedAfterTheOplogIsLeftOutByAContinuedRun) {
  std::vector<CollectionFacts> all;
  all.push_back(collection_named("plain"));
  all[0].indexes.push_back(
      Bson("v", 2, "key", Bson("text", "2dsphere"), "name", "place", "2dsphereIndexVersion", 3));
  all[0].indexes.push_back(Bson("v", 2, "key", Bson("text", 1), "name", "text_1"));
  auto writer = write_backup({.path = folder_.path("base"), .server_version = "6.0.5"}, all);
  ASSERT_TRUE(writer) << writer.error().message();
  ASSERT_TRUE(write_one(**writer, 0, document_with(1, "no place")));
  ASSERT_TRUE((*writer)->finish({}));
  OplogBuilder oplog;
  oplog.noop().remove("shop.plain", "9").write(folder_.path("oplog.bson"));
  RestoreOptions options{.base = folder_.path("base"),
                         .base_at = Timestamp{.seconds = 100, .ordinal = 1},
                         .oplog = folder_.path("oplog.bson"),
                         .target = mongod_.url("?directConnection=true"),
                         .report = folder_.path("report.json")};
  AtOplog observer(server_);
  const auto run = [&]() -> Result<RestoreReport> {
    Result<RestorePlan> plan = plan_restore(options, observer);
    if (!plan) return std::unexpected(std::move(plan.error()));
    return restore(*plan, observer);
  };
  const Result<RestoreReport> refused = run();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("plain"));
  options.report_index_errors = true;
  const Result<RestoreReport> report = run();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->resumed);
  EXPECT_THAT(report->notes, Contains(HasSubstr("left out is the index place of shop.plain")));
  EXPECT_EQ(report->indexes, 1U);
  EXPECT_THAT(AtOplog::names(server_), UnorderedElementsAre("plain text_1"));
}

}  // namespace
}  // namespace idmint::restore
