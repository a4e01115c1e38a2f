// What a run has done to its target, kept there in the database idmint_restore: so that one that
// was killed goes on, and verify knows what to expect.
//
// Collection "progress": _id "run" (fingerprint, stage), "owner:..." of the run that is at work,
// and what others keep under theirs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/server.h"

namespace idmint::restore {

inline constexpr const char* kRecordDatabase = "idmint_restore";
inline constexpr const char* kRecordNamespace = "idmint_restore.progress";

// In their order; each begins when the one before is done.
enum class RunStage : std::uint8_t { kBase, kSlice, kIndexes, kOplog, kDone };
[[nodiscard]] std::string_view name(RunStage stage);

// The write concern of a restore: of a replica set what is never rolled back; durable, too.
void append_concern(bson_t* command, const Server& server, bool durable);

// For one thread; `server` outlives it.
class Record {
 public:
  // What is on the server. Nothing: no run has begun there.
  [[nodiscard]] static Result<std::optional<Record>> find(Server& server);
  // Goes on with the run of this fingerprint, or begins it. kAlreadyExists: another was begun here.
  // The fingerprint says what the outcome depends on: base, oplog, limit, filters. The record is
  // this run's from now on: one before it that is still at work writes nothing to it any more.
  [[nodiscard]] static Result<Record> begin(Server& server, Document fingerprint);
  // Drops the database.
  [[nodiscard]] static Result<void> forget(Server& server);
  // One whose documents, by _id, were kept elsewhere. It is read only. kDataLoss: no run is in
  // them.
  [[nodiscard]] static Result<Record> kept(Server& server, std::map<std::string, Bson> documents);

  // begin() found it there.
  [[nodiscard]] bool resumed() const { return resumed_; }
  [[nodiscard]] RunStage stage() const { return stage_; }
  [[nodiscard]] Document fingerprint() const { return fingerprint_.view(); }
  // kAlreadyExists: it is of another run.
  [[nodiscard]] Result<void> expect(Document fingerprint) const;
  // From now on it is that one. Durable, and by a majority of a replica set.
  [[nodiscard]] Result<void> reach(RunStage stage);

  // Other documents, by _id: "base" and "base:..." are of the base restore, "replay" and
  // "replay:..." of the replay. `fields` is without _id. Durable as reach(). kUnavailable, as with
  // reach(): another run has begun meanwhile.
  [[nodiscard]] Result<void> put(std::string_view id, const bson_t* fields);
  [[nodiscard]] Result<std::optional<Bson>> get(std::string_view id);
  // Those whose _id begins so, by _id.
  [[nodiscard]] Result<std::map<std::string, Bson>> get_all(std::string_view prefix);

  [[nodiscard]] Server& server() { return *server_; }

 private:
  explicit Record(Server& server) : server_(&server) {}

  // Reads the document "run". Nothing: there is none.
  [[nodiscard]] static Result<std::optional<Record>> read(Record record);
  [[nodiscard]] Result<void> own_it();
  [[nodiscard]] Result<void> put_as_owner(const bson_t* document);

  Server* server_;
  std::string owner_{};  // _id of what says that it is ours; empty: nothing does
  Bson fingerprint_ = Bson::none();
  RunStage stage_ = RunStage::kBase;
  bool resumed_ = false;
  std::optional<std::map<std::string, Bson>> kept_{};  // not on the server, but here
};

}  // namespace idmint::restore
