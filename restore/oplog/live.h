// The oplog of a running member of a replica set.
//
// Reads only entries that a majority has, so that nothing is read that is rolled back later. Any
// member will do, but a connection stays with one, because members differ in their oldest and
// newest entries.
#pragma once

#include <optional>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/member.h"
#include "restore/timestamp.h"

namespace idmint::restore {

struct OplogWindow {
  Timestamp first{};
  Timestamp last{};
};

// Member::choose() among the servers of the URI. kNotFound: a standalone, which has no oplog.
[[nodiscard]] Result<Member> connect_to_oplog(const std::string& uri,
                                              const ConnectOptions& options = {});

// From the oldest entry in the oplog to the newest that a majority has.
[[nodiscard]] Result<OplogWindow> oplog_window(Member& member);

// The first entry at or after `at`. An empty document: there is none.
[[nodiscard]] Result<Bson> oplog_entry_from(Member& member, Timestamp at);

// For one thread.
class LiveOplog {
 public:
  // With `follow`, continues with entries that are written later. `member` must outlive this.
  LiveOplog(Member& member, const OplogSpan& span, bool follow);

  // Valid until the next call. nullopt: the end; with `follow`, nothing new for a second. Errors:
  // - kUnavailable: the connection or the member is lost; a new LiveOplog can continue.
  // - kOutOfRange: the oplog rolled over the next entry.
  [[nodiscard]] Result<std::optional<Document>> next();

 private:
  Member* member_;
  bool follow_;
  Bson command_ = Bson::none();  // for the next batch; none: the end
  Member::Batch batch_{};        // the memory of rest_
  Fields rest_{Document{}};
};

}  // namespace idmint::restore
