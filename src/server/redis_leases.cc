// The commands of leases of worker ids.
#include <chrono>
#include <optional>
#include <string>

#include "base/text.h"
#include "server/leases.h"
#include "server/redis_commands.h"
#include "server/redis_session.h"

namespace idmint::server {

namespace {

constexpr std::string_view kNoWindow = "WINDOW takes a whole number of milliseconds";

void put_fields(std::string& out, const Fields& fields) {
  for (const auto& [name, value] : fields) {
    put_bulk(out, name);
    if (const auto* const integer = std::get_if<std::int64_t>(&value))
      put_integer(out, *integer);
    else
      put_bulk(out, std::get<std::string>(value));
  }
}

void put_lease(std::string& out, Resp version, const std::string& pool, const PoolLease& lease) {
  const Fields fields = fields_of(lease);
  const Fields layout = fields_of(lease.pool.layout);
  put_map(out, version, fields.size() + 2);
  put_bulk(out, "pool");
  put_bulk(out, pool);
  put_fields(out, fields);
  put_bulk(out, "layout");
  put_map(out, version, layout.size());
  put_fields(out, layout);
}

}  // namespace

// ID.LEASE pool [HOLDER name] [WINDOW ms] [TOKEN uuid] [REPEATED]
void RedisSession::id_lease(Words words) {
  LeaseWish wish{.holder = connection_.peer()};
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string option = upper_case(words[i]);
    if (option == "REPEATED") {
      wish.repeated = true;
      continue;
    }
    if (++i == words.size() || (option != "HOLDER" && option != "WINDOW" && option != "TOKEN"))
      return fail(
          "syntax error: ID.LEASE pool [HOLDER name] [WINDOW milliseconds] [TOKEN uuid] "
          "[REPEATED]");
    if (option == "HOLDER") {
      Result<std::string> holder = holder_of(words[i]);
      if (!holder) return fail(holder.error());
      if (!holder->empty()) wish.holder = *std::move(holder);
    } else if (option == "WINDOW") {
      const std::optional<std::int64_t> milliseconds = whole(words[i], 1);
      if (!milliseconds) return fail(kNoWindow);
      wish.window = window_of(*milliseconds);
    } else {
      const Result<Uuid> token = uuid_of("TOKEN", words[i]);
      if (!token) return fail(token.error());
      wish.token = *token;
    }
  }
  const std::string pool(words[1]);
  Result<std::shared_ptr<AskedLease>> asked =
      AskedLease::begin(service_, *caller_, pool, wish.repeated ? wish.token : Uuid{});
  if (!asked) return fail(asked.error());
  elsewhere(
      service_.lease_lane_of(pool), pool,
      [&sources = service_.sources, pool, wish](SteadyTime until) {
        return lease_for(sources, pool, wish, until);
      },
      [this, pool, asked = *asked](const PoolLease& lease) {
        note_leased(service_, *caller_, connection_, pool, lease);
        put_lease(reply(), version_, pool, lease);
      });
}

// ID.EXTEND pool worker token generation from to nonce new_to new_nonce [WINDOW ms]
void RedisSession::id_extend(Words words) {
  ExtensionWish wish;
  struct Whole {
    std::size_t word;
    std::int64_t* into;
  };
  for (const auto& [word, into] :
       {Whole{2, &wish.lease.worker}, Whole{4, &wish.lease.generation}, Whole{5, &wish.lease.from},
        Whole{6, &wish.lease.to}, Whole{8, &wish.to}}) {
    const std::optional<std::int64_t> value = whole(words[word], 0);
    if (!value) return fail("value is not an integer or out of range");
    *into = *value;
  }
  struct Name {
    std::size_t word;
    Uuid* into;
  };
  for (const auto& [word, into] :
       {Name{3, &wish.lease.token}, Name{7, &wish.lease.nonce}, Name{9, &wish.nonce}}) {
    const Result<Uuid> uuid = uuid_of("ID.EXTEND", words[word]);
    if (!uuid) return fail(uuid.error());
    *into = *uuid;
  }
  if (words.size() > 10) {
    const std::optional<std::int64_t> milliseconds =
        words.size() == 12 && upper_case(words[10]) == "WINDOW" ? whole(words[11], 1)
                                                                : std::nullopt;
    if (!milliseconds) return fail(kNoWindow);
    wish.window = window_of(*milliseconds);
  }
  const std::string pool(words[1]);
  Result<std::shared_ptr<AskedLease>> asked =
      AskedLease::begin(service_, *caller_, pool, wish.lease.token);
  if (!asked) return fail(asked.error());
  elsewhere(
      service_.lease_lane_of(pool), pool,
      [&sources = service_.sources, pool, known = service_.known_pool(pool),
       wish](SteadyTime until) { return extend_for(sources, pool, known, wish, until); },
      [this, pool, asked = *asked](const Extended& extended) {
        if (extended) {
          note_extended(service_, *caller_, connection_, pool, *extended);
          return put_lease(reply(), version_, pool, *extended);
        }
        const Error why = Contradiction::error();
        service_.note_contradiction(connection_, pool);
        service_.count_error(Code::kFailedPrecondition);
        put_error(reply(), resp_prefix(why.code), why.message());
      });
}

// ID.RELEASE pool worker token generation
void RedisSession::id_release(Words words) {
  const std::optional<std::int64_t> worker = whole(words[2], 0);
  const std::optional<std::int64_t> generation = whole(words[4], 0);
  if (!worker || !generation) return fail("value is not an integer or out of range");
  const Result<Uuid> token = uuid_of("the token", words[3]);
  if (!token) return fail(token.error());
  const std::string pool(words[1]);
  const ReleaseWish wish{.worker = *worker, .token = *token, .generation = *generation};
  elsewhere(
      service_.lease_lane_of(pool), pool,
      [&sources = service_.sources, pool, known = service_.known_pool(pool),
       wish](SteadyTime until) { return release_for(sources, pool, known, wish, until); },
      [this, pool](const ReleaseWish& given_back) {
        note_released(service_, *caller_, connection_, pool, given_back);
        put_simple(reply(), "OK");
      });
}

}  // namespace idmint::server
