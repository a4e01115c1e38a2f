// Tests change a live server, and dump its oplog.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restore/oplog/fields.h"
#include "restore/replay/state.h"
#include "restore/server.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// A connection to a server that tests write to.
class Production {
 public:
  explicit Production(const std::string& uri) : server_(connect(uri)) {}

  [[nodiscard]] Server& server() { return server_; }

  // The reply. A refusal fails the test.
  Bson run(const std::string& database, const std::string& json,
           mongoc_client_session_t* session = nullptr) {
    Result<Bson> command = from_json(json);
    EXPECT_TRUE(command) << json;
    if (!command) return Bson();
    Bson options;
    bson_error_t error{};
    if (session != nullptr && !mongoc_client_session_append(session, options.get(), &error))
      ADD_FAILURE() << error.message;
    bson_t reply;
    const bool ok = mongoc_client_command_with_opts(
        server_.client(), database.c_str(), command->get(), nullptr, options.get(), &reply, &error);
    EXPECT_TRUE(ok) << json << ": " << error.message;
    Bson copy = Bson::taken_from(&reply);
    EXPECT_FALSE(copy.view().has("writeErrors")) << json << ": " << to_relaxed_json(copy.view());
    return copy;
  }
  void insert(const std::string& ns, const std::string& documents,
              mongoc_client_session_t* session = nullptr) {
    const std::size_t dot = ns.find('.');
    run(ns.substr(0, dot),
        R"({"insert":")" + ns.substr(dot + 1) + R"(","documents":[)" + documents + "]}", session);
  }

  mongoc_client_session_t* begin() {
    bson_error_t error{};
    mongoc_client_session_t* const session =
        mongoc_client_start_session(server_.client(), nullptr, &error);
    EXPECT_NE(session, nullptr) << error.message;
    EXPECT_TRUE(mongoc_client_session_start_transaction(session, nullptr, &error)) << error.message;
    return session;
  }
  static void commit(mongoc_client_session_t* session) {
    bson_error_t error{};
    bson_t reply;
    EXPECT_TRUE(mongoc_client_session_commit_transaction(session, &reply, &error)) << error.message;
    bson_destroy(&reply);
    mongoc_client_session_destroy(session);
  }
  static void abort(mongoc_client_session_t* session) {
    bson_error_t error{};
    mongoc_client_session_abort_transaction(session, &error);
    mongoc_client_session_destroy(session);
  }

  // The timestamp of the last entry of its oplog, after one more was written.
  Timestamp now() {
    run("admin", R"({"appendOplogNote":1,"data":{"of":"a test"}})");
    Timestamp last{};
    for_each_entry({}, true,
                   [&](Document entry) { last = timestamp_in(entry, "ts").value_or(last); });
    return last;
  }
  // All from `from` on, as mongodump writes them.
  void dump_oplog(Timestamp from, const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    for_each_entry(from, false, [&](Document entry) {
      file.write(reinterpret_cast<const char*>(entry.bytes().data()),
                 static_cast<std::streamsize>(entry.bytes().size()));
    });
  }

 private:
  static Server connect(const std::string& uri) {
    Result<Server> server = Server::connect(uri);
    if (!server) {
      ADD_FAILURE() << server.error().message();
      std::abort();
    }
    return *std::move(server);
  }

  template <class Take>
  void for_each_entry(Timestamp from, bool last, const Take& take) {
    mongoc_collection_t* const oplog =
        mongoc_client_get_collection(server_.client(), "local", "oplog.rs");
    const Bson filter = Bson("ts", Bson("$gte", BsonTimestamp{from.seconds, from.ordinal}));
    const Bson options =
        last ? Bson("sort", Bson("$natural", -1), "limit", std::int64_t{1}) : Bson();
    mongoc_cursor_t* const cursor =
        mongoc_collection_find_with_opts(oplog, filter.get(), options.get(), nullptr);
    const bson_t* each = nullptr;
    while (mongoc_cursor_next(cursor, &each)) take(Document::of(each));
    bson_error_t error{};
    EXPECT_FALSE(mongoc_cursor_error(cursor, &error)) << error.message;
    mongoc_cursor_destroy(cursor);
    mongoc_collection_destroy(oplog);
  }

  Server server_;
};

// Each difference a line.
inline std::string in_lines(const std::vector<Difference>& all) {
  std::string text;
  for (const Difference& each : all)
    text += each.ns + ": " + each.what + " is " + each.is + ", should be " + each.should_be + "\n";
  return text;
}

inline State state_of(Server& server) {
  Result<State> state = read_state(server, {});
  EXPECT_TRUE(state) << state.error().message();
  return state ? *std::move(state) : State{};
}

}  // namespace idmint::restore
