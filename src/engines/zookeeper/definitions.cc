#include <algorithm>
#include <optional>
#include <utility>

#include "engines/zookeeper/tables.h"
#include "store/engine.h"

namespace idmint::stores::zookeeper {
namespace {

class DefinitionTable final : private DefinitionRows {
 public:
  explicit DefinitionTable(Database& database) : database_(database) {}

  [[nodiscard]] Definitions& catalog() noexcept { return catalog_; }

 private:
  // The outcome of a change in one attempt of several: an earlier one that was sent, and failed
  // afterwards, may be the one that refuses it.
  static Swapped outcome(const Change& change, bool& sent_before) {
    if (change.fate == Change::Fate::kDone || change.fate == Change::Fate::kPerhaps)
      sent_before = true;
    if (change.fate == Change::Fate::kDone) return Swapped::kYes;
    return sent_before ? Swapped::kPerhaps : Swapped::kNo;
  }

  Result<Swapped> insert_definition(const DefinitionRow& row, SteadyTime until,
                                    std::string_view doing) override {
    bool sent_before = false;
    return database_.run(Kind::kHandOut, until, doing, [&](Session& session) -> Attempt<Swapped> {
      Change one{create(path(row.name), row.json)};
      auto changed = database_.change(session, Kind::kHandOut, std::span(&one, 1), until);
      const Swapped inserted = outcome(one, sent_before);
      if (!changed) return std::unexpected(std::move(changed.error()));
      return inserted;
    });
  }

  Result<Swapped> swap_definition(const DefinitionRow& row, const std::string& json,
                                  SteadyTime until, std::string_view doing) override {
    bool sent_before = false;
    return database_.run(Kind::kWrite, until, doing, [&](Session& session) -> Attempt<Swapped> {
      for (;;) {
        const auto answer = database_.read(session, {.reads = {path(row.name)}}, until);
        if (!answer) return std::unexpected(answer.error());
        const std::optional<Node>& node = answer->nodes.front();
        if (!node || node->value != row.json) return sent_before ? Swapped::kPerhaps : Swapped::kNo;
        Change one{set(path(row.name), json, node->version)};
        auto changed = database_.change(session, Kind::kWrite, std::span(&one, 1), until);
        const Swapped swapped = outcome(one, sent_before);
        if (!changed) return std::unexpected(std::move(changed.error()));
        if (swapped == Swapped::kYes) return swapped;
      }
    });
  }

  Result<std::optional<std::string>> read_definition(std::string_view name,
                                                     SteadyTime until) override {
    const auto answer = database_.read({.reads = {path(name)}}, until);
    if (!answer) return std::unexpected(answer.error());
    const std::optional<Node>& node = answer->nodes.front();
    return node ? std::optional(node->value) : std::nullopt;
  }

  Result<std::vector<DefinitionRow>> list_definitions(std::string_view after, std::size_t most,
                                                      SteadyTime until) override {
    Result<std::vector<std::string>> names = database_.names(kDefinitions, "", until);
    if (!names) return std::unexpected(std::move(names.error()));
    std::erase_if(*names, [&](const std::string& name) { return name <= after; });
    names->resize(std::min(names->size(), most));
    Request reading;
    for (const std::string& name : *names) reading.reads.push_back(path(name));
    const auto answer = database_.read(std::move(reading), until);
    if (!answer) return std::unexpected(answer.error());
    std::vector<DefinitionRow> all;
    for (std::size_t i = 0; i < names->size(); ++i)
      if (const std::optional<Node>& node = answer->nodes[i]; node)
        all.push_back({(*names)[i], node->value});
    return all;
  }

  [[nodiscard]] std::string path(std::string_view name) const {
    return database_.paths().named(kDefinitions, name);
  }

  Database& database_;
  Definitions catalog_{database_, *this};
};

}  // namespace

std::shared_ptr<Definitions> definitions_of(Database& database) {
  const auto table = std::make_shared<DefinitionTable>(database);
  return {table, &table->catalog()};
}

}  // namespace idmint::stores::zookeeper
