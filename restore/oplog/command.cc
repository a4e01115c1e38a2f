#include "restore/oplog/command.h"

#include <algorithm>

#include "base/text.h"
#include "restore/oplog/fields.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

std::optional<Field> id_of(const Operation& write) {
  return find_field(write.op == Op::kUpdate ? write.o2 : write.o, "_id");
}

}  // namespace

std::string namespace_of(const Operation& command) {
  std::string value = text_of(command.o, std::string(command.command()).c_str());
  if (command.command() == "renameCollection") return value;
  return std::string(command.database()) + "." + value;
}

std::string new_namespace_of(const Operation& command) { return text_of(command.o, "to"); }

std::vector<std::string> names_of_build(const Operation& command) {
  std::vector<std::string> names;
  command.o.each("indexes", [&](const Document& spec) { names.push_back(text_of(spec, "name")); });
  return names;
}

std::string build_of(const Operation& command) {
  const std::optional<Field> uuid = find_field(command.o, "indexBuildUUID");
  return uuid ? std::string(uuid->binary()) : std::string();
}

std::vector<Document> specs_of_build(const Operation& command) {
  if (command.command() == "createIndexes") return {command.o};
  std::vector<Document> specs;
  if (command.command() == "commitIndexBuild")
    command.o.each("indexes", [&](const Document& spec) { specs.push_back(spec); });
  return specs;
}

Bson options_of_create(const Operation& create) {
  constexpr std::array<std::string_view, 5> not_options = {"create", "idIndex", "temp",
                                                           "recordIdsReplicated", "uuid"};
  Bson options;
  for (const Field& field : Fields(create.o)) {
    if (std::ranges::find(not_options, field.key) == not_options.end())
      append_field(options.get(), field);
  }
  return options;
}

bool is_temporary(const Operation& create) { return create.o.truthy("temp"); }

std::string in_words(const Operation& operation, Timestamp ts) {
  if (operation.op == Op::kCommand) {
    const std::string of = namespace_of(operation);
    const std::string to = new_namespace_of(operation);
    return std::string(operation.command()) + " of " +
           (of.ends_with('.') ? of.substr(0, of.size() - 1) : of) +
           (to.empty() ? "" : " to " + to) + ", at " + print_timestamp(ts);
  }
  std::string id = "none";
  if (const std::optional<Field> field = id_of(operation)) {
    const Bson only;
    append_field(only.get(), *field);
    id = to_relaxed_json(only.view());  // { "_id" : VALUE }
    const std::size_t begin = id.find(':') + 2;
    id = id.size() > begin + 2 ? id.substr(begin, id.size() - begin - 2) : id;
    if (id.empty())
      id = "not printable: " +
           hex({reinterpret_cast<const char*>(field->value.data()), field->value.size()});
    if (id.size() > 200) id = id.substr(0, 200) + "...";
  }
  return std::string(operation.op_name) + " on " + std::string(operation.ns) + ", _id " + id +
         ", at " + print_timestamp(ts);
}

std::string_view id_element(const Operation& write) {
  const std::optional<Field> field = id_of(write);
  if (!field) return {};
  const auto bytes = field->element();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace idmint::restore
