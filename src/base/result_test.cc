#include "idmint/result.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "base/errors.h"

namespace idmint {
namespace {

TEST(Code, HasTheNamesAndNumbersOfGoogleRpc) {
  const std::pair<int, std::string_view> codes[] = {
      {2, "UNKNOWN"},
      {3, "INVALID_ARGUMENT"},
      {4, "DEADLINE_EXCEEDED"},
      {5, "NOT_FOUND"},
      {6, "ALREADY_EXISTS"},
      {7, "PERMISSION_DENIED"},
      {8, "RESOURCE_EXHAUSTED"},
      {9, "FAILED_PRECONDITION"},
      {11, "OUT_OF_RANGE"},
      {12, "UNIMPLEMENTED"},
      {13, "INTERNAL"},
      {14, "UNAVAILABLE"},
      {15, "DATA_LOSS"},
      {16, "UNAUTHENTICATED"},
  };
  for (const auto& [number, text] : codes) EXPECT_EQ(name(Code{number}), text) << number;
}

TEST(Code, UnnamedNumberIsUnknown) { EXPECT_EQ(name(Code{99}), "UNKNOWN"); }

Error whole() {
  return {.code = Code::kFailedPrecondition,
          .what = "it is closed",
          .advice = {Remedy::kRetireSequence, "orders"},
          .subject = "sequence orders",
          .place = "sqlite:/ids.db",
          .outcome = "nothing was changed"};
}

TEST(Error, TheMessageHasThePartsThatAreThere) {
  EXPECT_EQ(whole().message(),
            "sequence orders in sqlite:/ids.db: it is closed; nothing was changed");
  EXPECT_EQ((Error{Code::kInternal, "a bug"}.message()), "a bug");
  EXPECT_EQ(about("pool web", {Code::kInternal, "a bug"}).message(), "pool web: a bug");
  EXPECT_EQ(at_place("/a", {Code::kInternal, "a bug"}).message(), "/a: a bug");
  EXPECT_EQ((Error{.outcome = "all is lost"}.message()), "all is lost");
  EXPECT_EQ(Error{}.message(), "");
}

TEST(Error, OutcomesAreClausesAtTheEnd) {
  Error error{Code::kUnavailable, "no answer"};
  end_of(error) += " (twice)";
  add_outcome(error, "nothing was changed");
  add_outcome(error, "ask again");
  end_of(error) += " later";
  EXPECT_EQ(error.what, "no answer (twice)");
  EXPECT_EQ(error.message(), "no answer (twice); nothing was changed; ask again later");
}

TEST(Error, AContextStandsBeforeTheWholeMessageAndKeepsTheRest) {
  const Error error = in_context("line 3", whole());
  EXPECT_EQ(error.message(),
            "line 3: sequence orders in sqlite:/ids.db: it is closed; nothing was changed");
  EXPECT_EQ(error.subject, "");
  EXPECT_EQ(error.place, "");
  EXPECT_EQ(error.outcome, "nothing was changed");
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_EQ(error.advice, whole().advice);
}

TEST(Error, OneThatNamesPlacesHasNoSubject) {
  const Error error = naming_places(whole());
  EXPECT_EQ(error.message(), whole().message());
  EXPECT_EQ(error.subject, "");
}

}  // namespace
}  // namespace idmint
