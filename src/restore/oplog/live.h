// The oplog of a running member of a replica set.
//
// Only what a majority has is read, so that nothing comes along that is rolled back later. Any
// member will do, but one connection asks one: members do not reach equally far back and forth.
#pragma once

#include <optional>

#include "idmint/result.h"
#include "mongo/document.h"
#include "restore/oplog/member.h"
#include "restore/timestamp.h"

namespace idmint::restore {

// Both ends are within.
struct OplogSpan {
  Timestamp from{};
  Timestamp to{.seconds = UINT32_MAX, .ordinal = UINT32_MAX};
};

struct OplogWindow {
  Timestamp first{};
  Timestamp last{};
};

// Member::choose() of those that a URI names. kNotFound: a standalone, which has no oplog.
[[nodiscard]] Result<Member> connect_to_oplog(const std::string& uri,
                                              const ConnectOptions& options = {});

// From the oldest entry that the oplog still has to the newest that a majority has.
[[nodiscard]] Result<OplogWindow> oplog_window(Member& member);

// The first entry from that timestamp on. An empty document: there is none.
[[nodiscard]] Result<Bson> oplog_entry_from(Member& member, Timestamp at);

// For one thread.
class LiveOplog {
 public:
  // With `follow`, it goes on with what is written later. `member` must outlive this.
  LiveOplog(Member& member, const OplogSpan& span, bool follow);

  // Valid until the next call. Nothing: the end, or with `follow`, nothing new for a second.
  // kUnavailable: the connection or the member is lost; a new one may go on. kOutOfRange: the oplog
  // rolled over what was to come next.
  [[nodiscard]] Result<std::optional<Document>> next();

 private:
  Member* member_;
  bool follow_;
  Bson command_ = Bson::none();  // for the next batch; none: the end
  Member::Batch batch_{};        // that rest_ is in
  bson_iter_t rest_{};
};

}  // namespace idmint::restore
