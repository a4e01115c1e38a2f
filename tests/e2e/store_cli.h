// Tests of the command that are alike for every store whose database is a server.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/e2e/cli.h"

namespace idmint::e2e {

class StoreCli : public Cli {
 protected:
  // The line of a shell that names the store to the commands behind it.
  static std::string naming(const std::string& url) {
    return "export IDMINT_STORE='" + url + "'\n";
  }

  void expect_every_strategy_but_gapless(const std::string& url) {
    const std::string store = naming(url);
    output(store + R"(
      idmint create orders --start 1000 --max 5000
      idmint create accounts --strategy striped --stripes 100 --max 100000
      idmint create parts --strategy interleaved --stripes 7
      idmint create tickets --strategy cached
      idmint create cards --strategy random --max 999999
      idmint create codes --strategy permuted --max 999999
      idmint create web --kind pool --layout twitter --workers 16)");
    EXPECT_EQ(output(store + "idmint next orders -n 3; idmint next orders"),
              "1000\n1001\n1002\n1003\n");
    for (const char* const name : {"accounts", "parts", "tickets", "cards", "codes", "web"}) {
      const std::string ten = output(store + "(idmint next " + name + " -n 5; idmint next " + name +
                                     " -n 5) | sort -u");
      EXPECT_EQ(lines_of(ten).size(), 10U) << name;
    }
    EXPECT_EQ(run(store + "idmint create bills --strategy gapless").status, 12);
    output(store + "idmint raise orders --past 4999 --yes; idmint alter orders --max 5001");
    EXPECT_EQ(output(store + "idmint next orders -n 2"), "5000\n5001\n");
    EXPECT_EQ(run(store + "idmint next orders").status, 6);
    output(store + "idmint retire orders --yes");
    EXPECT_EQ(run(store + "idmint next orders").status, 5);
  }

  // How many libraries of that name the command loads, as the line that grep -c prints.
  std::string loads(const std::string& library, const std::string& command) {
    return output("rm -f loader.*\nLD_DEBUG=files LD_DEBUG_OUTPUT=loader " + command +
                  " >/dev/null\ncat loader.* | grep -c 'calling init: .*" + library + "' || true");
  }

  // The record on the host reveals that `set_back` sets the next value of the counter "c" back to
  // 11, in a way that the store's own means do not notice.
  void expect_record_is_compared(const std::string& url, const std::function<void()>& set_back) {
    using testing::AllOf;
    using testing::HasSubstr;
    const std::string store = naming(url);
    output(store + "idmint create c; idmint next c -n 40");
    set_back();
    for (int i = 0; i < 2; ++i) {
      const Ended next = run(store + "idmint next c");
      EXPECT_EQ(next.status, 10) << next.out;
      EXPECT_THAT(next.err, AllOf(HasSubstr("the store gave 1"), HasSubstr("40 was given before")));
    }
    EXPECT_THAT(run(store + "idmint doctor").out, HasSubstr("this host was given 40"));
    // The first process may have put the store in doubt for all others.
    EXPECT_EQ(run(store + "idmint raise --all --past 40 --yes").status, 0);
    EXPECT_EQ(output(store + "idmint next c"), "41\n");
  }

  // The store is in doubt, for that reason, and has a sequence "orders".
  void expect_nothing_until_raised(const std::string& url, const std::string& why) {
    using testing::AllOf;
    using testing::HasSubstr;
    const std::string store = naming(url);
    const Ended refused = run(store + "idmint next orders");
    EXPECT_EQ(refused.status, 5);
    EXPECT_THAT(refused.err, AllOf(HasSubstr(why), HasSubstr("idmint raise --all --past N")));
    EXPECT_EQ(run(store + "idmint create more").status, 5);
    const Ended doctor = run(store + "idmint doctor");
    EXPECT_NE(doctor.status, 0);
    EXPECT_THAT(doctor.out, HasSubstr(why));
    EXPECT_EQ(run(store + "idmint raise --all --past 100").status, 0);
    EXPECT_EQ(output(store + "idmint next orders"), "101\n");
  }
};

}  // namespace idmint::e2e
