// The schema of a store in an SQLite file, and its versions. Version 2, in a file with
// application_id "idmt":
//
//   store        one row:
//                id (16 bytes)
//                inode, born: the file's own; birth time in ns since 1970; NULL: not known
//                changes: how many transactions changed the store
//                unmarked: how many had changed it when the log was begun, while the file may still
//                lack the mark of that log; NULL: a transaction found the mark
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
// Version 1 had only the first column of `store`, and no nonce. A file of version 1 is upgraded
// when it is first opened for writing. Opened to read only it stays as it is, so statements that
// only read must not name the columns of version 2.
//
// `next` is what the next advance hands out. `taken_from` is where the latest one began; it is kept
// only so that the UPDATE can return it. The journal is a write-ahead log with synchronous=FULL:
// the frames of a transaction are on the disk before COMMIT returns, and no value is handed out and
// no claim is acknowledged before that.
//
// user_version has the version in bits 0 to 7 and the nonce of the latest log in bits 8 to 29.
// While the log holds changes that the file does not, the file itself has kMark (bit 30) too, and
// the log does not (docs/design/007-sqlite-trust.md). A file whose log is lost is left with the
// mark, every checkpoint removes the mark, and a log whose nonce the file does not have is the log
// of another file.
#pragma once

#include "stores/sqlite/connection.h"

namespace idmint::stores::sqlite {

constexpr std::int64_t kApplicationId = 0x69646d74;  // "idmt"
constexpr std::int64_t kVersionBits = 0xff;
constexpr std::int64_t kMark = 0x40000000;

class TrustedFile;

enum class Content : std::uint8_t { kNothing, kVersion1, kOurs };

// What the file holds; it is only read. kFailedPrecondition: another program's tables, or those of
// a newer idmint. kDataLoss: no version that there ever was.
[[nodiscard]] Result<Content> identify(Connection& db);

// Makes or upgrades the tables. Of two processes that do so at once, one does it, and the other
// finds it done.
[[nodiscard]] Result<void> make_schema(TrustedFile& file);

// The id of the store. kDataLoss: there is none.
[[nodiscard]] Result<Uuid> read_id(Connection& db);

}  // namespace idmint::stores::sqlite
