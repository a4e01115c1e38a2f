#include "restore/replay/net_effect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "restore/replay/apply_ops.h"
#include "restore/replay/state.h"
#include "restore/server.h"
#include "restore/tests/random_work.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

// Documents and diffs of few names, so that most diffs meet what they do not expect.
class RandomDiffs {
 public:
  explicit RandomDiffs(unsigned seed) : random_(seed) {}

  Bson document(int id) {
    Bson made = Bson("_id", id);
    add_fields(made, 0);
    return made;
  }
  Bson update() { return Bson("$v", 2, "diff", diff(0)); }
  // Such as programs write that count.
  Bson counting() {
    Bson updated = Bson("at", std::chrono::milliseconds(pick(1000)), "n", int(pick(1000)));
    if (pick(2) == 0) return Bson("$v", 2, "diff", Bson("u", Bson("n", int(pick(1000)))));
    if (pick(2) == 0) return Bson("$v", 2, "diff", Bson("u", updated));
    return Bson("$v", 2, "diff",
                Bson("u", updated, "sdeep", Bson("u", Bson("a", int(pick(1000))))));
  }
  unsigned pick(std::size_t below) { return static_cast<unsigned>(random_() % below); }

 private:
  static constexpr std::array kNames = {"a", "b", "c", "u", "s1"};

  void add_value(Bson& to, const std::string& key, int depth) {
    switch (pick(depth < 2 ? 5 : 2)) {
      case 0:
        to.add(key.c_str(), nullptr);
        break;
      case 1:
        to.add(key.c_str(), static_cast<std::int32_t>(pick(1000)));
        break;
      case 2: {
        BsonArray list;
        for (unsigned i = 0, size = pick(4); i < size; ++i)
          add_value(list.items, std::to_string(i), depth + 1);
        to.add(key.c_str(), list);
        break;
      }
      default: {
        Bson inner;
        add_fields(inner, depth + 1);
        to.add(key.c_str(), inner);
      }
    }
  }
  void add_fields(Bson& to, int depth) {
    // Some names twice: servers store such documents.
    for (unsigned i = 0, size = pick(5); i < size; ++i)
      add_value(to, kNames[pick(kNames.size())], depth);
  }
  Bson sub_diff(int depth) { return pick(3) == 0 ? array_diff(depth) : diff(depth); }
  Bson diff(int depth) {
    Bson made;
    while (made.view().empty()) {
      Bson deletes;
      Bson updates;
      Bson inserts;
      Bson inside;
      auto names = kNames;
      std::ranges::shuffle(names, random_);
      for (const char* const name : names) {
        const unsigned dice = pick(depth == 0 ? 9 : 6);
        if (dice == 0) deletes.add(name, false);
        if (dice == 1 || dice == 2) add_value(updates, name, depth);
        if (dice == 3) add_value(inserts, name, depth);
        if (dice == 4 && depth < 2)
          inside.add((std::string("s") + name).c_str(), sub_diff(depth + 1));
      }
      if (!deletes.view().empty()) made.add("d", deletes);
      if (!updates.view().empty()) made.add("u", updates);
      if (!inserts.view().empty()) made.add("i", inserts);
      made.add_all(*inside.get());
    }
    return made;
  }
  Bson array_diff(int depth) {
    Bson made = Bson("a", true);
    unsigned least = 0;
    if (pick(4) == 0) {
      made.add("l", static_cast<std::int32_t>(pick(4)));
      return made;
    }
    for (unsigned i = 0, size = 1 + pick(3); i < size; ++i) {
      const std::string index = std::to_string(least + pick(2));
      least = static_cast<unsigned>(std::stoul(index)) + 1;
      if (pick(3) == 0 && depth < 2) {
        made.add(("s" + index).c_str(), sub_diff(depth + 1));
      } else {
        add_value(made, "u" + index, depth);
      }
    }
    return made;
  }

  std::mt19937 random_;
};

class NetEffect : public testing::Test {
 protected:
  NetEffect() : server_(connected()) {
    empty_server(server_);
    for (const char* const name : {"plain", "merged"}) {
      const Bson create = Bson("create", name);
      EXPECT_TRUE(server_.command("d", create));
    }
  }

  static Server connected() {
    Result<Server> server = Server::connect(servers::mongo_standalone().url(""));
    EXPECT_TRUE(server) << server.error().message();
    return *std::move(server);
  }
  void apply(const Operations& operations) {
    const Answer answer = apply_ops(server_, operations, {}, false);
    EXPECT_TRUE(answer.ok) << answer.message;
  }
  std::map<std::int32_t, Bson> documents(const char* collection) {
    std::map<std::int32_t, Bson> all;
    const Result<void> read =
        for_each_document(server_, "d", collection, [&](Document document) -> Result<void> {
          all.emplace(static_cast<std::int32_t>(document.number("_id")), Bson::copy_of(document));
          return {};
        });
    EXPECT_TRUE(read) << read.error().message();
    return all;
  }

  Server server_;
};

// Updates of a document, some of them merged, as a replay does it.
void merge_into(std::vector<Bson>& merged, const Bson& update) {
  std::optional<std::vector<std::uint8_t>> net;
  if (!merged.empty()) net = net_effect(merged.back().view(), update.view());
  if (net) {
    ASSERT_TRUE(Document::of(*net));
    merged.back() = Bson::copy_of(Document::of(*net));
  } else {
    merged.push_back(update.copy());
  }
}

TEST_F(NetEffect, IsThatOfTheUpdatesOnAnyDocument) {
  const unsigned seed = number_given("IDMINT_RANDOM_SEED", std::random_device{}());
  const unsigned rounds = number_given("IDMINT_RANDOM_ROUNDS", 10);
  SCOPED_TRACE("IDMINT_RANDOM_SEED=" + std::to_string(seed));
  RandomDiffs random(seed);
  std::size_t updates = 0;
  std::size_t left = 0;
  for (unsigned round = 0; round < rounds && !HasFailure(); ++round) {
    Operations plain;
    Operations merged;
    std::map<int, std::string> told;
    for (int id = 0; id < 400; ++id) {
      const Bson start = random.document(id);
      const Bson o2 = Bson("_id", id);
      plain.append("i", "d.plain", start.view(), {});
      merged.append("i", "d.merged", start.view(), {});
      told[id] = to_relaxed_json(start.view());
      std::vector<Bson> some;
      for (unsigned i = 0, size = 2 + random.pick(3); i < size; ++i) {
        const Bson update = random.update();
        plain.append("u", "d.plain", update.view(), o2.view());
        told[id] += "\n" + to_relaxed_json(update.view());
        merge_into(some, update);
        ++updates;
      }
      left += some.size();
      for (const Bson& each : some) {
        merged.append("u", "d.merged", each.view(), o2.view());
        told[id] += "\nmerged: " + to_relaxed_json(each.view());
      }
    }
    apply(plain);
    apply(merged);
    const std::map<std::int32_t, Bson> should = documents("plain");
    const std::map<std::int32_t, Bson> is = documents("merged");
    ASSERT_EQ(should.size(), 400);
    ASSERT_EQ(is.size(), should.size());
    for (const auto& [id, document] : should)
      EXPECT_TRUE(document.view() == is.at(id).view())
          << told[id] << "\nis " << to_relaxed_json(is.at(id).view()) << "\nshould be "
          << to_relaxed_json(document.view());
  }
  std::cout << updates << " updates, merged into " << left << '\n';
  EXPECT_LT(left, updates * 3 / 4);
}

TEST_F(NetEffect, OfCountingIsOneUpdate) {
  RandomDiffs random(1);
  std::vector<Bson> merged;
  for (int i = 0; i < 1000; ++i) merge_into(merged, random.counting());
  EXPECT_EQ(merged.size(), 1);
}

}  // namespace
}  // namespace idmint::restore
