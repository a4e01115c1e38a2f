// The refusals of an etcd store, and the faults of its members. The conformance suite tests what
// all stores have in common.
#include "idmint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "idmint/sequence.h"
#include "ids/lease_table.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"
#include "tests/fakes/certificate.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/opened_store.h"
#include "tests/fakes/silent_servers.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/etcd.h"
#include "tests/servers/loopback.h"

namespace idmint {
namespace {

using fakes::code_of;
using fakes::eventually;
using fakes::opened;
using fakes::take;
using fakes::with_counter;
using servers::EtcdCluster;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// ---- URLs

TEST(EtcdUrls, ThoseThatCannotBeMeantAreRefused) {
  for (const char* const url :
       {"etcd://u:ge@heim@h/p", "etcd://u:ge/heim@h/p", "etcd://u:geheim@h/p?tsl=on",
        "etcd://u:geheim@h/p?tls=yes", "etcd://u@h/p", "etcd://:geheim@h/p", "etcd:///p",
        "etcd://h,,i/p", "etcd://h//p", "etcd://h/p?tls_ca=/ca.pem",
        "etcd://h/p?tls=on&tls_cert=/c.pem"}) {
    const auto refused = Store::open(url);
    EXPECT_EQ(code_of(refused), Code::kInvalidArgument) << url;
    EXPECT_THAT(fakes::why(refused), Not(HasSubstr("heim"))) << url;
  }
}

TEST(EtcdUrls, ThePrefixIsThatOfEachKey) {
  const EtcdCluster cluster;
  with_counter(cluster.url("teams/shop"));
  EXPECT_EQ(cluster.ctl("get --prefix --keys-only teams/shop/"),
            "teams/shop/counter/c\n\nteams/shop/store\n\n");
  opened("etcd://" + cluster.host(0));
  EXPECT_EQ(cluster.ctl("get --prefix --keys-only idmint"), "idmint/store\n\n");
  EXPECT_THAT(cluster.ctl("get --print-value-only teams/shop/counter/c"),
              HasSubstr(R"({"next":1,"first":1,)"));
}

TEST(EtcdUrls, AnotherProgramsKeysAreLeftAlone) {
  const EtcdCluster& cluster = servers::etcd_cluster();
  cluster.ctl("put theirs/key value");
  const auto refused = Store::open(cluster.url("theirs"));
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("name another prefix"));
  EXPECT_EQ(cluster.ctl("get --prefix --keys-only theirs/"), "theirs/key\n\n");
}

TEST(EtcdUrls, AServerOfAnotherKindIsNamed) {
  const int server = servers::listening_socket();
  std::jthread answering([&] {
    const int client = ::accept(server, nullptr, nullptr);
    char byte = 0;
    while (byte != '}' && ::recv(client, &byte, 1, 0) == 1) {
    }
    constexpr std::string_view kNot = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    EXPECT_EQ(::send(client, kNot.data(), kNot.size(), MSG_NOSIGNAL), std::ssize(kNot));
    ::close(client);
  });
  const auto refused =
      Store::open("etcd://127.0.0.1:" + std::to_string(servers::port_of(server)) + "/p");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("etcd 3.4 or later is needed"));
  answering.join();
  ::close(server);
}

TEST(EtcdUrls, OverTlsTheServerIsVerified) {
  const fakes::TempFolder folder;
  const fakes::Certificate own(folder, "localhost");
  const fakes::Certificate other(folder, "elsewhere");
  const EtcdCluster cluster(1, {"--cert-file", own.certificate(), "--key-file", own.key(),
                                "--trusted-ca-file", own.certificate(), "--client-cert-auth"});
  const std::string ours = "&tls_cert=" + own.certificate() + "&tls_key=" + own.key();
  const auto right = Store::open(cluster.tls_url("p", "&tls_ca=" + own.certificate() + ours));
  ASSERT_TRUE(right) << right.error().message();
  EXPECT_TRUE((*right)->counters()->create("c", {1, 9}));
  for (const std::string& ca :
       {"&tls_ca=" + other.certificate(), std::string(), "&tls_ca=" + folder.path("none")}) {
    const auto refused = Store::open(cluster.tls_url("p", ca + ours));
    EXPECT_EQ(code_of(refused), Code::kFailedPrecondition) << ca;
    EXPECT_THAT(fakes::why(refused), HasSubstr("look at tls_ca")) << ca;
  }
  // The server ends a connection without a certificate of the client after it was made.
  const auto nobody = Store::open(cluster.tls_url("p", "&tls_ca=" + own.certificate()),
                                  {.deadline = milliseconds{500}});
  EXPECT_EQ(code_of(nobody), Code::kUnavailable);
}

// ---- who may

class EtcdUsers : public testing::Test {
 protected:
  EtcdUsers() {
    const auto store = with_counter(cluster_.url());
    EXPECT_TRUE(store->unique_index()->create_space("s"));
    EXPECT_TRUE(store->leases()->create_pool("p", 2));
    EXPECT_TRUE(store->catalog()->define(SequenceDefinition{.name = "orders"}));
    cluster_.ctl("user add root:rootword");
    cluster_.ctl("user grant-role root root");
    cluster_.ctl("user add minter:geheim");
    cluster_.ctl("role add minting");
    cluster_.ctl("user grant-role minter minting");
  }
  void enable() { cluster_.ctl("auth enable"); }
  void grant(const std::string& right) {
    cluster_.ctl("--user root:rootword role grant-permission minting --prefix=true " + right);
  }
  void revoke(const std::string& key) {
    cluster_.ctl("--user root:rootword role revoke-permission minting --prefix=true " + key);
  }
  Result<std::unique_ptr<Store>> open(const std::string& user) {
    return Store::open(cluster_.url("ids", user), {.create = false});
  }

  const EtcdCluster cluster_{};
};

TEST_F(EtcdUsers, PasswordsAreAskedForAndNeverShown) {
  const auto early = open("minter:geheim");
  EXPECT_EQ(code_of(early), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(early), HasSubstr("it has no users"));
  grant("readwrite ids/");
  enable();
  const auto nobody = open("");
  EXPECT_EQ(code_of(nobody), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(nobody), HasSubstr("asks for a user"));
  const auto wrong = open("minter:geheimer");
  EXPECT_EQ(code_of(wrong), Code::kUnauthenticated);
  EXPECT_THAT(fakes::why(wrong), AllOf(HasSubstr("minter:***@"), Not(HasSubstr("geheim"))));
  const auto right = open("minter:geheim");
  ASSERT_TRUE(right) << right.error().message();
  EXPECT_THAT(std::string((*right)->url()), Not(HasSubstr("geheim")));
  EXPECT_EQ(take(**right), (Range{1, 1, 1}));
}

// The rights as docs/stores.md grants them.
TEST_F(EtcdUsers, WhoMayMintNeedsNoMore) {
  const std::vector<std::string> rights = {
      "read ids/store",       "read ids/definition/", "readwrite ids/counter/", "read ids/space/",
      "readwrite ids/claim/", "read ids/pool/",       "readwrite ids/worker/"};
  for (const std::string& right : rights) grant(right);
  enable();
  const auto mint = [&]() -> Result<void> {
    const auto store = open("minter:geheim");
    if (!store) return std::unexpected(store.error());
    if (const auto found = (*store)->catalog()->find("orders"); !found)
      return std::unexpected(found.error());
    if (const auto taken = take(**store); !taken) return std::unexpected(taken.error());
    const std::vector<std::int64_t> keys = {1};
    if (const auto ours = (*store)->unique_index()->insert("s", keys); !ours)
      return std::unexpected(ours.error());
    // etcd 3.4 does not ask for rights within nested transactions, of which claims are made.
    if (const auto claimed = (*store)->unique_index()->claimed("s"); !claimed)
      return std::unexpected(claimed.error());
    const auto lease = (*store)->leases()->acquire(
        "p", {.token = Uuid(Uuid::Bytes{1}), .now = 1, .max_drift = 1'000'000});
    if (!lease) return std::unexpected(lease.error());
    if (const auto made = (*store)->counters()->peek("c"); !made)
      return std::unexpected(made.error());
    return (*store)->leases()->release("p", lease->worker, lease->token, lease->generation);
  };
  const Result<void> minted = mint();
  EXPECT_TRUE(minted) << fakes::why(minted);
  const auto store = open("minter:geheim");
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ(code_of((*store)->unique_index()->create_space("t")), Code::kPermissionDenied);
  for (const std::string& right : rights) {
    const std::string key = right.substr(right.find(' ') + 1);
    revoke(key);
    const Result<void> refused = mint();
    EXPECT_EQ(code_of(refused), Code::kPermissionDenied) << right;
    EXPECT_THAT(fakes::why(refused), HasSubstr("etcdctl role grant-permission")) << right;
    grant(right);
  }
  EXPECT_TRUE(mint());
}

// A change of users or roles makes etcd refuse the tokens that it gave before, or their requests.
TEST_F(EtcdUsers, ATokenThatIsRefusedIsReplaced) {
  grant("readwrite ids/");
  enable();
  const auto store = open("minter:geheim");
  ASSERT_TRUE(store) << store.error().message();
  for (std::int64_t value = 1; value < 4; ++value) {
    EXPECT_EQ(take(**store), (Range{value, 1, 1}));
    cluster_.ctl("--user root:rootword role add more" + std::to_string(value));
  }
}

TEST(EtcdReading, WhoMayOnlyReadReads) {
  const std::string url = servers::etcd_cluster().url("reading");
  with_counter(url);
  const auto store = Store::open(url, {.access = Access::kReadOnly});
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->counters()->peek("c")->next, 1);
  EXPECT_EQ(code_of(take(**store)), Code::kPermissionDenied);
  const auto none = Store::open(servers::etcd_cluster().url("none"), {.access = Access::kReadOnly});
  EXPECT_EQ(code_of(none), Code::kNotFound);
}

// ---- what others do to the keys

TEST(EtcdKeys, AStoreThatTookThePlaceOfAnotherIsNotUsed) {
  const EtcdCluster& cluster = servers::etcd_cluster();
  const auto store = with_counter(cluster.url("replaced"));
  EXPECT_TRUE(take(*store));
  cluster.ctl("del replaced/store replaced/store0");
  const auto removed = take(*store);
  EXPECT_EQ(code_of(removed), Code::kDataLoss);
  EXPECT_THAT(fakes::why(removed), HasSubstr("replaced/store is missing"));
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kDataLoss);
  cluster.ctl("del --prefix replaced/");
  const auto other = with_counter(cluster.url("replaced"));
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("another store is there now"));
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
}

// As etcdctl make-mirror makes it.
TEST(EtcdKeys, ACopyUnderAnotherPrefixIsInDoubtUntilItIsSettled) {
  const EtcdCluster& cluster = servers::etcd_cluster();
  const auto store = with_counter(cluster.url("original"));
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  for (const std::string key : {"store", "counter/c"}) {
    std::string value = cluster.ctl("get --print-value-only original/" + key);
    value.pop_back();
    cluster.ctl("put copy/" + key + " '" + value + "'");
  }
  const auto copy = opened(cluster.url("copy"));
  const auto refused = take(*copy);
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("with the prefix original/"));
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  ASSERT_TRUE(copy->settle(Store::Settle::kOnlyMoved));
  EXPECT_EQ(take(*copy), (Range{2, 1, 1}));
}

TEST(EtcdKeys, OneThatIsDamagedIsNamed) {
  const EtcdCluster& cluster = servers::etcd_cluster();
  const auto store = with_counter(cluster.url("damaged"));
  for (const char* const value :
       {"''", "1", "null", R"('{"next":1}')",
        R"('{"next":0,"first":1,"last":9,"stride":1,"closed":false}')",
        R"('{"next":2,"first":1,"last":9,"stride":2,"closed":false}')",
        R"('{"next":18446744073709551615,"first":1,"last":9,"stride":1,"closed":false}')"}) {
    cluster.ctl(std::string("put damaged/counter/c ") + value);
    const auto refused = take(*store);
    EXPECT_EQ(code_of(refused), Code::kDataLoss) << value;
    EXPECT_THAT(fakes::why(refused), HasSubstr("counter \"c\" has the value")) << value;
    EXPECT_EQ(code_of(store->counters()->list("")), Code::kDataLoss) << value;
  }
  ASSERT_TRUE(store->leases()->create_pool("p", 2));
  cluster.ctl("del damaged/worker/p/1");
  const auto lease = store->leases()->acquire("p", {.token = Uuid(Uuid::Bytes{1}), .now = 1});
  EXPECT_EQ(code_of(lease), Code::kDataLoss) << "a row that went away is not a free one";
}

TEST(EtcdKeys, ACompactionBetweenCallsIsNoMatter) {
  const EtcdCluster& cluster = servers::etcd_cluster();
  const auto store = with_counter(cluster.url("compacted"));
  for (std::int64_t value = 1; value < 4; ++value) {
    EXPECT_EQ(take(*store), (Range{value, 1, 1}));
    const std::string json = cluster.ctl("get compacted/counter/c --write-out json");
    const std::size_t at = json.find("\"revision\":") + 11;
    cluster.ctl("compaction --physical " + json.substr(at, json.find(',', at) - at));
  }
}

TEST(EtcdKeys, ThoseWhoCountAtOnceGetEveryValueOnce) {
  const std::string url = servers::etcd_cluster().url("counted");
  with_counter(url);
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < 4; ++i) stores.push_back(opened(url));
  std::mutex mutex;
  std::vector<std::int64_t> values;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        const auto range = take(*stores[static_cast<std::size_t>(thread) % stores.size()]);
        ASSERT_TRUE(range) << range.error().message();
        const std::lock_guard lock(mutex);
        values.push_back(range->first);
      }
    });
  threads.clear();
  std::ranges::sort(values);
  ASSERT_EQ(values.size(), 400U);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<std::int64_t>(i) + 1);
}

// ---- members

TEST(EtcdMembers, ACallEndsByItsDeadlineWhileTheMemberStandsStill) {
  const EtcdCluster cluster;
  const auto store = with_counter(cluster.url(), milliseconds{500});
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  cluster.signal(0, SIGSTOP);
  const auto begun = steady_clock::now();
  EXPECT_EQ(code_of(take(*store)), Code::kDeadlineExceeded) << "it was sent";
  EXPECT_EQ(code_of(take(*store)), Code::kUnavailable) << "there was no connection";
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{20});
  cluster.signal(0, SIGCONT);
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

// There are three members, so the others can go on. A request that was sent to the stopped one may
// be applied when it goes on.
TEST(EtcdMembers, WhileOneStandsStillTheOthersAnswerInTime) {
  constexpr milliseconds kDeadline{9000};
  EtcdCluster cluster(3);
  const auto store = with_counter(cluster.url(), kDeadline);
  Result<Range> range;
  ASSERT_TRUE(eventually([&] { return (range = take(*store)).has_value(); }));
  std::int64_t last = range->first;
  cluster.signal(0, SIGSTOP);  // the one that the connection goes to
  const auto first = take(*store);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_GT(first->first, last);
  last = first->first;
  // The next ones do not wait for it at all.
  const auto begun = steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    range = take(*store);
    ASSERT_TRUE(range) << range.error().message();
    EXPECT_EQ(range->first, ++last);
    EXPECT_TRUE(store->counters()->peek("c"));
  }
  EXPECT_LT(steady_clock::now() - begun, kDeadline);
  EXPECT_TRUE(Store::open(cluster.url(), {.deadline = kDeadline})) << "it is the first of the URL";
  cluster.signal(0, SIGCONT);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(eventually([&] { return (range = take(*store)).has_value(); }));
    EXPECT_GT(range->first, last);
    last = range->first;
  }
}

TEST(EtcdMembers, OneThatWasKilledAndStartedIsGoneOnWith) {
  EtcdCluster cluster;
  const auto store = with_counter(cluster.url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  cluster.kill(0);
  auto next = std::async(std::launch::async, [&] { return take(*store); });
  cluster.restart(0);
  const Result<Range> taken = next.get();
  ASSERT_TRUE(taken) << taken.error().message();
  EXPECT_EQ(taken->first, 2) << "it was never sent before";
}

TEST(EtcdMembers, AServerThatSaysNothingIsPassedOver) {
  fakes::expect_silence_is_passed_over(
      [](const std::string& hosts) { return "etcd://" + hosts + "/passed"; },
      servers::etcd_cluster().host(0));
}

TEST(EtcdMembers, ALearnerIsRefusedAndPassedOver) {
  EtcdCluster cluster;
  const std::string voters = cluster.url();
  with_counter(voters);
  const std::size_t learner = cluster.add_learner();
  const auto refused = Store::open("etcd://" + cluster.host(learner) + "/ids");
  EXPECT_EQ(code_of(refused), Code::kFailedPrecondition);
  EXPECT_THAT(fakes::why(refused), HasSubstr("is a learner"));
  const auto store = opened("etcd://" + cluster.host(learner) + "," + cluster.host(0) + "/ids");
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

TEST(EtcdMembers, WithoutAQuorumEachCallEndsInTimeAndAllGoesOnWithIt) {
  EtcdCluster cluster(3);
  const auto store = with_counter(cluster.url(), std::chrono::seconds{1});
  ASSERT_TRUE(eventually([&] { return take(*store).has_value(); }));
  cluster.kill(1);
  // Two are a quorum, perhaps after an election.
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
  cluster.kill(2);
  // Until the one that is left knows that it is alone, nobody knows what becomes of a call.
  EXPECT_TRUE(eventually([&] { return code_of(take(*store)) == Code::kUnavailable; }));
  const auto begun = steady_clock::now();
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kUnavailable);
  EXPECT_THAT(fakes::why(refused), AllOf(HasSubstr("no leader"), HasSubstr("not within 1000 ms")));
  EXPECT_EQ(code_of(store->counters()->peek("c")), Code::kUnavailable);
  EXPECT_EQ(code_of(Store::open(cluster.url(), {.deadline = milliseconds{500}})),
            Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds{20});
  const std::int64_t floor = 2;
  cluster.restart(1);
  EXPECT_TRUE(eventually([&] {
    const auto range = take(*store);
    EXPECT_TRUE(!range || range->first >= floor);
    return range.has_value();
  }));
}

TEST(EtcdMembers, WithoutSpaceNothingIsTakenUntilThereIsSome) {
  const EtcdCluster cluster(1, {"--quota-backend-bytes", "2000000"});
  const auto store = with_counter(cluster.url());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
  while (cluster.can("put other/big " + std::string(100'000, 'x'))) {
  }
  const auto refused = take(*store);
  EXPECT_EQ(code_of(refused), Code::kResourceExhausted);
  EXPECT_THAT(fakes::why(refused),
              AllOf(HasSubstr("etcdctl alarm disarm"), HasSubstr("nothing was changed")));
  EXPECT_EQ(store->counters()->peek("c")->next, 2) << "it can be read";
  const std::string json = cluster.ctl("get other/big --limit 1 --keys-only --write-out json");
  const std::size_t at = json.find("\"revision\":") + 11;
  cluster.ctl("compaction --physical " + json.substr(at, json.find(',', at) - at));
  cluster.ctl("defrag");
  cluster.ctl("alarm disarm");
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
}

// ---- a store that has gone back

// A plain client, which knows nothing of snapshots.
std::int64_t plain_next(const EtcdCluster& cluster) {
  const std::int64_t next = std::stoll("0" + cluster.ctl("get --print-value-only tickets")) + 1;
  cluster.ctl("put tickets " + std::to_string(next));
  return next;
}

void expect_refused(const auto& result, const char* why, Code code = Code::kFailedPrecondition) {
  EXPECT_EQ(code_of(result), code) << fakes::why(result);
  EXPECT_THAT(fakes::why(result), HasSubstr(why));
}

class EtcdSnapshots : public testing::TestWithParam<const char*> {};

TEST_P(EtcdSnapshots, AfterOneWasRestoredAPlainClientRepeatsAndIdmintDoesNot) {
  const bool same_id = std::string(GetParam()) == "etcd-cluster";
  const char* const why =
      same_id ? "the log of the cluster has begun anew" : "it is a copy, or was";
  EtcdCluster cluster;
  const auto idle = with_counter(cluster.url());
  const auto store = opened(cluster.url());
  const std::vector<std::int64_t> keys = {1, 2};
  ASSERT_TRUE(store->unique_index()->create_space("s"));
  ASSERT_TRUE(store->leases()->create_pool("p", 1));
  ASSERT_TRUE(create_sequence(*store, {.name = "orders"}));
  const LeaseRequest request{.token = Uuid(Uuid::Bytes{1}), .now = 100, .max_drift = 1000};
  EXPECT_TRUE(take(*idle));
  const std::string snapshot = cluster.save();
  const std::int64_t plain = plain_next(cluster);
  EXPECT_EQ(take(*store), (Range{2, 1, 1}));
  EXPECT_TRUE(store->unique_index()->insert("s", keys));
  const Result<Lease> lease = store->leases()->acquire("p", request);
  ASSERT_TRUE(lease) << lease.error().message();

  cluster.restore(snapshot, GetParam());
  EXPECT_EQ(plain_next(cluster), plain) << "the plain client repeats";
  for (Store* const each : {idle.get(), store.get()}) {
    // The first call may learn that its connection is gone, or that the revisions are back.
    Result<Range> range;
    EXPECT_TRUE(eventually([&] {
      range = take(*each);
      return range || code_of(range) == Code::kFailedPrecondition ||
             code_of(range) == Code::kDataLoss;
    }));
    ASSERT_FALSE(range) << "it repeats";
  }
  // The log tells a process that saw nothing of what is lost.
  const auto fresh = opened(cluster.url());
  const std::optional<Error> doubt = fresh->doubt();
  ASSERT_TRUE(doubt);
  EXPECT_EQ(doubt->advice.remedy, Remedy::kRaiseStore);
  expect_refused(take(*fresh), why, doubt->code);
  expect_refused(fresh->unique_index()->insert("s", keys), why, doubt->code);
  expect_refused(fresh->leases()->acquire("p", request), why, doubt->code);
  expect_refused(fresh->counters()->create("d", {1, 9}), why, doubt->code);
  expect_refused(fresh->unique_index()->create_space("t"), why, doubt->code);
  expect_refused(fresh->leases()->create_pool("q", 1), why, doubt->code);
  expect_refused(fresh->catalog()->define(SequenceDefinition{"more"}), why, doubt->code);
  EXPECT_EQ(fresh->counters()->peek("c")->next, 2) << "it can be read";
  // Entries of the log without a revision: the new one outgrows the old.
  for (int i = 0; i < 40; ++i) cluster.ctl("lease grant 600");
  expect_refused(take(*opened(cluster.url())), why, doubt->code);
  ASSERT_EQ(fresh->counters()->raise("c", 10), 10);
  EXPECT_FALSE(take(*fresh));
  const auto raised = raise_all(*fresh, 10);
  ASSERT_TRUE(raised) << raised.error().message();
  EXPECT_FALSE(fresh->doubt());
  EXPECT_EQ(take(*fresh), (Range{10, 1, 1}));
  EXPECT_GT(fresh->settle_count(), 0);
  EXPECT_EQ(take(*store), (Range{11, 1, 1})) << "the others go on too";
  EXPECT_EQ(store->settle_count(), fresh->settle_count()) << "it was within that count";
  EXPECT_EQ(take(*idle), (Range{12, 1, 1}));
}

INSTANTIATE_TEST_SUITE_P(OfEtcd, EtcdSnapshots, testing::Values("etcd-cluster", "another"),
                         [](const auto& param) { return param.index == 0 ? "SameId" : "OtherId"; });

TEST(EtcdSnapshotsMoved, AStoreThatWasOnlyMovedCanBeSaidTo) {
  EtcdCluster cluster;
  with_counter(cluster.url());
  cluster.restore(cluster.save(), "another");
  const auto store = opened(cluster.url());
  expect_refused(take(*store), "it is a copy, or was");
  ASSERT_TRUE(store->settle(Store::Settle::kOnlyMoved));
  EXPECT_FALSE(store->doubt());
  EXPECT_EQ(take(*store), (Range{1, 1, 1}));
}

// Its revisions are counted anew after a restore, and come again to those that a process has seen.
TEST(EtcdSnapshotsMoved, ACounterIsNotTakenForTheOneThatHadItsRevisionBefore) {
  EtcdCluster cluster;
  const auto store = with_counter(cluster.url());
  const std::string snapshot = cluster.save();
  for (std::int64_t value = 1; value < 7; ++value) EXPECT_EQ(take(*store), (Range{value, 1, 1}));
  const auto revision = [&](const char* kind) {
    const std::string json = cluster.ctl("get ids/counter/c --write-out json");
    const std::size_t at = json.find(kind);
    return std::stoll(json.substr(json.find(':', at) + 1));
  };
  const std::int64_t seen = revision("\"mod_revision\"");
  cluster.restore(snapshot, "another");
  const auto fresh = opened(cluster.url());
  while (revision("\"revision\"") < seen - 1) cluster.ctl("put other x");
  ASSERT_EQ(fresh->counters()->raise("c", 1000), 1000);
  ASSERT_EQ(revision("\"mod_revision\""), seen) << "of another value";
  ASSERT_TRUE(fresh->settle());
  EXPECT_EQ(store->counters()->peek("c")->next, 1000) << "it has a connection again";
  EXPECT_EQ(take(*store), (Range{1000, 1, 1}));
  EXPECT_EQ(fresh->counters()->peek("c")->next, 1001);
}

// A member that lags becomes the whole cluster: only who saw more can tell.
TEST(EtcdMembers, AClusterThatForgotWhatAProcessSawIsInDoubtForAll) {
  EtcdCluster cluster(3);
  const auto store = with_counter(cluster.url());
  EXPECT_TRUE(take(*store));
  const std::string last = "etcd://" + cluster.host(2) + "/ids";
  EXPECT_EQ(take(*opened(last)), (Range{2, 1, 1})) << "it has all of that";
  cluster.signal(2, SIGSTOP);
  for (std::int64_t value = 3; value < 10; ++value)
    EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
  for (std::size_t i = 0; i < 3; ++i) cluster.kill(i);
  cluster.restart(2, {"--force-new-cluster"});
  Result<Range> range;
  EXPECT_TRUE(eventually([&] {
    range = take(*store);
    return range || code_of(range) == Code::kDataLoss;
  }));
  ASSERT_FALSE(range) << "it repeats";
  const auto fresh = opened(last);
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(take(*store));  // it writes down what it knows
    return fresh->doubt().has_value();
  }));
  EXPECT_EQ(code_of(take(*fresh)), Code::kDataLoss);
  EXPECT_EQ(code_of(fresh->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  ASSERT_EQ(fresh->counters()->raise("c", 100), 100);
  ASSERT_TRUE(fresh->settle());
  EXPECT_EQ(take(*fresh), (Range{100, 1, 1}));
  EXPECT_TRUE(eventually([&] { return take(*store).has_value(); }));
}

// The action of an operator who knows which values were handed out.
void settle_past(Store& store, std::int64_t floor) {
  ASSERT_EQ(store.counters()->raise("c", floor), floor);
  ASSERT_TRUE(store.settle());
  ASSERT_FALSE(store.doubt());
}

TEST(EtcdGoneBack, WhatAProcessSawPutsTheStoreInDoubtForAllUntilItIsSettled) {
  const std::string url = servers::etcd_cluster().url("marked");
  const auto store = with_counter(url);
  const auto other = opened(url);
  EXPECT_EQ(take(*other), (Range{1, 1, 1}));
  ASSERT_TRUE(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  for (Store* const each : {store.get(), other.get()})
    expect_refused(take(*each), "it gave 7 before", Code::kDataLoss);
  EXPECT_EQ(code_of(other->settle(Store::Settle::kOnlyMoved)), Code::kDataLoss);
  settle_past(*other, 10);
  EXPECT_EQ(take(*store), (Range{10, 1, 1}));
  EXPECT_EQ(store->settle_count(), other->settle_count());
  ASSERT_TRUE(store->mark_gone_back("it gave 7 before", 0, SteadyTime::max()));
  EXPECT_EQ(take(*store), (Range{11, 1, 1})) << "of a count that is over";
}

// An older state has a lower count, which no state after it has again.
TEST(EtcdGoneBack, ALowerSettleCountIsAnOlderState) {
  EtcdCluster cluster;
  const auto store = with_counter(cluster.url());
  ASSERT_EQ(store->settle_count(), 0);
  ASSERT_TRUE(store->mark_gone_back("once", 0, SteadyTime::max()));
  settle_past(*store, 10);
  const std::int64_t once = store->settle_count();
  EXPECT_GT(once, 0);
  const std::string older = cluster.ctl("get --print-value-only ids/store");
  ASSERT_TRUE(store->mark_gone_back("twice", once, SteadyTime::max()));
  settle_past(*store, 20);
  EXPECT_GT(store->settle_count(), once);
  cluster.ctl("put ids/store '" + older.substr(0, older.find('\n')) + "'");
  expect_refused(take(*store), "was settled as number", Code::kDataLoss);
  const auto other = opened(cluster.url());
  EXPECT_EQ(code_of(take(*other)), Code::kDataLoss) << "it is told";
  settle_past(*other, 30);
  EXPECT_GT(other->settle_count(), once);
  EXPECT_EQ(take(*store), (Range{30, 1, 1}));
}

}  // namespace
}  // namespace idmint
