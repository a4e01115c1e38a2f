#include "restore/replay/index_trial.h"

#include <map>
#include <string_view>
#include <utility>

#include "restore/collections.h"
#include "restore/namespaces.h"
#include "restore/replay/load.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

constexpr const char* kTrial = "indexes";

bool is_buckets(std::string_view ns) { return collection_of(ns).starts_with(kBuckets); }

// The collection to try on: a time-series collection by the view's name if its options are those of
// the view, as a base has them.
CollectionFacts trial_of(const IndexTrial& trial) {
  CollectionFacts facts{.database = kRecordDatabase, .name = kTrial};
  if (!trial.options) return facts;
  facts.options = trial.options->copy();
  const bool time_series = trial.options->view().has("timeseries");
  if (time_series && !trial.options->view().has("clusteredIndex"))
    facts.kind = CollectionKind::kTimeSeries;
  else if (is_buckets(trial.ns))
    facts.name = std::string(kBuckets) + kTrial;
  return facts;
}

// The same text for trials with the same outcome.
std::string text_of_trial(const IndexTrial& trial) {
  std::string text = is_buckets(trial.ns) ? "buckets" : "";
  const auto add = [&](Document document) { text += document.raw(); };
  add(trial.options ? trial.options->view() : Bson().view());
  for (const Document spec : trial.specs) add(spec);
  return text;
}

// Tries the specifications. If the server refuses the options of the collection, tries a plain one:
// the load or the replay reports the refusal.
Result<std::vector<RefusedIndex>> try_once(Server& server, const IndexTrial& trial) {
  std::vector<RefusedIndex> refused;
  const CollectionFacts facts = trial_of(trial);
  if (Result<void> dropped = drop_collection(server, facts); !dropped) return error_in(dropped);
  const Result<void> made = create_collection(server, facts);
  if (!made && made.error().code == Code::kUnavailable) return error_in(made);
  const std::string ns = std::string(kRecordDatabase) + "." +
                         (made && is_buckets(trial.ns) ? std::string(kBuckets) : "") + kTrial;
  if (const Result<void> all = create_indexes(server, ns, trial.specs); !all) {
    if (all.error().code == Code::kUnavailable) return error_in(all);
    Result<void> each = create_one_by_one(server, ns, trial.specs, refused);
    if (!each) return error_in(each);
  }
  const CollectionFacts plain{.database = kRecordDatabase, .name = kTrial};
  if (Result<void> dropped = drop_collection(server, made ? facts : plain); !dropped)
    return error_in(dropped);
  return refused;
}

}  // namespace

Result<std::vector<RefusedIndex>> refused_indexes(Server& server,
                                                  const std::vector<IndexTrial>& trials) {
  std::map<std::string, std::vector<RefusedIndex>> known;
  std::vector<RefusedIndex> all;
  for (const IndexTrial& trial : trials) {
    if (trial.specs.empty()) continue;
    const std::string text = text_of_trial(trial);
    auto at = known.find(text);
    if (at == known.end()) {
      Result<std::vector<RefusedIndex>> refused = try_once(server, trial);
      if (!refused) return refused;
      at = known.emplace(text, std::move(*refused)).first;
    }
    for (const RefusedIndex& each : at->second)
      all.push_back({.ns = trial.ns,
                     .name = each.name,
                     .why = each.why,
                     .spec = each.spec.copy(),
                     .built = trial.built});
  }
  return all;
}

}  // namespace idmint::restore
