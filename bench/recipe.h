// The recipe that everybody writes first: one findAndModify for each id, with write concern
// majority and journal.
#pragma once

#include <mongoc/mongoc.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "load.h"

namespace idmint::bench {

class Recipe {
 public:
  Recipe(const std::string& url, std::size_t callers) {
    bson_error_t error{};
    mongoc_uri_t* const uri = mongoc_uri_new_with_error(url.c_str(), &error);
    if (uri == nullptr) fail(error.message);
    mongoc_uri_set_option_as_int32(uri, MONGOC_URI_MAXPOOLSIZE, static_cast<int>(callers) + 1);
    pool_ = mongoc_client_pool_new_with_error(uri, &error);
    mongoc_uri_destroy(uri);
    if (pool_ == nullptr) fail(error.message);
    mongoc_client_pool_set_error_api(pool_, MONGOC_ERROR_API_VERSION_2);
    const Client client = pop();
    bson_t* const document = json(R"({"update":"recipe","updates":[{"q":{"_id":"COUNT"},)"
                                  R"("u":{"$setOnInsert":{"COUNT":{"$numberLong":"0"}}},)"
                                  R"("upsert":true}]})");
    run(client.get(), document);
    bson_destroy(document);
  }
  ~Recipe() { mongoc_client_pool_destroy(pool_); }
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;

  // For one thread.
  [[nodiscard]] std::function<void()> caller() {
    bson_t* const command =
        json(R"({"findAndModify":"recipe","query":{"_id":"COUNT"},"update":{"$inc":{"COUNT":)"
             R"({"$numberLong":"1"}}}})");
    const std::shared_ptr<void> owner(
        command, [](void* document) { bson_destroy(static_cast<bson_t*>(document)); });
    return [client = std::shared_ptr(pop()), command, owner] { run(client.get(), command); };
  }

  using Client = std::unique_ptr<mongoc_client_t, std::function<void(mongoc_client_t*)>>;
  Client pop() {
    return {mongoc_client_pool_pop(pool_),
            [this](mongoc_client_t* client) { mongoc_client_pool_push(pool_, client); }};
  }
  static bson_t* json(const std::string& text) {
    bson_error_t error{};
    bson_t* const document = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(text.data()),
                                                static_cast<ssize_t>(text.size()), &error);
    if (document == nullptr) fail(error.message);
    return document;
  }
  static void run(mongoc_client_t* client, const bson_t* command) {
    static bson_t* const options = json(R"({"writeConcern":{"w":"majority","j":true}})");
    bson_t reply;
    bson_error_t error{};
    const bool ok =
        mongoc_client_write_command_with_opts(client, "bench", command, options, &reply, &error);
    bson_destroy(&reply);
    if (!ok) fail(error.message);
  }

 private:
  mongoc_client_pool_t* pool_ = nullptr;
};

}  // namespace idmint::bench
