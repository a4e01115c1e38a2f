// The HTTP routes that know ids and plans, and take nothing from a store: what the commands bounds,
// convert, plan and inspect do, with the words of their options as parameters.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "advice/conversion.h"
#include "advice/id_bounds.h"
#include "advice/needs.h"
#include "advice/plan.h"
#include "advice/plan_json.h"
#include "advice/read_id.h"
#include "base/errors.h"
#include "idmint/clock.h"
#include "idmint/id.h"
#include "ids/readings.h"
#include "server/http_routes.h"

namespace idmint::server {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kLongestId = 1024;
// Choices of a plan that fit: what comes after them nobody takes.
constexpr std::size_t kMostChoices = 4;

std::optional<std::string> text_of(const HttpRequest& request, std::string_view name) {
  const std::optional<std::string_view> value = request.parameter(name);
  if (!value) return std::nullopt;
  return std::string(*value);
}

Result<void> check_id(std::string_view text) {
  if (text.size() <= kLongestId) return {};
  return refuse("an id has at most " + std::to_string(kLongestId) + " characters");
}

// A flag of a command is a parameter that is true or false.
Result<bool> flag_of(const HttpRequest& request, std::string_view name) {
  const std::string_view value = request.parameter(name).value_or("false");
  if (value != "true" && value != "false")
    return refuse(std::string(name) + " takes true or false");
  return value == "true";
}

Result<Json> bounds_of(const HttpRequest& request) {
  static constexpr std::array<std::string_view, 4> known{"format", "at", "until", "layout"};
  if (Result<void> taken = check_parameters(request, known); !taken)
    return std::unexpected(std::move(taken.error()));
  const advice::BoundsTexts given{.format = text_of(request, "format").value_or(""),
                                  .at = text_of(request, "at").value_or(""),
                                  .until = text_of(request, "until").value_or(""),
                                  .layout = text_of(request, "layout").value_or("")};
  if (given.format.empty()) return refuse("format is missing: give one, such as uuid7");
  if (given.at.empty()) return refuse("at is missing: give a time, such as 2026-01-01T00:00:00Z");
  const Result<Bounds<Id>> bounds = advice::id_bounds(given, advice::Words::kParameters);
  // The request is at fault whatever the code says: another time would be possible.
  if (!bounds) return refuse(bounds.error().message());
  return Json{{"format", given.format},
              {"smallest", to_string(bounds->smallest)},
              {"largest", to_string(bounds->largest)}};
}

Result<Json> converted(const HttpRequest& request) {
  static constexpr std::array<std::string_view, 6> known{"id",     "to",    "from",
                                                         "prefix", "check", "width"};
  if (Result<void> taken = check_parameters(request, known); !taken)
    return std::unexpected(std::move(taken.error()));
  const std::string id_text = text_of(request, "id").value_or("");
  if (id_text.empty()) return refuse("id is missing: give the id to convert");
  if (Result<void> fits = check_id(id_text); !fits) return std::unexpected(std::move(fits.error()));
  const advice::ConversionTexts given{.to = text_of(request, "to").value_or(""),
                                      .prefix = text_of(request, "prefix"),
                                      .check = text_of(request, "check").value_or(""),
                                      .width = text_of(request, "width")};
  if (given.to.empty())
    return refuse("to is missing: give an encoding or a format, such as base58");
  const auto to = advice::Conversion::make(given, advice::Words::kParameters);
  if (!to) return std::unexpected(to.error());
  const std::optional<std::string> from = text_of(request, "from");
  detail::Reader reader(system_clock().now());
  const Result<Id> id = from ? advice::read_from(id_text, *from, advice::Words::kParameters)
                             : advice::read_likeliest(id_text, reader, advice::Words::kParameters);
  // The request is at fault whatever the code says: 404 would be for a path.
  if (!id) return refuse("the id cannot be read: " + id.error().message());
  Result<std::string> text = (*to)(id_text, *id);
  if (!text) return std::unexpected(std::move(text.error()));
  return Json{{"text", id_text}, {"result", *std::move(text)}};
}

Result<advice::Needs> needs_of(const HttpRequest& request) {
  static constexpr std::array<std::string_view, 10> known{
      "digits", "bits",     "count",      "hosts",       "rate",
      "order",  "database", "round_trip", "unguessable", "shared_store"};
  if (Result<void> taken = check_parameters(request, known); !taken)
    return std::unexpected(std::move(taken.error()));
  advice::NeedsTexts given;
  const std::array<std::pair<std::string_view, std::string*>, 8> texts{{
      {"digits", &given.digits},
      {"bits", &given.bits},
      {"count", &given.count},
      {"hosts", &given.hosts},
      {"rate", &given.rate},
      {"order", &given.order},
      {"database", &given.database},
      {"round_trip", &given.round_trip},
  }};
  for (const auto& [name, into] : texts) {
    std::optional<std::string> value = text_of(request, name);
    if (value && value->empty())
      return refuse(std::string(name) + " is empty: give a value, or leave it out");
    if (value) *into = *std::move(value);
  }
  const std::array<std::pair<std::string_view, bool*>, 2> flags{{
      {"unguessable", &given.unguessable},
      {"shared_store", &given.shared_store},
  }};
  for (const auto& [name, into] : flags) {
    const Result<bool> value = flag_of(request, name);
    if (!value) return std::unexpected(value.error());
    *into = *value;
  }
  return advice::needs_of(given, advice::Words::kParameters);
}

}  // namespace

void get_bounds(HttpSession& session, const HttpRequest& request) {
  const Result<Json> bounds = bounds_of(request);
  if (!bounds) return session.respond(bounds.error());
  session.respond(ok(*bounds));
}

void get_convert(HttpSession& session, const HttpRequest& request) {
  const Result<Json> result = converted(request);
  if (!result) return session.respond(result.error());
  session.respond(ok(*result));
}

// The best choices that fit. If none does, "recommended" is null, and "unfitting" says why.
void get_plan(HttpSession& session, const HttpRequest& request) {
  const Result<advice::Needs> needs = needs_of(request);
  if (!needs) return session.respond(needs.error());
  advice::Plan plan = advice::make_plan(*needs, system_clock().now());
  plan.fitting.resize(std::min(plan.fitting.size(), kMostChoices));
  if (!plan.fitting.empty()) plan.unfitting.clear();
  session.respond({.body = advice::json_plan(*needs, plan) + "\n"});
}

void get_inspect(HttpSession& session, const HttpRequest& request) {
  const std::string& text = request.path[2];
  if (const Result<void> fits = check_id(text); !fits) return session.respond(fits.error());
  Json readings = Json::array();
  for (const Reading& reading : inspect(text, system_clock().now())) {
    Json fields = Json::object();
    for (const Field& field : reading.fields) fields[field.name] = field.value;
    readings.push_back(
        {{"format", reading.format},
         {"canonical", reading.canonical},
         {"time", reading.time ? Json(format_exact_time(*reading.time)) : Json(nullptr)},
         {"fields", fields}});
  }
  session.respond(ok({{"id", text}, {"readings", readings}}));
}

}  // namespace idmint::server
