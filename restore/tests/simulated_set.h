// A replica set that exists only as its oplog: entries as MongoDB 6.0 writes them, at the times of
// a simulated clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mongo/bson.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// The same calls make the same entries, byte by byte.
//
// A driver sends each single write under the session of its connection, so the entry has lsid and
// txnNumber. An update or delete of many documents, the TTL monitor, $out and $merge write without.
class SimulatedSet {
 public:
  static constexpr int kNoSession = -1;

  // Gives each entry to `take` as it is written.
  explicit SimulatedSet(std::function<void(mongo::Document)> take) : take_(std::move(take)) {}

  // Runs `task` about every `period` milliseconds from now on, whenever the clock is moved.
  void every(double period, std::function<void()> task) {
    tasks_.push_back({.next = static_cast<double>(now_) + period * uniform(),
                      .period = period,
                      .task = std::move(task)});
  }
  // Moves the clock, and runs the tasks that are due.
  void wait(std::int64_t milliseconds) {
    const std::int64_t end = now_ + milliseconds;
    for (;;) {
      Task* first = nullptr;
      for (Task& each : tasks_) {
        if (first == nullptr || each.next < first->next) first = &each;
      }
      if (first == nullptr || first->next > static_cast<double>(end)) break;
      now_ = std::max(now_, static_cast<std::int64_t>(first->next));
      first->next += first->period * (0.5 + uniform());
      first->task();
    }
    now_ = std::max(now_, end);
  }
  // As wait(), for a command that is at work: no task runs in between.
  void work(std::int64_t milliseconds) { now_ += milliseconds; }
  [[nodiscard]] std::chrono::milliseconds now() const { return std::chrono::milliseconds(now_); }

  // From 0 up to but not including `end`.
  std::int64_t random(std::int64_t end) {
    return static_cast<std::int64_t>(next_random() % static_cast<std::uint64_t>(end));
  }
  // 12 hexadecimal digits.
  std::string random_name() {
    std::string name;
    for (int i = 0; i < 12; ++i) name += "0123456789abcdef"[random(16)];
    return name;
  }

  // Each returns the time of its entry.
  Timestamp insert(const char* ns, const mongo::Bson& document, int session = kNoSession) {
    return write("i", ns, document, nullptr, session);
  }
  // `diff` as {u: {field: value}}.
  Timestamp update(const char* ns, std::int64_t id, const mongo::Bson& diff,
                   int session = kNoSession) {
    const mongo::Bson of("_id", id);
    return write("u", ns, mongo::Bson("$v", 2, "diff", diff), &of, session);
  }
  Timestamp replace(const char* ns, std::int64_t id, const mongo::Bson& document,
                    int session = kNoSession) {
    const mongo::Bson of("_id", id);
    return write("u", ns, document, &of, session);
  }
  Timestamp remove(const char* ns, std::int64_t id, int session = kNoSession) {
    return write("d", ns, mongo::Bson("_id", id), nullptr, session);
  }
  Timestamp command(const std::string& database, const mongo::Bson& o,
                    const mongo::Bson* o2 = nullptr) {
    return write("c", (database + ".$cmd").c_str(), o, o2, kNoSession);
  }
  Timestamp create(const std::string& database, const std::string& collection) {
    return command(database,
                   mongo::Bson("create", collection.c_str(), "idIndex",
                               mongo::Bson("v", 2, "key", mongo::Bson("_id", 1), "name", "_id_")));
  }
  Timestamp drop(const std::string& database, const std::string& collection,
                 std::int64_t documents) {
    const mongo::Bson records("numRecords", documents);
    return command(database, mongo::Bson("drop", collection.c_str()), &records);
  }
  // `documents`: the number in the collection that is replaced; negative: none is replaced.
  Timestamp rename(const std::string& database, const std::string& from, const std::string& to,
                   std::int64_t documents) {
    mongo::Bson o("renameCollection", (database + "." + from).c_str(), "to",
                  (database + "." + to).c_str(), "stayTemp", false);
    if (documents < 0) return command(database, o);
    o.add_binary("dropTarget", BSON_SUBTYPE_UUID, std::string(16, 'u'));
    const mongo::Bson records("numRecords", documents);
    return command(database, o, &records);
  }
  // Builds an index of a collection that has documents. Returns the timestamp of the first of its
  // two entries.
  Timestamp build_index(const std::string& database, const std::string& collection,
                        const mongo::Bson& spec) {
    const auto entry = [&](const char* name) {
      mongo::Bson o(name, collection.c_str());
      o.add_binary("indexBuildUUID", BSON_SUBTYPE_UUID, std::string(16, 'b'));
      return command(database, o.add("indexes", mongo::array(spec)));
    };
    const Timestamp first = entry("startIndexBuild");
    work(100);
    entry("commitIndexBuild");
    return first;
  }
  // A part of a transaction, with the operations of `batch`. `last`: it commits.
  Timestamp transaction(int session, const mongo::BsonArray& batch, bool last) {
    mongo::Bson o;
    o.add("applyOps", batch);
    if (!last) o.add("partialTxn", true);
    const Timestamp at = write("c", "admin.$cmd", o, nullptr, session, true);
    in_transaction_ = last ? Timestamp{} : at;
    return at;
  }
  static mongo::Bson operation(const char* op, const char* ns, const mongo::Bson& o,
                               const mongo::Bson* o2 = nullptr) {
    mongo::Bson made("op", op, "ns", ns);
    made.add_binary("ui", BSON_SUBTYPE_UUID, std::string(16, 'u'));
    made.add("o", o);
    if (o2 != nullptr) made.add("o2", *o2);
    return made;
  }
  void noop() { write("n", "", mongo::Bson("msg", "periodic noop"), nullptr, kNoSession); }

 private:
  struct Task {
    double next = 0;
    double period = 0;
    std::function<void()> task{};
  };

  std::uint64_t next_random() {
    random_ += 0x9e3779b97f4a7c15;
    std::uint64_t word = random_;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
  }
  double uniform() { return static_cast<double>(next_random() >> 11) * 0x1p-53; }

  Timestamp write(const char* op, const char* ns, const mongo::Bson& o, const mongo::Bson* o2,
                  int session, bool in_transaction = false) {
    const auto second = static_cast<std::uint32_t>(now_ / 1000);
    at_ = {.seconds = second, .ordinal = second == at_.seconds ? at_.ordinal + 1 : 1};
    mongo::Bson entry;
    if (session != kNoSession) {
      std::string id(16, 's');
      id[0] = static_cast<char>(session);
      id[1] = static_cast<char>(session >> 8);
      mongo::Bson lsid;
      lsid.add_binary("id", BSON_SUBTYPE_UUID, id);
      lsid.add_binary("uid", BSON_SUBTYPE_BINARY, std::string(32, 'n'));
      if (in_transaction_ == Timestamp{}) ++number_;
      entry.add("lsid", lsid).add("txnNumber", number_);
    }
    entry.add("op", op).add("ns", ns);
    if (*op != 'c' && *op != 'n') entry.add_binary("ui", BSON_SUBTYPE_UUID, std::string(16, 'u'));
    entry.add("o", o);
    if (o2 != nullptr) entry.add("o2", *o2);
    if (session != kNoSession && !in_transaction) entry.add("stmtId", 0);
    entry.add("ts", mongo::BsonTimestamp{.seconds = at_.seconds, .ordinal = at_.ordinal})
        .add("t", std::int64_t{1})
        .add("v", std::int64_t{2})
        .add("wall", now());
    if (session != kNoSession) {
      const bool begins = in_transaction_ == Timestamp{};
      entry.add("prevOpTime", mongo::Bson("ts",
                                          mongo::BsonTimestamp{.seconds = in_transaction_.seconds,
                                                               .ordinal = in_transaction_.ordinal},
                                          "t", std::int64_t{begins ? -1 : 1}));
    }
    take_(entry.view());
    return at_;
  }

  std::function<void(mongo::Document)> take_;
  std::vector<Task> tasks_;
  std::int64_t now_ = 1'795'000'000'000;
  std::uint64_t random_ = 1;
  std::int64_t number_ = 0;  // txnNumber
  Timestamp at_{};
  Timestamp in_transaction_{};  // its last entry; none: no transaction is open
};

}  // namespace idmint::restore
