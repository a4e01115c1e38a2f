#include "engines/etcd/tables.h"
#include "store/backend.h"

namespace idmint::stores::etcd {

Result<Definition> Definitions::parse(std::string_view name, std::string_view json) const {
  return under_name(name, definition_from_json(json), database_.url(),
                    [&](const std::string& why) { return database_.damaged(why); });
}

Result<Definition> Definitions::do_define(const Definition& definition) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(definition);
  const std::string key = database_.keys().definition(name);
  const Result<Answer> answer = database_.change(Kind::kHandOut,
                                                 {.compares = {is_as_changed(key, 0)},
                                                  .then = {put(key, to_json(definition))},
                                                  .otherwise = {get(key)}},
                                                 *until, "write a definition into");
  if (!answer) return std::unexpected(answer.error());
  if (answer->succeeded) return definition;
  const std::vector<Entry>& there = answer->found.front().entries;
  if (there.empty())
    return database_.damaged("the definition of " + shown(name) + " went away while it was made");
  return parse(name, there.front().value);
}

// Replaces the text that was read, and no other.
Result<Definition> Definitions::do_replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(old);
  const std::string key = database_.keys().definition(name);
  const auto read = database_.read({get(key)}, *until);
  if (!read) return std::unexpected(read.error());
  std::vector<Entry> there = read->front().entries;
  if (!there.empty()) {
    Result<Definition> found = parse(name, there.front().value);
    if (!found || *found != old) return found;
    const Result<Answer> answer =
        database_.change(Kind::kWrite,
                         {.compares = {is_as_changed(key, there.front().changed)},
                          .then = {put(key, to_json(updated))},
                          .otherwise = {get(key)}},
                         *until, "replace a definition in");
    if (!answer) return std::unexpected(answer.error());
    if (answer->succeeded) return updated;
    there = answer->found.front().entries;
  }
  if (there.empty()) return std::unexpected(no_definition(name, database_.url()));
  return parse(name, there.front().value);
}

Result<Definition> Definitions::do_find(std::string_view name, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  if (const auto first = first_.take(); first && first->first == name)
    return parse(name, first->second);
  const auto read = database_.read({get(database_.keys().definition(name))}, *until);
  if (!read) return std::unexpected(read.error());
  const std::vector<Entry>& there = read->front().entries;
  if (there.empty()) return std::unexpected(no_definition(name, database_.url()));
  return parse(name, there.front().value);
}

Result<std::vector<CatalogEntry>> Definitions::do_list_after(std::string_view after,
                                                             std::size_t most, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string prefix = database_.keys().definition("");
  const auto entries = database_.list(prefix, *until, after, most);
  if (!entries) return std::unexpected(entries.error());
  std::vector<CatalogEntry> all;
  for (const Entry& entry : *entries) {
    const std::string name = entry.key.substr(prefix.size());
    all.push_back({name, parse(name, entry.value)});
  }
  return all;
}

}  // namespace idmint::stores::etcd
