#include "restore/find/filter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "restore/find/answer.h"
#include "restore/find/number.h"
#include "restore/namespaces.h"
#include "restore/oplog/changes.h"
#include "restore/oplog/operation_text.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

bool matches_namespace(const std::vector<std::string>& patterns, std::string_view ns) {
  const std::size_t dot = ns.find('.');
  const std::string_view database = ns.substr(0, dot);
  if (dot == std::string_view::npos)
    return std::ranges::any_of(patterns, [&](std::string_view pattern) {
      return matches_glob(pattern.substr(0, pattern.find('.')), database);
    });
  const std::string name =
      std::string(database) + "." + std::string(without_buckets(ns.substr(dot + 1)));
  return std::ranges::any_of(patterns, [&](std::string_view pattern) {
    return matches_glob(pattern, pattern.contains('.') ? name : database);
  });
}

bool matches_operation(const std::vector<std::string>& names, const Operation& operation) {
  const std::string_view kind =
      kKinds[std::min<std::size_t>(static_cast<std::size_t>(operation.op), 3)];
  const std::string_view command =
      operation.op == Op::kCommand ? operation.command() : std::string_view{};
  return std::ranges::any_of(
      names, [&](const std::string& name) { return name == kind || name == command; });
}

// Whether the paths are equal or one contains the other.
bool related(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

// Whether the document has a value at this dotted path.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the path
bool has_path(Document document, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::optional<Field> field = find_field(document, path.substr(0, dot));
  return field &&
         (dot == std::string_view::npos || has_path(field->document(), path.substr(dot + 1)));
}

bool matches_field(const std::string& wanted, const Operation& operation, std::string& path) {
  if (operation.op == Op::kInsert) return has_path(operation.o, wanted);
  bool touched = false;
  if (operation.op == Op::kUpdate)
    for_each_change(operation.o, path, [&](std::string_view changed, Change, const Field&) {
      touched = touched || related(changed, wanted);
    });
  return touched;
}

}  // namespace

Result<IdFilter> IdFilter::of(std::string_view text) {
  if (text.empty()) return fail(Code::kInvalidArgument, "an _id is no empty text: give its value");
  IdFilter filter;
  const auto add = [&](const std::string& json) {
    const Result<Bson> parsed = from_json("{\"v\":" + json + "}");
    if (!parsed) return;
    Fields fields(parsed->view());
    Field value;
    if (fields.next(value))
      filter.values_.push_back({value.type, std::string(value.value.begin(), value.value.end())});
  };
  add(std::string(text));
  if (text.size() == 24) add("{\"$oid\":\"" + std::string(text) + "\"}");
  if (text.size() == 36) add("{\"$uuid\":\"" + std::string(text) + "\"}");
  Value plain{.type = BSON_TYPE_UTF8, .bytes = std::string(4, '\0')};
  const std::uint32_t size = BSON_UINT32_TO_LE(static_cast<std::uint32_t>(text.size() + 1));
  std::memcpy(plain.bytes.data(), &size, sizeof size);
  plain.bytes += text;
  plain.bytes += '\0';
  filter.values_.push_back(std::move(plain));
  return filter;
}

bool IdFilter::matches(const Operation& operation) const {
  const Field id = document_id(operation);
  if (id.type == 0) return false;
  return std::ranges::any_of(values_, [&](const Value& value) {
    Field wanted;
    wanted.type = value.type;
    wanted.value = {reinterpret_cast<const std::uint8_t*>(value.bytes.data()), value.bytes.size()};
    if (wanted.type == id.type && std::ranges::equal(wanted.value, id.value)) return true;
    const std::optional<Number> number = number_of(wanted);
    return number && number == number_of(id);
  });
}

bool FindFilter::matches(const Operation& operation, std::string& path) const {
  if (!operations.empty() && !matches_operation(operations, operation)) return false;
  if (!namespaces.empty() && !matches_namespace(namespaces, target_of(operation))) {
    if (operation.op != Op::kCommand || operation.command() != "renameCollection" ||
        !operation.o.has("to") || !matches_namespace(namespaces, operation.o.text("to")))
      return false;
  }
  if (id && !id->matches(operation)) return false;
  return field.empty() || matches_field(field, operation, path);
}

}  // namespace idmint::restore
