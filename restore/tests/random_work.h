// Random work on a live replica set: every sort of write and command, with transactions that stay
// open for a while.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "restore/tests/production.h"

namespace idmint::restore {

// The environment's number, or else `usual`.
inline unsigned number_given(const char* variable, unsigned usual) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : usual;
}

// Takes all databases away that are not its own.
inline void empty_server(Server& server) {
  const Result<std::vector<std::string>> databases = list_databases(server);
  ASSERT_TRUE(databases) << databases.error().message();
  std::vector<std::string> all = *databases;
  all.emplace_back("idmint_restore");
  for (const std::string& name : all) {
    const Bson drop = Bson("dropDatabase", 1);
    if (name == "admin" || name == "config" || name == "local") continue;
    ASSERT_TRUE(server.command(name, drop)) << name;
  }
}

// A temporary collection is restored to stay. `options`: as comparable() prints them.
inline void make_permanent(std::string& options) {
  constexpr std::string_view temporary = R"(,"temp":true)";
  const std::size_t at = options.find(temporary);
  if (at != std::string::npos) options.erase(at, temporary.size());
}

// Much of it is refused, as what it needs is not there or a transaction is in its way: the server
// has then done nothing, and so nothing is expected. All of it is done by the thread that calls.
class RandomWork {
 public:
  RandomWork(Production& production, std::mt19937& random)
      : production_(production), random_(random), open_(4) {
    // A server may let the first write of a transaction to a collection wait for the end of another
    // one on it, whatever time the waiting one said it waits.
    production.run("admin", R"({"setParameter":1,"transactionLifetimeLimitSeconds":2})");
    // Documents that its TTL indexes would delete stay, so that a restore that deletes them is
    // seen.
    production.run("admin", R"({"setParameter":1,"ttlMonitorEnabled":false})");
  }
  ~RandomWork() {
    for (Transaction& each : open_) {
      if (each.session != nullptr) end(each, false);
    }
  }
  RandomWork(const RandomWork&) = delete;
  RandomWork& operator=(const RandomWork&) = delete;

  // No base can be taken while collections are renamed.
  bool renames = true;

  void step() {
    const unsigned dice = pick(100);
    if (dice < 20) {
      go_on(open_[pick(open_.size())]);
    } else if (dice < 35) {
      command();
    } else {
      write(nullptr);
    }
  }
  void steps(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) step();
  }
  // Several that begin now have something in them; the last one is prepared. A base begins with the
  // oldest that is prepared, and so would renames before now be within it.
  void open_transactions() {
    for (Transaction& each : open_) {
      if (each.session != nullptr) end(each, true);
    }
    for (Transaction& each : open_) begin(each);
    prepare(open_.back());
  }
  [[nodiscard]] std::size_t done() const { return done_; }

 private:
  struct Transaction {
    mongoc_client_session_t* session = nullptr;
    std::optional<Timestamp> prepared{};
  };

  unsigned pick(std::size_t below) { return static_cast<unsigned>(random_() % below); }
  template <std::size_t N>
  std::string one_of(const std::array<const char*, N>& texts) {
    return texts[pick(N)];
  }
  std::string number(unsigned below) { return std::to_string(pick(below)); }
  std::string database() { return pick(4) == 0 ? "other" : "random"; }
  std::string collection() { return one_of(std::array{"a", "b", "c", "d"}); }
  std::string id() {
    const std::string n = number(30);
    switch (pick(6)) {
      case 0:
        return "\"" + n + "\"";
      case 1:
        return R"({"n":)" + n + "}";
      default:
        return n;
    }
  }
  std::string fields() {
    return R"("x":)" + number(50) + R"(,"n":1,"key":"k)" + number(200) + R"(","text":"word)" +
           number(9) + R"( and )" + std::string(pick(200), 'x') + R"(","list":[1,2,)" + number(9) +
           R"(],"deep":{"a":{"b":)" + number(9) + R"(}},"at":{"$date":"2020-01-01T00:00:00Z"})";
  }

  // Whether it was done. It waits for a moment, not for a transaction that this thread is to end;
  // but for time-series collections, in which there is none, and of which half may be made.
  bool run(const std::string& database, std::string json,
           mongoc_client_session_t* session = nullptr, Bson* answer = nullptr) {
    if (json.find("series") == std::string::npos) {
      json.back() = ',';
      json += json.find("createIndexes") == std::string::npos ? R"("maxTimeMS":20})"
                                                              : R"("maxTimeMS":200})";
    }
    const Result<Bson> command = from_json(json);
    EXPECT_TRUE(command) << json;
    if (!command) return false;
    const Bson options;
    bson_error_t error{};
    if (session != nullptr) mongoc_client_session_append(session, options.get(), &error);
    bson_t reply;
    const bool ok =
        mongoc_client_command_with_opts(production_.server().client(), database.c_str(),
                                        command->get(), nullptr, options.get(), &reply, &error);
    EXPECT_NE(error.domain, static_cast<unsigned>(MONGOC_ERROR_STREAM)) << error.message;
    if (answer != nullptr) *answer = Bson(bson_copy(&reply));
    bson_destroy(&reply);
    done_ += ok ? 1 : 0;
    return ok;
  }

  void write(mongoc_client_session_t* session) {
    const std::string c = R"(":")" + collection() + "\",";
    const std::string q = R"({"q":{"_id":)" + id() + "},";
    const auto update = [&](const std::string& with) {
      return R"({"update)" + c + R"("updates":[)" + with + "]}";
    };
    const std::string database = this->database();
    switch (pick(16)) {
      case 0:
        run(database, update(q + R"("u":{"_id":)" + id() + "," + fields() + R"(},"upsert":true})"),
            session);
        break;
      case 1:
        run(database,
            update(R"({"q":{"x":{"$lt":)" + number(30) +
                   R"(}},"u":{"$inc":{"n":1},"$set":{"deep.a.b":)" + number(9) +
                   R"(}},"multi":true})"),
            session);
        break;
      case 2:
        run(database,
            update(q + R"("u":[{"$set":{"sum":{"$add":["$x","$n"]}}},{"$unset":"text"}]})"),
            session);
        break;
      case 3:
        run(database,
            update(q + R"("u":{"$set":{"list.1":)" + number(9) +
                   R"(},"$unset":{"deep.a":1},"$rename":{"text":"old"}}})"),
            session);
        break;
      case 4:
        run(database, update(q + R"("u":{"$pull":{"list":2},"$mul":{"x":2}}})"), session);
        break;
      case 5:
      case 6:
        run(database, R"({"delete)" + c + R"("deletes":[)" + q + R"("limit":1}]})", session);
        break;
      case 7:
        run(database,
            R"({"delete)" + c + R"("deletes":[{"q":{"x":)" + number(50) + R"(},"limit":0}]})",
            session);
        break;
      case 8:
        run(database,
            R"({"findAndModify)" + c + R"("query":{"_id":)" + id() + R"(},"remove":true})",
            session);
        break;
      case 9:
      case 10:
      case 11:
        run(database,
            R"({"insert)" + c + R"("ordered":false,"documents":[{"_id":)" + id() + "," + fields() +
                R"(},{"_id":)" + id() + "," + fields() + R"(},{"x":)" + number(50) + "}]}",
            session);
        break;
      default:
        run(database,
            update(q + R"("u":{"$set":{"x":)" + number(50) + R"(,"key":"k)" + number(200) +
                   R"("},"$inc":{"n":1},"$push":{"list":{"$each":[)" + number(9) +
                   R"(],"$slice":-5}}},"upsert":true})"),
            session);
    }
  }

  void begin(Transaction& transaction) {
    bson_error_t error{};
    transaction = {};
    transaction.session =
        mongoc_client_start_session(production_.server().client(), nullptr, &error);
    ASSERT_NE(transaction.session, nullptr) << error.message;
    mongoc_client_session_start_transaction(transaction.session, nullptr, &error);
    write(transaction.session);
  }
  void prepare(Transaction& transaction) {
    Bson answer = Bson::none();
    if (!run("admin", R"({"prepareTransaction":1})", transaction.session, &answer)) return;
    const std::optional<Timestamp> when = timestamp_in(answer.view(), "prepareTimestamp");
    ASSERT_TRUE(when);
    transaction.prepared = *when;
  }
  void end(Transaction& transaction, bool commit) {
    bson_error_t error{};
    if (!commit) {
      mongoc_client_session_abort_transaction(transaction.session, &error);
    } else if (transaction.prepared) {
      run("admin",
          R"({"commitTransaction":1,"commitTimestamp":{"$timestamp":{"t":)" +
              std::to_string(transaction.prepared->seconds) + R"(,"i":)" +
              std::to_string(transaction.prepared->ordinal) + "}}}",
          transaction.session);
    } else {
      bson_t reply;
      mongoc_client_session_commit_transaction(transaction.session, &reply, &error);
      bson_destroy(&reply);
    }
    mongoc_client_session_destroy(transaction.session);
    transaction = {};
  }
  void go_on(Transaction& transaction) {
    if (transaction.session == nullptr) return begin(transaction);
    const unsigned dice = pick(10);
    if (dice < 2 || (transaction.prepared && dice < 5)) return end(transaction, dice != 0);
    if (transaction.prepared) return;
    if (dice < 3) return prepare(transaction);
    if (dice < 4) {
      run("random", R"({"create":"in_transaction)" + number(3) + "\"}", transaction.session);
    } else {
      write(transaction.session);
    }
  }

  void command() {
    const std::string db = database();
    const std::string c = collection();
    const std::string named = R"(":")" + c + '"';
    switch (pick(renames ? 19 : 15)) {
      case 0:
        run(db, R"({"create)" + named +
                    one_of(std::array{
                        "}", R"(,"validator":{"x":{"$lt":40}},"validationLevel":"moderate"})",
                        R"(,"collation":{"locale":"de","strength":1}})",
                        R"(,"changeStreamPreAndPostImages":{"enabled":true}})"}));
        break;
      case 1:
        run(db, R"({"drop)" + named + "}");
        break;
      case 2:
      case 3:
      case 4:
        run(db,
            R"({"createIndexes)" + named + R"(,"indexes":[)" +
                one_of(std::array{
                    R"({"key":{"x":1},"name":"x"})",
                    R"({"key":{"key":1},"name":"key","unique":true,
                        "partialFilterExpression":{"key":{"$exists":true}}})",
                    R"({"key":{"text":"text"},"name":"text"})",
                    R"({"key":{"list":1,"n":-1},"name":"list"},{"key":{"n":"hashed"},"name":"h"})",
                    R"({"key":{"deep.$**":1},"name":"deep"})",
                    R"({"key":{"at":1},"name":"at","expireAfterSeconds":100000})",
                    R"({"key":{"old":1},"name":"old","sparse":true,"collation":{"locale":"sv"}})"}) +
                "]}");
        break;
      case 5:
        run(db, R"({"dropIndexes)" + named + R"(,"index":")" +
                    one_of(std::array{"x", "key", "text", "list", "deep", "at", "*"}) + "\"}");
        break;
      case 6:
        run(db, R"({"collMod)" + named + "," +
                    one_of(std::array{R"("validator":{"n":{"$lt":1000}})", R"("validator":{})",
                                      R"("index":{"name":"x","hidden":true})",
                                      R"("index":{"name":"x","hidden":false})",
                                      R"("index":{"name":"at","expireAfterSeconds":200000})",
                                      R"("index":{"name":"x","prepareUnique":true})"}) +
                    "}");
        break;
      case 7:
        run(db, R"({"create":"seen","viewOn":")" + c + R"(","pipeline":[{"$match":{"x":)" +
                    number(9) + "}}]}");
        break;
      case 8:
        run(db, pick(2) == 0 ? std::string(R"({"drop":"seen"})")
                             : R"({"collMod":"seen","viewOn":")" + c + R"(","pipeline":[]})");
        break;
      case 9:
        run(db, R"({"create":"series","timeseries":{"timeField":"t","metaField":"m"}})");
        run(db, R"({"insert":"series","documents":[{"t":{"$date":"2026-01-01T00:00:0)" + number(9) +
                    R"(Z"},"m":)" + number(3) + R"(,"x":)" + number(50) + "}]}");
        break;
      case 10:
        run(db, one_of(std::array{
                    R"({"drop":"series"})",
                    R"({"createIndexes":"series","indexes":[{"key":{"m":1},"name":"m"}]})",
                    R"({"collMod":"series","timeseries":{"granularity":"minutes"}})",
                    R"({"delete":"series","deletes":[{"q":{"m":1},"limit":0}]})"}));
        break;
      case 11:
        // Apart from the others, as no create makes what convertToCapped makes of it.
        run(db, R"({"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true}})");
        run(db, R"({"update":"clustered","updates":[{"q":{"_id":)" + id() +
                    R"(},"u":{"$inc":{"n":1}},"upsert":true},{"q":{"_id":)" + id() +
                    R"(},"u":{"_id":)" + id() + R"(}}]})");
        run(db, R"({"create":"capped","capped":true,"size":4096,"max":7})");
        run(db, R"({"insert":"capped","documents":[{"n":)" + number(99) + R"(},{"n":)" +
                    number(99) + "}]}");
        break;
      case 12:
        run(db, one_of(std::array{
                    R"({"drop":"capped"})", R"({"emptycapped":"capped"})",
                    R"({"update":"capped","updates":[{"q":{},"u":{"$inc":{"n":1}}}]})",
                    R"({"insert":"capped","documents":[{"n":1},{"n":2},{"n":3},{"n":4}]})"}));
        break;
      case 13:
        run(db, R"({"aggregate)" + named + R"(,"pipeline":[{"$match":{"x":{"$gt":)" + number(50) +
                    R"(}}},{"$unset":"key"},{"$merge":{"into":")" + collection() +
                    R"("}}],"cursor":{}})");
        break;
      case 14:
        if (pick(4) == 0) {
          run("other", R"({"dropDatabase":1})");
        } else {
          // The _id is not there yet: no oplog has the document that an insert of applyOps
          // overwrites.
          run("admin", R"({"applyOps":[{"op":"i","ns":"random.)" + c + R"(","o":{"_id":"applied )" +
                           std::to_string(++applied_) + R"("}}]})");
        }
        break;
      case 15:
        run(db, R"({"aggregate)" + named + R"(,"pipeline":[{"$unset":"key"},{"$out":")" +
                    collection() + R"("}],"cursor":{}})");
        break;
      case 16:
        run(db, R"({"convertToCapped)" + named + R"(,"size":100000})");
        break;
      default:
        run("admin", R"({"renameCollection":")" + db + "." + c + R"(","to":")" + database() + "." +
                         collection() + R"(","dropTarget":)" + (pick(2) == 0 ? "true" : "false") +
                         "}");
    }
  }

  Production& production_;
  std::mt19937& random_;
  std::vector<Transaction> open_;
  std::size_t done_ = 0;
  int applied_ = 0;
};

}  // namespace idmint::restore
