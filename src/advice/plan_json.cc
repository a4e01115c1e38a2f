#include "advice/plan_json.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "advice/plan_words.h"

namespace idmint::advice {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no numbers that are not finite.
template <class Value>
Json optional(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// A count: an integer as long as a double is exact, and a rounded figure beyond that.
Json count(double value) {
  constexpr double most = 9'007'199'254'740'992;  // 2^53
  return value <= most ? Json(static_cast<std::int64_t>(std::round(value))) : Json(value);
}

Json count(const std::optional<double>& value) { return value ? count(*value) : Json(nullptr); }

Json origins_json(std::span<const WorkerTerms> all) {
  Json origins = Json::array();
  for (const WorkerTerms& terms : all) {
    origins.push_back({{"worker", terms.origin},
                       {"guarantee", name(terms.guarantee)},
                       {"condition", condition_of(terms)},
                       {"odds_of_shared_worker", optional(terms.odds_of_share)},
                       {"most_odds_of_shared_worker", optional(terms.most_odds_of_share)}});
  }
  return origins;
}

Json choice_json(const Needs& needs, const Choice& choice) {
  const std::string command = command_of(choice.steps);
  const std::string next_host = command_of(choice.of_next_host);
  Json stored = Json::array();
  for (const Stored& form : choice.stored) {
    stored.push_back(
        {{"type", form.type}, {"row_bytes", form.row_bytes}, {"index_bytes", form.index_bytes}});
  }
  return {{"source", choice.source},
          {"about", choice.about},
          {"reason", choice.reason},
          {"guarantee", name(choice.guarantee)},
          {"order", choice.order},
          {"command", command.empty() ? Json(nullptr) : Json(command)},
          {"next_host_command", next_host.empty() ? Json(nullptr) : Json(next_host)},
          {"command_note", note_of(needs, choice)},
          {"space", count(choice.space)},
          {"odds_of_a_repeat", optional(choice.odds_of_a_repeat)},
          {"odds_that_the_last_collides", optional(choice.odds_that_the_last_collides)},
          {"redraws", optional(choice.redraws)},
          {"seconds_to_count", choice.seconds_to_count},
          {"seconds_to_end", choice.seconds_to_end},
          {"block", count(choice.block)},
          {"time_ends", choice.time_ends ? Json(print_day(*choice.time_ends)) : Json(nullptr)},
          {"workers", count(choice.workers)},
          {"odds_of_shared_worker", optional(choice.odds_of_shared_worker)},
          {"worker_origins", origins_json(choice.worker_terms)},
          {"ids_per_second", choice.ids_per_second},
          {"callers", count(choice.callers)},
          {"batch", count(choice.batch)},
          {"store_writes_per_second", choice.store_writes_per_second},
          {"speed", choice.speed},
          {"stored", stored},
          {"index_gigabytes", choice.index_gigabytes},
          {"appends", choice.appends},
          {"locality", choice.locality},
          {"clock_goes_back", choice.clock_goes_back},
          {"host_dies", choice.host_dies},
          {"store_down", choice.store_down}};
}

Json choices_json(const Needs& needs, std::span<const Choice> choices) {
  Json all = Json::array();
  for (const Choice& choice : choices) all.push_back(choice_json(needs, choice));
  return all;
}

}  // namespace

std::string json_plan(const Needs& needs, const Plan& plan) {
  const std::span<const Choice> fitting(plan.fitting);
  const Json json(
      {{"needs",
        {{"digits", optional(needs.digits)},
         {"bits", optional(needs.bits)},
         {"count", count(needs.count)},
         {"hosts", count(needs.hosts)},
         {"rate_per_second", needs.rate},
         {"order", name(needs.order)},
         {"database", name(needs.database)},
         {"unguessable", needs.unguessable},
         {"shared_store", needs.shared_store},
         {"shared_store_url", needs.shared_url.empty() ? Json(nullptr) : Json(needs.shared_url)},
         {"round_trip_seconds", std::chrono::duration<double>(needs.round_trip).count()},
         {"own_round_trip_seconds", std::chrono::duration<double>(needs.own_round_trip).count()}}},
       {"recommended", fitting.empty() ? Json(nullptr) : choice_json(needs, fitting.front())},
       {"alternatives", choices_json(needs, fitting.empty() ? fitting : fitting.subspan(1))},
       {"lacking_store", choices_json(needs, plan.lacking_store)},
       {"unfitting", choices_json(needs, plan.unfitting)},
       {"storage_note", plan.storage_note}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace idmint::advice
