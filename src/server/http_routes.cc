// The routes of the HTTP service.
#include "server/http_routes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <expected>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "advice/status_json.h"
#include "base/errors.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/encoding.h"
#include "idmint/form.h"
#include "idmint/sequence.h"
#include "idmint/worker_pool.h"
#include "mint/formats.h"
#include "mint/given_before.h"
#include "mint/sequence_spec.h"
#include "server/access.h"
#include "server/http_body.h"
#include "server/http_session.h"
#include "server/metrics.h"
#include "server/openapi.h"

namespace idmint::server {
namespace {

using Json = nlohmann::ordered_json;

// The limit of a list whose request gives none.
constexpr std::int64_t kMostSourcesByDefault = 1000;

Json source_json(const SequenceStatus& status) {
  return advice::status_json(status, advice::StatusKeys::kHttp, true);
}

// ---- routes

void post_ids(HttpSession& session, const HttpRequest& request) {
  static constexpr std::array<std::string_view, 3> known{"count", "form", "numbers"};
  if (const Result<void> taken = check_parameters(request, known); !taken)
    return session.respond(taken.error());
  HttpSession::IdsWanted wanted{.name = request.path[2]};
  if (const auto text = request.parameter("count")) {
    const Result<std::int64_t> count = whole("count", *text, 1, HttpSession::kMostStreamed);
    if (!count) return session.respond(count.error());
    wanted.count = *count;
  }
  if (const auto text = request.parameter("form")) {
    const Result<Encoding> encoding = encoding_named(*text);
    if (!encoding)
      return session.respond(Error{Code::kInvalidArgument, "form: " + encoding.error().message()});
    wanted.form = Form{.encoding = *encoding};
  }
  if (const auto text = request.parameter("numbers")) {
    if (*text != "true" && *text != "false")
      return session.respond(Error{Code::kInvalidArgument, "numbers takes true or false"});
    wanted.numbers = *text == "true";
  }
  const std::optional<IdsAs> as = ids_as(request.accept);
  if (!as)
    return session.respond(
        problem(406, "Not Acceptable",
                "Accept names none of text/plain, application/json and application/x-ndjson"));
  wanted.as = *as;
  if (wanted.as == IdsAs::kJson && wanted.count > kMostIds)
    return session.respond(Error{Code::kInvalidArgument,
                                 "as an array of JSON at most " + std::to_string(kMostIds) +
                                     " ids: ask with Accept: application/x-ndjson or text/plain, "
                                     "which stream"});
  session.respond_with_ids(std::move(wanted));
}

void get_formats(HttpSession& session, const HttpRequest& /*request*/) {
  Json formats = Json::array();
  for (const Declaration& format : Mint::formats()) {
    formats.push_back({{"name", format.name},
                       {"format", format.format},
                       {"guarantee", name(format.guarantee)},
                       {"order", name(format.order)},
                       {"notes", format.notes}});
  }
  session.respond(ok({{"formats", formats}}));
}

// By name, so many at a time: where there are more, "next" is the last one's name.
void get_sources(HttpSession& session, const HttpRequest& request) {
  static constexpr std::array<std::string_view, 2> known{"after", "limit"};
  if (const Result<void> taken = check_parameters(request, known); !taken)
    return session.respond(taken.error());
  std::int64_t most = kMostSourcesByDefault;
  if (const auto text = request.parameter("limit")) {
    const Result<std::int64_t> limit = whole("limit", *text, 1, kMostIds);
    if (!limit) return session.respond(limit.error());
    most = *limit;
  }
  session.elsewhere(
      std::nullopt,
      [view = session.service().view_of(session.caller()),
       after = std::string(request.parameter("after").value_or("")),
       size = static_cast<std::size_t>(most)](SteadyTime until) -> Result<HttpResponse> {
        // The first of each store, and one more.
        std::vector<SequenceStatus> all;
        std::string store;
        std::size_t of_store = 0;
        const Result<void> read = view.each({.after = after, .most = size + 1}, Verb::kPeek, until,
                                            [&](const SequenceStatus& status) {
                                              const std::string& its_name = name(status.definition);
                                              std::string its_store =
                                                  its_name.substr(0, its_name.rfind('/') + 1);
                                              if (its_store != store) of_store = 0;
                                              store = std::move(its_store);
                                              all.push_back(status);
                                              return ++of_store <= size;
                                            });
        if (!read) return std::unexpected(read.error());
        std::ranges::sort(all, {}, [](const SequenceStatus& status) -> const std::string& {
          return name(status.definition);
        });
        Json sources = Json::array();
        for (const SequenceStatus& status : std::span(all).first(std::min(size, all.size())))
          sources.push_back(source_json(status));
        Json json{{"sources", sources}};
        if (all.size() > size) json["next"] = name(all[size - 1].definition);
        return ok(json);
      },
      [](HttpResponse response) { return response; });
}

void get_source(HttpSession& session, const HttpRequest& request) {
  session.elsewhere(
      request.path[2],
      [&sources = session.service().sources, name = request.path[2]](SteadyTime until) {
        return sources.peek(name, until);
      },
      [](const SequenceStatus& status) { return ok(source_json(status)); });
}

// A source that is being created counts against its caller's quota, and stays counted unless it
// turns out that nothing was made.
struct Creating {
  Creating(Quota& its_quota, const std::string& its_source, std::int64_t its_stripes)
      : quota(its_quota), source(its_source), stripes(its_stripes) {}
  ~Creating() { quota.end(source, stripes, made); }
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;

  Quota& quota;
  const std::string& source;
  const std::int64_t stripes;
  bool made = true;
};

// The records that it has in its store, at least one.
std::int64_t stripes_of(const Definition& definition) {
  if (const auto* const sequence = std::get_if<SequenceDefinition>(&definition))
    return sequence->stripes;
  const auto& pool = std::get<PoolDefinition>(definition);
  return pool.workers != 0 ? pool.workers
                           : std::min<std::int64_t>(PoolDefinition::kUsualWorkers,
                                                    std::int64_t{pool.layout.max_worker()} + 1);
}

// As `idmint create`, which asks: a source of a store that is gone may have been made anew.
Result<void> repeats_nothing(const Sources& sources, const std::string& source,
                             const Definition& definition) {
  return sources.at(source, [&](Mint& mint, const std::string& /*own*/) -> Result<void> {
    const Result<std::string> url = mint.store_url();
    const auto repeats = url ? would_repeat(*url, definition, system_clock().now()) : std::nullopt;
    if (!repeats) return {};
    return fail(Code::kFailedPrecondition,
                repeats->why + ": nothing was created; " +
                    (repeats->last ? "send a \"start\" of " + std::to_string(*repeats->last + 1) +
                                         " or more, above every value in use, or"
                                   : std::string("send another name, or")) +
                    " {\"yes\": true} if nothing keeps the old ones");
  });
}

// The body is what `idmint create` takes as options.
void post_source(HttpSession& session, const HttpRequest& request) {
  static constexpr std::array<std::string_view, 19> known{
      "name",   "kind",     "layout", "workers", "strategy", "start",         "yes",
      "max",    "stride",   "offset", "stripes", "step",     "largest_count", "key",
      "prefix", "encoding", "check",  "digits",  "width"};
  const Result<Json> body = body_of(request, known);
  if (!body) return session.respond(body.error());
  SequenceSpec spec;
  std::optional<std::string> its_name;
  const std::array<std::pair<std::string_view, std::optional<std::string>*>, 8> texts{{
      {"name", &its_name},
      {"kind", &spec.kind},
      {"layout", &spec.layout},
      {"strategy", &spec.strategy},
      {"key", &spec.key},
      {"prefix", &spec.prefix},
      {"encoding", &spec.encoding},
      {"check", &spec.check},
  }};
  for (const auto& [member, into] : texts) {
    Result<std::optional<std::string>> text = string_of(*body, member);
    if (!text) return session.respond(text.error());
    *into = *std::move(text);
  }
  const std::array<std::pair<std::string_view, std::optional<std::int64_t>*>, 10> integers{{
      {"workers", &spec.workers},
      {"start", &spec.start},
      {"max", &spec.max},
      {"stride", &spec.stride},
      {"offset", &spec.offset},
      {"stripes", &spec.stripes},
      {"step", &spec.step},
      {"largest_count", &spec.largest_count},
      {"digits", &spec.digits},
      {"width", &spec.width},
  }};
  for (const auto& [member, into] : integers) {
    const Result<std::optional<std::int64_t>> value = integer_of(*body, member);
    if (!value) return session.respond(value.error());
    *into = *value;
  }
  if (!its_name) return session.respond(Error{Code::kInvalidArgument, "\"name\" is missing"});
  const std::string source = *std::move(its_name);
  if (const Result<void> may = session.caller().check(Verb::kCreate, source); !may)
    return session.respond(may.error());
  spec.name = source.substr(source.find('/') + 1);
  const Result<Definition> definition = definition_of(spec);
  if (!definition) return session.respond(definition.error());
  const auto yes = body->find("yes");
  const Caller& caller = session.caller();
  // A source, or why the caller may create no more.
  using Made = std::expected<SequenceStatus, HttpResponse>;
  session.elsewhere(
      source,
      [&sources = session.service().sources, source, definition = *definition,
       is_meant = yes != body->end() && *yes == true, quota = caller.quota(),
       whose = caller.spoken_of()](SteadyTime /*until*/) -> Result<Made> {
        std::optional<HttpResponse> refused;
        std::optional<Creating> creating;
        const auto may_make = [&]() -> Result<void> {
          if (!is_meant)
            if (Result<void> may = repeats_nothing(sources, source, definition); !may) return may;
          const std::int64_t stripes = stripes_of(definition);
          if (Result<void> counted = quota->begin(source, stripes, whose); !counted) {
            refused = problem(counted.error(), Steps::kOne, std::chrono::seconds{0});
            return counted;
          }
          creating.emplace(*quota, source, stripes);
          return {};
        };
        Result<Changed> made = sources.change(source, [&](Mint& mint, const std::string& /*own*/) {
          return mint.create(definition, {.may_make = may_make});
        });
        if (refused) return Made(std::unexpect, *std::move(refused));
        if (creating) creating->made = made ? made->made : !is_refusal(made.error().code);
        if (!made) return std::unexpected(std::move(made.error()));
        return Made(std::move(made->status));
      },
      [](const Made& made) {
        if (!made) return made.error();
        const SequenceStatus& status = *made;
        HttpResponse response = ok(source_json(status), 201);
        std::string segment = name(status.definition);
        if (const std::size_t slash = segment.find('/'); slash != std::string::npos)
          segment.replace(slash, 1, "%2F");
        response.headers = "Location: /v1/sources/" + segment + "\r\n";
        return response;
      },
      Steps::kSeveral);
}

void post_raise(HttpSession& session, const HttpRequest& request) {
  const Result<std::int64_t> past = only_integer(request, "past");
  if (!past) return session.respond(past.error());
  session.elsewhere(
      request.path[2],
      [&sources = session.service().sources, name = request.path[2],
       value = *past](SteadyTime until) {
        return sources.at(name, [&](Mint& mint, const std::string& own) {
          return mint.raise(own, value, RaiseMode::kCarryOut, until);
        });
      },
      [&sources = session.service().sources, name = request.path[2]](const Raised& raised) {
        if (const SourceHandle source = sources.find(name)) source->height.got(0, raised.next - 1);
        return ok({{"next", integer(raised.next)}, {"skipped", integer(raised.skipped)}});
      },
      Steps::kSeveral);
}

// Changes the definition of the source that the path names, and responds with what it is then.
// `act` gets the mint that has it and the name that it has there, and returns Result<Changed>.
template <class Act>
void change(HttpSession& session, const HttpRequest& request, Act act) {
  Sources& sources = session.service().sources;
  session.elsewhere(
      request.path[2],
      [&sources, source = request.path[2], act](SteadyTime /*until*/) {
        return sources.change(source, act);
      },
      [&sources](const Changed& changed) {
        sources.reopen(name(changed.status.definition));
        return ok(source_json(changed.status));
      },
      Steps::kSeveral);
}

void post_extend(HttpSession& session, const HttpRequest& request) {
  const Result<std::int64_t> last = only_integer(request, "max");
  if (!last) return session.respond(last.error());
  if (*last < 1 || *last > kLargestValue)
    return session.respond(Error{Code::kInvalidArgument, "\"max\" takes a whole number from 1 to " +
                                                             std::to_string(kLargestValue)});
  change(session, request,
         [value = *last](Mint& mint, const std::string& own) { return mint.alter(own, value); });
}

// As `idmint retire`, which asks whether it is meant.
void post_retire(HttpSession& session, const HttpRequest& request) {
  static constexpr std::array<std::string_view, 1> known{"yes"};
  const Result<Json> body = body_of(request, known);
  if (!body) return session.respond(body.error());
  if (const auto yes = body->find("yes"); yes == body->end() || *yes != true)
    return session.respond(
        Error{Code::kInvalidArgument,
              "no value comes from " + request.path[2].substr(0, 128) +
                  " any more, for ever, if it is retired: if that is meant, send {\"yes\": true}"});
  change(session, request, [](Mint& mint, const std::string& own) { return mint.retire(own); });
}

void get_workers(HttpSession& session, const HttpRequest& request) {
  session.elsewhere(
      request.path[2],
      [&sources = session.service().sources, name = request.path[2]](SteadyTime /*until*/) {
        return sources.at(
            name, [](Mint& mint, const std::string& own) { return mint.list_workers(own); });
      },
      [](const std::vector<LeaseState>& all) {
        Json workers = Json::array();
        for (const LeaseState& state : all) {
          if (!is_owned(state)) continue;
          workers.push_back(
              {{"worker", state.worker},
               {"held_by", state.holder},
               {"held_for_seconds", std::chrono::duration<double>(state.held_for).count()},
               {"generation", integer(state.generation)}});
        }
        return ok({{"workers", all.size()}, {"owned", workers}});
      });
}

// As this caller may see it.
void get_metrics(HttpSession& session, const HttpRequest& /*request*/) {
  session.hold();
  session.service().probe.look([&session, caller = session.shared_caller()] {
    session.respond({.type = "text/plain; version=0.0.4; charset=utf-8",
                     .body = metrics_page(session.service(), *caller, system_clock().now())});
    session.go_on();
  });
}

void get_health(HttpSession& session, const HttpRequest& /*request*/) {
  session.respond({.type = "text/plain; charset=utf-8", .body = "ok\n"});
}

// Ready to hand out ids: the stores answer, or nothing has been created in the default one yet.
void get_ready(HttpSession& session, const HttpRequest& /*request*/) {
  session.hold();
  session.service().sources.look_ready([&session](const Result<void>& ready) {
    if (ready) {
      session.respond({.type = "text/plain; charset=utf-8", .body = "ready\n"});
    } else {
      session.respond(session.service().for_client(ready.error()));
    }
    session.go_on();
  });
}

// The OpenAPI document of the routes. Everybody may read it: it has no names of sources.
void get_openapi(HttpSession& session, const HttpRequest& /*request*/) {
  session.respond({.body = std::string(kOpenapi)});
}

// What is served, and where, for somebody who looks with a browser.
void get_root(HttpSession& session, const HttpRequest& /*request*/) {
  session.respond(ok({{"serves", "ids that never repeat"},
                      {"ids", "POST /v1/ids/SOURCE"},
                      {"sources", "/v1/sources"},
                      {"openapi", "/openapi.json"},
                      {"metrics", "/metrics"},
                      {"live", "/healthz"},
                      {"ready", "/readyz"}}));
}

struct Route {
  std::string_view method;
  std::string_view path;  // {} stands for one segment
  void (*respond)(HttpSession& session, const HttpRequest& request);
  // The callers who may ask: everybody, those who are authenticated, or those who have the right to
  // do this with the source in the place of {}.
  enum Door : std::uint8_t { kAnybody, kLetIn, kWithRight } door = kLetIn;
  // The act, for rights and counts. Nothing: the route looks at no source.
  std::optional<Verb> verb{};
};

// openapi.json says what each takes and answers.
constexpr std::array kRoutes = {
    Route{"GET", "/", get_root, Route::kAnybody},
    Route{"GET", "/healthz", get_health, Route::kAnybody},
    Route{"GET", "/metrics", get_metrics, Route::kWithRight, Verb::kMetrics},
    Route{"GET", "/openapi.json", get_openapi, Route::kAnybody},
    Route{"GET", "/readyz", get_ready, Route::kAnybody},
    Route{"GET", "/v1/bounds", get_bounds},
    Route{"GET", "/v1/convert", get_convert},
    Route{"GET", "/v1/formats", get_formats},
    Route{"POST", "/v1/ids/{}", post_ids, Route::kWithRight, Verb::kNext},
    Route{"GET", "/v1/inspect/{}", get_inspect},
    Route{"GET", "/v1/plan", get_plan},
    Route{"POST", "/v1/pools/{}/leases", post_lease, Route::kWithRight, Verb::kLease},
    Route{"DELETE", "/v1/pools/{}/leases/{}", delete_lease, Route::kWithRight, Verb::kLease},
    Route{"POST", "/v1/pools/{}/leases/{}/extend", post_lease_extend, Route::kWithRight,
          Verb::kLease},
    Route{"GET", "/v1/pools/{}/workers", get_workers, Route::kWithRight, Verb::kPeek},
    Route{"GET", "/v1/sources", get_sources, Route::kLetIn, Verb::kPeek},
    // It looks for the right itself.
    Route{"POST", "/v1/sources", post_source, Route::kLetIn, Verb::kCreate},
    Route{"GET", "/v1/sources/{}", get_source, Route::kWithRight, Verb::kPeek},
    Route{"POST", "/v1/sources/{}/extend", post_extend, Route::kWithRight, Verb::kExtend},
    Route{"POST", "/v1/sources/{}/raise", post_raise, Route::kWithRight, Verb::kRaise},
    Route{"POST", "/v1/sources/{}/retire", post_retire, Route::kWithRight, Verb::kRetire},
};

static_assert(std::ranges::all_of(kRoutes, [](const Route& route) {
  return route.door != Route::kWithRight || route.verb.has_value();
}));

bool matches(std::string_view pattern, const std::vector<std::string>& path) {
  for (const std::string& segment : path) {
    if (pattern.empty()) return false;
    pattern.remove_prefix(1);  // the slash
    const std::string_view wanted = pattern.substr(0, pattern.find('/'));
    if (wanted == "{}" ? segment.empty() : wanted != segment) return false;
    pattern.remove_prefix(wanted.size());
  }
  return pattern.empty();
}

}  // namespace

HttpResponse ok(const Json& json, int status) {
  return {.status = status,
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Result<void> check_parameters(const HttpRequest& request, std::span<const std::string_view> known) {
  for (auto given = request.query.begin(); given != request.query.end(); ++given) {
    const std::string& name = given->first;
    if (std::ranges::find(known, name) == known.end()) {
      std::string names;
      for (const std::string_view each : known)
        names += (names.empty() ? "" : ", ") + std::string(each);
      return refuse("there is no parameter \"" + name.substr(0, 64) + "\": this path takes " +
                    names);
    }
    if (std::any_of(request.query.begin(), given,
                    [&](const auto& before) { return before.first == name; }))
      return refuse("the parameter " + name + " is given twice");
  }
  return {};
}

std::vector<RouteName> route_names() {
  std::vector<RouteName> names;
  for (const Route& route : kRoutes) names.push_back({route.method, route.path});
  return names;
}

namespace {

// Responds by the route of this method, if there is one; otherwise adds to `allowed` the methods of
// those that have the path.
bool respond_by_route(HttpSession& session, const HttpRequest& request, std::string& allowed) {
  for (const Route& route : kRoutes) {
    if (!matches(route.path, request.path)) continue;
    if (route.method != request.method) {
      allowed += allowed.empty() ? "" : ", ";
      allowed += route.method;
      if (route.method == "GET") allowed += ", HEAD";
      continue;
    }
    const std::optional<Verb> verb = route.verb;
    session.count_as(verb);
    if (route.door != Route::kAnybody && !session.is_let_in()) {
      session.respond_unauthenticated();
      return true;
    }
    if (verb && route.door == Route::kWithRight) {
      // The right to metrics is for no source.
      const std::string_view source =
          request.path.size() > 2 ? std::string_view(request.path[2]) : "";
      if (const Result<void> may = session.caller().check(*verb, source); !may) {
        session.respond(may.error());
        return true;
      }
    }
    route.respond(session, request);
    return true;
  }
  return false;
}

}  // namespace

void route(HttpSession& session, HttpRequest request) {
  std::string allowed;
  if (respond_by_route(session, request, allowed)) return;
  // A source of a named store is "store/name". Its slash may be given as it is, where the path
  // means nothing else then: whether there is such a store plays no part, so nobody learns that.
  if (allowed.empty() && request.path.size() > 3) {
    request.path[2] += "/" + request.path[3];
    request.path.erase(request.path.begin() + 3);
    if (respond_by_route(session, request, allowed)) return;
  }
  if (allowed.empty())
    return session.respond(
        problem(404, "Not Found", "there is no such path; ids: POST /v1/ids/SOURCE"));
  const std::string header = "Allow: " + allowed + ", OPTIONS\r\n";
  if (request.method == "OPTIONS") return session.respond({.status = 204, .headers = header});
  HttpResponse refused = problem(405, "Method Not Allowed", "this path takes only " + allowed);
  refused.headers = header;
  session.respond(refused);
}

}  // namespace idmint::server
