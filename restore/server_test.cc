#include "restore/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

namespace idmint::restore {
namespace {

using testing::HasSubstr;
using testing::Not;

Code code_of(std::uint32_t domain, std::uint32_t number) {
  bson_error_t error{};
  error.domain = domain;
  error.code = number;
  std::strcpy(error.message, "no");
  return told("asking", error).code;
}

TEST(Told, AMemberThatStopsOrRecoversIsUnavailable) {
  for (const std::uint32_t number :
       {6U, 43U, 50U, 89U, 91U, 134U, 189U, 237U, 9001U, 10107U, 11600U, 11602U, 13435U, 13436U}) {
    EXPECT_EQ(code_of(MONGOC_ERROR_SERVER, number), Code::kUnavailable) << number;
    EXPECT_EQ(code_of(MONGOC_ERROR_WRITE_CONCERN, number), Code::kFailedPrecondition) << number;
  }
  EXPECT_EQ(code_of(MONGOC_ERROR_STREAM, 0), Code::kUnavailable);
  EXPECT_EQ(code_of(MONGOC_ERROR_SERVER, 13), Code::kPermissionDenied);
  EXPECT_EQ(code_of(MONGOC_ERROR_SERVER, 18), Code::kUnauthenticated);
  EXPECT_EQ(code_of(MONGOC_ERROR_SERVER, 136), Code::kOutOfRange);
  EXPECT_EQ(code_of(MONGOC_ERROR_SERVER, 59), Code::kFailedPrecondition);
}

TEST(Connect, RefusesWhatTheDriverWouldMisreadBeforeItAsksAnybody) {
  for (const auto& [uri, why] : {
           std::pair("mongodb://127.0.0.1:1/?tsl=true", "knows no option \"tsl\""),
           std::pair("mongodb://u:geheim/p@127.0.0.1:1/", "%2F for /"),
       }) {
    const Result<Server> server = Server::connect(uri);
    ASSERT_FALSE(server.has_value()) << uri;
    EXPECT_EQ(server.error().code, Code::kInvalidArgument) << uri;
    EXPECT_THAT(server.error().message(), HasSubstr(why)) << uri;
    EXPECT_THAT(server.error().message(), Not(HasSubstr("geheim"))) << uri;
  }
}

}  // namespace
}  // namespace idmint::restore
