#include "idmint/mint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "idmint/store.h"
#include "idmint/worker_pool.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/faulty_table.h"
#include "tests/fakes/in_child.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using fakes::code_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr Instant kNow{std::chrono::milliseconds{1528538400000}};

class MintTest : public ::testing::Test {
 protected:
  MintTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "idmint-mint-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
    ::setenv("XDG_DATA_HOME", (folder_ / "data").c_str(), 1);
  }
  ~MintTest() override {
    ::unsetenv("XDG_DATA_HOME");
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] MintOptions options() {
    MintOptions options;
    options.store = "memory:";
    options.state_directory = folder_;
    options.notice = [this](std::string_view text) { notices_.emplace_back(text); };
    return options;
  }

  static Id take_one(Source& source) {
    const Result<Id> taken = source.next();
    EXPECT_TRUE(taken) << taken.error().message();
    return taken.value_or(Id{});
  }

  static std::vector<Id> take(Source& source, std::size_t count) {
    std::vector<Id> ids(count);
    const Result<void> taken = source.next(ids);
    EXPECT_TRUE(taken) << taken.error().message();
    return ids;
  }

  std::filesystem::path folder_;
  fakes::ManualClock clock_{kNow};
  fakes::ScriptedEntropy entropy_;
  std::vector<std::string> notices_;
};

// The options without which a format cannot mint.
FormatOptions needed(std::string_view format) {
  FormatOptions options;
  if (format == "snowflake") options.worker = Worker{.id = 786};
  if (format == "uuid2") {
    options.node = UuidNode{.from = UuidNode::From::kGiven, .address = {2, 0, 0, 0, 0, 1}};
    options.domain = DceDomain::kPerson;
    options.local_id = 1000;
  }
  return options;
}

TEST_F(MintTest, AStoreThatIsNotOpenIsWaitedForUntilThen) {
  MintOptions in_file = options();
  in_file.store = "sqlite:" + (folder_ / "ids.db").string();
  Mint mint(in_file, clock_, entropy_);
  ASSERT_TRUE(mint.create(SequenceDefinition{.name = "orders"}));
  EXPECT_TRUE(mint.store(SteadyTime::min()));
  Mint other(in_file, clock_, entropy_);
  EXPECT_EQ(code_of(other.store(SteadyTime::min())), Code::kUnavailable);
  EXPECT_TRUE(other.store());
  EXPECT_TRUE(other.store(SteadyTime::min()));
}

TEST_F(MintTest, MayBeGivenAStoreThatIsOpen) {
  Result<std::unique_ptr<Store>> opened = Store::open("memory:");
  ASSERT_TRUE(opened) << opened.error().message();
  const std::shared_ptr<Store> store = *std::move(opened);
  MintOptions other_store = options();
  other_store.store = "sqlite:" + (folder_ / "not_looked_at.db").string();
  std::unique_ptr<Source> source;
  {
    Mint mint(store, other_store, clock_, entropy_);
    ASSERT_TRUE(mint.create({.name = "orders"}));
    EXPECT_EQ(mint.store().value(), store);
    EXPECT_EQ(mint.store_url().value(), "memory:");
    source = mint.source("orders").value();
  }
  Mint second(store, other_store, clock_, entropy_);
  EXPECT_THAT(take(*source, 2), ElementsAre(Id{std::int64_t{1}}, Id{std::int64_t{2}}));
  EXPECT_THAT(take(*second.source("orders").value(), 1), ElementsAre(Id{std::int64_t{3}}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "not_looked_at.db"));
}

TEST_F(MintTest, EveryFormatDeclaresItselfAndOpensByItsName) {
  clock_.set(parse_time("2026-01-01").value());  // no TSID has a time before 2020
  Mint mint(options(), clock_, entropy_);
  std::vector<std::string> names;
  for (const Declaration& format : Mint::formats()) {
    names.push_back(format.name);
    EXPECT_EQ(format.kind, SourceKind::kFormat);
    EXPECT_FALSE(format.notes.empty()) << format.name;
    const auto source = mint.source(format.name, needed(format.name));
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->declaration().name, format.name);
    EXPECT_EQ((*source)->declaration().guarantee, format.guarantee);
    // More than the adapters' block; uuid2 has no more.
    const std::size_t count = format.name == "uuid2" ? 64 : 1000;
    const std::vector<Id> ids = take(**source, count);
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), count) << format.name;
    EXPECT_EQ(format_of(ids[0]), format.format);
    const bool ordered = format.order == Order::kPerProcess;
    EXPECT_TRUE(!ordered || std::is_sorted(ids.begin(), ids.end())) << format.name;
    // An id that is printed in the declared form can be read again.
    const Form& form = (*source)->declaration().form;
    EXPECT_EQ(parse(to_string(ids[0], form), format.format, form), ids[0]) << format.name;
  }
  EXPECT_THAT(names, ElementsAre("uuid1", "uuid2", "uuid4", "uuid6", "uuid7", "ulid", "ksuid",
                                 "typeid", "object-id", "object-id-classic", "xid", "tsid",
                                 "nanoid", "snowflake", "digits"));
}

TEST_F(MintTest, AFormatTakesItsOwnOptionsOnly) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create({.name = "orders"}));
  const FormatOptions all[] = {
      {.form = Form{.prefix = "x"}},
      {.worker = Worker{.id = 1}},
      {.layout = SnowflakeLayout{}},
      {.run_ahead = std::chrono::milliseconds{1}},
      {.node = UuidNode{}},
      {.domain = DceDomain::kOrg},
      {.local_id = 7},
      {.digits = DigitsLayout{}},
      {.type = "user"},
  };
  const auto taken = [&](std::string_view name) {
    std::string which;
    for (const FormatOptions& one : all) {
      FormatOptions options = needed(name);
      if (one.form) options.form = one.form;
      if (one.worker) options.worker = one.worker;
      if (one.layout) options.layout = one.layout;
      if (one.run_ahead) options.run_ahead = one.run_ahead;
      if (one.node) options.node = one.node;
      if (one.domain) options.domain = one.domain;
      if (one.local_id) options.local_id = one.local_id;
      if (one.digits) options.digits = one.digits;
      if (one.type) options.type = one.type;
      const auto source = mint.source(name, options);
      which += source ? '+' : '-';
      if (!source) {
        EXPECT_EQ(source.error().code, Code::kInvalidArgument);
      }
    }
    return which;
  };
  EXPECT_EQ(taken("uuid7"), "+--------");
  EXPECT_EQ(taken("snowflake"), "++++-----");
  EXPECT_EQ(taken("uuid1"), "+---+----");
  EXPECT_EQ(taken("uuid2"), "+----++--");  // not a random node
  EXPECT_EQ(taken("digits"), "+------+-");
  EXPECT_EQ(taken("typeid"), "--------+");
  EXPECT_EQ(taken("orders"), "---------");
}

TEST_F(MintTest, AFormIsOfTheFormat) {
  Mint mint(options(), clock_, entropy_);
  const auto source = mint.source(
      "ulid",
      {.form = Form{.prefix = "ord_", .encoding = Encoding::kBase58, .check = Check::kLuhn}});
  ASSERT_TRUE(source) << source.error().message();
  const Form& form = (*source)->declaration().form;
  const Id id = take_one(**source);
  const std::string text = to_string(id, form);
  EXPECT_THAT(text, StartsWith("ord_"));
  EXPECT_EQ(text.size(), 4U + 22 + 1);
  EXPECT_EQ(parse(text, "ulid", form), id);
  // Zeros are for integers.
  EXPECT_EQ(mint.source("ulid", {.form = Form{.digits = 9}}).error().code, Code::kInvalidArgument);
}

TEST_F(MintTest, FormatsUseTheClockThatWasGiven) {
  Mint mint(options(), clock_, entropy_);
  const auto first = [&](std::string_view name) {
    return take(**mint.source(name, needed(name)), 1)[0];
  };
  EXPECT_EQ(decode_uuid1(std::get<Uuid>(first("uuid1")))->time, kNow);
  EXPECT_EQ(decode_uuid6(std::get<Uuid>(first("uuid6")))->time, kNow);
  EXPECT_EQ(decode_uuid7(std::get<Uuid>(first("uuid7")))->time, kNow);
  EXPECT_EQ(std::get<Ulid>(first("ulid")).milliseconds(), 1528538400000u);
  EXPECT_EQ(std::get<ObjectId>(first("object-id")).seconds(), 1528538400u);
  EXPECT_EQ(std::get<ObjectId>(first("object-id-classic")).seconds(), 1528538400u);
  EXPECT_EQ(std::get<Xid>(first("xid")).seconds(), 1528538400u);
  EXPECT_EQ(std::get<Ksuid>(first("ksuid")).time(), kNow);
  EXPECT_EQ(std::get<Snowflake>(first("snowflake")).value(), 454947766275219456u);
}

TEST_F(MintTest, SnowflakeNeedsAWorkerAndTellsOfItsStateFile) {
  Mint mint(options(), clock_, entropy_);
  const auto refused = mint.source("snowflake");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), testing::EndsWith("have one leased, from a pool"));
  EXPECT_EQ(refused.error().advice,
            (Advice{Remedy::kSetOption, ", or give one, 0 to 1023", {"worker"}}));

  const auto outside = mint.source("snowflake", {.worker = Worker{.id = 1024}});
  EXPECT_EQ(outside.error().code, Code::kInvalidArgument);
  EXPECT_EQ(outside.error().advice, (Advice{Remedy::kSetOption, "", {"worker"}}));
  EXPECT_TRUE(notices_.empty());

  const FormatOptions largest{.worker = Worker{.id = 1023}};
  ASSERT_TRUE(mint.source("snowflake", largest));
  const std::filesystem::path file =
      folder_ / "snowflake-10w12s-epoch-2015-01-01T00-00-00Z-1023.state";
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  ASSERT_TRUE(mint.source("snowflake", largest));
  EXPECT_THAT(notices_, ElementsAre(StartsWith("made the state file " + file.string())));
}

TEST_F(MintTest, TheStateFileIsTheLayouts) {
  Mint mint(options(), clock_, entropy_);
  const auto layout = parse_snowflake_layout("39t8s16w epoch 2014-09-01T00:00:00Z unit 10ms");
  ASSERT_TRUE(layout);
  ASSERT_TRUE(mint.source("snowflake", {.worker = Worker{.id = 5}, .layout = *layout}));
  // Not by its name, sonyflake-v1: it had the file before anybody gave it one.
  EXPECT_TRUE(std::filesystem::exists(
      folder_ / "snowflake-8s16w-epoch-2014-09-01T00-00-00Z-unit-10ms-5.state"));
  SnowflakeLayout own = *layout;
  own.epoch += std::chrono::days{1};
  ASSERT_TRUE(mint.source("snowflake", {.worker = Worker{.id = 5}, .layout = own}));
  EXPECT_TRUE(std::filesystem::exists(
      folder_ / "snowflake-8s16w-epoch-2014-09-02T00-00-00Z-unit-10ms-5.state"));
}

TEST_F(MintTest, LayoutsThatMintTheSameIdsShareTheStateFile) {
  Mint mint(options(), clock_, entropy_);
  const auto of = [&](const char* layout) {
    return mint.source(
        "snowflake", {.worker = Worker{.id = 3}, .layout = parse_snowflake_layout(layout).value()});
  };
  std::vector<Id> ids;
  {
    const auto source = of("sequence-generator");
    ASSERT_TRUE(source) << source.error().message();
    ids = take(**source, 2);
  }
  const auto source = of("discord");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_GT(std::get<Snowflake>(take_one(**source)), std::get<Snowflake>(ids[1]));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  ASSERT_TRUE(of("41t10w0s"));
  ASSERT_TRUE(of("41t0s10w"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(MintTest, AGuessedWorkerMakesASnowflakePractical) {
  Mint mint(options(), clock_, entropy_);
  for (const Worker::From from : {Worker::From::kHardware, Worker::From::kRandom}) {
    const auto source = mint.source("snowflake", {.worker = Worker{.from = from}});
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->declaration().guarantee, Guarantee::kPractical);
    EXPECT_THAT((*source)->declaration().notes, HasSubstr("odds"));
  }
}

TEST_F(MintTest, AHardwareNodeMakesAUuid1UniqueIfConfiguredSo) {
  Mint mint(options(), clock_, entropy_);
  const UuidNode node{.from = UuidNode::From::kGiven, .address = {0, 1, 2, 3, 4, 5}};
  const auto source = mint.source("uuid1", {.node = node});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->declaration().guarantee, Guarantee::kUniqueIfConfigured);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "uuid1-000102030405.state"));
  EXPECT_EQ(decode_uuid1(std::get<Uuid>(take_one(**source)))->node, node.address);
}

TEST_F(MintTest, TheHardwareNodeIsTheAddressOfTheHost) {
  const std::optional<HardwareAddress> address = host_address();
  Mint mint(options(), clock_, entropy_);
  const auto source = mint.source("uuid1", {.node = UuidNode{.from = UuidNode::From::kHardware}});
  if (!address) {
    EXPECT_EQ(source.error().code, Code::kFailedPrecondition);
    return;
  }
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ(decode_uuid1(std::get<Uuid>(take_one(**source)))->node, address);
}

TEST_F(MintTest, ASequenceIsASource) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create({.name = "small", .first = 5, .last = 9}));
  const auto source = mint.source("small");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->declaration().guarantee, Guarantee::kLinearizable);
  EXPECT_THAT(take(**source, 3),
              ElementsAre(Id{std::int64_t{5}}, Id{std::int64_t{6}}, Id{std::int64_t{7}}));
  std::vector<Id> none;
  EXPECT_TRUE((*source)->next(none));
  std::vector<Id> more(3);
  EXPECT_EQ((*source)->next(more).error().code, Code::kOutOfRange);
  EXPECT_THAT(take(**source, 2), ElementsAre(Id{std::int64_t{8}}, Id{std::int64_t{9}}));
  EXPECT_EQ(mint.peek("small")->next, 10);
  EXPECT_EQ(mint.list()->size(), 1u);
}

TEST_F(MintTest, APoolIsASource) {
  Mint mint(options(), clock_, entropy_);
  const SnowflakeLayout layout = snowflake_layout("sequence-generator").value();
  const auto made = mint.create(PoolDefinition{.name = "web", .layout = layout});
  ASSERT_TRUE(made) << made.error().message();
  const auto source = mint.source("web");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->declaration().guarantee, Guarantee::kUnique);
  EXPECT_EQ((*source)->declaration().format, "snowflake");
  EXPECT_THAT((*source)->declaration().notes, HasSubstr("41t10w12s"));
  EXPECT_EQ(mint.peek("web")->left, 1024) << "nothing is leased before it is needed";
  const auto decoded = [&](const Id& id) { return layout.decode(std::get<Snowflake>(id)).value(); };
  clock_.advance(std::chrono::seconds{1});
  const std::vector<Id> first = take(**source, 4096);
  EXPECT_EQ(decoded(first.front()).time, kNow + std::chrono::seconds{1});
  EXPECT_EQ(decoded(first.back()).time, kNow + std::chrono::seconds{1});
  EXPECT_EQ(mint.peek("web")->left, 1023);
  // Beside it, and after it.
  const auto other = mint.source("web");
  EXPECT_NE(decoded(take_one(**other)).worker, decoded(first[0]).worker);
  clock_.advance(std::chrono::seconds{10});
  EXPECT_EQ(decoded(take_one(**source)).time, kNow + std::chrono::seconds{11})
      << "the clock has gone on";
}

// Goes on each time that somebody looks at it.
class HastyClock final : public Clock {
 public:
  Instant now() noexcept override {
    return Instant{std::chrono::nanoseconds{looks_.fetch_add(1) * kStep} + kNow.time_since_epoch()};
  }
  void sleep_until(Instant, std::chrono::nanoseconds) noexcept override {}

  static constexpr std::int64_t kStep = 1'000'000;

 private:
  std::atomic<std::int64_t> looks_{0};
};

// A program that mints a few and ends takes one unit of id-time, however long it takes.
TEST_F(MintTest, TheFirstIdsOfAPoolBearTheTimeAtWhichTheyWereAskedFor) {
  HastyClock hasty;
  MintOptions with = options();
  Mint mint(with, hasty, entropy_);
  const SnowflakeLayout layout = snowflake_layout("sequence-generator").value();
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .layout = layout, .workers = 1}));
  const auto source = mint.source("web");
  const Instant asked = hasty.now() + 2 * layout.unit;  // the first look is for the deadline
  for (const Id& id : take(**source, 1000))
    ASSERT_EQ(layout.decode(std::get<Snowflake>(id))->time, asked);
  const auto bound = [&] {
    return time_of(layout, mint.list_workers("web")->front().minted_until);
  };
  EXPECT_EQ(bound(), asked + layout.unit) << "one unit was leased";
  const Id later = take_one(**source);
  EXPECT_GT(layout.decode(std::get<Snowflake>(later))->time, asked) << "the clock goes on";
  EXPECT_GE(bound(), asked + std::chrono::seconds{15});
}

TEST_F(MintTest, APoolTakesAWindowAndNothingElse) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .layout = {.worker_bits = 1}}));
  ASSERT_TRUE(mint.create({.name = "orders"}));
  EXPECT_EQ(mint.source("web", {.worker = Worker{}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(mint.source("web", {.layout = SnowflakeLayout{}}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(mint.source("uuid4", {.window = std::chrono::seconds{1}}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(mint.source("orders", {.window = std::chrono::seconds{1}}).error().code,
            Code::kInvalidArgument);
  const auto source = mint.source("web", {.window = std::chrono::minutes{1}});
  ASSERT_TRUE(source) << source.error().message();
  take(**source, 1);
  clock_.advance(std::chrono::seconds{1});
  take(**source, 1);
  clock_.advance(std::chrono::seconds{59});
  EXPECT_EQ(mint.peek("web")->left, 1);
  const auto second = mint.source("web");
  const auto third = mint.source("web");
  take(**second, 1);
  std::vector<Id> none(1);
  EXPECT_EQ((*third)->next(none).error().code, Code::kResourceExhausted);
}

// Ends the lease of another, or not, once somebody has slept so often.
class WaitedForClock final : public Clock {
 public:
  Instant now() noexcept override { return now_; }
  void sleep_until(Instant when, std::chrono::nanoseconds) noexcept override {
    slept_ += when - now_;
    now_ = when;
    if (++sleeps_ == 3) other_.reset();
  }
  void wait_for(std::unique_ptr<Source> other) {
    other_ = std::move(other);
    slept_ = {};
    sleeps_ = 0;
  }
  std::chrono::nanoseconds slept() const { return slept_; }

 private:
  Instant now_ = kNow;
  std::unique_ptr<Source> other_;
  std::chrono::nanoseconds slept_{};
  int sleeps_ = 0;
};

TEST_F(MintTest, WhereAllWorkerIdsAreOwnedOneIsWaitedFor) {
  WaitedForClock waited_for;
  MintOptions with = options();
  Mint mint(with, waited_for, entropy_);
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 1}));
  auto first = *mint.source("web");
  take(*first, 1);
  waited_for.wait_for(std::move(first));
  const auto second = *mint.source("web");
  take(*second, 1);
  EXPECT_EQ(waited_for.slept(), std::chrono::milliseconds{50 + 100 + 200});
  waited_for.wait_for(nullptr);
  std::vector<Id> none(1);
  EXPECT_EQ((*mint.source("web"))->next(none).error().code, Code::kResourceExhausted);
  EXPECT_EQ(waited_for.slept(), std::chrono::seconds{5}) << "the store's deadline";
}

TEST_F(MintTest, AnAttemptThatTheDeadlineCutsShortDoesNotHideThatAllAreOwned) {
  for (const Code cut_short : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kUnknown}) {
    WaitedForClock waited_for;
    MintOptions with = options();
    const auto store = std::make_shared<fakes::FaultyLeases>();
    Mint mint(store, with, waited_for, entropy_);
    ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 1}));
    const auto first = *mint.source("web");
    take(*first, 1);
    const auto second = *mint.source("web");
    std::vector<Id> none(1);
    store->table().fail_next(Code::kResourceExhausted);
    store->table().fail_next(cut_short);
    const Result<void> refused = second->next(none);
    ASSERT_EQ(code_of(refused), Code::kResourceExhausted);
    EXPECT_EQ(waited_for.slept(), std::chrono::milliseconds{50});
    // If none was refused before, the first refusal says it.
    store->table().fail_next(cut_short);
    EXPECT_EQ(code_of(second->next(none)), cut_short);
  }
}

TEST_F(MintTest, WithWaitOnItIsWaitedForUntilItIsNoLongerHeld) {
  WaitedForClock waited_for;
  MintOptions with = options();
  with.store_options.deadline = std::chrono::milliseconds{100};
  std::vector<std::chrono::milliseconds> all;
  with.wait_on = [&](std::chrono::milliseconds, std::chrono::milliseconds of) {
    all.push_back(of);
    return true;
  };
  Mint mint(with, waited_for, entropy_);
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 1}));
  const auto first = *mint.source("web");
  take(*first, 1);
  // The clock of the store goes on as ever: by it the worker id is still held.
  std::vector<Id> none(1);
  EXPECT_EQ((*mint.source("web"))->next(none).error().code, Code::kResourceExhausted);
  EXPECT_GE(waited_for.slept(), std::chrono::seconds{10});
  EXPECT_LE(waited_for.slept(), std::chrono::seconds{16});
  ASSERT_GE(all.size(), 10U);
  EXPECT_EQ(all.front(), all.back());
}

TEST_F(MintTest, TheWaitingEndsWhenItIsToldTo) {
  WaitedForClock waited_for;
  MintOptions with = options();
  int asked = 0;
  with.wait_on = [&](std::chrono::milliseconds, std::chrono::milliseconds) { return ++asked < 3; };
  Mint mint(with, waited_for, entropy_);
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 1}));
  const auto first = *mint.source("web");
  take(*first, 1);
  std::vector<Id> none(1);
  EXPECT_EQ((*mint.source("web"))->next(none).error().code, Code::kResourceExhausted);
  EXPECT_EQ(waited_for.slept(), std::chrono::milliseconds{50 + 100});
}

TEST_F(MintTest, APoolThatWouldMintNothingIsNotMade) {
  Mint mint(options(), clock_, entropy_);
  using std::chrono::seconds;
  PoolDefinition pool{.name = "web", .layout = {.epoch = kNow + seconds{1}}};
  for (const SnowflakeLayout& never :
       {SnowflakeLayout{.epoch = kNow + seconds{1}},
        SnowflakeLayout{.epoch = kNow - seconds{5}, .unit = seconds{1}, .time_bits = 2}}) {
    pool.layout = never;
    const Error refused = mint.create(pool).error();
    EXPECT_EQ(refused.code, Code::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("pool web would mint nothing"));
  }
  EXPECT_EQ(mint.peek("web").error().code, Code::kNotFound);
  pool.layout = SnowflakeLayout{.epoch = kNow, .unit = seconds{1}, .time_bits = 3};
  ASSERT_TRUE(mint.create(pool));
  clock_.advance(seconds{10});
  EXPECT_TRUE(mint.create(pool)) << "it is there";
  std::vector<Id> none(1);
  const Error over = (*mint.source("web"))->next(none).error();
  EXPECT_EQ(over.code, Code::kOutOfRange);
  EXPECT_THAT(over.message(), HasSubstr("make another pool, with a layout"));
}

TEST_F(MintTest, APoolInAChildOfForkIsRefusedWithoutTouchingALock) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web"}));
  const auto source = mint.source("web");
  ASSERT_TRUE(source) << source.error().message();
  fakes::in_child([&] {
    std::vector<Id> out(1);
    EXPECT_THAT(fakes::why((*source)->next(out)), HasSubstr("pool web: opened before fork()"));
  });
  take(**source, 1);
}

TEST_F(MintTest, ASourceOutlivesItsMint) {
  auto mint = std::make_unique<Mint>(options(), clock_, entropy_);
  ASSERT_TRUE(mint->create({.name = "orders"}));
  const auto source = mint->source("orders");
  mint.reset();
  EXPECT_THAT(take(**source, 1), ElementsAre(Id{std::int64_t{1}}));
}

TEST_F(MintTest, NamesOfFormatsAreTaken) {
  Mint mint(options(), clock_, entropy_);
  for (const Declaration& format : Mint::formats()) {
    EXPECT_EQ(mint.create({.name = format.name}).error().code, Code::kInvalidArgument);
  }
  // Names that other commands take or print for a format or a layout.
  for (const std::string name :
       {"uuid", "guid", "UUID", "uuid3", "uuid5", "uuid8", "nil", "max", "uuid-nil", "uuid-max",
        "integer", "Integer", "ULID", "unix-seconds", "unix-milliseconds", "unix-microseconds",
        "unix-nanoseconds"}) {
    const auto refused = mint.create({.name = name});
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << name;
    EXPECT_THAT(refused.error().message(), HasSubstr("choose another name")) << name;
  }
  for (const SnowflakePreset& preset : snowflake_presets()) {
    EXPECT_EQ(mint.create({.name = std::string(preset.name)}).error().code, Code::kInvalidArgument)
        << preset.name;
  }
  EXPECT_TRUE(mint.create({.name = "maximum"}));
  EXPECT_EQ(mint.peek("uuid7").error().code, Code::kInvalidArgument);
}

TEST_F(MintTest, UnknownNamesAreToldWithWhatIsNear) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create({.name = "invoices"}));
  const auto message = [&](std::string_view name) {
    const auto source = mint.source(name);
    EXPECT_EQ(source.error().code, Code::kNotFound) << name;
    return source.error().message();
  };
  EXPECT_THAT(message("invocies"), HasSubstr("did you mean invoices?"));
  EXPECT_THAT(message("uuid9"),
              HasSubstr("did you mean uuid1 or uuid2 or uuid4 or uuid6 or uuid7?"));
  EXPECT_THAT(message("customers"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(message("customers"), HasSubstr("gone with the process"));
  const auto advice = [&](std::string_view name) { return mint.source(name).error().advice; };
  EXPECT_EQ(advice("customers"), (Advice{Remedy::kCreateSource, "customers"}));
  EXPECT_EQ(advice("invocies"), Advice{});
  EXPECT_EQ(advice("no name"), Advice{Remedy::kListFormats});
  EXPECT_EQ(advice(std::string(100'000, 'x')), Advice{Remedy::kListFormats});
}

TEST_F(MintTest, AMissingSequenceIsNotMadeToBeChanged) {
  MintOptions sqlite = options();
  sqlite.store = "sqlite:" + (folder_ / "ids.db").string();
  Mint mint(sqlite, clock_, entropy_);
  const auto messages = [&](std::string_view name) {
    const std::vector<Error> errors = {mint.peek(name).error(), mint.raise(name, 5).error(),
                                       mint.alter(name, 5).error(), mint.retire(name).error()};
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, Code::kNotFound);
      EXPECT_EQ(error.message(), errors[0].message());
    }
    return errors[0].message();
  };
  EXPECT_THAT(messages("orders"), HasSubstr("there is no store sqlite:"));
  EXPECT_EQ(mint.peek("orders").error().advice, (Advice{Remedy::kSetOption, "", {"store"}}));
  const auto created = mint.create({.name = "orders"});
  ASSERT_TRUE(created) << created.error().message();
  EXPECT_THAT(messages("oders"), HasSubstr("did you mean orders?"));
  EXPECT_THAT(messages("customers"),
              StartsWith("there is no sequence or pool \"customers\" in sqlite:"));
  EXPECT_EQ(mint.peek("customers").error().advice, Advice{Remedy::kListSequences});
  EXPECT_THAT(messages("uuid9"), Not(HasSubstr("did you mean"))) << "none of them is a sequence";
}

TEST_F(MintTest, NamesThatStandForSomethingElseAreExplained) {
  Mint mint(options(), clock_, entropy_);
  const auto message = [&](std::string_view name) { return mint.source(name).error().message(); };
  EXPECT_THAT(message("guid"), HasSubstr("uuid4 (random) or uuid7 (in order of time)"));
  EXPECT_THAT(message("uuid"), HasSubstr("uuid4 (random) or uuid7 (in order of time)"));
  const auto advice = [&](std::string_view name) { return mint.source(name).error().advice; };
  EXPECT_EQ(advice("uuid3"), (Advice{Remedy::kNameUuid, "", {"3"}}));
  EXPECT_EQ(advice("uuid5"), (Advice{Remedy::kNameUuid, "", {"5"}}));
  EXPECT_THAT(message("nil"), HasSubstr("not minted"));
  EXPECT_EQ(advice("integer"), (Advice{Remedy::kCreateSequence, "orders"}));
  EXPECT_EQ(advice("unix-seconds"), Advice{Remedy::kInspect});
  EXPECT_EQ(advice("twitter"), (Advice{Remedy::kMintSnowflake, "", {"twitter"}}));
}

TEST_F(MintTest, OfCreatorsAtOnceOneIsToldThatItMadeTheSource) {
  MintOptions sqlite = options();
  sqlite.store = "sqlite:" + (folder_ / "ids.db").string();
  constexpr std::size_t kCreators = 4;
  for (int round = 0; round < 5; ++round) {
    const std::string name = "n" + std::to_string(round);
    for (const Definition& wanted :
         {Definition(SequenceDefinition{.name = name}),
          Definition(PoolDefinition{.name = "p" + name, .workers = 2})}) {
      std::array<Result<Changed>, kCreators> created;
      {
        std::barrier start(kCreators);
        std::vector<std::jthread> threads;
        for (Result<Changed>& mine : created)
          threads.emplace_back([&] {
            Mint mint(sqlite, clock_, entropy_);
            start.arrive_and_wait();
            mine = mint.create(wanted);
          });
      }
      int made = 0;
      for (const Result<Changed>& each : created) {
        ASSERT_TRUE(each) << each.error().message();
        EXPECT_EQ(idmint::name(each->status.definition), idmint::name(wanted));
        made += each->made ? 1 : 0;
      }
      EXPECT_EQ(made, 1);
    }
  }
}

TEST_F(MintTest, AStoreIsMadeOnlyIfTheSourceMayBe) {
  MintOptions sqlite = options();
  const std::filesystem::path file = folder_ / "ids.db";
  sqlite.store = "sqlite:" + file.string();
  Mint mint(sqlite, clock_, entropy_);
  const CreateOptions refusing{.may_make = []() -> Result<void> {
    return std::unexpected(Error{Code::kResourceExhausted, "no more"});
  }};
  const Definition orders = SequenceDefinition{.name = "orders"};
  EXPECT_EQ(code_of(mint.create(orders, refusing)), Code::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(file));
  ASSERT_TRUE(mint.create(orders));
  EXPECT_TRUE(mint.create(orders, refusing));
}

// Such as a damaged file, from which nothing is made anew.
TEST_F(MintTest, NobodyIsAskedWhetherASourceMayBeMadeInAStoreThatDoesNotOpen) {
  const std::filesystem::path file = folder_ / "ids.db";
  std::ofstream(file) << "no database at all";
  MintOptions sqlite = options();
  sqlite.store = "sqlite:" + file.string();
  Mint mint(sqlite, clock_, entropy_);
  int asked = 0;
  const CreateOptions counting{.may_make = [&]() -> Result<void> {
    ++asked;
    return {};
  }};
  for (const Definition& each : {Definition(SequenceDefinition{.name = "orders"}),
                                 Definition(PoolDefinition{.name = "web"})}) {
    const auto refused = mint.create(each, counting);
    ASSERT_FALSE(refused);
    EXPECT_NE(code_of(refused), Code::kNotFound) << refused.error().message();
  }
  EXPECT_EQ(asked, 0);
}

TEST_F(MintTest, OnlyCreateMakesAStore) {
  MintOptions sqlite = options();
  sqlite.store = "sqlite:" + (folder_ / "ids.db").string();
  Mint mint(sqlite, clock_, entropy_);
  EXPECT_EQ(mint.source("orders").error().code, Code::kNotFound);
  EXPECT_EQ(mint.peek("orders").error().code, Code::kNotFound);
  EXPECT_EQ(mint.list().error().code, Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ids.db"));
  ASSERT_TRUE(mint.create({.name = "orders"}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ids.db"));
  EXPECT_TRUE(mint.source("orders"));

  MintOptions forbidden = options();
  forbidden.store = "sqlite:" + (folder_ / "other.db").string();
  forbidden.store_options.create = false;
  EXPECT_EQ(Mint(forbidden, clock_, entropy_).create({.name = "orders"}).error().code,
            Code::kNotFound);
}

TEST_F(MintTest, TheWorkerIdsOfAPool) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create(PoolDefinition{.name = "web", .workers = 4}));
  EXPECT_EQ(mint.list_workers("web")->size(), 4u);
  EXPECT_EQ(mint.release_worker("web", 2)->token, Uuid{}) << "nobody owned it";
  EXPECT_EQ(mint.raise_pool("web", kUsualSnowflakeLayout.epoch + std::chrono::seconds{1}), 1001);
  EXPECT_EQ(mint.list_workers("web")->at(0).minted_until, 1001);
  EXPECT_EQ(mint.list_workers("shop").error().code, Code::kNotFound);
}

TEST_F(MintTest, ThreadsShareAMint) {
  Mint mint(options(), clock_, entropy_);
  ASSERT_TRUE(mint.create({.name = "orders"}));
  constexpr int kThreads = 4;
  constexpr std::size_t kEach = 500;
  std::vector<std::vector<Id>> taken(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::vector<Id>& ids : taken) {
      threads.emplace_back([&mint, &ids] {
        const auto source = mint.source("orders");
        for (std::size_t i = 0; i < kEach; ++i) ids.push_back(take_one(**source));
      });
    }
  }
  std::set<Id> all;
  for (const std::vector<Id>& ids : taken) all.insert(ids.begin(), ids.end());
  EXPECT_EQ(all.size(), kThreads * kEach);
  EXPECT_EQ(mint.peek("orders")->next, std::int64_t{kThreads * kEach} + 1);
}

TEST(GuaranteeNames, AreThoseOfTheDocuments) {
  EXPECT_EQ(name(Guarantee::kPractical), "practical");
  EXPECT_EQ(name(Guarantee::kUniqueIfConfigured), "unique if configured so");
  EXPECT_EQ(name(Guarantee::kUnique), "unique");
  EXPECT_EQ(name(Guarantee::kLinearizable), "linearizable");
}

}  // namespace
}  // namespace idmint
