#include "restore/oplog/operation_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kRemembered = 1024;  // bytes of a value

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string command_text(std::string_view ns, Document o) {
  if (!o) return "command on " + std::string(ns);
  Operation operation;
  operation.op = Op::kCommand;
  operation.ns = ns;
  operation.o = o;
  const std::string_view command = operation.command();
  std::string text = std::string(command) + " of " + target_of(operation);
  if (command == "renameCollection" && o.has("to")) text += " to " + std::string(o.text("to"));
  return text;
}

}  // namespace

std::string target_of(const Operation& operation) {
  if (operation.op != Op::kCommand) return std::string(operation.ns);
  Fields fields(operation.o);
  Field first;
  std::string database(operation.database());
  if (!fields.next(first) || first.type != BSON_TYPE_UTF8) return database;
  const std::string name(first.text());
  return first.key == "renameCollection" ? name : database + "." + name;
}

bool is_temporary_name(std::string_view collection) {
  if (collection.starts_with("tmp.agg_out.") || collection.starts_with("tmp.mr.")) return true;
  // tmpXXXXX.renameCollection, tmpXXXXX.convertToCapped.NAME
  return collection.starts_with("tmp") && collection.size() > 9 && collection[8] == '.' &&
         std::ranges::all_of(collection.substr(3, 5),
                             [](unsigned char c) { return std::isalnum(c) != 0; }) &&
         (collection.substr(9).starts_with("renameCollection") ||
          collection.substr(9).starts_with("convertToCapped"));
}

Field document_id(const Operation& operation) {
  if (operation.op != Op::kInsert && operation.op != Op::kUpdate && operation.op != Op::kDelete)
    return {};
  for (const Field& field : Fields(operation.op == Op::kUpdate ? operation.o2 : operation.o))
    if (field.is("_id")) return field;
  return {};
}

std::string print_value(const Field& value) {
  if (value.type == 0) return "unknown";
  std::string bytes(4, '\0');
  bytes += static_cast<char>(value.type);
  bytes += std::string_view("v\0", 2);
  bytes += text_of(value.value);
  bytes += '\0';
  const std::uint32_t size = BSON_UINT32_TO_LE(static_cast<std::uint32_t>(bytes.size()));
  std::memcpy(bytes.data(), &size, sizeof size);
  const std::string json = to_relaxed_json(Document::of(bytes_of(bytes)));
  constexpr std::string_view before = "{ \"v\" : ";
  constexpr std::string_view after = " }";
  if (json.size() < before.size() + after.size()) return "unreadable";
  return shortened(
      std::string_view(json).substr(before.size(), json.size() - before.size() - after.size()));
}

void Remembered::set(const Operation& operation) {
  op_ = operation.op;
  ns_ = operation.ns;
  const bool command = op_ == Op::kCommand;
  const Field id = command ? Field{} : document_id(operation);
  const std::span<const std::uint8_t> bytes = command ? operation.o.bytes() : id.value;
  id_type_ = id.type;
  value_.clear();
  if (bytes.size() <= kRemembered) {
    value_ = text_of(bytes);
  } else {
    id_type_ = 0;
  }
}

std::string Remembered::text() const {
  if (op_ == Op::kCommand) return command_text(ns_, Document::of(bytes_of(value_)));
  constexpr std::array<std::string_view, 3> verbs = {"insert into ", "update of ", "delete from "};
  Field id;
  id.type = id_type_;
  id.value = bytes_of(value_);
  return std::string(verbs[std::min<std::size_t>(static_cast<std::size_t>(op_), 2)]) + ns_ +
         ", _id " + print_value(id);
}

}  // namespace idmint::restore
