// The routes of leases of worker ids.
#include <array>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/errors.h"
#include "server/http_body.h"
#include "server/http_routes.h"
#include "server/leases.h"

namespace idmint::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostWhole = std::numeric_limits<std::int64_t>::max();

Json json_of(const Fields& fields) {
  Json json = Json::object();
  for (const auto& [name, value] : fields)
    std::visit([&](const auto& its) { json[std::string(name)] = its; }, value);
  return json;
}

HttpResponse response_of(const std::string& pool, const PoolLease& lease, int status) {
  Json json{{"pool", pool}};
  json.update(json_of(fields_of(lease)));
  json["layout"] = json_of(fields_of(lease.pool.layout));
  return ok(json, status);
}

Result<void> read_window(const Json& body, std::chrono::milliseconds& window) {
  const Result<std::optional<std::int64_t>> read = integer_of(body, "window_ms");
  if (!read) return std::unexpected(read.error());
  if (const std::optional<std::int64_t> given = *read) window = window_of(*given);
  return {};
}

// Of a member that must be there.
Result<Uuid> needed_uuid(const Json& body, std::string_view name) {
  const Result<std::optional<std::string>> text = string_of(body, name);
  if (!text) return std::unexpected(text.error());
  return uuid_of("\"" + std::string(name) + "\"", text->value_or(""));
}

// The worker id that the path names.
Result<std::int64_t> worker_of(const HttpRequest& request) {
  return whole("the worker id in the path", request.path[4], 0, LeaseTable::kMaxWorkers - 1);
}

Result<LeaseWish> wish_of(const HttpRequest& request) {
  static constexpr std::array<std::string_view, 4> known{"holder", "window_ms", "token",
                                                         "repeated"};
  LeaseWish wish;
  if (Result<void> none = check_parameters(request, {}); !none)
    return std::unexpected(std::move(none.error()));
  if (request.body.empty()) return wish;
  const Result<Json> body = body_of(request, known);
  if (!body) return std::unexpected(body.error());
  const Result<std::optional<std::string>> holder = string_of(*body, "holder");
  if (!holder) return std::unexpected(holder.error());
  Result<std::string> its_holder = holder_of(holder->value_or(""));
  if (!its_holder) return std::unexpected(std::move(its_holder.error()));
  wish.holder = *std::move(its_holder);
  if (Result<void> read = read_window(*body, wish.window); !read)
    return std::unexpected(std::move(read.error()));
  if (const auto found = body->find("token"); found != body->end() && !found->is_null()) {
    const Result<Uuid> token = needed_uuid(*body, "token");
    if (!token) return std::unexpected(token.error());
    wish.token = *token;
  }
  if (const auto found = body->find("repeated"); found != body->end() && !found->is_null()) {
    if (!found->is_boolean()) return refuse("\"repeated\" takes true or false");
    wish.repeated = *found == true;
  }
  return wish;
}

Result<ExtensionWish> extension_of(const HttpRequest& request) {
  static constexpr std::array<std::string_view, 8> known{
      "token", "generation", "from", "to", "nonce", "new_to", "new_nonce", "window_ms"};
  const Result<Json> body = body_of(request, known);
  if (!body) return std::unexpected(body.error());
  ExtensionWish wish;
  const Result<std::int64_t> worker = worker_of(request);
  if (!worker) return std::unexpected(worker.error());
  wish.lease.worker = *worker;
  const std::array<std::pair<std::string_view, Uuid*>, 3> uuids{
      {{"token", &wish.lease.token}, {"nonce", &wish.lease.nonce}, {"new_nonce", &wish.nonce}}};
  for (const auto& [name, into] : uuids) {
    const Result<Uuid> uuid = needed_uuid(*body, name);
    if (!uuid) return std::unexpected(uuid.error());
    *into = *uuid;
  }
  const std::array<std::pair<std::string_view, std::int64_t*>, 4> integers{
      {{"generation", &wish.lease.generation},
       {"from", &wish.lease.from},
       {"to", &wish.lease.to},
       {"new_to", &wish.to}}};
  for (const auto& [name, into] : integers) {
    const Result<std::int64_t> value = needed_integer(*body, name);
    if (!value) return std::unexpected(value.error());
    *into = *value;
  }
  if (Result<void> read = read_window(*body, wish.window); !read)
    return std::unexpected(std::move(read.error()));
  return wish;
}

// In the query, as a body of DELETE may be lost on its way.
Result<ReleaseWish> release_of(const HttpRequest& request) {
  static constexpr std::array<std::string_view, 2> known{"token", "generation"};
  if (const Result<void> taken = check_parameters(request, known); !taken)
    return std::unexpected(taken.error());
  const Result<std::int64_t> worker = worker_of(request);
  if (!worker) return std::unexpected(worker.error());
  const Result<Uuid> token = uuid_of("token", request.parameter("token").value_or(""));
  if (!token) return std::unexpected(token.error());
  const Result<std::int64_t> generation =
      whole("generation", request.parameter("generation").value_or(""), 0, kMostWhole);
  if (!generation) return std::unexpected(generation.error());
  return ReleaseWish{.worker = *worker, .token = *token, .generation = *generation};
}

}  // namespace

void post_lease(HttpSession& session, const HttpRequest& request) {
  Result<LeaseWish> wish = wish_of(request);
  if (!wish) return session.respond(wish.error());
  if (wish->holder.empty()) wish->holder = session.connection().peer();
  Service& service = session.service();
  const std::string& pool = request.path[2];
  const Result<std::shared_ptr<AskedLease>> asked =
      AskedLease::begin(service, session.caller(), pool, wish->repeated ? wish->token : Uuid{});
  if (!asked) return session.respond(asked.error());
  session.elsewhere_in(
      service.lease_lane_of(pool), pool,
      [&sources = service.sources, pool, wish = *std::move(wish)](SteadyTime until) {
        return lease_for(sources, pool, wish, until);
      },
      [&session, pool, asked = *asked](const PoolLease& lease) {
        note_leased(session.service(), session.caller(), session.connection(), pool, lease);
        return response_of(pool, lease, 201);
      });
}

void post_lease_extend(HttpSession& session, const HttpRequest& request) {
  const Result<ExtensionWish> wish = extension_of(request);
  if (!wish) return session.respond(wish.error());
  Service& service = session.service();
  const std::string& pool = request.path[2];
  const Result<std::shared_ptr<AskedLease>> asked =
      AskedLease::begin(service, session.caller(), pool, wish->lease.token);
  if (!asked) return session.respond(asked.error());
  session.elsewhere_in(
      service.lease_lane_of(pool), pool,
      [&sources = service.sources, pool, known = service.known_pool(pool),
       wish = *wish](SteadyTime until) { return extend_for(sources, pool, known, wish, until); },
      [&session, pool, asked = *asked](const Extended& extended) {
        if (!extended) {
          session.service().note_contradiction(session.connection(), pool);
          constexpr int conflict = 409;
          HttpResponse response =
              problem(Contradiction::error(), Steps::kOne, std::chrono::seconds{0}, conflict);
          response.code = Code::kFailedPrecondition;  // as it is counted
          return response;
        }
        note_extended(session.service(), session.caller(), session.connection(), pool, *extended);
        return response_of(pool, *extended, 200);
      });
}

void delete_lease(HttpSession& session, const HttpRequest& request) {
  const Result<ReleaseWish> wish = release_of(request);
  if (!wish) return session.respond(wish.error());
  Service& service = session.service();
  const std::string& pool = request.path[2];
  session.elsewhere_in(
      service.lease_lane_of(pool), pool,
      [&sources = service.sources, pool, known = service.known_pool(pool),
       wish = *wish](SteadyTime until) { return release_for(sources, pool, known, wish, until); },
      [&session, pool](const ReleaseWish& given_back) {
        note_released(session.service(), session.caller(), session.connection(), pool, given_back);
        return HttpResponse{.status = 204};
      });
}

}  // namespace idmint::server
