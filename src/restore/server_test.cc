#include "restore/server.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

namespace idmint::restore {
namespace {

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

TEST(Secrets, OfAUriAreNotShown) {
  for (const auto& [uri, shown] : {
           std::pair("mongodb://a,b:1/?replicaSet=r", "mongodb://a,b:1/?replicaSet=r"),
           std::pair("mongodb://u@a/d", "mongodb://u@a/d"),
           std::pair("mongodb://u:p@a:1/d?w=1", "mongodb://u:***@a:1/d?w=1"),
           std::pair("mongodb://u:p@q@a/", "mongodb://u:***@a/"),
           std::pair("mongodb://u:p?w/x@a/", "mongodb://u:***@a/"),
           std::pair("mongodb://a:1/?appName=x@y&w=1", "mongodb://a:1/?appName=x@y&w=1"),
           std::pair("mongodb://u:p@a/?appName=x@y", "mongodb://u:***@a/?appName=x@y"),
           std::pair("mongodb://a/?tls=true&tlsCertificateKeyFilePassword=p&w=1",
                     "mongodb://a/?tls=true&tlsCertificateKeyFilePassword=***&w=1"),
           std::pair("mongodb://u:p@a/?authMechanismProperties=AWS_SESSION_TOKEN:t",
                     "mongodb://u:***@a/?authMechanismProperties=***"),
           std::pair("mongodb://u:p?w@a", "mongodb://u:***@a"),
           std::pair("mongodb://a?tlsCertificateKeyFilePassword=p",
                     "mongodb://a?tlsCertificateKeyFilePassword=***"),
           std::pair("nothing:of@this", "nothing:of@this"),
       })
    EXPECT_EQ(without_secrets(uri), shown);
}

}  // namespace
}  // namespace idmint::restore
