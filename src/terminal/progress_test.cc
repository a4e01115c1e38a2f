#include "terminal/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idmint {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class Lines : public testing::Test {
 protected:
  SteadyTime now_{1h};
  std::vector<std::string> told_;
  ProgressLines lines_{[this](std::string_view line) { told_.emplace_back(line); },
                       [this] { return now_; }};
};

TEST_F(Lines, ComeEveryTenSeconds) {
  lines_.begin("MB of documents", 400);
  for (int second = 1; second <= 30; ++second) {
    now_ += 1s;
    lines_.show(second * 10);
    lines_.show(second * 10);
  }
  EXPECT_THAT(told_, ElementsAre("100 of 400 MB of documents, 30 s left",
                                 "200 of 400 MB of documents, 20 s left",
                                 "300 of 400 MB of documents, 10 s left"));
}

TEST_F(Lines, ComeOverShortSteps) {
  for (int step = 1; step <= 6; ++step) {
    lines_.begin("entries", std::nullopt);
    now_ += 4s;
    lines_.show(step);
  }
  EXPECT_THAT(told_, ElementsAre("3 entries", "6 entries"));
}

// An index that is built for minutes, a server that recovers.
TEST_F(Lines, ComeWhileNothingIsDone) {
  lines_.begin("collections indexed", 8);
  lines_.show(3);
  now_ += 15s;
  lines_.tick();
  lines_.tick();
  lines_.begin("starting the server", std::nullopt);
  now_ += 12s;
  lines_.tick();
  EXPECT_THAT(
      told_, ElementsAre("3 of 8 collections indexed, 25 s left", "starting the server, for 12 s"));
}

TEST_F(Lines, DoNotComeWhileNobodyWorks) {
  lines_.begin("entries", std::nullopt);
  lines_.end();
  now_ += 1h;
  lines_.tick();
  lines_.begin("entries", std::nullopt);
  lines_.show(1);
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace idmint
