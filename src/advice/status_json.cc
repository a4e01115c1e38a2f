#include "advice/status_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include "mint/sequence_facts.h"

namespace idmint::advice {

using Json = nlohmann::ordered_json;

Json status_json(const SequenceStatus& status, StatusKeys keys, bool as_text) {
  const Definition& definition = status.definition;
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  const auto* const pool = std::get_if<PoolDefinition>(&definition);
  const auto [first, last] = ends_of(definition);
  const bool of_command = keys == StatusKeys::kCommand;
  const bool of_http = keys == StatusKeys::kHttp;
  const auto integer = [&](std::optional<std::int64_t> value) {
    if (!value) return Json(nullptr);
    return as_text ? Json(std::to_string(*value)) : Json(*value);
  };
  Json json{{"name", name(definition)}};
  if (of_http) json["kind"] = pool != nullptr ? "pool" : "sequence";
  json["strategy"] = strategy_name(definition);
  json["guarantee"] = name(guarantee(definition));
  if (of_http) {
    json["order"] = name(order(definition));
    json["state"] = state_name(status);
  }
  const auto put_stride = [&] {
    if (sequence == nullptr || sequence->stride == 1) return;
    json["stride"] = sequence->stride;
    json["offset"] = sequence->offset();
  };
  if (!of_http || sequence != nullptr) {
    json["first"] = integer(first);
    json["last"] = integer(last);
    if (!of_command) put_stride();
    json["next"] = integer(next_value(status));
    if (of_command) json["index"] = integer(next_index(status));
    json["left"] = integer(status.left);
  }
  if (!of_http) json["state"] = state_name(status);
  if (of_command) {
    put_stride();
    if (!status.stripes.empty()) {
      Json& stores = json["stores"] = Json::array();
      for (const StripeStatus& stripe : status.stripes)
        stores.push_back({{"id", stripe.store.id.to_string()},
                          {"url", stripe.store.url},
                          {"next", integer(stripe.next)},
                          {"error", stripe.error ? Json(stripe.error->message()) : Json(nullptr)}});
      json["skew"] = integer(status.skew());
    }
    if (const std::string_view adopted = adopted_of(definition); !adopted.empty())
      json["adopted"] = adopted;
    if (const Move* const move = move_of(definition))
      json[move->stage == Move::Stage::kArriving ? "moved_from" : "moved_to"] = move->url;
  }
  if (pool != nullptr && keys != StatusKeys::kRedis) {
    json["layout"] = to_string(pool->layout);
    json["workers"] = pool->workers;
  }
  if (pool != nullptr && of_http) json["free_workers"] = status.left;
  const Form& its = form(definition);
  Json text{{"prefix", its.prefix}, {"encoding", name(its.encoding)}, {"check", name(its.check)}};
  if (of_http) {
    text.update({{"digits", its.digits}, {"width", its.width}});
    json["form"] = std::move(text);
  } else if (pool != nullptr && of_command) {
    json.update(text);
  }
  return json;
}

}  // namespace idmint::advice
