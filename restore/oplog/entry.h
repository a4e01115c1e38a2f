// Entries of the oplog (local.oplog.rs), as MongoDB 4.4 to 7.0 write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "mongo/document.h"
#include "restore/error_in.h"
#include "restore/timestamp.h"

namespace idmint::restore {

enum class Op : std::uint8_t {
  kInsert,   // i: `o` is the document
  kUpdate,   // u: `o2` is the document's _id (and shard key), `o` a diff ($v: 2) or a replacement
  kDelete,   // d: `o` is the _id
  kCommand,  // c: `ns` is DATABASE.$cmd, the first field of `o` the command
  kNoop,     // n, and what change streams read: ci, cu, cd, km
  kUnknown,
};

// One operation: an entry, or an element of an applyOps. Its views point into the document that was
// parsed.
struct Operation {
  Op op = Op::kUnknown;
  std::string_view op_name;
  std::string_view ns;
  Document o;
  Document o2;
  // The collection's UUID, 16 bytes; empty: none.
  std::string_view ui;
  bool from_migrate = false;
  // Whether an update inserts the document if it is missing.
  bool upsert = false;
  // Somebody has run the applyOps that it is in, outside a transaction. An insert may replace a
  // document, an update may insert one, and a delete may find none.
  bool by_hand = false;

  // The name of a command: "create", "applyOps". Empty: it has none.
  [[nodiscard]] std::string_view command() const { return o.first_key(); }
  // `ns` before the first dot, and after it.
  [[nodiscard]] std::string_view database() const { return ns.substr(0, ns.find('.')); }
  [[nodiscard]] std::string_view collection() const {
    const std::size_t dot = ns.find('.');
    return dot == std::string_view::npos ? std::string_view{} : ns.substr(dot + 1);
  }
};

struct Entry {
  Operation operation;
  OpTime at{};
  std::optional<std::int64_t> version;  // v
  std::int64_t wall = 0;                // milliseconds since 1970; 0: none
  Document lsid;                        // of a session; empty: none
  std::optional<std::int64_t> txn_number;
  std::optional<OpTime> previous;  // prevOpTime: the entry before it in its transaction
  std::int64_t multi_op_type = 0;
  Document document;  // the whole entry

  // Whether it belongs to a multi-document transaction. A retryable write, which has a number too,
  // does not.
  [[nodiscard]] bool in_transaction() const;
};

// kDataLoss: the document is no entry; the message names the field and the fault, not the position.
[[nodiscard]] Result<Entry> parse_entry(Document document);
// Moves the views of the entry into `copy`, which has the same bytes as its document.
void rebase(Entry& entry, const std::uint8_t* copy);
// Parses an element of an applyOps.
[[nodiscard]] Result<Operation> parse_operation(Document document);

}  // namespace idmint::restore
