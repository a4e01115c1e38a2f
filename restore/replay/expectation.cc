#include "restore/replay/expectation.h"

#include <string_view>
#include <utility>

#include "base/errors.h"
#include "restore/replay/outcomes.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

constexpr std::string_view kLoaded = "base:";  // prefix of a namespace
constexpr const char* kTallies = "base";
constexpr const char* kInBase = "loaded";

std::uint64_t number_of(Document document, const char* key) {
  return static_cast<std::uint64_t>(document.number(key));
}

Result<void> put_loaded(Record& record, const std::string& ns, std::int64_t documents) {
  return record.put(std::string(kLoaded) + ns, Bson("documents", documents));
}

}  // namespace

Result<Loaded> loaded(Record& record) {
  const Result<std::map<std::string, Bson>> found = record.get_all(kLoaded);
  if (!found) return error_in(found);
  Loaded documents;
  for (const auto& [id, fields] : *found) {
    const std::int64_t count = fields.view().numeric("documents").value_or(-1);
    if (count >= 0) documents[id.substr(kLoaded.size())] = static_cast<std::uint64_t>(count);
  }
  return documents;
}

Result<void> set_loaded(Record& record, const std::string& ns, std::uint64_t documents) {
  return put_loaded(record, ns, static_cast<std::int64_t>(documents));
}

Result<void> unset_loaded(Record& record, const std::string& ns) {
  return put_loaded(record, ns, -1);
}

Result<void> keep_in_base(Record& record) {
  const Result<Loaded> all = loaded(record);
  if (!all) return error_in(all);
  std::int64_t sum = 0;
  for (const auto& [ns, documents] : *all) sum += static_cast<std::int64_t>(documents);
  return record.put(kInBase, Bson("documents", sum));
}

Result<std::uint64_t> documents_in_base(Record& record) {
  const Result<std::optional<Bson>> found = record.get(kInBase);
  if (!found) return error_in(found);
  const std::optional<Bson>& kept = *found;
  return kept ? number_of(kept->view(), "documents") : 0;
}

Result<void> keep_tallies(Record& record, const OplogFacts& facts) {
  const Result<std::optional<Bson>> kept = record.get(kTallies);
  if (!kept) return error_in(kept);
  if (*kept) return {};
  const auto row_of = [](const auto& each) {
    const auto& [ns, tally] = each;
    return Bson("ns", ns, "base", tally.base, "inserts", static_cast<std::int64_t>(tally.inserts),
                "deletes", static_cast<std::int64_t>(tally.deletes));
  };
  return record.put(kTallies,
                    Bson("tallies", array_of(facts.tallies, row_of), "gone", array_of(facts.gone)));
}

Result<std::uint64_t> missed_updates(Record& record) {
  const Result<std::map<std::string, Bson>> markers = record.get_all("replay:oplog:");
  if (!markers) return error_in(markers);
  std::uint64_t missed = 0;
  for (const auto& [id, marker] : *markers) missed += number_of(marker.view(), "missed");
  return missed;
}

Result<std::map<std::string, Expected>> expected_documents(Record& record) {
  if (record.stage() != RunStage::kDone)
    return fail(Code::kFailedPrecondition,
                "the restore there is not done: the command run goes on with it (it is in: " +
                    std::string(name(record.stage())) + ")");
  const Result<Loaded> base = loaded(record);
  if (!base) return error_in(base);
  Result<std::optional<Bson>> found = record.get(kTallies);
  if (!found) return error_in(found);
  const std::optional<Bson> kept = *std::move(found);
  std::map<std::string, Expected> expected;
  for (const auto& [ns, documents] : *base) expected[ns] = {.base = documents};
  if (!kept) return expected;
  const Result<Outcomes> outcomes = kept_outcomes(record);
  if (!outcomes) return error_in(outcomes);
  const Document tallies = kept->view();
  tallies.each_text("gone", [&](std::string_view ns) { expected.erase(std::string(ns)); });
  tallies.each("tallies", [&](const Document& row) {
    const std::string ns = text_of(row, "ns");
    if (ns.ends_with(".system.views")) return;  // these are views
    const auto from = base->find(text_of(row, "base"));
    const auto outcome = outcomes->find(ns);
    const Outcome was = outcome == outcomes->end() ? Outcome{} : outcome->second;
    expected[ns] = {.base = from == base->end() ? 0 : from->second,
                    .inserts = number_of(row, "inserts") +
                               static_cast<std::uint64_t>(was.upserted - was.replaced),
                    .deletes = number_of(row, "deletes") - static_cast<std::uint64_t>(was.absent)};
  });
  return expected;
}

}  // namespace idmint::restore
