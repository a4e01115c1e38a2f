// The smallest durable write of a MongoDB replica set: an update by _id of one field, by the driver
// alone, without the transaction number that a retry would need.
#pragma once

#include <mongoc/mongoc.h>

#include <cstdint>
#include <string>

namespace idmint {

// Threads may share it.
class SmallestWrites final {
 public:
  explicit SmallestWrites(const std::string& url)
      : uri_(without_retries(url)), pool_(mongoc_client_pool_new(uri_)) {}
  ~SmallestWrites() {
    mongoc_client_pool_destroy(pool_);
    mongoc_uri_destroy(uri_);
  }
  SmallestWrites(const SmallestWrites&) = delete;
  SmallestWrites& operator=(const SmallestWrites&) = delete;

  // Makes the documents 0 to documents - 1.
  [[nodiscard]] bool make(std::int64_t documents) {
    bool made = true;
    for (std::int64_t i = 0; i < documents; ++i) made = write(i, true) && made;
    return made;
  }

  [[nodiscard]] bool write(std::int64_t id, bool upsert = false) {
    mongoc_client_t* const client = mongoc_client_pool_pop(pool_);
    bson_t* const command =
        BCON_NEW("update", "floor", "updates", "[", "{", "q", "{", "_id", BCON_INT64(id), "}", "u",
                 "{", "$inc", "{", "n", BCON_INT64(1), "}", "}", "upsert", BCON_BOOL(upsert), "}",
                 "]", "writeConcern", "{", "w", BCON_UTF8("majority"), "j", BCON_BOOL(true), "}");
    bson_t reply;
    bson_error_t error;
    const bool done = mongoc_client_write_command_with_opts(client, "bench_floor", command, nullptr,
                                                            &reply, &error);
    bson_iter_t n;
    const bool found = done && bson_iter_init_find(&n, &reply, "n") && bson_iter_as_int64(&n) == 1;
    bson_destroy(&reply);
    bson_destroy(command);
    mongoc_client_pool_push(pool_, client);
    return found;
  }

 private:
  static mongoc_uri_t* without_retries(const std::string& url) {
    mongoc_uri_t* const uri = mongoc_uri_new(url.c_str());
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
    return uri;
  }

  mongoc_uri_t* uri_;
  mongoc_client_pool_t* pool_;
};

}  // namespace idmint
