// docs/restore.md, followed on a live set of three members: its blocks marked `console runbook` are
// run in their order, and between them happens what happens in production. The commands print the
// words that the blocks show before the values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "restore/tests/production.h"
#include "restore/tests/workload.h"
#include "tests/e2e/cli.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct Block {
  std::string commands{};
  std::vector<std::string> facts{};  // "  limit  "
};

// The first word behind the first such label of `find`.
std::string value_behind(const std::string& label, const std::string& out) {
  const std::size_t begin =
      out.find_first_not_of(' ', out.find("\n  " + label + " ") + 3 + label.size());
  return out.substr(begin, out.find_first_of(" ,\n", begin) - begin);
}

// But for the limit, which is another each time.
std::vector<Block> blocks_of(const std::string& document) {
  std::vector<Block> blocks;
  bool inside = false;
  for (const std::string& line : e2e::lines_of(document)) {
    if (line == "```console runbook") {
      blocks.emplace_back();
      inside = true;
    } else if (line.starts_with("```")) {
      inside = false;
    } else if (inside && line.starts_with("$ ") && !line.starts_with("$ LIMIT=") &&
               !line.starts_with("$ MISTAKE_TO=")) {
      blocks.back().commands += line.substr(2) + "\n";
    } else if (inside && line.starts_with("  ") && line[2] != ' ') {
      if (const std::size_t value = line.find("  ", 2); value != std::string::npos)
        blocks.back().facts.push_back(line.substr(0, value + 2));
    }
  }
  return blocks;
}

// The page for the night has no command that this one does not explain.
TEST(RestoreCard, HasCommandsOfTheRunbookOnly) {
  const std::string runbook = e2e::content(IDMINT_RUNBOOK);
  int commands = 0;
  for (const std::string& line : e2e::lines_of(e2e::content(IDMINT_RESTORE_CARD))) {
    if (!line.starts_with("$ idmint-restore ")) continue;
    EXPECT_THAT(runbook, HasSubstr(line + "\n"));
    ++commands;
  }
  EXPECT_GE(commands, 10);
}

class Runbook : public e2e::Cli {
 protected:
  // With what an operator has set, after `set -e`.
  e2e::Ended follow(const Block& block) {
    const e2e::Ended ended = follow(block.commands);
    for (const std::string& fact : block.facts) EXPECT_THAT(ended.out, HasSubstr(fact));
    return ended;
  }
  e2e::Ended follow(const std::string& commands) {
    return run("set -e\nexport MONGOC_DISABLE_SHM=1 PATH=$PATH:$(dirname \"$(" IDMINT_MONGOD
               ")\")\nPRODUCTION='" +
               set_.url("") + "'\nLIMIT='" + limit_ + "'\nMISTAKE_TO='" + mistake_to_ +
               "'\nSPARE='" + spare_ + "'\n" + commands);
  }

  servers::MongoSet set_{{.election_timeout = std::chrono::minutes{10}}};
  std::string limit_{};
  std::string mistake_to_{};
  std::string spare_{};
};

TEST_F(Runbook, LeadsBackToTheMomentBeforeTheMistake) {
  const std::vector<Block> blocks = blocks_of(e2e::content(IDMINT_RUNBOOK));
  ASSERT_EQ(blocks.size(), 10U);
  Production production(set_.url("admin"));
  work_before_base(production);
  output("idmint create tickets --store '" + set_.url("app") +
         "'; idmint next tickets -n 3 --store '" + set_.url("app") + "'");

  const e2e::Ended prepared = follow(blocks[0]);
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  work_of_every_kind(production);
  const State before = state_of(production.server());
  production.run("shop", R"({"dropDatabase":1})");
  for (int i = 0; i < 100; ++i)
    production.insert("shop.orders", R"({"_id":")" + std::to_string(i) +
                                         R"(","total":1,"key":"later )" + std::to_string(i) +
                                         R"("})");

  const e2e::Ended kept = follow(blocks[1]);
  ASSERT_EQ(kept.status, 0) << kept.err;
  const e2e::Ended found = follow(blocks[2]);
  ASSERT_EQ(found.status, 0) << found.err;
  // Reads the output like an operator who knows which database is gone.
  const std::size_t suspect = found.out.find("database was dropped: shop");
  ASSERT_NE(suspect, std::string::npos) << found.out;
  limit_ = value_behind("limit", found.out.substr(suspect));
  mistake_to_ = value_behind("to", found.out.substr(suspect));

  const e2e::Ended shown = follow(blocks[3]);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(R"("drop")"));
  const e2e::Ended rehearsed = follow(blocks[4]);
  EXPECT_EQ(rehearsed.status, 0) << rehearsed.out << rehearsed.err;
  const e2e::Ended restored = follow(blocks[5]);
  ASSERT_EQ(restored.status, 0) << restored.out << restored.err;
  EXPECT_THAT(restored.out + restored.err, HasSubstr("tickets")) << "a counter";
  spare_ = restored.out.substr(restored.out.find("mongodb://"));
  spare_ = spare_.substr(0, spare_.find_first_of(" \n"));
  const e2e::Ended verified = follow(blocks[6]);
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;

  // The spare was left running.
  const e2e::Ended saved = follow("idmint-restore verify --spare spare --save is.json >/dev/null");
  ASSERT_EQ(saved.status, 0) << saved.err;
  const Result<State> is = read_state_file(folder_ / "is.json");
  ASSERT_TRUE(is) << is.error().message();
  EXPECT_EQ(in_lines(differences(*is, before)), "");
  // One of the collections goes back, with what came later. Without --merge-later the plan says
  // what is lost.
  const e2e::Ended losing = follow(
      "idmint-restore promote --from \"$SPARE\" --to \"$PRODUCTION\" --limit \"$LIMIT\" "
      "--ns shop.orders --dry-run");
  EXPECT_EQ(losing.status, 0) << losing.out << losing.err;
  EXPECT_THAT(losing.out, HasSubstr("100 of them lost"));
  EXPECT_THAT(losing.out, HasSubstr(" --mistake-to S:O --merge-later --dry-run\n"));
  const e2e::Ended planned = follow(blocks[7]);
  EXPECT_EQ(planned.status, 0) << planned.out << planned.err;
  EXPECT_THAT(planned.out, HasSubstr(" 0 of them lost"));
  for (const std::size_t block : {8U, 9U}) {
    const e2e::Ended promoted = follow(blocks[block]);
    EXPECT_EQ(promoted.status, 0) << promoted.out << promoted.err;
  }
  const Bson orders = production.run("shop", R"({"count":"orders"})");
  EXPECT_EQ(orders.view().number("n"), 106) << "6 were restored, 100 came later";
  const e2e::Ended ended = follow("kill \"$(head -n 1 spare/mongod.lock)\"");
  EXPECT_EQ(ended.status, 0) << ended.err;
}

// docs/keep.md
TEST_F(Runbook, KeepsBackupsThatLeadBackAsWell) {
  const std::vector<Block> blocks = blocks_of(e2e::content(IDMINT_KEEP));
  ASSERT_EQ(blocks.size(), 3U);
  Production production(set_.url("admin"));
  work_before_base(production);
  const e2e::Ended kept = follow(blocks[0]);
  ASSERT_EQ(kept.status, 0) << kept.out << kept.err;
  work_of_every_kind(production);
  const State before = state_of(production.server());
  production.run("shop", R"({"dropDatabase":1})");
  production.now();
  const e2e::Ended again = follow("idmint-restore keep --uri \"$PRODUCTION\" --to kept --once");
  ASSERT_EQ(again.status, 0) << again.err;
  const e2e::Ended found = follow("idmint-restore find --oplog kept");
  const std::size_t suspect = found.out.find("database was dropped: shop");
  ASSERT_NE(suspect, std::string::npos) << found.out << found.err;
  limit_ = value_behind("limit", found.out.substr(suspect));
  const e2e::Ended restored = follow(blocks[1]);
  ASSERT_EQ(restored.status, 0) << restored.out << restored.err;
  const e2e::Ended saved = follow("idmint-restore verify --spare spare --save is.json >/dev/null");
  ASSERT_EQ(saved.status, 0) << saved.err;
  const Result<State> is = read_state_file(folder_ / "is.json");
  ASSERT_TRUE(is) << is.error().message();
  EXPECT_EQ(in_lines(differences(*is, before)), "");
  const e2e::Ended metrics = follow(blocks[2]);
  EXPECT_EQ(metrics.status, 0) << metrics.err;
  EXPECT_THAT(metrics.out, HasSubstr("\nidmint_restore_kept_holes 0\n"));
  const e2e::Ended ended = follow("kill \"$(head -n 1 spare/mongod.lock)\"");
  EXPECT_EQ(ended.status, 0) << ended.err;
}

}  // namespace
}  // namespace idmint::restore
