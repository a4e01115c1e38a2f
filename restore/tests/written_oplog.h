// Oplogs that the tests of find/ write entry by entry, and what an analysis says of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restore/find/analysis.h"
#include "restore/server.h"

namespace idmint::restore {

// An oplog that is written as extended JSON, one entry a millisecond or as told.
class Oplog {
 public:
  explicit Oplog(FindFilter filter = {}) : analysis_(std::move(filter)) {}

  // `o` and `more` without the outer braces; `more` is other fields of the entry.
  Timestamp add(std::string_view op, std::string_view ns, std::string_view o,
                std::string_view more = "") {
    const Result<Timestamp> at = try_add(op, ns, o, more);
    EXPECT_TRUE(at) << (at ? "" : at.error().message());
    return at.value_or(Timestamp{});
  }
  Result<Timestamp> try_add(std::string_view op, std::string_view ns, std::string_view o,
                            std::string_view more = "") {
    wall_ += 1;
    const auto second = static_cast<std::uint32_t>(wall_ / 1000);
    at_ = {.seconds = second, .ordinal = second == at_.seconds ? at_.ordinal + 1 : 1};
    const std::string json = R"({"ts":{"$timestamp":{"t":)" + std::to_string(at_.seconds) +
                             R"(,"i":)" + std::to_string(at_.ordinal) +
                             R"(}},"t":1,"v":2,"wall":{"$date":)" + R"({"$numberLong":")" +
                             std::to_string(wall_) + R"("}},"op":")" + std::string(op) +
                             R"(","ns":")" + std::string(ns) + R"(","o":{)" + std::string(o) + "}" +
                             (more.empty() ? "" : ",") + std::string(more) + "}";
    const Result<Bson> document = from_json(json);
    EXPECT_TRUE(document) << json;
    const Result<Entry> entry = parse_entry(document->view());
    EXPECT_TRUE(entry) << json;
    if (Result<void> added = analysis_.add(*entry); !added) return std::unexpected(added.error());
    return at_;
  }
  Timestamp insert(int id) { return add("i", "shop.orders", "\"_id\":" + std::to_string(id)); }
  Timestamp remove(int id) { return add("d", "shop.orders", "\"_id\":" + std::to_string(id)); }
  Timestamp set(std::string_view ns, int id, std::string_view changed) {
    return add("u", ns, R"("$v":2,"diff":{)" + std::string(changed) + "}",
               R"("o2":{"_id":)" + std::to_string(id) + "}");
  }
  Timestamp count(int id, std::int64_t to) {
    return set("shop.counters", id, R"("u":{"seq":{"$numberLong":")" + std::to_string(to) + "\"}}");
  }
  void pause(std::int64_t milliseconds) { wall_ += milliseconds; }
  OplogAnswer finish() { return analysis_.finish(); }

 private:
  OplogAnalysis analysis_;
  std::int64_t wall_ = 1'000'000;
  Timestamp at_{};
};

// The reasons of the suspects that are likely enough to be printed.
inline std::vector<Reason> reasons(const OplogAnswer& answer) {
  std::vector<Reason> all;
  for (const Suspect& suspect : answer.suspects) {
    if (suspect.score >= 20) all.push_back(suspect.reason);
  }
  return all;
}

}  // namespace idmint::restore
