#include <algorithm>
#include <optional>
#include <utility>

#include "engines/zookeeper/tables.h"
#include "store/backend.h"

namespace idmint::stores::zookeeper {

Result<Definition> Definitions::parse(std::string_view name, std::string_view json) const {
  return under_name(name, definition_from_json(json), database_.url(),
                    [&](const std::string& why) { return database_.damaged(why); });
}

Result<Definition> Definitions::do_define(const Definition& definition) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(definition);
  const std::string path = database_.paths().named(kDefinitions, name);
  bool written = false;
  const auto there =
      database_.run(Kind::kHandOut, *until, "write a definition into",
                    [&](Session& session) -> Attempt<Database::Nodes> {
                      Change one{create(path, to_json(definition))};
                      auto after = database_.change(session, Kind::kHandOut, std::span(&one, 1),
                                                    *until, nullptr, {path});
                      if (one.fate == Change::Fate::kDone) written = true;
                      return after;
                    });
  if (!there) return std::unexpected(there.error());
  if (written) return definition;
  if (const std::optional<Node>& node = there->front(); node) return parse(name, node->value);
  return database_.damaged("the definition of " + shown(name) + " went away while it was made");
}

// Replaces the text that was read, and no other.
Result<Definition> Definitions::do_replace(const Definition& old, const Definition& updated) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  const std::string& name = idmint::name(old);
  const std::string path = database_.paths().named(kDefinitions, name);
  std::optional<std::string> last;  // that is there now
  const auto replaced = database_.run(
      Kind::kWrite, *until, "replace a definition in", [&](Session& session) -> Attempt<bool> {
        for (;;) {
          auto answer = database_.read(session, {.reads = {path}}, *until);
          if (!answer) return std::unexpected(std::move(answer.error()));
          std::optional<Node>& node = answer->nodes.front();
          last.reset();
          if (!node) return false;
          last = std::move(node->value);
          const Result<Definition> found = parse(name, *last);
          if (!found || *found != old) return false;
          Change one{set(path, to_json(updated), node->version)};
          auto changed = database_.change(session, Kind::kWrite, std::span(&one, 1), *until);
          if (!changed) return std::unexpected(std::move(changed.error()));
          if (one.fate == Change::Fate::kDone) return true;
        }
      });
  if (!replaced) return std::unexpected(replaced.error());
  if (*replaced) return updated;
  if (!last) return std::unexpected(no_definition(name, database_.url()));
  return parse(name, *last);
}

Result<Definition> Definitions::do_find(std::string_view name, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  if (const auto first = first_.take(); first && first->first == name)
    return parse(name, first->second);
  const auto answer =
      database_.read({.reads = {database_.paths().named(kDefinitions, name)}}, *until);
  if (!answer) return std::unexpected(answer.error());
  const std::optional<Node>& node = answer->nodes.front();
  if (!node) return std::unexpected(no_definition(name, database_.url()));
  return parse(name, node->value);
}

Result<std::vector<CatalogEntry>> Definitions::do_list_after(std::string_view after,
                                                             std::size_t most, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  static_cast<void>(first_.take());
  Result<std::vector<std::string>> names = database_.names(kDefinitions, "", *until);
  if (!names) return std::unexpected(std::move(names.error()));
  std::erase_if(*names, [&](const std::string& name) { return name <= after; });
  names->resize(std::min(names->size(), most));
  Request reading;
  for (const std::string& name : *names)
    reading.reads.push_back(database_.paths().named(kDefinitions, name));
  const auto answer = database_.read(std::move(reading), *until);
  if (!answer) return std::unexpected(answer.error());
  std::vector<CatalogEntry> all;
  for (std::size_t i = 0; i < names->size(); ++i)
    if (const std::optional<Node>& node = answer->nodes[i]; node)
      all.push_back({(*names)[i], parse((*names)[i], node->value)});
  return all;
}

}  // namespace idmint::stores::zookeeper
