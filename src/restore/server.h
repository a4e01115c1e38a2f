// The servers that a URI names, for commands one at a time.
#pragma once

#include <mongoc/mongoc.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/result.h"
#include "restore/document.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// A document of our own, made with BCON_NEW or bson_new(). No std::unique_ptr: bson_t has an
// alignment, which template arguments lose.
class OwnDocument {
 public:
  OwnDocument() = default;
  explicit OwnDocument(bson_t* document) : document_(document) {}
  ~OwnDocument() { bson_destroy(document_); }
  OwnDocument(OwnDocument&& other) noexcept : document_(std::exchange(other.document_, nullptr)) {}
  OwnDocument& operator=(OwnDocument&& other) noexcept {
    std::swap(document_, other.document_);
    return *this;
  }

  [[nodiscard]] bson_t* get() const { return document_; }
  // REQUIRES: there is one.
  [[nodiscard]] Document view() const { return Document::of(document_); }

 private:
  bson_t* document_ = nullptr;
};

[[nodiscard]] inline OwnDocument own(bson_t* document) { return OwnDocument(document); }
// Of extended JSON. kInvalidArgument: it is none.
[[nodiscard]] Result<OwnDocument> from_json(std::string_view json);
// Canonical, and relaxed for people.
[[nodiscard]] std::string to_canonical_json(Document document);
[[nodiscard]] std::string to_relaxed_json(Document document);

// How an error of the driver or a server is told: what was tried, and what was answered.
// kUnavailable: nobody answered, or who did stops, steps down, recovers or has ended the cursor.
// kOutOfRange: a capped collection rolled over what was to be read next. kPermissionDenied: a right
// is missing. kUnauthenticated. kFailedPrecondition: any other refusal of a server.
[[nodiscard]] Error told(const std::string& tried, const bson_error_t& error);

struct PreferenceDeleter {
  void operator()(mongoc_read_prefs_t* preference) const { mongoc_read_prefs_destroy(preference); }
};
using Preference = std::unique_ptr<mongoc_read_prefs_t, PreferenceDeleter>;
// Where a client reads: as its URI says; by default from the primary or, while there is none, from
// a secondary.
[[nodiscard]] Preference read_preference(const mongoc_client_t* client);

struct MongocClientDeleter {
  void operator()(mongoc_client_t* client) const { mongoc_client_destroy(client); }
};

// A connection. For one thread; another takes another().
class Server {
 public:
  // Connects, and asks who it is. kInvalidArgument: no such URI, as check_mongodb_url() says too.
  // kFailedPrecondition: a sharded cluster, whose mongos or shard this is; the restore of one is
  // another procedure.
  [[nodiscard]] static Result<Server> connect(const std::string& uri);
  [[nodiscard]] Result<Server> another() const;

  // The reply of the primary; ok is 1.
  [[nodiscard]] Result<OwnDocument> command(const char* database, const bson_t* command);
  // Of a command that only reads: by read_preference().
  [[nodiscard]] Result<OwnDocument> read(const char* database, const bson_t* command);
  [[nodiscard]] mongoc_client_t* client() { return client_.get(); }

  // "6.0.5"; of a replica set its name, else empty.
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::string& set_name() const { return set_name_; }
  // redacted().
  [[nodiscard]] const std::string& shown_uri() const { return shown_; }

 private:
  Server() = default;
  [[nodiscard]] Result<OwnDocument> run(const char* database, const bson_t* command,
                                        const mongoc_read_prefs_t* preference);

  std::string uri_;
  std::string shown_;
  std::unique_ptr<mongoc_client_t, MongocClientDeleter> client_;
  std::string version_;
  std::string set_name_;
};

}  // namespace idmint::restore
