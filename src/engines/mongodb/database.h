// The database of a store: reads and changes its collections one command at a time.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "engines/mongodb/servers.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "mongo/bson.h"
#include "store/engine.h"

namespace idmint::stores::mongodb {

inline constexpr const char* kStore = "idmint.store";  // a collection
inline constexpr const char* kMadeBy = "store";        // the field of a record with its store's id
inline constexpr const char* kClose = R"([{"$set":{"closed":true}}])";  // an update

// Shared by the tables of one store. Threads may share it.
struct Database {
  const std::string url;    // without passwords
  const std::string where;  // for messages
  const milliseconds deadline;
  const Access access;
  const OwnedServers servers;
  Uuid id{};  // of the store; not set before it was found

  using Use = std::function<void(const Document&)>;

  // The deadline of a call that begins now, at the latest `by`. kFailedPrecondition: this is a
  // child of fork(). enter() also: kPermissionDenied: the store was opened read-only.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const;
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const;

  // Changes the one document that `query` matches, and passes its previous content to `before`.
  // False: there is none.
  Result<bool> change(std::string_view collection, Bson query, const Bson& update, SteadyTime until,
                      std::string_view doing, const Use& before) const;

  // Reads the one document that `query` matches, including every acknowledged write. False: there
  // is none.
  Result<bool> read(std::string_view collection, const Bson& query, SteadyTime until,
                    const Use& use) const;
  Result<bool> read(std::string_view collection, std::string_view name, SteadyTime until,
                    const Use& use) const {
    return read(collection, Bson().add("_id", name), until, use);
  }

  // Reads all documents from the name `from` on, sorted by name; string names come first. Reads a
  // page at a time, since no cursor outlives its primary. Stops when `use` returns false.
  Result<void> read_all(std::string_view collection, std::string_view from, SteadyTime until,
                        const std::function<bool(const Document&)>& use) const;

  // A condition on the field kMadeBy for every command that hands something out: this store made
  // the record, or an older version did, which left the field out.
  [[nodiscard]] Bson made_here() const;
  // REQUIRES: a record in `collection` that `which` matches was made by the store `made_by`, if it
  // says so. Does nothing if that is this store or nothing; otherwise it reads the id that the
  // store has now. kFailedPrecondition: another store has taken the place of this one. Otherwise
  // somebody brought the records here, as a restore does, and they become this store's, unless it
  // was opened read-only.
  Result<void> take_over(std::string_view collection, Bson which,
                         const std::optional<Uuid>& made_by, SteadyTime until) const;

  // The same for all records of the collection, of which these stores made some.
  Result<void> take_over(std::string_view collection, const std::set<Uuid>& made_by,
                         SteadyTime until) const;

  // kDataLoss; the message says what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(std::string_view why) const;
};

// The servers keep every acknowledged value, so a store of theirs is never in doubt.
class DatabaseEngine final : public Engine {
 public:
  // Both must outlive it.
  DatabaseEngine(const Database& database, Entropy& entropy)
      : database_(database), entropy_(entropy) {}

  std::string_view shown_url() const noexcept override { return database_.url; }
  Entropy& entropy() const noexcept override { return entropy_; }
  Result<SteadyTime> enter(Purpose purpose, SteadyTime by) override {
    return purpose == Purpose::kRead ? database_.enter_to_read(by) : database_.enter(by);
  }
  Result<void> expect_trust(SteadyTime /*until*/) override { return {}; }

 private:
  const Database& database_;
  Entropy& entropy_;
};

// The UUID in a field. Nothing: there is none.
[[nodiscard]] std::optional<Uuid> uuid_in(const Document& document, const char* key);
void add_uuid(Bson& to, const char* key, const Uuid& id);
// kFailedPrecondition: the store `there` is in the place of `opened`.
[[nodiscard]] Error another_store(const std::string& where, const Uuid& there, const Uuid& opened);
// Whether a record names its store, or names none.
[[nodiscard]] bool names_its_store(const Document& record);

}  // namespace idmint::stores::mongodb
