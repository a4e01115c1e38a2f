#include "restore/oplog/entry.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "base/errors.h"
#include "restore/oplog/fields.h"

namespace idmint::restore {
namespace {

struct Named {
  char name;
  Op op;
};

constexpr std::array kOps = {
    Named{'i', Op::kInsert},  Named{'u', Op::kUpdate}, Named{'d', Op::kDelete},
    Named{'c', Op::kCommand}, Named{'n', Op::kNoop},
};
constexpr std::array<std::string_view, 4> kLongNoops = {"ci", "cu", "cd", "km"};

Op op_of(std::string_view name) {
  if (name.size() != 1) {
    const bool known = std::ranges::find(kLongNoops, name) != kLongNoops.end();
    return known ? Op::kNoop : Op::kUnknown;
  }
  for (const Named& row : kOps)
    if (row.name == name[0]) return row.op;
  return Op::kUnknown;
}

std::unexpected<Error> no_entry(const std::string& why) {
  return fail(Code::kDataLoss, "no entry of an oplog: " + why);
}

// REQUIRES: it is one.
Timestamp as_timestamp(const Field& field) {
  const std::uint64_t both = field.load64();
  return {.seconds = static_cast<std::uint32_t>(both >> 32),
          .ordinal = static_cast<std::uint32_t>(both)};
}

std::optional<OpTime> as_op_time(Document document) {
  OpTime time;
  bool found = false;
  for (const Field& field : Fields(document)) {
    if (field.is("ts") && field.type == BSON_TYPE_TIMESTAMP) {
      time.ts = as_timestamp(field);
      found = true;
    } else if (field.is("t")) {
      time.term = field.integer().value_or(-1);
    }
  }
  return found ? std::optional(time) : std::nullopt;
}

// Reads a field of an operation. False: the field is not part of operations.
bool read_operation_field(const Field& field, Operation& operation) {
  if (field.is("op")) {
    operation.op_name = field.text();
    operation.op = op_of(operation.op_name);
  } else if (field.is("ns")) {
    operation.ns = field.text();
  } else if (field.is("o")) {
    operation.o = field.document();
  } else if (field.is("o2")) {
    operation.o2 = field.document();
  } else if (field.is("ui")) {
    operation.ui = field.binary();
  } else if (field.is("fromMigrate")) {
    operation.from_migrate = field.truth();
  } else if (field.is("b")) {
    operation.upsert = field.truth();
  } else {
    return false;
  }
  return true;
}

// Checks the fields that a replay relies on. The field b of a delete is not about upserts.
Result<void> complete(Operation& operation) {
  operation.upsert = operation.upsert && operation.op == Op::kUpdate;
  if (operation.op_name.empty()) return no_entry("it has no op");
  if (operation.op == Op::kUnknown || operation.op == Op::kNoop) return {};
  const std::size_t dot = operation.ns.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == operation.ns.size() ||
      operation.ns.contains('\0'))
    return no_entry("its ns is no namespace");
  if (!operation.o) return no_entry("it has no o");
  if (operation.op == Op::kUpdate && !operation.o2) return no_entry("an update has no o2");
  if (operation.op == Op::kCommand && operation.command().empty())
    return no_entry("a command is empty");
  return {};
}

}  // namespace

bool Entry::in_transaction() const {
  if (operation.op != Op::kCommand || !lsid || !txn_number || multi_op_type == 1) return false;
  const std::string_view command = operation.command();
  return command == "applyOps" || command == "commitTransaction" || command == "abortTransaction";
}

void rebase(Entry& entry, const std::uint8_t* copy) {
  const std::uint8_t* const from = entry.document.bytes().data();
  const auto move_text = [&](std::string_view& text) {
    if (text.data() == nullptr) return;
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(text.data());
    text = {reinterpret_cast<const char*>(copy + (begin - from)), text.size()};
  };
  const auto move_document = [&](Document& document) {
    const std::span<const std::uint8_t> bytes = document.bytes();
    if (document) document = Document::of({copy + (bytes.data() - from), bytes.size()});
  };
  move_text(entry.operation.op_name);
  move_text(entry.operation.ns);
  move_text(entry.operation.ui);
  move_document(entry.operation.o);
  move_document(entry.operation.o2);
  move_document(entry.lsid);
  move_document(entry.document);
}

Result<Operation> parse_operation(Document document) {
  Operation operation;
  Fields fields(document);
  Field field;
  while (fields.next(field)) read_operation_field(field, operation);
  if (fields.damaged()) return no_entry("damaged BSON");
  if (Result<void> good = complete(operation); !good) return error_in(good);
  return operation;
}

Result<Entry> parse_entry(Document document) {
  Result<Entry> result;
  Entry& entry = *result;
  entry.document = document;
  bool has_ts = false;
  Fields fields(document);
  Field field;
  while (fields.next(field)) {
    if (read_operation_field(field, entry.operation)) continue;
    if (field.is("ts") && field.type == BSON_TYPE_TIMESTAMP) {
      entry.at.ts = as_timestamp(field);
      has_ts = true;
    } else if (field.is("t")) {
      entry.at.term = field.integer().value_or(-1);
    } else if (field.is("v")) {
      entry.version = field.integer();
    } else if (field.is("wall") && field.type == BSON_TYPE_DATE_TIME) {
      entry.wall = static_cast<std::int64_t>(field.load64());
    } else if (field.is("lsid")) {
      entry.lsid = field.document();
    } else if (field.is("txnNumber")) {
      entry.txn_number = field.integer();
    } else if (field.is("prevOpTime")) {
      entry.previous = as_op_time(field.document());
    } else if (field.is("multiOpType")) {
      entry.multi_op_type = field.integer().value_or(0);
    }
  }
  if (fields.damaged()) return no_entry("damaged BSON");
  if (!has_ts || entry.at.ts == Timestamp{}) return no_entry("it has no ts");
  if (Result<void> good = complete(entry.operation); !good) return error_in(good);
  return result;
}

}  // namespace idmint::restore
