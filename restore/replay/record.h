// The record of a run on its target, in the database idmint_restore. A killed run continues from
// it, and verify learns from it what to expect.
//
// Collection "progress": _id "run" (fingerprint, stage), "owner:..." for the running run, and the
// documents of other parts under their own _id.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/server.h"

namespace idmint::restore {

// The subject of the error of Record::expect().
inline constexpr std::string_view kAnotherRestore = "another restore";
inline constexpr const char* kRecordNamespace = "idmint_restore.progress";

// In order; each begins when the one before is done.
enum class RunStage : std::uint8_t { kBase, kSlice, kIndexes, kOplog, kDone };
[[nodiscard]] std::string_view name(RunStage stage);

// A text that no other process makes.
[[nodiscard]] std::string unique_text();

// The command with the write concern of a restore: majority on a replica set; with `durable` also
// journal.
[[nodiscard]] Bson with_concern(Bson command, const Server& server, bool durable = true);

// For one thread. `server` must outlive it.
class Record {
 public:
  // Reads the record on the server. nullopt: no run has begun there.
  [[nodiscard]] static Result<std::optional<Record>> find(Server& server);
  // Continues the run with this fingerprint, or begins it. The fingerprint has what determines the
  // outcome: base, oplog, limit, filters. This run owns the record from now on, and an earlier one
  // that still runs can no longer write to it. kAlreadyExists: another run has begun here.
  [[nodiscard]] static Result<Record> begin(Server& server, Document fingerprint);
  // Drops the database.
  [[nodiscard]] static Result<void> forget(Server& server);
  // A read-only record from documents, by _id, that were kept elsewhere. kDataLoss: they have no
  // run.
  [[nodiscard]] static Result<Record> kept(Server& server, std::map<std::string, Bson> documents);

  // Whether begin() found an earlier run.
  [[nodiscard]] bool resumed() const { return resumed_; }
  [[nodiscard]] RunStage stage() const { return stage_; }
  [[nodiscard]] Document fingerprint() const { return fingerprint_.view(); }
  // Whether the run restores users and roles.
  [[nodiscard]] bool users() const { return fingerprint().boolean("users").value_or(false); }
  // kAlreadyExists: the record is of another run; the subject is kAnotherRestore.
  [[nodiscard]] Result<void> expect(Document fingerprint) const;
  // Sets the stage, durably and with write concern majority on a replica set. Errors: those of
  // put().
  [[nodiscard]] Result<void> reach(RunStage stage);

  // Other documents, by _id: "base" and "base:..." belong to the base restore, "replay" and
  // "replay:..." to the replay. `fields` has no _id. put() is durable like reach(). kUnavailable:
  // another run has begun meanwhile.
  [[nodiscard]] Result<void> put(std::string_view id, const Bson& fields);
  [[nodiscard]] Result<std::optional<Bson>> get(std::string_view id);
  // All documents whose _id begins with `prefix`, by _id.
  [[nodiscard]] Result<std::map<std::string, Bson>> get_all(std::string_view prefix);

  [[nodiscard]] Server& server() { return *server_; }

 private:
  explicit Record(Server& server) : server_(&server) {}

  // Reads the document "run". nullopt: there is none.
  [[nodiscard]] static Result<std::optional<Record>> read(Record record);
  [[nodiscard]] Result<void> own_it();
  [[nodiscard]] Result<void> put_as_owner(const Bson& document);

  Server* server_;
  std::string owner_{};  // _id of our "owner:..." document; empty: none
  Bson fingerprint_ = Bson::none();
  RunStage stage_ = RunStage::kBase;
  bool resumed_ = false;
  std::optional<std::map<std::string, Bson>> kept_{};  // if read-only: its documents
};

}  // namespace idmint::restore
