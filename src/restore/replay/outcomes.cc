#include "restore/replay/outcomes.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

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

void append_outcome(Operations& operations, const std::string& life, const Outcome& outcome) {
  const Bson row = row_of("_id", std::string(kOutcomeOf) + life, outcome);
  operations.append("i", kRecordNamespace, row.view(), {});
}

Outcomes outcomes_in(const std::map<std::string, Bson>& recorded) {
  Outcomes all;
  for (const auto& [id, row] : recorded) {
    if (id.starts_with(kOutcomeOf)) all[id.substr(kOutcomeOf.size())] = outcome_of(row.view());
  }
  return all;
}

Result<void> keep_outcomes(Record& record, const Outcomes& by_namespace) {
  BsonArray list;
  std::uint32_t index = 0;
  for (const auto& [ns, outcome] : by_namespace)
    list.items.add(std::to_string(index++).c_str(), row_of("ns", ns, outcome));
  const Bson fields = Bson("list", list);
  return record.put(kAllOutcomes, fields.get());
}

Result<Outcomes> kept_outcomes(Record& record) {
  const Result<std::optional<Bson>> kept = record.get(kAllOutcomes);
  if (!kept) return std::unexpected(kept.error());
  Outcomes all;
  if (*kept)
    (*kept)->view().each("list",
                         [&](const Document& row) { all[text_of(row, "ns")] = outcome_of(row); });
  return all;
}

}  // namespace idmint::restore
