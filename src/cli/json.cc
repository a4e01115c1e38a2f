#include "cli/json.h"

#include <nlohmann/json.hpp>

#include "advice/status_json.h"
#include "mint/sequence_facts.h"

namespace idmint::cli {

using namespace advice;

namespace {

using Json = nlohmann::ordered_json;

Json integer(std::int64_t value, bool numbers) {
  return numbers ? Json(value) : Json(std::to_string(value));
}

// Replaces what is not UTF-8, so that the line stays JSON.
std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json integer(std::optional<std::int64_t> value, bool numbers) {
  return value ? integer(*value, numbers) : Json(nullptr);
}

Json time(const std::optional<Instant>& instant) {
  return instant ? Json(format_exact_time(*instant)) : Json(nullptr);
}

Json sequence(const SequenceStatus& status, bool numbers) {
  return status_json(status, StatusKeys::kCommand, !numbers);
}

// The time up to which ids may have been minted; null: none was minted, or the layout has no such
// time.
Json minted_until(const PoolDefinition& pool, const LeaseState& state) {
  const std::optional<Instant> at = time_of(pool.layout, state.minted_until);
  return at && state.minted_until != 0 ? Json(format_exact_time(*at)) : Json(nullptr);
}

Json worker(const PoolDefinition& pool, const LeaseState& state, bool numbers) {
  const bool owned = is_owned(state);
  return {{"worker", state.worker},
          {"owned", owned},
          {"held_by", state.token != Uuid{} ? Json(state.holder) : Json(nullptr)},
          {"held_for_seconds",
           owned ? Json(std::chrono::duration<double>(state.held_for).count()) : Json(nullptr)},
          {"generation", integer(state.generation, numbers)},
          {"minted_until", minted_until(pool, state)},
          {"minted_until_units", integer(state.minted_until, numbers)}};
}

// JSON has no numbers that are not finite.
template <class Value>
Json optional(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string json_version(std::string_view version) {
  return line({{"name", "idmint"}, {"version", version}});
}

std::string json_formats(std::span<const Declaration> formats) {
  Json all = Json::array();
  for (const Declaration& format : formats) {
    all.push_back({{"name", format.name},
                   {"guarantee", name(format.guarantee)},
                   {"order", name(format.order)},
                   {"notes", format.notes}});
  }
  return line(all);
}

std::string json_layouts(std::span<const SnowflakePreset> presets) {
  Json all = Json::array();
  for (const SnowflakePreset& preset : presets) {
    all.push_back({{"name", preset.name},
                   {"fields", to_string(preset.layout)},
                   {"time_bits", preset.layout.time_bits},
                   {"worker_bits", preset.layout.worker_bits},
                   {"sequence_bits", preset.layout.sequence_bits},
                   {"notes", preset.description}});
  }
  return line(all);
}

std::string json_sequence(const SequenceStatus& status, std::string_view store, bool numbers) {
  Json json = sequence(status, numbers);
  json["store"] = store;
  return line(json);
}

std::string json_raised(const Raised& raised, std::string_view store, bool dry_run, bool numbers) {
  Json json = sequence(raised.status, numbers);
  json["skipped"] = integer(raised.skipped, numbers);
  json["left_before"] = integer(raised.left, numbers);
  json["dry_run"] = dry_run;
  json["store"] = store;
  return line(json);
}

std::string json_moved(const Moved& moved, std::string_view from, std::string_view to, bool dry_run,
                       bool numbers) {
  const SequenceDefinition& definition = moved.definition;
  const bool by_index = definition.strategy == Strategy::kPermuted;
  return line({{"name", definition.name},
               {"strategy", name(definition.strategy)},
               {"from", from},
               {"to", to},
               {"counters", integer(moved.counters, numbers)},
               {by_index ? "index" : "next", integer(moved.next, numbers)},
               {"left", integer(moved.left, numbers)},
               {"was_begun", moved.was_begun},
               {"was_done", moved.was_done},
               {"dry_run", dry_run}});
}

std::string json_raised_all(std::span<const RaisedSource> sources, std::string_view store,
                            bool settled, bool dry_run, bool numbers) {
  Json all = Json::array();
  for (const RaisedSource& each : sources) {
    const Definition& definition = each.definition;
    Json json = {{"name", name(definition)},
                 {"strategy", strategy_name(definition)},
                 {"skipped", integer(each.raised.skipped, numbers)},
                 {"left_before", integer(each.raised.left, numbers)}};
    if (each.past_unit) json["past_units"] = integer(*each.past_unit, numbers);
    json["retired"] = each.retired;
    json["remains"] = each.remains;
    json["error"] = each.error ? Json(each.error->message()) : Json(nullptr);
    all.push_back(std::move(json));
  }
  return line({{"store", store}, {"dry_run", dry_run}, {"settled", settled}, {"sources", all}});
}

std::string json_created(const Changed& created, std::string_view store, bool numbers) {
  Json json = sequence(created.status, numbers);
  json["created"] = created.made;
  if (const auto ends = first_and_last_id(created.status.definition)) {
    json["first_id"] = ends->first;
    json["last_id"] = ends->second;
  }
  json["store"] = store;
  return line(json);
}

std::string json_sequences(std::span<const SequenceStatus> statuses, bool numbers) {
  Json all = Json::array();
  for (const SequenceStatus& status : statuses) all.push_back(sequence(status, numbers));
  return line(all);
}

std::string json_peeked(const SequenceStatus& status, std::string_view store,
                        std::optional<Instant> from, bool numbers) {
  Json json = sequence(status, numbers);
  if (is_pool(status)) json["leased_from"] = time(from);
  json["store"] = store;
  return line(json);
}

std::string json_workers(const PoolDefinition& pool, const WorkersListed& listed,
                         std::string_view store, bool numbers) {
  Json all = Json::array();
  for (const LeaseState& state : listed.workers) all.push_back(worker(pool, state, numbers));
  return line({{"pool", pool.name},
               {"layout", to_string(pool.layout)},
               {"workers", pool.workers},
               {"owned", listed.owned},
               {"leased_from", time(listed.from)},
               {"used", all},
               {"left_out", listed.left_out},
               {"store", store}});
}

std::string json_released(const PoolDefinition& pool, const LeaseState& was, bool numbers) {
  Json json = worker(pool, was, numbers);
  json["released"] = was.token != Uuid{};
  return line(json);
}

std::string json_pool_raised(const PoolDefinition& pool, std::int64_t floor, Instant past,
                             bool numbers) {
  return line({{"pool", pool.name},
               {"past", format_exact_time(past)},
               {"floor_units", integer(floor, numbers)}});
}

std::string json_bounds(std::string_view format, std::string_view smallest,
                        std::string_view largest) {
  return line({{"format", format}, {"smallest", smallest}, {"largest", largest}});
}

std::string json_measurements(std::span<const Measurement> results) {
  Json all = Json::array();
  for (const Measurement& result : results) {
    all.push_back({{"source", result.source},
                   {"threads", result.threads},
                   {"batch", result.batch},
                   {"seconds", result.seconds},
                   {"ids", result.ids},
                   {"ids_per_second", result.ids_per_second()},
                   {"ns_per_id", result.ns_per_id()},
                   {"call_ns",
                    {{"p50", result.calls.quantile(0.5)},
                     {"p99", result.calls.quantile(0.99)},
                     {"p99_9", result.calls.quantile(0.999)},
                     {"max", result.calls.max()}}},
                   {"used_up", result.durable ? result.ids : 0}});
  }
  return line(all);
}

std::string json_findings(Health worst, std::span<const Finding> findings) {
  Json all = Json::array();
  for (const Finding& finding : findings) {
    all.push_back({{"health", name(finding.health)},
                   {"kind", finding.kind},
                   {"subject", finding.subject},
                   {"text", finding.text},
                   {"left_fraction", optional(finding.left)},
                   {"ends", finding.ends ? Json(format_time(*finding.ends)) : Json(nullptr)}});
  }
  return line({{"health", name(worst)}, {"findings", all}});
}

std::string json_applied(std::span<const Applied> applied, bool changed) {
  Json all = Json::array();
  for (const Applied& each : applied) {
    all.push_back(
        {{"name", each.name}, {"outcome", name(each.outcome, each.stage)}, {"text", each.text}});
  }
  return line({{"carried_out", changed}, {"sequences", all}});
}

std::string json_change(const LayoutChange& change, Instant at, const ChangeAnswer& answer,
                        std::string_view proof) {
  const auto use = [](const LayoutUse& layout) {
    return Json{{"layout", to_string(layout.layout)},
                {"least_worker", layout.workers.least},
                {"largest_worker", layout.workers.most}};
  };
  const auto ids = [](const std::optional<Bounds<Snowflake>>& bounds) {
    if (!bounds) return Json(nullptr);
    return Json{{"smallest", bounds->smallest.to_string()},
                {"largest", bounds->largest.to_string()}};
  };
  const auto parts = [](const SnowflakeParts& of) {
    return Json{
        {"time", format_exact_time(of.time)}, {"worker", of.worker}, {"sequence", of.sequence}};
  };
  Json shared = nullptr;
  if (answer.shared) {
    shared = {{"id", answer.shared->id.to_string()},
              {"old", parts(answer.shared->from)},
              {"new", parts(answer.shared->to)}};
  }
  return line({{"from", use(change.from)},
               {"to", use(change.to)},
               {"at", format_exact_time(at)},
               {"since", change.since == Instant::min() ? Json(nullptr) : time(change.since)},
               {"drift_seconds", std::chrono::duration<double>(change.drift).count()},
               {"clock_error_seconds", std::chrono::duration<double>(change.clock_error).count()},
               {"safe", answer.earliest == at},
               {"proof", proof.empty() ? Json(nullptr) : Json(proof)},
               {"old_ids", ids(answer.old_ids)},
               {"new_ids", ids(answer.new_ids)},
               {"shared_id", shared},
               {"earliest_switch", time(answer.earliest)},
               {"safe_until", time(answer.safe_until)},
               {"earliest_start", time(answer.start)}});
}

std::string json_converted(std::string_view text, std::string_view result) {
  return line({{"text", text}, {"result", result}});
}

std::string json_checked(std::string_view text, std::string_view format, std::string_view problem) {
  return line({{"text", text},
               {"valid", problem.empty()},
               {"format", format.empty() ? Json(nullptr) : Json(format)},
               {"problem", problem.empty() ? Json(nullptr) : Json(problem)}});
}

std::string json_text(std::string_view text) { return line(text); }

}  // namespace idmint::cli
