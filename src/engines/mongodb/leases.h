// The lease table of a store of MongoDB. Each pool has a collection:
//
//   idmint.workers.POOL  {_id: WORKER, token: UUID or missing, holder, generation, minted_until,
//                         held_until: DATE, taken: {generation, from}, nonce: UUID, store: UUID},
//                         and
//                        {_id: "pool", name: POOL, workers, made, raising}, and
//                        an index {minted_until: 1}
//
// The document "pool" is created first: if two processes create a pool of different sizes, only one
// succeeds. `made` means that no row is missing, `raising` that raise_floor() may have been
// interrupted. The clock is the primary's ($$NOW). `taken` is of the latest acquire or fence,
// `nonce` of the latest extension. Older programs neither write nor read these two: so `taken`
// counts only if its generation is that of the row, and their extensions name no bound.
//
// Every step is one command on one document, and its query has all conditions. Applied late or
// twice, it does no harm:
//   - An acquire that its caller has given up owns an unused worker id until its lease expires. So
//     one token may own two. Each of its ranges is still handed out once, to one owner, and extend
//     and release name the worker id.
//   - An extend needs its owner's token and generation, and the bound that it names or its own
//     nonce; bounds only go up.
//   - A release needs the same. A repeat after an unknown outcome finds no owner or another one:
//     either way it was released.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mongodb/database.h"
#include "idmint/entropy.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "mongo/bson.h"

namespace idmint::stores::mongodb {

class Leases final : public LeaseTable {
 public:
  // Both must outlive it.
  Leases(const Database& database, Entropy& entropy) : database_(database), entropy_(entropy) {}

  Result<void> do_create_pool(std::string_view pool, std::int64_t workers) override;
  Result<Lease> do_acquire(std::string_view pool, const LeaseRequest& request,
                           SteadyTime by) override;
  Result<Lease> do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                          const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) override;
  Result<void> do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                          std::int64_t generation, SteadyTime by) override;
  Result<void> do_raise_floor(std::string_view pool, std::int64_t floor) override;
  Result<std::vector<LeaseState>> do_workers(std::string_view pool, SteadyTime by) override;

 private:
  struct Pool {
    std::int64_t workers;
    bool made;
    bool raising;
  };
  struct Row {
    LeaseState state{};
    Uuid nonce{};
    bool whole = false;             // intact, as idmint writes it
    std::optional<Uuid> made_by{};  // the store, if the row has it
    Instant now{};                  // the server's time
  };
  struct Extension {
    std::int64_t to;
    const Uuid& nonce;
    const LeaseTerms& terms;
  };
  // A call: its start and its deadline.
  struct Span {
    SteadyTime begin;
    SteadyTime until;
    // The caller's clock now, derived from its reading at the start.
    [[nodiscard]] Instant clock(const LeaseTerms& terms) const;
  };

  [[nodiscard]] Result<Span> enter_to_read(SteadyTime by = SteadyTime::max()) const;
  [[nodiscard]] Result<Span> enter(SteadyTime by = SteadyTime::max()) const;
  [[nodiscard]] std::unexpected<Error> damaged(std::string_view pool, std::string_view what) const;

  static Row row_of(const Document& document);
  static Bson to_extend(const Lease& lease, const Extension& extension, const Span& span);

  Result<std::optional<Pool>> find_pool(std::string_view pool, SteadyTime until);
  Result<Pool> read_pool(std::string_view pool, SteadyTime until);
  Result<void> make_rows(std::string_view pool, std::int64_t workers, SteadyTime until);
  // Calls Database::take_over() for all rows of the pool if another store made this one.
  Result<void> take_over_other(std::string_view pool, const std::optional<Uuid>& made_by,
                               SteadyTime until);
  Result<std::optional<Row>> find_row(std::string_view pool, const Bson& filter, SteadyTime until);
  Result<std::vector<LeaseState>> read_rows(std::string_view pool, std::int64_t least,
                                            SteadyTime until);
  Result<void> mark_pool(std::string_view pool, const char* what, bool is_so, SteadyTime until,
                         std::string_view doing);
  Result<bool> update(std::string_view pool, const Bson& query, const Bson& changes,
                      SteadyTime until, std::string_view doing, bool idempotent);
  Result<void> change_own(std::string_view pool, const Lease& lease, const Bson& changes,
                          const Extension* extension, const Span& span, std::string_view doing);
  Result<bool> why_none(std::string_view pool, const LeaseRequest& request, const Span& span);

  const Database& database_;
  Entropy& entropy_;
};

}  // namespace idmint::stores::mongodb
