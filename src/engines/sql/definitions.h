// Definitions: the catalog in an SQL server, whatever its dialect.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/sql/database.h"
#include "store/backend.h"
#include "store/catalog.h"
#include "store/first_definition.h"

namespace idmint::stores::sql {

// The statements of an engine, with their values -> the columns of their rows.
struct DefinitionStatements {
  Query define;   // name, json; what is there stays as it is
  Query replace;  // name, json, new json; another text than `json` stays as it is
  Query find;     // name -> json
  Query list;     // a name, n -> name, json of n at most that come after it; sorted by name
};

template <class Dialect>
class Definitions final : public Catalog {
 public:
  // Both must outlive it.
  Definitions(Database<Dialect>& database, const DefinitionStatements& statements)
      : database_(database), sql_(statements) {}

  // Has the definition that was read when the store was opened.
  [[nodiscard]] FirstDefinition& first() noexcept { return first_; }

 private:
  using Rows = typename Dialect::Rows;

  Result<Definition> do_define(const Definition& definition) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    static_cast<void>(first_.take());
    const std::string& name = idmint::name(definition);
    const std::string text = to_json(definition);
    const Result<Rows> made = database_.change(
        sql_.define, values_of<Dialect>(Name{name}, Json{text}), *until, "write a definition into");
    if (!made) return std::unexpected(made.error());
    const Result<std::string> json = read(name, *until);
    if (json) return parse(name, *json);
    Error why = database_.why_not_made(json.error(), *until);
    if (why.code != Code::kNotFound) return std::unexpected(std::move(why));
    return database_.damaged("the definition of " + shown(name) + " went away while it was made");
  }

  // Replaces the text that was read, and no other.
  Result<Definition> do_replace(const Definition& old, const Definition& updated) override {
    const Result<SteadyTime> until = database_.enter();
    if (!until) return std::unexpected(until.error());
    static_cast<void>(first_.take());
    const std::string& name = idmint::name(old);
    const Result<std::string> json = read(name, *until);
    if (!json) return std::unexpected(json.error());
    Result<Definition> there = parse(name, *json);
    if (!there || *there != old) return there;
    const std::string text = to_json(updated);
    const Result<Rows> done =
        database_.change(sql_.replace, values_of<Dialect>(Name{name}, Json{*json}, Json{text}),
                         *until, "replace a definition in");
    if (!done) return std::unexpected(done.error());
    there = find(name, *until);
    if (!there) return std::unexpected(after_a_write(there.error()));
    return there;
  }

  Result<Definition> do_find(std::string_view name, SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    if (const auto first = first_.take(); first && first->first == name)
      return parse(name, first->second);
    return find(name, *until);
  }

  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime by) override {
    const Result<SteadyTime> until = database_.enter_to_read(by);
    if (!until) return std::unexpected(until.error());
    static_cast<void>(first_.take());
    const auto limit = static_cast<std::int64_t>(std::min(most, std::size_t{kLargestValue}));
    const Result<Rows> rows =
        database_.run(sql_.list, values_of<Dialect>(Name{after}, limit), *until, "read");
    if (!rows) return std::unexpected(rows.error());
    std::vector<CatalogEntry> all;
    for (int i = 0; i < rows->size(); ++i) {
      const std::string name = Dialect::name_of((*rows)[i].bytes(0));
      all.push_back({name, parse(name, (*rows)[i].bytes(1))});
    }
    return all;
  }

  [[nodiscard]] Result<Definition> parse(std::string_view name, std::string_view json) const {
    return under_name(name, definition_from_json(json), database_.url(),
                      [&](const std::string& why) { return database_.damaged(why); });
  }

  // The text that is there. kNotFound: there is none.
  Result<std::string> read(std::string_view name, SteadyTime until) {
    const Result<Rows> rows =
        database_.run(sql_.find, values_of<Dialect>(Name{name}), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_definition(name, database_.url()));
    return std::string((*rows)[0].bytes(0));
  }

  Result<Definition> find(std::string_view name, SteadyTime until) {
    const Result<std::string> json = read(name, until);
    if (!json) return std::unexpected(json.error());
    return parse(name, *json);
  }

  Database<Dialect>& database_;
  const DefinitionStatements& sql_;
  FirstDefinition first_;
};

}  // namespace idmint::stores::sql
