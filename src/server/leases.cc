#include "server/leases.h"

#include <algorithm>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/mint.h"

namespace idmint::server {

namespace {

// Calls `act` with the store that has the pool, and its name there.
template <class Act>
std::invoke_result_t<Act, Store&, const std::string&> at_store(const Sources& sources,
                                                               const std::string& pool,
                                                               SteadyTime until, Act act) {
  return sources.at(
      pool,
      [&](Mint& mint,
          const std::string& own) -> std::invoke_result_t<Act, Store&, const std::string&> {
        const Result<std::shared_ptr<Store>> store = mint.store(until);
        if (!store && store.error().advice.remedy == Remedy::kCreateStore)
          return fail(Code::kNotFound, "there is no pool " + shown(pool));
        if (!store) return std::unexpected(store.error());
        return act(**store, own);
      });
}

// The lease counts for as long as it is held, and until its bound is reached.
void remember(Service& service, const Caller& caller, const std::string& pool,
              const PoolLease& lease) {
  const std::chrono::nanoseconds ahead =
      lease.pool.layout.unit * std::max<std::int64_t>(lease.lease.to - lease.now, 0);
  caller.leases()->hold(pool, lease.lease.worker, lease.lease.token,
                        service.loop.now() + std::max<std::chrono::nanoseconds>(lease.held, ahead));
  service.know_pool(pool, lease.pool);
}

}  // namespace

Result<Uuid> uuid_of(std::string_view what, std::string_view text) {
  const Result<Uuid> uuid = Uuid::parse(text);
  if (uuid) return *uuid;
  return refuse(std::string(what) + " takes a UUID");
}

Result<std::string> holder_of(std::string_view text) {
  const bool fits = text.size() <= kLongestHolder &&
                    std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  if (fits) return std::string(text);
  return refuse("the holder has at most " + std::to_string(kLongestHolder) +
                " printable characters of ASCII");
}

std::chrono::milliseconds window_of(std::int64_t milliseconds) noexcept {
  // Whatever is longer than the longest is refused later.
  return std::min(std::chrono::milliseconds{milliseconds}, kLongestWindow + kShortestWindow);
}

Result<PoolLease> lease_for(const Sources& sources, const std::string& pool, const LeaseWish& wish,
                            SteadyTime until) {
  return at_store(sources, pool, until, [&](Store& store, const std::string& own) {
    return lease_worker(store, own, wish, until);
  });
}

Result<Extended> extend_for(const Sources& sources, const std::string& pool, const KnownPool& known,
                            const ExtensionWish& wish, SteadyTime until) {
  if (wish.to < wish.lease.to)
    return std::unexpected(about("pool " + shown(pool),
                                 {Code::kOutOfRange,
                                  "the new end of a lease is before the present one, and a bound "
                                  "never falls; nothing was changed"}));
  Result<PoolLease> extended =
      at_store(sources, pool, until, [&](Store& store, const std::string& own) {
        return extend_lease(store, own, known.get(), wish.lease, wish.to, wish.nonce, wish.window,
                            until);
      });
  if (extended) return Extended(*std::move(extended));
  // One without a subject is of the store itself.
  if (extended.error().code != Code::kDataLoss || extended.error().subject.empty())
    return std::unexpected(std::move(extended.error()));
  return Extended(std::unexpect, Contradiction{});
}

Result<ReleaseWish> release_for(const Sources& sources, const std::string& pool,
                                const KnownPool& known, const ReleaseWish& wish, SteadyTime until) {
  return at_store(
      sources, pool, until, [&](Store& store, const std::string& own) -> Result<ReleaseWish> {
        Result<void> released =
            end_lease(store, own, known.get(), wish.worker, wish.token, wish.generation, until);
        if (!released) return std::unexpected(std::move(released.error()));
        return wish;
      });
}

Result<std::shared_ptr<AskedLease>> AskedLease::begin(const Service& service, const Caller& caller,
                                                      std::string_view pool, const Uuid& held) {
  const std::shared_ptr<HeldLeases>& leases = caller.leases();
  if (leases->has(pool, held)) return std::make_shared<AskedLease>(nullptr);
  if (Result<void> begun = leases->begin(service.loop.now(), caller.spoken_of()); !begun)
    return std::unexpected(std::move(begun.error()));
  return std::make_shared<AskedLease>(leases);
}

void note_leased(Service& service, const Caller& caller, const Connection& connection,
                 const std::string& pool, const PoolLease& lease) {
  remember(service, caller, pool, lease);
  service.log.write(LogSettings::Level::kInfo, "leased",
                    {{"source", pool},
                     {"worker", lease.lease.worker},
                     {"from", lease.lease.from},
                     {"to", lease.lease.to},
                     {"token", caller.name()},
                     {"peer", connection.peer()}});
}

void note_extended(Service& service, const Caller& caller, const Connection& connection,
                   const std::string& pool, const PoolLease& lease) {
  remember(service, caller, pool, lease);
  if (!service.log.has(LogSettings::Level::kDebug)) return;
  service.log.write(LogSettings::Level::kDebug, "lease_extended",
                    {{"source", pool},
                     {"worker", lease.lease.worker},
                     {"to", lease.lease.to},
                     {"token", caller.name()},
                     {"peer", connection.peer()}});
}

void note_released(Service& service, const Caller& caller, const Connection& connection,
                   const std::string& pool, const ReleaseWish& wish) {
  // As far ahead of the clock an owner with the usual options begins.
  caller.leases()->give_back(pool, wish.worker, wish.token, service.loop.now(),
                             SnowflakeLeaseOptions{}.max_drift);
  service.log.write(LogSettings::Level::kInfo, "lease_released",
                    {{"source", pool},
                     {"worker", wish.worker},
                     {"token", caller.name()},
                     {"peer", connection.peer()}});
}

Fields fields_of(const PoolLease& lease) {
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  const Lease& its = lease.lease;
  return {{"worker", its.worker},
          {"token", its.token.to_string()},
          {"generation", text(its.generation)},
          {"from", text(its.from)},
          {"to", text(its.to)},
          {"nonce", its.nonce.to_string()},
          {"held_ms", lease.held.count()},
          {"now", text(lease.now)},
          {"latest", text(lease.latest)},
          {"clock", text(lease.clock.time_since_epoch().count())}};
}

Fields fields_of(const SnowflakeLayout& layout) {
  const auto ns = [](std::chrono::nanoseconds time) { return std::to_string(time.count()); };
  const bool worker_first = layout.order == SnowflakeLayout::Order::kWorkerThenSequence;
  return {{"text", to_string(layout)},
          {"epoch", ns(layout.epoch.time_since_epoch())},
          {"unit", ns(layout.unit)},
          {"time_bits", layout.time_bits},
          {"worker_bits", layout.worker_bits},
          {"sequence_bits", layout.sequence_bits},
          {"time_shift", layout.worker_bits + layout.sequence_bits},
          {"worker_shift", worker_first ? layout.sequence_bits : 0},
          {"sequence_shift", worker_first ? 0 : layout.worker_bits}};
}

}  // namespace idmint::server
