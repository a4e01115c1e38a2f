// The schema of a store in an SQLite file, and its versions. Version 2, in a file with
// application_id "idmt":
//
//   store        one row:
//                id (16 bytes)
//                inode, born: the file's own; birth time in ns since 1970; NULL: not known
//                volume: the id of its file system (Place); NULL: not known
//                changes: how many transactions changed the store
//                unmarked: how many had changed it when the log was begun, while the file may still
//                lack the mark of that log; NULL: a transaction found the mark
//                settled: Store::settle_count()
//                gone_back: what a process was given and the store does not know of
//                (Store::mark_gone_back()); NULL: nothing
//                boot, boot_clock, clock: at the latest renewal of a lease the boot id of the host,
//                its time since boot and its clock, in ms; NULL: no lease was renewed
//   counters     name, first, last, stride, next, taken_from, closed
//   definitions  name, json (to_json)
//   spaces       name, claimed (how many claims it has), closed
//   claims       space, key
//   workers      pool, worker, token (16 bytes; NULL: no owner), holder, generation,
//                minted_until, taken_from, held_until (ms since 1970),
//                nonce (16 bytes, of the latest extension; NULL: none)
//
// Version 1 had only the first column of `store`, and no nonce. A file of version 1 is upgraded at
// its first opening for writing. A read-only opening leaves it as it is, so read-only statements
// must not name the columns of version 2. An older version 2 lacks `volume`, `settled` and
// `gone_back`, which are added at the first opening for writing: programs of the older version go
// on with the file.
//
// `next` is the next value to hand out. `taken_from` is the start of the latest advance, stored
// only so that the UPDATE can return it. The journal is a write-ahead log with synchronous=FULL:
// the frames of a transaction are on the disk before COMMIT returns, and no value is handed out and
// no claim is acknowledged before that.
//
// user_version has the version in bits 0 to 7 and the nonce of the latest log in bits 8 to 29.
// While the log has changes that the file lacks, the file itself also has kMark (bit 30), and the
// log does not (docs/design/007-sqlite-trust.md). So a file whose log is lost keeps the mark, every
// checkpoint removes the mark, and a log whose nonce the file lacks belongs to another file.
#pragma once

#include "engines/sqlite/connection.h"

namespace idmint::stores::sqlite {

constexpr std::int64_t kApplicationId = 0x69646d74;  // "idmt"
constexpr std::int64_t kVersionBits = 0xff;
constexpr std::int64_t kMark = 0x40000000;

enum class Content : std::uint8_t { kNothing, kVersion1, kOurs };

// The content of the file; reads only. kFailedPrecondition: tables of another program or of a newer
// idmint. kDataLoss: a version that never existed.
[[nodiscard]] Result<Content> identify(Connection& db);

// Whether the row of `store` has the columns that an older version 2 lacks, and what adds them.
// add_columns() REQUIRES: a write transaction is open.
[[nodiscard]] Result<bool> has_all_columns(Connection& db);
[[nodiscard]] Result<void> add_columns(Connection& db);

// The id of the store. kDataLoss: there is none.
[[nodiscard]] Result<Uuid> read_id(Connection& db);

}  // namespace idmint::stores::sqlite
