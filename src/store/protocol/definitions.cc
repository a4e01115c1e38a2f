#include "store/protocol/definitions.h"

#include <utility>

#include "base/errors.h"
#include "store/backend.h"

namespace idmint::stores {

void Definitions::remember(std::string_view name, std::string_view json) {
  const std::lock_guard lock(mutex_);
  first_ = {std::string(name), std::string(json)};
}

Result<Defined> Definitions::do_define(const Definition& definition) {
  std::optional<DefinitionRow> first;
  const Result<SteadyTime> until = enter(Purpose::kHandOut, SteadyTime::max(), first);
  if (!until) return std::unexpected(until.error());
  const DefinitionRow row{name(definition), to_json(definition)};
  const Result<Swapped> inserted = rows_.insert_definition(row, *until, "write a definition into");
  if (!inserted) return std::unexpected(inserted.error());
  Result<Defined> now = after(*inserted, definition, row.json, *until);
  if (now || now.error().code != Code::kNotFound) return now;
  if (Result<void> trusted = engine_.expect_trust(*until); !trusted)
    return std::unexpected(std::move(trusted.error()));
  return std::unexpected(
      damaged_database(engine_.shown_url(),
                       "the definition of " + shown(row.name) + " went away while it was made"));
}

// Replaces the text that was read, and no other.
Result<Defined> Definitions::do_replace(const Definition& old, const Definition& updated) {
  std::optional<DefinitionRow> first;
  const Result<SteadyTime> until = enter(Purpose::kOperate, SteadyTime::max(), first);
  if (!until) return std::unexpected(until.error());
  DefinitionRow row{.name = name(old)};
  Result<std::string> json = read(row.name, *until);
  if (!json) return std::unexpected(std::move(json.error()));
  row.json = *std::move(json);
  Result<Definition> there = parse(row.name, row.json);
  if (!there) return std::unexpected(std::move(there.error()));
  if (*there != old) return Defined{*std::move(there)};
  const std::string text = to_json(updated);
  const Result<Swapped> swapped =
      rows_.swap_definition(row, text, *until, "replace a definition in");
  if (!swapped) return std::unexpected(swapped.error());
  return after(*swapped, updated, text, *until);
}

Result<Defined> Definitions::after(Swapped change, const Definition& wanted, std::string_view json,
                                   SteadyTime until) {
  if (change == Swapped::kYes) return Defined{wanted, true};
  const bool perhaps = change == Swapped::kPerhaps;
  const Result<std::string> text = read(name(wanted), until);
  if (!text) return std::unexpected(perhaps ? after_a_write(text.error()) : text.error());
  Result<Definition> there = parse(name(wanted), *text);
  if (!there) return std::unexpected(std::move(there.error()));
  return Defined{*std::move(there), perhaps && *text == json};
}

Result<Definition> Definitions::do_find(std::string_view name, SteadyTime by) {
  std::optional<DefinitionRow> first;
  const Result<SteadyTime> until = enter(Purpose::kRead, by, first);
  if (!until) return std::unexpected(until.error());
  if (first && first->name == name) return parse(name, first->json);
  const Result<std::string> json = read(name, *until);
  if (!json) return std::unexpected(json.error());
  return parse(name, *json);
}

Result<std::vector<CatalogEntry>> Definitions::do_list_after(std::string_view after,
                                                             std::size_t most, SteadyTime by) {
  std::optional<DefinitionRow> first;
  const Result<SteadyTime> until = enter(Purpose::kRead, by, first);
  if (!until) return std::unexpected(until.error());
  const Result<std::vector<DefinitionRow>> rows = rows_.list_definitions(after, most, *until);
  if (!rows) return std::unexpected(rows.error());
  std::vector<CatalogEntry> all;
  all.reserve(rows->size());
  for (const auto& [name, json] : *rows) all.push_back({name, parse(name, json)});
  return all;
}

Result<SteadyTime> Definitions::enter(Purpose purpose, SteadyTime by,
                                      std::optional<DefinitionRow>& first) {
  Result<SteadyTime> until = engine_.enter(purpose, by);
  if (!until) return until;
  const std::lock_guard lock(mutex_);
  first = std::exchange(first_, std::nullopt);
  return until;
}

Result<std::string> Definitions::read(std::string_view name, SteadyTime until) {
  Result<std::optional<std::string>> json = rows_.read_definition(name, until);
  if (!json) return std::unexpected(std::move(json.error()));
  if (std::optional<std::string>& text = *json; text) return *std::move(text);
  return std::unexpected(no_definition(name, engine_.shown_url()));
}

Result<Definition> Definitions::parse(std::string_view name, std::string_view json) const {
  Result<Definition> definition = rows_.parse(json);
  if (!definition) {
    definition.error() = in_context(std::string(engine_.shown_url()) + ", " + shown(name),
                                    std::move(definition.error()));
  } else if (idmint::name(*definition) != name) {
    return std::unexpected(damaged_database(
        engine_.shown_url(),
        "the definition of " + shown(name) + " is that of " + shown(idmint::name(*definition))));
  }
  return definition;
}

}  // namespace idmint::stores
