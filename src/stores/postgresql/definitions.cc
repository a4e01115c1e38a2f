#include "stores/backend.h"
#include "stores/postgresql/names.h"
#include "stores/postgresql/tables.h"

namespace idmint::stores::postgresql {
namespace {

constexpr Query kDefine{"define",
                        "INSERT INTO idmint.definitions (name, json) SELECT $1, $2"
                        " WHERE " IDMINT_TRUSTED " ON CONFLICT DO NOTHING",
                        Kind::kHandOut,
                        "SELECT and INSERT on idmint.definitions and SELECT on idmint.trusted"};
constexpr Query kReplace{"replace",
                         "UPDATE idmint.definitions SET json = $3 WHERE name = $1 AND json = $2",
                         Kind::kWrite, "SELECT and UPDATE on idmint.definitions"};
constexpr Query kFindDefinition{"find_definition",
                                "SELECT json FROM idmint.definitions WHERE name = $1", Kind::kRead,
                                "SELECT on idmint.definitions"};
constexpr Query kListDefinitions{"list_definitions",
                                 "SELECT name, json FROM idmint.definitions ORDER BY name",
                                 Kind::kRead, "SELECT on idmint.definitions"};

}  // namespace

Result<Definition> Definitions::parse(std::string_view name, std::string_view json) const {
  return under_name(name, definition_from_json(json), database_.url(),
                    [&](const std::string& why) { return database_.damaged(why); });
}

Result<std::string> Definitions::read(std::string_view name, SteadyTime until) {
  const Result<Rows> rows =
      database_.run(kFindDefinition, values_of(stored_name(name)), until, "read");
  if (!rows) return std::unexpected(rows.error());
  if (rows->empty()) return std::unexpected(no_definition(name, database_.url()));
  return std::string((*rows)[0].bytes(0));
}

Result<Definition> Definitions::find(std::string_view name, SteadyTime until) {
  const Result<std::string> json = read(name, until);
  if (!json) return std::unexpected(json.error());
  return parse(name, *json);
}

Result<Definition> Definitions::do_define(const Definition& definition) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(definition);
  const Result<Rows> made =
      database_.run(kDefine, values_of(stored_name(name), to_json(definition)), *until,
                    "write a definition into");
  if (!made) return std::unexpected(made.error());
  const Result<std::string> json = read(name, *until);
  if (json) return parse(name, *json);
  Error why = database_.why_not_made(json.error(), *until);
  if (why.code != Code::kNotFound) return std::unexpected(std::move(why));
  return database_.damaged("the definition of " + shown(name) + " went away while it was made");
}

// Replaces the text that was read, and no other.
Result<Definition> Definitions::do_replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(old);
  const Result<std::string> json = read(name, *until);
  if (!json) return std::unexpected(json.error());
  Result<Definition> there = parse(name, *json);
  if (!there || *there != old) return there;
  const Result<Rows> done =
      database_.run(kReplace, values_of(stored_name(name), *json, to_json(updated)), *until,
                    "replace a definition in");
  if (!done) return std::unexpected(done.error());
  there = find(name, *until);
  if (!there) return std::unexpected(after_a_write(there.error()));
  return there;
}

Result<Definition> Definitions::do_find(std::string_view name, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  if (const auto first = first_.take(); first && first->first == name)
    return parse(name, first->second);
  return find(name, *until);
}

Result<std::vector<CatalogEntry>> Definitions::do_list(SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const Result<Rows> rows = database_.run(kListDefinitions, {}, *until, "read");
  if (!rows) return std::unexpected(rows.error());
  std::vector<CatalogEntry> all;
  for (int i = 0; i < rows->size(); ++i) {
    const std::string name = name_of((*rows)[i].bytes(0));
    all.push_back({name, parse(name, (*rows)[i].bytes(1))});
  }
  return all;
}

}  // namespace idmint::stores::postgresql
