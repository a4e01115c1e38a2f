// A pool as a definition: made, looked at, released, raised, retired. The tests of lease tables
// show that two holders never meet.
#include "idmint/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idmint/mongodb.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "sequences/life_cycle.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/definitions.h"
#include "tests/fakes/scripted.h"

namespace idmint {
namespace {

using namespace std::chrono_literals;
using fakes::code_of;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Instant kEpochOfPool{std::chrono::sys_days{std::chrono::year{2025} / 1 / 1}};

PoolDefinition web(std::int64_t workers = 4) {
  return {.name = "web", .layout = {.epoch = kEpochOfPool}, .workers = workers};
}

PoolDefinition open_ended() { return web(0); }

// A store in memory of which one call fails: the n-th of its lease table and its catalog.
class CutStore final : public Store, public LeaseTable, public Catalog {
 public:
  CutStore() : store_(*Store::open("memory:")) {}

  std::size_t calls = 0;
  std::size_t fail_at = 0;
  bool applied = false;  // it changes the store all the same
  bool offers_leases = true;
  std::optional<Error> no_workers{};

  const Uuid& id() const noexcept override { return store_->id(); }
  std::string_view url() const noexcept override { return "cut:"; }
  CounterStore* counters() noexcept override { return store_->counters(); }
  Catalog* catalog() noexcept override { return this; }
  UniqueIndex* unique_index() noexcept override { return store_->unique_index(); }
  LeaseTable* leases() noexcept override { return offers_leases ? this : nullptr; }

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override {
    return cut([&] { return table().create_pool(pool, workers); });
  }
  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime until) override {
    return table().acquire(pool, request, until);
  }
  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime until) override {
    return table().extend(pool, lease, to, nonce, terms, until);
  }
  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime until) override {
    return cut([&] { return table().release(pool, worker, token, generation, until); });
  }
  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override {
    return cut([&] { return table().raise_floor(pool, floor); });
  }
  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime until) override {
    if (no_workers) return std::unexpected(*no_workers);
    return cut([&] { return table().workers(pool, until); });
  }
  Result<Defined> do_define(const Definition& definition) override {
    return cut([&] { return store_->catalog()->define(definition); });
  }
  Result<Defined> do_replace(const Definition& old, const Definition& updated) override {
    return cut([&] { return store_->catalog()->replace(old, updated); });
  }
  Result<Definition> do_find(std::string_view name, SteadyTime until) override {
    return cut([&] { return store_->catalog()->find(name, until); });
  }
  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime until) override {
    return store_->catalog()->list_after(after, most, until);
  }

 private:
  LeaseTable& table() { return *store_->leases(); }

  auto cut(auto call) -> decltype(call()) {
    if (++calls != fail_at) return call();
    if (applied) static_cast<void>(call());
    return std::unexpected(Error{Code::kUnknown, "cut off"});
  }

  const std::unique_ptr<Store> store_;
};

// Somebody's worker id, for an hour.
Lease acquired(Store& store, std::uint8_t who, std::int64_t now = 1000) {
  LeaseRequest request{.holder = "host, process " + std::to_string(who),
                       .now = now,
                       .units = 100,
                       .terms = {.held = 1h}};
  Uuid::Bytes token{};
  token[0] = who;
  request.token = Uuid(token);
  const Result<Lease> lease = store.leases()->acquire("web", request);
  EXPECT_TRUE(lease) << lease.error().message();
  return lease.value_or(Lease{});
}

TEST(Pool, IsMadeWithItsWorkerIds) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  EXPECT_EQ(store.find("web"), Definition(web()));
  EXPECT_EQ(store.workers("web")->size(), 4u);
  acquired(store, 1);
  EXPECT_TRUE(create_pool(store, web())) << "again";
  EXPECT_EQ(store.workers("web")->at(0).minted_until, 1100) << "nobody's bound falls";
}

TEST(Pool, WhereAllAreOwnedTheRefusalSaysUntilWhen) {
  const auto store = *Store::open("memory:");
  ASSERT_TRUE(create_pool(*store, web(1)));
  const auto first = SnowflakeGenerator::open(*store, "web");
  ASSERT_TRUE(first) << first.error().message();
  const Instant now = system_clock().now();
  const auto second = SnowflakeGenerator::open(*store, "web");
  ASSERT_EQ(code_of(second), Code::kResourceExhausted);
  // To the minute, and the tenth of a second that is not looked at.
  EXPECT_THAT(second.error().message(),
              AllOf(HasSubstr("every worker id has an owner"),
                    AnyOf(HasSubstr("held until " + format_time(now + 13s).substr(0, 16)),
                          HasSubstr("held until " + format_time(now + 73s).substr(0, 16)),
                          HasSubstr("held until " + format_time(now + 75s).substr(0, 16))),
                    HasSubstr(" s from now), unless its owner renews it")));
}

TEST(Pool, WhereAllAreAheadTheRefusalSaysFromWhenOn) {
  const auto store = *Store::open("memory:");
  ASSERT_TRUE(create_pool(*store, web(2)));
  ASSERT_TRUE(raise_pool(*store, "web", kEpochOfPool + 30 * 24h));
  fakes::ManualClock clock(kEpochOfPool + 1h);
  const auto refused = SnowflakeGenerator::open(*store, "web", {}, clock);
  ASSERT_EQ(code_of(refused), Code::kUnavailable);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("it is leased again from 2025-01-30T23:59:40.001Z on"));
  EXPECT_EQ(refused.error().advice, (Advice{Remedy::kPlanPool, "web"}));
  clock.set(kEpochOfPool + 30 * 24h - 19s);
  EXPECT_TRUE(SnowflakeGenerator::open(*store, "web", {}, clock));
}

TEST(Pool, HasAThousandWorkerIdsIfNobodySaysHowMany) {
  const auto made = [](int worker_bits) {
    CutStore store;
    PoolDefinition pool = open_ended();
    pool.layout.worker_bits = worker_bits;
    EXPECT_TRUE(create_pool(store, pool));
    EXPECT_TRUE(create_pool(store, pool)) << "again";
    EXPECT_EQ(std::ssize(*store.workers("web")), as_pool(*store.find("web")).workers);
    return as_pool(*store.find("web")).workers;
  };
  EXPECT_EQ(made(2), 4);
  EXPECT_EQ(made(10), 1024);
  EXPECT_EQ(made(11), 1024);
  CutStore store;
  ASSERT_TRUE(create_pool(store, web(7)));
  EXPECT_TRUE(create_pool(store, open_ended())) << "as many as there are";
  EXPECT_EQ(as_pool(*store.find("web")).workers, 7);
  PoolDefinition many = web(1025);
  many.layout.worker_bits = 11;
  CutStore other;
  ASSERT_TRUE(create_pool(other, many)) << "who asks for more gets more";
  EXPECT_EQ(other.workers("web")->size(), 1025u);
}

// One worker id under two layouts is the same id twice, sooner or later.
TEST(Pool, AnotherLayoutIsRefusedNamingTheDifference) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  const auto refusal = [&](auto change) {
    PoolDefinition pool = web();
    change(pool);
    const auto made = create_pool(store, pool);
    EXPECT_EQ(code_of(made), Code::kFailedPrecondition);
    return made ? "" : made.error().message();
  };
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.layout.epoch += 1ms; }),
              HasSubstr("layout: 41t10w12s epoch 2025-01-01T00:00:00Z there, 41t10w12s epoch "
                        "2025-01-01T00:00:00.001Z here"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.layout.sequence_bits = 11; }),
              HasSubstr("41t10w11s"));
  EXPECT_THAT(refusal([](PoolDefinition& d) { d.workers = 5; }),
              HasSubstr("workers: 4 there, 5 here; use it as it is"));
  const auto sequence = create_sequence(store, {.name = "web"});
  EXPECT_EQ(code_of(sequence), Code::kFailedPrecondition);
  EXPECT_THAT(sequence.error().message(), HasSubstr("strategy: pool there, counter here"));
  ASSERT_TRUE(create_sequence(store, {.name = "orders"}));
  PoolDefinition orders = web();
  orders.name = "orders";
  EXPECT_THAT(create_pool(store, orders).error().message(),
              HasSubstr("strategy: counter there, pool here"));
  EXPECT_EQ(store.find("web"), Definition(web()));
}

TEST(Pool, ThatAnotherMadeMeanwhileSaysWhatIsLeft) {
  CutStore store;
  const CreateOptions overtaken{.may_make = [&]() -> Result<void> {
    EXPECT_TRUE(create_pool(store, web())->made);
    acquired(store, 1);
    return {};
  }};
  const auto created = create_pool(store, web(), overtaken);
  ASSERT_TRUE(created) << created.error().message();
  EXPECT_FALSE(created->made);
  EXPECT_EQ(created->status.left, 3);
}

TEST(Pool, OfAStoreWithoutLeasesIsRefused) {
  CutStore store;
  store.offers_leases = false;
  const auto made = create_pool(store, web());
  EXPECT_EQ(code_of(made), Code::kUnimplemented);
  EXPECT_THAT(made.error().message(), HasSubstr("pool"));
  EXPECT_EQ(code_of(store.find("web")), Code::kNotFound);
}

TEST(Pool, WorkerIdsOfAnotherNumberAreNotTakenOver) {
  CutStore store;
  ASSERT_TRUE(store.create_pool("web", 3));
  const auto made = create_pool(store, web());
  ASSERT_EQ(code_of(made), Code::kFailedPrecondition);
  EXPECT_THAT(made.error().message(), HasSubstr("3 worker ids"));
  EXPECT_TRUE(create_pool(store, web(3)));
}

TEST(Pool, LostWorkerIdsAreNotMadeAgain) {
  CutStore store;
  ASSERT_TRUE(store.define(web()));
  EXPECT_EQ(code_of(create_pool(store, web())), Code::kDataLoss);
  EXPECT_EQ(code_of(store.workers("web")), Code::kNotFound) << "they would start over";
  const auto status = peek_sequence(store, "web");
  ASSERT_TRUE(status && status->error);
  EXPECT_EQ(status->error->code, Code::kDataLoss);
  EXPECT_THAT(status->error->message(), HasSubstr("0 are there"));
  ASSERT_TRUE(store.create_pool("web", 3));
  EXPECT_EQ(code_of(create_pool(store, web())), Code::kDataLoss);
}

TEST(Pool, LostWorkerIdsAreMadeAgainByAFenceAndBeginThere) {
  CutStore store;
  ASSERT_TRUE(store.define(web()));
  ASSERT_EQ(raise_pool(store, "web", kEpochOfPool + 41ms), 42);
  const auto workers = list_workers(store, "web");
  ASSERT_TRUE(workers);
  ASSERT_EQ(workers->size(), 4U);
  for (const LeaseState& state : *workers) EXPECT_EQ(state.minted_until, 42);
}

TEST(Pool, AFenceMayBeFurtherFromTheEpochThanAnInstantReaches) {
  CutStore store;
  constexpr std::chrono::sys_days old_epoch{std::chrono::year{1700} / 1 / 1};
  PoolDefinition old = web();
  old.layout = SnowflakeLayout{.epoch = old_epoch, .time_bits = 45, .worker_bits = 4};
  const auto made = create_pool(store, old);
  ASSERT_TRUE(made) << made.error().message();
  const auto floor = raise_pool(store, "web", kEpochOfPool);
  ASSERT_TRUE(floor) << floor.error().message();
  const std::chrono::milliseconds since =
      std::chrono::sys_days{std::chrono::year{2025} / 1 / 1} - old_epoch;
  EXPECT_EQ(*floor, since.count() + 1);
  EXPECT_EQ(list_workers(store, "web")->front().minted_until, *floor);
}

TEST(Pool, ItsStatusCountsWhatNobodyOwns) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  EXPECT_EQ(peek_sequence(store, "web")->left, 4);
  acquired(store, 1);
  const Lease second = acquired(store, 2);
  const auto status = peek_sequence(store, "web");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->left, 2);
  EXPECT_EQ(status->next, std::nullopt);
  EXPECT_EQ(status->error, std::nullopt);
  ASSERT_TRUE(store.release("web", second.worker, second.token, second.generation));
  EXPECT_EQ(peek_sequence(store, "web")->left, 3);
  store.no_workers = Error{Code::kUnavailable, "away"};
  EXPECT_EQ(code_of(peek_sequence(store, "web")), Code::kUnavailable) << "not the pool's own fault";
}

// ---- what is done to other sequences

TEST(Pool, SaysWhatToDoInstead) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  const auto opened = Sequence::open(store, "web");
  ASSERT_EQ(code_of(opened), Code::kFailedPrecondition);
  EXPECT_THAT(opened.error().message(), HasSubstr("SnowflakeGenerator::open()"));
  const auto raised = raise_sequence(store, "web", 5);
  ASSERT_EQ(code_of(raised), Code::kInvalidArgument);
  EXPECT_EQ(raised.error().advice, (Advice{Remedy::kRaisePool, "web"}));
  struct None final : ExistingValues {
    Result<std::optional<std::int64_t>> largest(std::int64_t, std::int64_t) override { return 2; }
  } values;
  EXPECT_EQ(code_of(raise_sequence(store, "web", values)), Code::kInvalidArgument);
  const auto extended = alter_sequence(store, "web", 9);
  ASSERT_EQ(code_of(extended), Code::kInvalidArgument);
  EXPECT_THAT(extended.error().message(), HasSubstr("a pool with more has another name"));
  EXPECT_EQ(store.find("web"), Definition(web()));
  const auto missing = SnowflakeGenerator::open(store, "jobs");
  ASSERT_EQ(code_of(missing), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("no such pool; create it"));
  EXPECT_EQ(missing.error().advice, (Advice{Remedy::kCreatePool, "jobs"}));
  const auto no_worker = release_worker(store, "web", 99);
  ASSERT_EQ(code_of(no_worker), Code::kInvalidArgument);
  ASSERT_TRUE(retire_sequence(store, "web"));
  const auto retired = list_workers(store, "web");
  ASSERT_FALSE(retired);
  for (const Error& error :
       {opened.error(), raised.error(), extended.error(), no_worker.error(), retired.error(),
        alter_sequence(store, "web", 9).error(), raise_sequence(store, "web", 5).error(),
        create_pool(store, web()).error()})
    EXPECT_THAT(error.message(), StartsWith("pool web in ")) << "nobody has a sequence here";
}

TEST(Pool, OnlyPoolsHaveWorkerIds) {
  CutStore store;
  ASSERT_TRUE(create_sequence(store, {.name = "orders"}));
  EXPECT_EQ(code_of(list_workers(store, "orders")), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(release_worker(store, "orders", 0)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(raise_pool(store, "orders", kEpochOfPool)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(list_workers(store, "shop")), Code::kNotFound);
}

// ---- release

TEST(Pool, AWorkerIdIsReleasedWithWhatWasRead) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  const Lease lease = acquired(store, 1);
  const auto released = release_worker(store, "web", lease.worker);
  ASSERT_TRUE(released);
  EXPECT_EQ(released->holder, "host, process 1");
  EXPECT_EQ(released->token, lease.token);
  EXPECT_EQ(released->minted_until, lease.to);
  const LeaseState after = store.workers("web")->at(static_cast<std::size_t>(lease.worker));
  EXPECT_EQ(after.token, Uuid{});
  EXPECT_EQ(after.minted_until, lease.to) << "the next owner begins there";
  const auto again = release_worker(store, "web", lease.worker);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->token, Uuid{}) << "nobody's";
  for (const std::int64_t none : {-1, 4})
    EXPECT_EQ(code_of(release_worker(store, "web", none)), Code::kInvalidArgument);
}

// ---- raise

TEST(Pool, IsRaisedPastTheUnitOfATime) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  const Lease lease = acquired(store, 1);
  EXPECT_EQ(raise_pool(store, "web", kEpochOfPool + 5s), 5001);
  EXPECT_EQ(raise_pool(store, "web", kEpochOfPool + 5s + 999us), 5001) << "of the unit it lies in";
  const auto workers = store.workers("web");
  for (const LeaseState& state : *workers) {
    EXPECT_EQ(state.minted_until, 5001);
    EXPECT_EQ(state.token, Uuid{});
    EXPECT_NE(state.generation, lease.generation);
  }
  EXPECT_EQ(raise_pool(store, "web", kEpochOfPool), 1)
      << "below what there is: it only takes the owners";
  EXPECT_EQ(store.workers("web")->at(0).minted_until, 5001);
  EXPECT_EQ(code_of(raise_pool(store, "web", kEpochOfPool - 1ns)), Code::kOutOfRange);
  EXPECT_EQ(code_of(raise_pool(store, "web", Instant::max())), Code::kOutOfRange);
}

TEST(Pool, UnitsAreATimeOfTheLayout) {
  const SnowflakeLayout layout{.epoch = kEpochOfPool, .unit = 10ms};
  EXPECT_EQ(time_of(layout, 0), kEpochOfPool);
  EXPECT_EQ(time_of(layout, 250), kEpochOfPool + 2500ms);
  EXPECT_EQ(time_of(layout, std::int64_t{1} << 62), std::nullopt);
}

// ---- retire

TEST(Pool, RetiredNobodyGetsAWorkerIdOrKeepsOne) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  const Lease lease = acquired(store, 1);
  ASSERT_TRUE(retire_sequence(store, "web"));
  EXPECT_TRUE(retire_sequence(store, "web")) << "again";
  EXPECT_TRUE(is_retired(*store.find("web")));
  EXPECT_EQ(code_of(store.extend("web", lease, lease.to + 1, Uuid::max(), {.held = 1h})),
            Code::kFailedPrecondition);
  LeaseRequest request{.token = lease.token, .now = 2000, .terms = {.held = 1h}};
  EXPECT_EQ(code_of(store.acquire("web", request)), Code::kFailedPrecondition);
  request.max_drift = (std::int64_t{1} << 62) - 2001;  // the most that is allowed
  EXPECT_EQ(code_of(store.acquire("web", request)), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(list_workers(store, "web")), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(raise_pool(store, "web", kEpochOfPool)), Code::kFailedPrecondition);
  const auto again = create_pool(store, web());
  ASSERT_EQ(code_of(again), Code::kFailedPrecondition);
  EXPECT_THAT(again.error().message(), HasSubstr("not given again"));
}

TEST(Pool, ARetireThatWasCutOffShows) {
  CutStore store;
  ASSERT_TRUE(create_pool(store, web()));
  store.calls = 0;
  store.fail_at = 4;  // find, replace to try, raise_floor, replace
  EXPECT_EQ(code_of(retire_sequence(store, "web")), Code::kUnknown);
  const auto status = peek_sequence(store, "web");
  ASSERT_TRUE(status && status->error);
  EXPECT_EQ(status->left, 0);
  EXPECT_EQ(status->error->code, Code::kFailedPrecondition);
  EXPECT_THAT(status->error->message(), AllOf(HasSubstr("4 of its"), HasSubstr("retire it")));
}

TEST(Pool, RetiresWithItsWorkerIdsLost) {
  CutStore store;
  ASSERT_TRUE(store.define(web()));
  EXPECT_TRUE(retire_sequence(store, "web"));
  EXPECT_TRUE(is_retired(*store.find("web")));
}

// ---- cut off at every call

TEST(Pool, CutOffAtAnyCallItIsFinishedByTheNextAndSoundInBetween) {
  const auto create = [](Store& store) { return create_pool(store, web()).has_value(); };
  const auto retire = [](Store& store) { return retire_sequence(store, "web").has_value(); };
  for (const bool retires : {false, true}) {
    const auto run = [&](Store& store) { return retires ? retire(store) : create(store); };
    CutStore whole;
    if (retires) {
      ASSERT_TRUE(create(whole));
    }
    whole.calls = 0;
    ASSERT_TRUE(run(whole));
    const std::size_t calls = whole.calls;
    ASSERT_EQ(calls, retires ? 4u : 3u);
    for (std::size_t call = 1; call <= calls; ++call) {
      for (const bool applied : {false, true}) {
        SCOPED_TRACE(std::to_string(call) + (applied ? ", applied" : ""));
        CutStore store;
        if (retires) {
          ASSERT_TRUE(create(store));
        }
        const auto expect_sound = [&] {
          const Result<Definition> found = store.find("web");
          if (!found) return;  // nobody can open it
          const auto workers = store.workers("web");
          ASSERT_TRUE(workers) << "defined without its worker ids";
          for (const LeaseState& state : *workers)
            EXPECT_TRUE(!is_retired(*found) || state.minted_until == std::int64_t{1} << 62)
                << "a tombstone over what lives";
        };
        store.calls = 0;
        store.fail_at = call;
        store.applied = applied;
        EXPECT_FALSE(run(store));
        expect_sound();
        EXPECT_TRUE(run(store)) << "finished by the next";
        expect_sound();
        EXPECT_EQ(store.find("web"), whole.find("web"));
      }
    }
  }
}

}  // namespace
}  // namespace idmint
