#include "engines/mongodb/definitions.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mongodb/adopted_record.h"
#include "engines/mongodb/adoption.h"
#include "store/backend.h"
#include "store/catalog.h"

namespace idmint::stores::mongodb {

Result<Definition> Definitions::parse(std::string_view name, std::string_view json) const {
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
      definition = std::unexpected(damaged_definition(valid.error().message()));
  }
  return under_name(name, std::move(definition), database_.where,
                    [&](const std::string& why) { return database_.damaged(why); });
}

Result<Definition> Definitions::read(std::string_view name, SteadyTime until, std::string* json) {
  std::string text;
  const Result<bool> there = database_.read(kDefinitions, name, until, [&](const Document& found) {
    text = found.bytes("json").value_or("");
  });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_definition(name, database_.url));
  if (json != nullptr) *json = text;
  return parse(name, text);
}

Result<Definition> Definitions::do_define(const Definition& definition) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  Bson document;
  document.add("_id", std::string_view(name(definition)))
      .add("json", std::string_view(to_json(definition)));
  const auto made = database_.servers->insert_new(kDefinitions, Bson().add("0", document), 1,
                                                  *until, "write a definition into");
  if (!made) return std::unexpected(made.error());
  Result<Definition> there = read(name(definition), *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

// Replaces exactly the text that was read.
Result<Definition> Definitions::do_replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  std::string json;
  Result<Definition> there = read(name(old), *until, &json);
  if (!there || *there != old) return there;
  Bson query;
  query.add("_id", std::string_view(name(old))).add("json", std::string_view(json));
  Bson update;
  update.add(
      "0", Bson().add("$set", Bson().add("json", Bson().add("$literal",
                                                            std::string_view(to_json(updated))))));
  const Result<bool> done = database_.change(kDefinitions, std::move(query), update, *until,
                                             "replace a definition in", [](const Document&) {});
  if (!done) return std::unexpected(done.error());
  there = read(name(old), *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

Result<Definition> Definitions::do_find(std::string_view name, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  if (const auto first = first_.take(); first && first->first == name)
    return parse(name, first->second);
  return read(name, *until);
}

Result<std::vector<CatalogEntry>> Definitions::do_list_after(std::string_view after,
                                                             std::size_t most, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  std::vector<CatalogEntry> all;
  const Result<void> read =
      database_.read_all(kDefinitions, after, *until, [&](const Document& document) {
        const std::string name(document.bytes("_id").value_or(""));
        if (name != after) all.push_back({name, parse(name, document.bytes("json").value_or(""))});
        return all.size() < most;
      });
  if (!read) return std::unexpected(read.error());
  return all;
}

}  // namespace idmint::stores::mongodb
