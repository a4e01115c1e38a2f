#include "base/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

namespace idmint {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Redacted, ShowsWhatIsNoSecret) {
  for (const char* const url : {"sqlite:ids.db",
                                "sqlite:/a:b@c/d",
                                "sqlite:///d?filesystem=local",
                                "memory:",
                                "mongodb://a,b:1/?replicaSet=r",
                                "mongodb://u@a/d",
                                "mongodb://[::1]:27017/d",
                                "mongodb://%2Ftmp%2Fa.sock/d",
                                "mongodb://a:1/?appName=x@y&w=1",
                                "mongodb://a/?tlsCAFile=/x@y",
                                "mongodb+srv://u@a.b/d?tls=true&authSource=admin",
                                "postgresql://host/d",
                                "postgresql://h/d?options=-csearch_path%3Dids",
                                "mysql://u%40x@h/d",
                                "redis://u@[::1]:6379/3",
                                "rediss://a/0?tls_ca=/a.pem&tls_cert=/b&tls_key=/c",
                                "ids.db",
                                "./a/b",
                                "/a/b.sqlite3",
                                "mongodb",
                                "mongodb:",
                                "mongodb://",
                                "sqlite",
                                "",
                                "env:STORE",
                                "file:/run/secrets/store",
                                "MONGODB://a/d"})
    EXPECT_EQ(redacted(url), url);
}

TEST(Redacted, HidesEachSecret) {
  for (const auto& [url, shown] : {
           std::pair("mongodb://u:p@a:1/d?w=1", "mongodb://u:***@a:1/d?w=1"),
           std::pair("mongodb://u:p@a,b:2,[::1]:3/d", "mongodb://u:***@a,b:2,[::1]:3/d"),
           std::pair("mongodb://u:p%40q@a/", "mongodb://u:***@a/"),
           std::pair("mongodb://:p@a/", "mongodb://:***@a/"),
           std::pair("MongoDB://u:p@a/", "MongoDB://u:***@a/"),
           std::pair("redis://:p@a/", "redis://:***@a/"),
           std::pair("redis://:p@", "redis://:***@"),
           std::pair("rediss://u:p@a,b:1/2?tls_ca=/c", "rediss://u:***@a,b:1/2?tls_ca=/c"),
           std::pair("rediss://a?tls_password=p", "rediss://a?tls_password=***"),
           std::pair("mongodb://u:p@a/?appName=x@y", "mongodb://u:***@a/?appName=x@y"),
           std::pair("mongodb://a?tlsCertificateKeyFilePassword=p",
                     "mongodb://a?tlsCertificateKeyFilePassword=***"),
           std::pair("mongodb://a/?tls=true&TLSCertificateKeyFilePASSWORD=p&w=1",
                     "mongodb://a/?tls=true&TLSCertificateKeyFilePASSWORD=***&w=1"),
           std::pair("mongodb://u:p@a/?authMechanismProperties=AWS_SESSION_TOKEN:t",
                     "mongodb://u:***@a/?authMechanismProperties=***"),
           std::pair("postgresql://a/d?sslpassword=p&sslmode=require",
                     "postgresql://a/d?sslpassword=***&sslmode=require"),
           std::pair("postgresql://a/d?options=-capp.key%3Dp", "postgresql://a/d?options=***"),
           std::pair("mongodb://a/?proxyPassword=p&proxyUsername=q",
                     "mongodb://a/?proxyPassword=***&***"),
           std::pair("mongodb://a/?pass%77ord=p", "mongodb://a/?pass%77ord=***"),
           std::pair("mongodb://a/?pasword=p", "mongodb://a/?pasword=***"),
           std::pair("mongodb://a/?appName=p#q", "mongodb://a/?appName=***"),
           std::pair("mongodb://a/?appName=p q", "mongodb://a/?appName=***"),
           std::pair("mongodb://a/?p", "mongodb://a/?***"),
       })
    EXPECT_EQ(redacted(url), shown);
}

// An unescaped character of a password may end it, and what follows looks like another part.
TEST(Redacted, HidesWhatMayBePartOfASecretThatIsNotEscaped) {
  for (const auto& [url, shown] : {
           std::pair("mongodb://u:p@q@a/", "mongodb://u:***@a/"),
           std::pair("mongodb://u:p?q@a", "mongodb://u:***@a"),
           std::pair("mongodb://u:p?w=q@a/", "mongodb://u:***@a/"),
           std::pair("mongodb://u:p?q/r@a/", "mongodb://***"),
           std::pair("mongodb://u:p/q@a:1/d?w=1", "mongodb://***"),
           std::pair("mongodb://u:1/q@a/", "mongodb://***"),
           std::pair("mongodb://u:p/q?r=s@a/", "mongodb://***"),
           std::pair("mongodb://u:p@q/r@a/", "mongodb://***"),
           std::pair("mongodb://u:p://q@a/", "mongodb://***"),
           std::pair("mongodb://p@q:r@a/", "mongodb://***"),
           std::pair("mongodb://u%3Ap@a/", "mongodb://***"),
           std::pair("mongodb://u:p", "mongodb://***"),
           std::pair("mongodb://u:p/d", "mongodb://***"),
           std::pair("mongodb://u:123456/d", "mongodb://***"),
           std::pair("mongodb://a/d#p", "mongodb://***"),
           std::pair("mongodb://a/d p", "mongodb://***"),
           std::pair("mongodb://a b/d", "mongodb://***"),
           std::pair("postgresql://h/d\npassword=p", "postgresql://***"),
           std::pair("mongodb://a/?tlsCertificateKeyFilePassword=p&q&r=s",
                     "mongodb://a/?tlsCertificateKeyFilePassword=***&***&***"),
           std::pair("mongodb://a/?tlsCertificateKeyFilePassword=p@q&r@s", "mongodb://***"),
           std::pair("mongodb:u:p@a/", "mongodb:***"),
           std::pair("mongodb:/u:p@a/", "mongodb:***"),
           std::pair("sqlite://u:p@a/d", "sqlite:***"),
           std::pair("sqlite:mongodb://u:p@a/d", "sqlite:***"),
           std::pair("sqlite:d?key=p&filesystem=local", "sqlite:d?key=***&filesystem=local"),
           std::pair("memory:p", "***"),
       })
    EXPECT_EQ(redacted(url), shown);
}

// A text that is no URL of a store is hidden whole, as nothing is known about its parts.
TEST(Redacted, HidesWhatIsNoUrlOfAStore) {
  for (const char* const text :
       {"p", "hunter2", "u:p@a", "u:p@a/?password=q", "//u:p@a/", "mongodb//u:p@a/", "p:q",
        "p/q==", "u:p://q@a/d", "host/?password=q", "127.0.0.1:6379", "p ids.db", "ids.dbp",
        "p://a/d", "radio:p", "p\nsqlite:ids.db"})
    EXPECT_EQ(redacted(text), "***") << text;
  EXPECT_EQ(redacted("mongdb://u:p@a/d"), "mongdb://***");
  EXPECT_EQ(redacted("https://u:p@a/d?q"), "https://***");
  EXPECT_EQ(redacted("env:a=b"), "env:***");
  EXPECT_EQ(without_url("127.0.0.1:7379"), "127.0.0.1:7379");
  EXPECT_EQ(without_url("u:p@a"), "***");
}

TEST(WithoutSecrets, LeavesWhatCanBeOpenedAgain) {
  for (const auto& [url, kept] :
       {std::pair("postgresql://u:p@a:1,b:2/d?sslmode=require&password=p&connect_timeout=3",
                  "postgresql://u@a:1,b:2/d?sslmode=require&connect_timeout=3"),
        std::pair("mongodb://u:p@a/d?tlsCertificateKeyFilePassword=p", "mongodb://u@a/d"),
        std::pair("mongodb://a,b/d?w=1", "mongodb://a,b/d?w=1"), std::pair("memory:", "memory:"),
        std::pair("sqlite:/a/../b%3Fc.db", "sqlite:/b%3Fc.db"),
        std::pair("sqlite:///b.db?filesystem=local", "sqlite:/b.db?filesystem=local")})
    EXPECT_EQ(without_secrets(url), kept);
  EXPECT_EQ(without_secrets("sqlite:x.db"),
            "sqlite:" + (std::filesystem::current_path() / "x.db").string());
}

TEST(PlaceOf, IsTheServersAndTheDatabaseOrTheFile) {
  for (const auto& [url, place] :
       {std::pair("postgresql://u:p@a:1,b:2/d?sslmode=require", "postgresql://a:1,b:2/d"),
        std::pair("postgresql://a:1,b:2/d", "postgresql://a:1,b:2/d"),
        std::pair("mongodb://u@a", "mongodb://a"), std::pair("memory:", "memory:"),
        std::pair("sqlite:///b.db?filesystem=local", "sqlite:/b.db"),
        std::pair("sqlite:/a/./b.db", "sqlite:/a/b.db"), std::pair("gated:0", "gated:0")})
    EXPECT_EQ(place_of(url), place);
}

TEST(CheckMongodbUrl, RefusesOptionsThatDoNotExistAndNamesThem) {
  for (const char* const url :
       {"mongodb://a", "mongodb://u:p@a,b/d?replicaSet=r&tls=true", "mongodb+srv://u:p?q@a/?w=1",
        "mongodb://a/?TLS=true&tlsCAFile=/a@b&&", "mongodb:", "a/b"})
    EXPECT_TRUE(check_server_url(url).has_value()) << url;
  for (const char* const url :
       {"mongodb://a/?tsl=true", "mongodb://a?tsl=true", "mongodb://u:p@a/?tls=true&tsl=true&"}) {
    const Result<void> refused = check_server_url(url);
    ASSERT_FALSE(refused.has_value()) << url;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr("knows no option \"tsl\"")) << url;
  }
}

TEST(CheckMongodbUrl, RefusesAnUnescapedUserAndTellsNoPartOfIt) {
  for (const char* const url :
       {"mongodb://u:geheim@p@a/", "mongodb://u:geheim/p@a/", "mongodb://u:p/geheim@a/",
        "mongodb://u:1/geheim?tls=true@a/", "u:geheim@a", "mongodb:/u:geheim@a/",
        "mongodb://u:p/?geheim=a@b/", "mongodb://a/?tlsCertificateKeyFilePassword=p&geheim=q"}) {
    const Result<void> refused = check_server_url(url);
    ASSERT_FALSE(refused.has_value()) << url;
    EXPECT_THAT(refused.error().message(), Not(HasSubstr("geheim"))) << url;
  }
}

// Each escape in the user, the password and the database is legal.
TEST(CheckUrl, AllowsWhatIsEscaped) {
  std::string all;
  for (const char* const byte :
       {"%3A", "%3a", "%40", "%2F", "%3F", "%23", "%5B", "%25", "%20", "%5C", "%26", "%C3%A9"})
    all += byte;
  const std::string rest = all + ":" + all + "@a:1/" + all;
  EXPECT_TRUE(check_server_url("mongodb://" + rest + "?w=1"));
  EXPECT_TRUE(check_server_url("mysql://" + rest));
  EXPECT_TRUE(check_server_url("mariadb://" + rest));
  EXPECT_TRUE(check_server_url("postgresql://" + rest + "?sslmode=require"));
  EXPECT_TRUE(check_server_url("redis://" + all + ":" + all + "@a:1/0"));
  EXPECT_TRUE(check_server_url("etcd://" + rest + "?tls=on"));
  EXPECT_EQ(place_of("etcd://" + rest), "etcd://a:1/" + all);
  EXPECT_EQ(without_secrets("etcd://" + rest + "?tls=on"), "etcd://a:1/" + all + "?tls=on");
  EXPECT_EQ(redacted("etcd://" + rest), "etcd://***");
}

TEST(CheckEtcdUrl, RefusesOptionsThatDoNotExist) {
  EXPECT_TRUE(check_server_url("etcd://u:p@a,b:1/p?tls=on&TLS_CA=/a&tls_cert=/b&tls_key=/c"));
  EXPECT_FALSE(check_server_url("etcd://a/p?tlsCAFile=/a"));
  EXPECT_EQ(redacted("etcd://u:p@a,b:1/p?tls=on&tls_key=/k"),
            "etcd://u:***@a,b:1/p?tls=on&tls_key=/k");
}

TEST(UrlParts, AreThoseOfTheUrl) {
  const auto parts = url_parts("etcd://u:p%40@a,[::1]:2/b/c?d=e");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->user, "u:p%40");
  EXPECT_TRUE(parts->has_user);
  EXPECT_EQ(parts->hosts, "a,[::1]:2");
  EXPECT_EQ(parts->path, "b/c");
  EXPECT_EQ(url_parts("etcd://a")->path, "");
  EXPECT_FALSE(url_parts("etcd:a"));
}

TEST(PercentDecoded, StopsAtNothing) {
  EXPECT_EQ(percent_decoded("a%2Fb%2fc%"), "a/b/c%");
  EXPECT_EQ(percent_decoded("%4%zz%41"), "%4%zzA");
}

TEST(UserWithoutPassword, IsOneWhoLogsInWithAPassword) {
  for (const auto& [url, user] : {
           std::pair("mongodb://u@a/d", "u"),
           std::pair("mongodb+srv://u%40x@a/?authSource=admin&authMechanism=SCRAM-SHA-256",
                     "u%40x"),
           std::pair("mongodb://u:p@a/", ""),
           std::pair("mongodb://u:@a/", ""),
           std::pair("mongodb://a/?appName=x@y", ""),
           std::pair("mongodb://CN=u@a/?authmechanism=MONGODB-X509", ""),
           std::pair("mongodb://u@a/?authMechanism=GSSAPI", ""),
           std::pair("u@a", ""),
           std::pair("sqlite://u@a/d", ""),
           std::pair("etcd://u@a,b/p?tls=on", "u"),
           std::pair("etcd://u:p@a/p", ""),
       })
    EXPECT_EQ(user_without_password(url), user) << url;
  EXPECT_EQ(with_password("mongodb://u@a,b/d?appName=x@y", "p@:/%\xc3\xa9"),
            "mongodb://u:p%40%3A%2F%25%C3%A9@a,b/d?appName=x@y");
}

}  // namespace
}  // namespace idmint
