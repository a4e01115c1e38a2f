// The record that programs of this host keep of what they were given: a store that has gone back is
// noticed by those that start later, whatever mints. The store is set back inside its file, which
// its own means do not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "idmint/mint.h"
#include "tests/e2e/cli.h"
#include "tests/fakes/code_of.h"
#include "tests/fakes/in_child.h"
#ifdef IDMINTD_BINARY
#include "tests/e2e/daemon.h"
#endif

namespace idmint::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTables = "counters spaces claims workers";

class Records : public Cli {
 protected:
  void sql(const std::string& text, const std::string& file = "ids.db") const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / file).c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_busy_timeout(db, 60'000), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
  }
  void keep_state() const {
    std::istringstream tables(kTables);
    for (std::string table; tables >> table;)
      sql("CREATE TABLE copy_of_" + table + " AS SELECT * FROM " + table);
  }
  void set_back() const {
    std::string all = "BEGIN IMMEDIATE;";
    std::istringstream tables(kTables);
    for (std::string table; tables >> table;)
      all += "DELETE FROM " + table + ";INSERT INTO " + table + " SELECT * FROM copy_of_" + table +
             ";";
    sql(all + "COMMIT");
  }
  [[nodiscard]] fs::path data() const { return folder_ / "home/.local/share/idmint"; }
  [[nodiscard]] fs::path record() const {
    for (const auto& each : fs::directory_iterator(data()))
      if (each.path().filename().string().starts_with("seen-")) return each.path();
    return {};
  }

  const std::string store_ = "export IDMINT_STORE=sqlite:ids.db\n";
};

TEST_F(Records, AValueBelowTheRecordIsDataLossAndLeavesTheRecord) {
  output(store_ + "idmint create c; idmint next c -n 10");
  keep_state();
  output(store_ + "idmint next c -n 30");
  set_back();
  for (int i = 0; i < 2; ++i) {
    const Ended next = run(store_ + "idmint next c");
    EXPECT_EQ(next.status, 10) << next.out;
    EXPECT_EQ(next.out, "");
    EXPECT_THAT(next.err, AllOf(HasSubstr("the store gave 11, and 40 was given before"),
                                HasSubstr("idmint raise --all")));
  }
  EXPECT_THAT(run(store_ + "idmint doctor").out, HasSubstr("this host was given 40"));
  EXPECT_EQ(run(store_ + "idmint raise --all --past 40 --yes").status, 0);
  EXPECT_EQ(output(store_ + "idmint next c"), "41\n");
}

// So that no stripe is left out.
constexpr const char* kMany = "for i in {1..24}; do idmint next c || exit; done";

class RecordsOf : public Records, public testing::WithParamInterface<const char*> {};

TEST_P(RecordsOf, EachStrategyIsCompared) {
  output(store_ + "idmint create c " + GetParam());
  keep_state();
  output(store_ + kMany);
  set_back();
  const Ended again = run(store_ + kMany);
  EXPECT_EQ(again.status, 10) << again.err << again.out;
  EXPECT_THAT(again.err, HasSubstr("gone back"));
  EXPECT_EQ(run(store_ + "idmint doctor").status, 21);
}

INSTANTIATE_TEST_SUITE_P(Strategies, RecordsOf,
                         testing::Values("--strategy striped --stripes 2 --max 1000",
                                         "--strategy interleaved --stripes 2",
                                         "--strategy cached --step 2",
                                         "--strategy permuted --max 9999",
                                         "--strategy random --max 999999999"));

TEST_F(Records, ARandomSequenceThatLostClaimsGivesNothingAnyMore) {
  output(store_ + "idmint create c --strategy random --max 999999999");
  keep_state();
  output(store_ + "idmint next c -n 5");
  set_back();
  EXPECT_EQ(run(store_ + "idmint next c").status, 10);
  EXPECT_EQ(run(store_ + "idmint next c").status, 10) << "the witness is claimed by now";
}

// Time passes the bounds soon, unless the clock of the host is set back too.
TEST_F(Records, ABoundOfAWorkerIdBelowTheRecordIsDataLoss) {
  output(store_ +
         "idmint create w --kind pool --layout '41t1w4s epoch 2020-01-01 unit 1s' --workers 1");
  keep_state();
  output(store_ + "idmint next w --window 10min -n 20");  // more than one unit has
  set_back();
  const Ended next = run(store_ + "idmint next w");
  EXPECT_EQ(next.status, 10) << next.out << next.err;
  EXPECT_THAT(next.err, AllOf(HasSubstr("worker id 0"), HasSubstr("idmint workers raise w")));
}

// A note from before the settlement is void, and one from after it is valid.
TEST_F(Records, WhatIsGivenAfterASettlementIsComparedToo) {
  output(store_ +
         "idmint create c; idmint create r --strategy random --max 1000000000\n"
         "idmint create w --kind pool --layout '41t1w4s epoch 2020-01-01 unit 1s' --workers 1\n"
         "mkdir moved; mv ids.db* moved; cp moved/ids.db copy.db; mv copy.db ids.db");
  EXPECT_EQ(run(store_ + "idmint next c").status, 10) << "the copy is in doubt";
  output(store_ + "idmint raise --all --moved --yes 2>notice");
  for (const std::string what : {"c -n 3", "r -n 3", "w --window 10min -n 20"}) {
    SCOPED_TRACE(what);
    keep_state();
    output(store_ + "idmint next " + what);
    set_back();
    EXPECT_EQ(run(store_ + "idmint next " + what).status, 10);
    set_back();
    output(store_ +
           "idmint raise --all --moved --yes 2>notice || idmint raise --all --past 100 --yes "
           "2>notice");
    sql("DROP TABLE copy_of_counters; DROP TABLE copy_of_spaces; DROP TABLE copy_of_claims;"
        "DROP TABLE copy_of_workers");
  }
}

// A copy for testing that was settled, and took the place of the store that gave more since.
TEST_F(Records, WhatWasGivenAfterACopyWasSettledIsComparedWithIt) {
  output(store_ + "idmint create c");
  keep_state();
  output(store_ + "idmint next c -n 40");
  set_back();
  const auto be_settled = [&](std::chrono::seconds ago) {
    const auto at =
        std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now() - ago);
    sql("UPDATE store SET settled = " + std::to_string(at.time_since_epoch().count()));
  };
  be_settled(std::chrono::seconds{30});
  const Ended next = run(store_ + "idmint next c");
  EXPECT_EQ(next.status, 10) << next.out;
  EXPECT_THAT(next.err, HasSubstr("40 was given before"));
  be_settled(std::chrono::seconds{-30});
  set_back();
  sql("UPDATE store SET gone_back = NULL");
  EXPECT_EQ(output(store_ + "idmint next c"), "1\n") << "what was given before it is void";
}

// A name may be used again by a test suite that empties its tables.
TEST_F(Records, AnotherKindOfTheSameNameIsNotComparedWithIt) {
  output(store_ + "idmint create x; idmint next x -n 40");
  sql("DELETE FROM counters; DELETE FROM definitions");
  output(store_ + "idmint create x --strategy random --max 1000000000 --yes");
  EXPECT_EQ(run(store_ + "idmint next x -n 9").status, 0);
  EXPECT_EQ(run(store_ + "idmint next x -n 9").status, 0);
  sql("DELETE FROM spaces; DELETE FROM claims; DELETE FROM definitions");
  output(store_ + "idmint create x --yes");
  EXPECT_EQ(run(store_ + "idmint next x").status, 10) << "the counter gave 40 values";
}

TEST_F(Records, APathThatIsRelativeIsTheSameAfterTheFolderWasChanged) {
  ASSERT_EQ(::setenv("XDG_DATA_HOME", (folder_ / "home/.local/share").c_str(), 1), 0);
  output(store_ + "idmint create c");
  keep_state();
  const fs::path here = fs::current_path();
  {
    fs::current_path(folder_);
    Mint mint({.store = "sqlite:ids.db"});
    ASSERT_TRUE(mint.source("c"));
    fs::current_path("/");
    const auto source = mint.source("c");
    ASSERT_TRUE(source);
    for (int i = 0; i < 40; ++i) EXPECT_TRUE((*source)->next());
  }
  fs::current_path(here);
  ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0);
  set_back();
  const Ended next = run(store_ + "idmint next c");
  EXPECT_EQ(next.status, 10) << next.out;
  EXPECT_THAT(next.err, HasSubstr("40 was given before"));
}

TEST_F(Records, NeitherACopyNorAnotherUserIsStopped) {
  output(store_ + "idmint create c; idmint next c -n 10; cp ids.db copy.db");
  output(store_ + "idmint next c -n 30");
  // A copy for testing, whose owner says that it was copied.
  EXPECT_EQ(
      output("export IDMINT_STORE=sqlite:copy.db; idmint raise --all --moved --yes 2>&- || true; "
             "idmint next c -n 90 | tail -1"),
      "100\n");
  EXPECT_EQ(output(store_ + "idmint next c"), "41\n");
  EXPECT_EQ(output(store_ + "HOME=$PWD/other idmint next c"), "42\n");
  EXPECT_EQ(output(store_ + "mv ids.db renamed.db; idmint next c --store sqlite:renamed.db"),
            "43\n");
}

TEST_F(Records, ARecordThatIsGoneEmptyDamagedOrInTheWayStopsNobodyAndDoctorSaysSo) {
  output(store_ + "idmint create c; idmint next c -n 40");
  const auto doctor = [&] { return run(store_ + "idmint doctor --ignore clock --ignore disk"); };
  EXPECT_THAT(doctor().out, Not(HasSubstr("record")));
  const fs::path record = this->record();
  ASSERT_FALSE(record.empty());

  fs::remove(record);
  EXPECT_THAT(doctor().out, HasSubstr("record " + record.string() + ": none yet"));
  EXPECT_EQ(output(store_ + "idmint next c"), "41\n");

  std::ofstream(record, std::ios::trunc).flush();
  EXPECT_THAT(doctor().out, HasSubstr("damaged"));
  EXPECT_EQ(output(store_ + "idmint next c"), "42\n");
  EXPECT_THAT(doctor().out, HasSubstr("damaged")) << "until it is removed";

  std::ofstream(record) << "\t\tnothing\t\n\tc\t1\t999999\tv\t0\t00000000\n\x01\x02";
  EXPECT_THAT(doctor().out, HasSubstr("damaged"));
  EXPECT_EQ(output(store_ + "idmint next c"), "43\n");

  fs::remove(record);
  fs::create_directory(record);
  EXPECT_EQ(output(store_ + "idmint next c"), "44\n");
}

TEST_F(Records, MintsOfTheLibraryKeepTheRecordUnlessTheySayOtherwise) {
  ASSERT_EQ(::setenv("XDG_DATA_HOME", (folder_ / "xdg").c_str(), 1), 0);
  const MintOptions usual{.store = "sqlite:" + (folder_ / "ids.db").string()};
  MintOptions without = usual;
  without.keep_record = false;
  const auto take = [](const MintOptions& options, std::size_t count) {
    return fakes::in_child([&] {
      Mint mint(options);
      const auto source = mint.source("c");
      if (!source) return source.error().code;
      std::vector<Id> ids(count);
      const Result<void> got = (*source)->next(ids);
      return fakes::code_of(got);
    });
  };
  EXPECT_EQ(fakes::in_child([&] {
              Mint mint(usual);
              return fakes::code_of(mint.create(SequenceDefinition{.name = "c"}));
            }),
            Code{0});
  keep_state();
  EXPECT_EQ(take(usual, 40), Code{0});
  set_back();
  EXPECT_EQ(take(without, 1), Code{0});
  EXPECT_EQ(take(usual, 1), Code::kDataLoss);
  ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0);
}

#ifdef IDMINTD_BINARY

TEST_F(Records, TheDaemonNotesWhatItGivesAndIsHeldToIt) {
  output(store_ + "idmint create c");
  keep_state();
  ASSERT_EQ(::setenv("XDG_DATA_HOME", (folder_ / "home/.local/share").c_str(), 1), 0);
  const std::string url = "sqlite:" + (folder_ / "ids.db").string();
  const auto get = [&](const Daemon& daemon) {
    return run("exec 3<>/dev/tcp/127.0.0.1/" + std::to_string(daemon.port()) +
               "; printf 'INCR c\\r\\n' >&3; read -r line <&3; echo \"$line\"")
        .out;
  };
  {
    Daemon daemon(url);
    for (int i = 1; i <= 40; ++i) EXPECT_EQ(get(daemon), ":" + std::to_string(i) + "\r\n");
    // It notes within a second, and is killed.
    const auto noted = [&] { return content(record()).contains("\t40\t"); };
    for (int i = 0; i < 600 && !noted(); ++i) run("sleep 0.1");
    EXPECT_TRUE(noted()) << content(record());
  }
  set_back();
  {
    Daemon daemon(url);
    EXPECT_THAT(get(daemon), HasSubstr("-DATALOSS"));
    daemon.end(SIGTERM);
  }
  EXPECT_EQ(run(store_ + "idmint next c").status, 10);
  ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0);
}

TEST_F(Records, OfAStoreThatIsGoneTheDaemonCreatesNothingBelowUnlessItIsMeant) {
  output(store_ + "idmint create c; idmint next c -n 40; rm ids.db*");
  ASSERT_EQ(::setenv("XDG_DATA_HOME", (folder_ / "home/.local/share").c_str(), 1), 0);
  {
    const Daemon daemon("sqlite:" + (folder_ / "ids.db").string());
    const auto create = [&](const std::string& body) {
      return output("curl -s -w ' %{http_code}' -d '" + body +
                    "' 127.0.0.1:" + std::to_string(daemon.http_port()) + "/v1/sources");
    };
    EXPECT_THAT(create(R"({"name":"c"})"),
                AllOf(HasSubstr("c up to 40"), HasSubstr("nothing was created"),
                      testing::EndsWith(" 409")));
    EXPECT_THAT(create(R"({"name":"c","start":41})"), testing::EndsWith(" 201"));
    EXPECT_THAT(create(R"({"name":"c","start":41})"), testing::EndsWith(" 201")) << "it is there";
  }
  output("rm ids.db*");
  const Daemon daemon("sqlite:" + (folder_ / "ids.db").string());
  EXPECT_THAT(output(R"(curl -s -w ' %{http_code}' -d '{"name":"c","yes":true}' 127.0.0.1:)" +
                     std::to_string(daemon.http_port()) + "/v1/sources"),
              testing::EndsWith(" 201"));
  ASSERT_EQ(::unsetenv("XDG_DATA_HOME"), 0);
}

#endif

TEST_F(Records, OfAStoreThatIsGoneNextSaysTheLastValueAndCreateAsks) {
  output(store_ + "idmint create c; idmint next c -n 40; rm ids.db*");
  const Ended next = run(store_ + "idmint next c");
  EXPECT_EQ(next.status, 3);
  EXPECT_THAT(next.err,
              AllOf(HasSubstr("this host was given c up to 40"),
                    HasSubstr("idmint create c --start N"), HasSubstr("where N is 41 or more")));
  const Ended below = run(store_ + "idmint create c");
  EXPECT_EQ(below.status, 5);
  EXPECT_THAT(below.err, AllOf(HasSubstr("up to 40"), HasSubstr("nothing was created"),
                               HasSubstr("--start 41"), HasSubstr("--yes")));
  EXPECT_FALSE(fs::exists(folder_ / "ids.db"));
  output(store_ + "idmint create other; idmint create c --start 41");
  EXPECT_EQ(output(store_ + "idmint next c"), "41\n");
  output(store_ + "idmint create c --start 41; rm ids.db*; idmint create c --yes");
  EXPECT_EQ(output(store_ + "idmint next c"), "1\n");
}

// A deployment applies its file each time, with the volume or without.
TEST_F(Records, OfAStoreThatIsGoneApplyAsksToo) {
  std::ofstream(folder_ / "s.toml") << "[sequence.c]\n";
  output(store_ + "idmint apply s.toml; idmint next c -n 40; rm ids.db*");
  const Ended below = run(store_ + "idmint apply s.toml");
  EXPECT_EQ(below.status, 5);
  EXPECT_THAT(below.out, AllOf(HasSubstr("c up to 40"), HasSubstr("a start of 41 or more"),
                               HasSubstr("--yes")));
  EXPECT_FALSE(fs::exists(folder_ / "ids.db"));
  std::ofstream(folder_ / "above.toml") << "[sequence.c]\nstart = 41\n";
  output(store_ + "idmint apply above.toml");
  EXPECT_EQ(output(store_ + "idmint next c"), "41\n");
  output(store_ + "rm ids.db*; idmint apply s.toml --yes");
  EXPECT_EQ(output(store_ + "idmint next c"), "1\n");
}

TEST_F(Records, AfterASettlementALargerStartIsAccepted) {
  output(store_ +
         "idmint create c; idmint next c -n 40; cp ids.db kept.db; mv kept.db ids.db\n"
         "idmint raise --all --moved --yes 2>notice; rm ids.db*");
  EXPECT_EQ(run(store_ + "idmint create c --start 40").status, 5);
  EXPECT_EQ(run(store_ + "idmint create c --start 41").status, 0);
}

TEST_F(Records, ASequenceWhoseStoreIsGoneInAnotherFolderIsNoMatter) {
  output(store_ + "idmint create c; idmint next c -n 40; mkdir sub; cd sub; idmint create c");
}

}  // namespace
}  // namespace idmint::e2e
