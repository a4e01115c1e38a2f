// Answers of etcd's gateway, and answers that it never gives.
#include "engines/etcd/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "engines/etcd/address.h"
#include "engines/etcd/records.h"

namespace idmint::stores::etcd {
namespace {

using testing::HasSubstr;

constexpr std::string_view kHeader =
    R"("header":{"cluster_id":"324952591200643719","member_id":"1","revision":"7"})";

std::string answer(std::string_view rest) {
  return "{" + std::string(kHeader) + std::string(rest) + "}";
}

TEST(EtcdMessages, ATransactionIsAskedForInBase64) {
  const Transaction taking{
      .compares = {is_as_changed("foo", 5), has_value("foo", "bar")},
      .then = {put("foo", ""), nested({.then = {get("foo")}})},
      .otherwise = {get_range("fo", after_prefix("fo"), 3), count_range("fo", "fp")},
      .writes = true};
  EXPECT_EQ(text_of(taking),
            R"({"compare":[{"target":"MOD","key":"Zm9v","mod_revision":"5"},)"
            R"({"target":"VALUE","key":"Zm9v","value":"YmFy"}],)"
            R"("success":[{"request_put":{"key":"Zm9v","value":""}},)"
            R"({"request_txn":{"success":[{"request_range":{"key":"Zm9v"}}]}}],)"
            R"("failure":[{"request_range":{"key":"Zm8=","range_end":"ZnA=","limit":3}},)"
            R"({"request_range":{"key":"Zm8=","range_end":"ZnA=","count_only":true}}]})");
  EXPECT_EQ(text_of(Transaction{}), "{}");
  EXPECT_EQ(after_prefix("a\xff\xff"), "b");
  EXPECT_EQ(after_prefix("\xff"), std::string(1, '\0')) << "the end of all keys";
  EXPECT_EQ(log_in_as("a\"b", "c\\d"), R"({"name":"a\"b","password":"c\\d"})");
}

TEST(EtcdMessages, WhatIsNothingIsLeftOutOfAnAnswer) {
  const Transaction asked{.then = {put("a", "b"), get("foo"), nested({})}, .otherwise = {}};
  const auto read = read_answer(
      answer(R"(,"succeeded":true,"responses":[{"response_put":{"header":{"revision":"7"}}},)"
             R"({"response_range":{"kvs":[{"key":"Zm9v","mod_revision":"6"}],"count":"1"}},)"
             R"({"response_txn":{"header":{}}}])"),
      asked);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->header.cluster, "48276a8f75b6a87");
  EXPECT_EQ(read->header.revision, 7);
  EXPECT_TRUE(read->succeeded);
  ASSERT_EQ(read->found.size(), 3U);
  ASSERT_EQ(read->found[1].entries.size(), 1U);
  EXPECT_EQ(read->found[1].entries[0].key, "foo");
  EXPECT_EQ(read->found[1].entries[0].value, "");
  EXPECT_EQ(read->found[1].entries[0].changed, 6);
  EXPECT_FALSE(read->found[2].succeeded);
  const auto refused = read_answer(answer(""), asked);
  ASSERT_TRUE(refused) << refused.error();
  EXPECT_FALSE(refused->succeeded);
}

// Nobody is told of a success that is not there.
TEST(EtcdMessages, AnAnswerThatIsNoneOfEtcdsIsRefused) {
  const Transaction asked{.then = {get("foo")}};
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"),
        std::string(R"({"succeeded":true,"responses":[{"response_range":{}}]})"),
        std::string(R"({"header":{"cluster_id":"1"},"succeeded":true,)"
                    R"("responses":[{"response_range":{}}]})"),
        answer(R"(,"succeeded":true)"), answer(R"(,"succeeded":true,"responses":[])"),
        answer(R"(,"succeeded":true,"responses":[{}])"),
        answer(R"(,"succeeded":true,"responses":[1])"),
        answer(R"(,"succeeded":true,"responses":[{"response_range":{}},{"response_range":{}}])"),
        answer(R"(,"succeeded":true,"responses":[{"response_range":{"kvs":1}}])"),
        answer(R"(,"succeeded":true,"responses":[{"response_range":{"kvs":[{}]}}])"),
        answer(R"(,"succeeded":true,"responses":[{"response_range":{"kvs":)"
               R"([{"key":"Zm9","mod_revision":"6"}]}}])"),
        answer(R"(,"succeeded":true,"responses":[{"response_range":{"kvs":)"
               R"([{"key":"Zm9v","mod_revision":"-6"}]}}])"),
        answer(R"(,"succeeded":true,"responses":[{"response_range":{"kvs":)"
               R"([{"key":["Zm9v"],"mod_revision":6}]}}])")})
    EXPECT_FALSE(read_answer(text, asked)) << text;
  for (const char* const text : {"", "{}", R"({"version":"3.4.0","raftIndex":"7"})"})
    EXPECT_FALSE(read_status(text)) << text;
  for (const char* const text : {"", "{}", R"({"token":""})", R"({"token":"a\r\nb"})"})
    EXPECT_FALSE(read_token(text)) << text;
}

TEST(EtcdMessages, OnlyWhatWasNotDoneIsSaidNotToBe) {
  const auto code = [](std::string_view error, bool writes = true) {
    return read_refusal(503, R"({"error":")" + std::string(error) + R"(","code":14})", writes)
        .error.code;
  };
  EXPECT_EQ(code("etcdserver: no leader"), Code::kUnavailable);
  EXPECT_EQ(code("etcdserver: mvcc: database space exceeded"), Code::kResourceExhausted);
  EXPECT_EQ(code("etcdserver: permission denied"), Code::kPermissionDenied);
  EXPECT_EQ(code("etcdserver: corrupt cluster"), Code::kDataLoss);
  for (const char* const error :
       {"etcdserver: request timed out",
        "etcdserver: request timed out, possibly due to previous leader failure",
        "etcdserver: request timed out, possibly due to connection lost",
        "etcdserver: server stopped", "etcdserver: leader changed", "transport is closing",
        "context deadline exceeded", "what nobody knows", ""}) {
    EXPECT_EQ(code(error), Code::kUnknown) << error;
    EXPECT_EQ(code(error, false), Code::kUnavailable) << error;
  }
  EXPECT_EQ(read_refusal(502, "<html>", true).error.code, Code::kUnknown);
  EXPECT_EQ(read_refusal(404, "Not Found", true).error.code, Code::kFailedPrecondition);
  EXPECT_EQ(read_refusal(401, R"({"error":"etcdserver: invalid auth token"})", true).reason,
            kTokenRefused);
}

TEST(EtcdAddresses, SayWhereTheMembersAreAndHowToLogIn) {
  const auto address = parse_address(
      "etcd://us%3Aer:ge%40heim@a,b:1,[::1],[::2]:3/teams/a%20b/"
      "?tls=on&tls_ca=/ca&tls_cert=/c&tls_key=/k");
  ASSERT_TRUE(address) << address.error().message();
  EXPECT_THAT(address->servers, testing::ElementsAre("https://a:2379", "https://b:1",
                                                     "https://[::1]:2379", "https://[::2]:3"));
  EXPECT_EQ(address->user, "us:er");
  EXPECT_EQ(address->password, "ge@heim");
  EXPECT_EQ(address->prefix, "teams/a b/");
  EXPECT_THAT(address->shown, testing::Not(HasSubstr("heim")));
  EXPECT_EQ(address->tls_ca + address->tls_cert + address->tls_key, "/ca/c/k");
  for (const char* const url : {"etcd://h", "etcd://h/", "etcd://h:2379/idmint"})
    EXPECT_EQ(parse_address(url)->prefix, "idmint/") << url;
  EXPECT_EQ(parse_address("etcd://h/?tls=off")->servers.front(), "http://h:2379");
}

TEST(EtcdRecords, NoNameIsTheBeginningOfAnother) {
  const Keys keys("p/");
  EXPECT_EQ(keys.claim("a/b", -5), "p/claim/a%2Fb/-5");
  EXPECT_EQ(keys.claim("a%2Fb", 5), "p/claim/a%252Fb/5");
  EXPECT_EQ(keys.worker("a", 7), "p/worker/a/7");
  EXPECT_EQ(number_behind(keys.claims("a"), keys.claim("a", -5)), -5);
  EXPECT_EQ(number_behind(keys.claims("a"), "p/claim/a/5x"), std::nullopt);
  EXPECT_EQ(number_behind(keys.claims("a"), "p/claim/b/5"), std::nullopt);
}

TEST(EtcdRecords, ComeBackAsTheyWereWritten) {
  const StoreRecord store{.id = Uuid(Uuid::Bytes{1}),
                          .place = {"48276a8f75b6a87", -3},
                          .settled = 2,
                          .gone_back = "it is \"back\""};
  EXPECT_EQ(read_store(text_of(store)), store);
  const auto newer = read_store(
      R"({"id":"01000000-0000-0000-0000-000000000000","schema":2,"what":"nobody knows"})");
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->schema, 2);
  EXPECT_FALSE(read_store(R"({"id":"01000000-0000-0000-0000-000000000000","schema":1})"));
  const CounterState counter{"c", {5, kLargestValue, 1}, kLargestValue + 1, true};
  EXPECT_EQ(read_counter("c", text_of(counter)), counter);
  WorkerRecord record{.row = {.state = {.worker = 3,
                                        .token = Uuid(Uuid::Bytes{7}),
                                        .holder = "ho\"st\xff",
                                        .generation = 9,
                                        .minted_until = 100,
                                        .taken_from = 90},
                              .nonce = Uuid(Uuid::Bytes{8})},
                      .held_until = 1};
  const auto read = read_worker(3, text_of(record));
  ASSERT_TRUE(read);
  record.row.state.holder = R"(ho"st\xff)";
  EXPECT_EQ(read->row, record.row);
  EXPECT_EQ(read->held_until, record.held_until);
  record.held_until = -1;
  EXPECT_FALSE(read_worker(3, text_of(record))) << "no lease ends before 1970";
  EXPECT_EQ(read_pool(pool_text(7)), 7);
  EXPECT_FALSE(read_pool(pool_text(0)));
}

}  // namespace
}  // namespace idmint::stores::etcd
