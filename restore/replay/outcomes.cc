#include "restore/replay/outcomes.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "restore/oplog/command.h"

namespace idmint::restore {
namespace {

constexpr std::string_view kOutcomeOf = "replay:outcome:";  // prefix of a life
constexpr const char* kAllOutcomes = "outcomes";

constexpr std::array<std::pair<const char*, std::int64_t Outcome::*>, 3> kOutcomeFields = {{
    {"replaced", &Outcome::replaced},
    {"upserted", &Outcome::upserted},
    {"absent", &Outcome::absent},
}};

Bson row_of(const char* key, const std::string& name, const Outcome& outcome) {
  Bson row = Bson(key, std::string_view(name));
  for (const auto& [field, count] : kOutcomeFields) row.append(field, outcome.*count);
  return row;
}

Outcome outcome_of(Document row) {
  Outcome outcome;
  for (const auto& [field, count] : kOutcomeFields) outcome.*count = row.number(field);
  return outcome;
}

}  // namespace

const std::string& Lives::of(std::string_view ns) {
  if (const auto at = lives_.find(ns); at != lives_.end()) return at->second;
  return lives_.emplace(ns, ns).first->second;
}

void Lives::follow(const Operation& command, const Position& position) {
  const std::string ns = namespace_of(command);
  const std::string_view what = command.command();
  const std::string now = "@" + print_timestamp(position.ts) + ":" + std::to_string(position.index);
  // A name that nothing has asked for has no outcome, and needs no new life.
  const auto renew = [&](const std::string& name) {
    if (const auto at = lives_.find(name); at != lives_.end()) at->second = name + now;
  };
  if (what == "renameCollection") {
    const std::string to = new_namespace_of(command);
    const auto from = lives_.find(ns);
    if (from == lives_.end()) return renew(to);
    lives_[to] = from->second;
    from->second = ns + now;
  } else if (what == "dropDatabase") {
    for (auto& [name, life] : lives_)
      if (name.starts_with(ns)) life = name + now;
  } else if (what == "create" || what == "drop" || what == "emptycapped") {
    renew(ns);
  }
}

Outcomes Lives::by_namespace(const Outcomes& by_life) const {
  Outcomes all;
  for (const auto& [ns, life] : lives_)
    if (const auto at = by_life.find(life); at != by_life.end()) all[ns] = at->second;
  return all;
}

void append_outcome(Operations& operations, const std::string& life, const Outcome& outcome) {
  const Bson row = row_of("_id", std::string(kOutcomeOf) + life, outcome);
  operations.append("i", kRecordNamespace, row.view(), {});
}

Outcomes outcomes_in(const std::map<std::string, Bson>& recorded) {
  Outcomes all;
  for (const auto& [id, row] : recorded)
    if (id.starts_with(kOutcomeOf)) all[id.substr(kOutcomeOf.size())] = outcome_of(row.view());
  return all;
}

Result<void> keep_outcomes(Record& record, const Outcomes& by_namespace) {
  const auto row = [](const auto& each) { return row_of("ns", each.first, each.second); };
  return record.put(kAllOutcomes, Bson("list", array_of(by_namespace, row)));
}

Result<Outcomes> kept_outcomes(Record& record) {
  const Result<std::optional<Bson>> found = record.get(kAllOutcomes);
  if (!found) return error_in(found);
  Outcomes all;
  if (const std::optional<Bson>& kept = *found)
    kept->view().each("list",
                      [&](const Document& row) { all[text_of(row, "ns")] = outcome_of(row); });
  return all;
}

}  // namespace idmint::restore
