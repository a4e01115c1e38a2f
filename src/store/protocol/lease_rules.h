// The rules of a lease that are decided from one row, and the errors that say why one is refused.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "ids/lease_table.h"
#include "store/engine.h"

namespace idmint::stores {

// Whether a swap that expects `from` may change the row that is there: equal in all but the holder
// and the time.
[[nodiscard]] bool is_same_row(const WorkerRow& there, const WorkerRow& from) noexcept;
// The rows among which an acquire chooses: those with the smallest bounds.
inline constexpr std::size_t kMostCandidates = 1024;
// The rows that WorkerRows::find_free() gives, out of all of a pool, or of the candidates.
[[nodiscard]] std::vector<WorkerRow> choose_free(std::span<const WorkerRow> rows,
                                                 const FreeWorkers& wanted);
// The end of the range that begins at `from`.
[[nodiscard]] std::int64_t lease_end(const LeaseRequest& request, std::int64_t from) noexcept;
// The first generation of a randomly drawn epoch, so that none of its generations was used before.
// The largest one is kEpoch - 1 more.
constexpr std::int64_t kEpoch = std::int64_t{1} << 32;
[[nodiscard]] std::int64_t draw_generation(Entropy& entropy);

[[nodiscard]] Error no_pool(std::string_view pool, std::string_view url);
[[nodiscard]] Error no_worker(std::string_view pool, std::int64_t worker);
[[nodiscard]] Error other_pool(std::string_view pool, std::int64_t there, std::int64_t wanted);
// The error of an acquire without a worker id. `bound` is the smallest minted_until of those
// without an owner, or of the one that the token owns; nothing: all have another owner.
[[nodiscard]] Error refused_acquire(std::string_view pool, const LeaseRequest& request,
                                    std::optional<std::int64_t> bound);
// The error of a request whose clock went far ahead in this boot of the host: it shows `clock` and
// should show `right`.
[[nodiscard]] Error clock_far_ahead(std::string_view pool, Instant clock, Instant right);
// The error if two clocks differ by more than `max_skew`. The server read its clock between two
// readings of ours, `before` and `after`, so a difference within that interval may be the round
// trip.
[[nodiscard]] std::optional<Error> clocks_apart(std::string_view pool, Instant before,
                                                Instant after, Instant servers,
                                                std::chrono::milliseconds max_skew);
[[nodiscard]] bool is_owned_by(const LeaseState& there, const Lease& lease) noexcept;
// Whether the row, whose latest extension had the nonce `latest`, allows the lease to be extended
// to `to`.
[[nodiscard]] bool may_extend(const LeaseState& there, const Uuid& latest, const Lease& lease,
                              std::int64_t to, const Uuid& nonce) noexcept;
// The error if it does not. kDataLoss: a store that knew the lease cannot have this row.
[[nodiscard]] Error refused_extension(std::string_view pool, const Lease& lease,
                                      const LeaseState& there, const Uuid& latest,
                                      const Uuid& nonce);
// The error of a release: the row has another owner, or none.
[[nodiscard]] Error refused_lease(std::string_view pool, const Lease& lease,
                                  const LeaseState& there);

}  // namespace idmint::stores
