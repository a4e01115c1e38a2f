#include "engines/mongodb/definitions.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mongodb/adopted_record.h"
#include "engines/mongodb/adoption.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {

Result<Definition> DefinitionTable::parse(std::string_view json) const {
  Result<Definition> definition = definition_from_json(json);
  if (auto* const sequence = definition ? std::get_if<SequenceDefinition>(&*definition) : nullptr;
      sequence != nullptr && !sequence->adopted.empty()) {
    // Somebody may have written the parts of the text in another order, and an older version a text
    // that begins as a type of an _id does.
    Result<AdoptedRecord> record = adopted_from_text(sequence->adopted);
    if (const std::size_t slash = sequence->adopted.find('/');
        !record && slash != std::string::npos)
      record = adopted_from_text(sequence->adopted.substr(0, slash + 1) +
                                 "text=" + sequence->adopted.substr(slash + 1));
    if (record) sequence->adopted = to_text(*record);
    if (const Result<void> valid = kAdoption.check(*sequence); !valid)
      return std::unexpected(damaged_definition(valid.error().message()));
  }
  return definition;
}

Result<Swapped> DefinitionTable::insert_definition(const DefinitionRow& row, SteadyTime until,
                                                   std::string_view doing) {
  Bson document;
  document.add("_id", std::string_view(row.name)).add("json", std::string_view(row.json));
  const auto taken =
      database_.servers->insert_new(kDefinitions, Bson().add("0", document), 1, until, doing);
  if (!taken) return std::unexpected(taken.error());
  return taken->empty() ? Swapped::kYes : Swapped::kNo;
}

Result<Swapped> DefinitionTable::swap_definition(const DefinitionRow& row, const std::string& json,
                                                 SteadyTime until, std::string_view doing) {
  Bson query;
  query.add("_id", std::string_view(row.name)).add("json", std::string_view(row.json));
  Bson update;
  update.add(
      "0", Bson().add("$set", Bson().add("json", Bson().add("$literal", std::string_view(json)))));
  const Result<bool> done = database_.change(kDefinitions, std::move(query), update, until, doing,
                                             [](const Document&) {});
  if (!done) return std::unexpected(done.error());
  return *done ? Swapped::kYes : Swapped::kNo;
}

Result<std::optional<std::string>> DefinitionTable::read_definition(std::string_view name,
                                                                    SteadyTime until) {
  std::optional<std::string> json;
  const Result<bool> there = database_.read(kDefinitions, name, until, [&](const Document& found) {
    json = found.bytes("json").value_or("");
  });
  if (!there) return std::unexpected(there.error());
  return json;
}

Result<std::vector<DefinitionRow>> DefinitionTable::list_definitions(std::string_view after,
                                                                     std::size_t most,
                                                                     SteadyTime until) {
  std::vector<DefinitionRow> all;
  const Result<void> read =
      database_.read_all(kDefinitions, after, until, [&](const Document& document) {
        const std::string_view name = document.bytes("_id").value_or("");
        if (name != after)
          all.push_back({std::string(name), std::string(document.bytes("json").value_or(""))});
        return all.size() < most;
      });
  if (!read) return std::unexpected(read.error());
  return all;
}

}  // namespace idmint::stores::mongodb
