// Workers: the rows of the worker ids in an SQL server, whatever its dialect.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/sql/database.h"
#include "engines/sql/rows.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/callers_clock.h"
#include "store/engine.h"
#include "store/protocol/lease_rules.h"
#include "store/protocol/leases.h"

namespace idmint::stores::sql {

// The statements of a dialect, with their values -> the columns of their rows. A row is as in
// worker_of(), then nonce and the server's clock.
struct WorkerStatements {
  Query create_pool;  // Dialect::workers(); a pool that is there stays as it is
  Query pool;         // name -> how many worker ids it has
  Query worker;       // pool, worker -> its row
  Query workers;      // pool -> the rows, sorted by worker id
  // pool, token, how many -> the row that the token owns, then those that are free; the smallest
  // bounds first
  Query free;
  // pool, limit, start, how many -> free rows of at most this limit, from a worker id on
  Query free_from;
  // pool, the 13 values of a swap, and the clock of the caller and how far it may be from the
  // server's, both in ms; below 0 nothing is compared. found() is 1 if it was swapped.
  Query swap;
  Query swap_many;  // to operate: pool, Dialect::swaps(). found() is how many were swapped.
  Query moment;     // -> whether something may be handed out now; the server's clock
};

template <class Dialect>
class Workers final : private WorkerRows {
 public:
  // Both must outlive it.
  Workers(Database<Dialect>& database, const WorkerStatements& statements)
      : database_(database), sql_(statements) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  using Rows = typename Dialect::Rows;
  using Row = typename Dialect::Row;
  using Values = typename Dialect::Values;

  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime until,
                                 std::string_view doing) override {
    const Result<Rows> made =
        database_.change(sql_.create_pool, Dialect::workers(pool, workers), until, doing);
    // kAlreadyExists: another made it meanwhile.
    if (!made && made.error().code != Code::kAlreadyExists) return std::unexpected(made.error());
    const Result<std::int64_t> there = size_of(pool, until);
    if (!there) return std::unexpected(database_.why_not_made(there.error(), until));
    return there;
  }

  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime until) override {
    Result<std::vector<WorkerRow>> rows =
        read(sql_.worker, values_of<Dialect>(Name{pool}, worker), until);
    if (!rows) return std::unexpected(std::move(rows.error()));
    if (!rows->empty()) return std::move(rows->front());
    const Result<std::int64_t> there = size_of(pool, until);
    return std::unexpected(there ? no_worker(pool, worker) : there.error());
  }

  Result<std::vector<WorkerRow>> read_workers(std::string_view pool, SteadyTime until) override {
    Result<std::vector<WorkerRow>> rows = read(sql_.workers, values_of<Dialect>(Name{pool}), until);
    if (rows && rows->empty()) return std::unexpected(no_pool(pool, database_.url()));
    return rows;
  }

  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    const auto most = static_cast<std::int64_t>(wanted.most);
    if (wanted.start != 0 && !wanted.may_own) {
      constexpr std::uint64_t kStarts = std::uint64_t{1} << 62;
      for (const std::uint64_t start : {wanted.start % kStarts, std::uint64_t{0}}) {
        const Result<std::vector<WorkerRow>> some = read(
            sql_.free_from,
            values_of<Dialect>(Name{pool}, wanted.limit, static_cast<std::int64_t>(start), most),
            until);
        if (!some || !some->empty()) return some;
      }
    }
    Result<std::vector<WorkerRow>> rows =
        read(sql_.free, values_of<Dialect>(Name{pool}, wanted.token, most), until);
    if (!rows) return rows;
    if (rows->empty())
      if (const Result<std::int64_t> there = size_of(pool, until); !there)
        return std::unexpected(there.error());
    return choose_free(*rows, wanted);
  }

  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, Purpose purpose,
                                            const LeaseTerms* terms, SteadyTime until,
                                            std::string_view doing) override {
    std::vector<Swapped> swapped;
    if (purpose == Purpose::kHandOut) {
      for (const WorkerSwap& swap : swaps) {
        const Result<bool> done = hand_out(pool, swap, terms, until, doing);
        if (!done)
          return std::unexpected(swapped.empty() ? done.error() : after_a_write(done.error()));
        swapped.push_back(*done ? Swapped::kYes : Swapped::kNo);
      }
      return swapped;
    }
    while (!swaps.empty()) {
      const auto some = swaps.first(std::min(swaps.size(), Dialect::kAtOnce));
      Values values = values_of<Dialect>(Name{pool});
      std::ranges::move(Dialect::swaps(some), std::back_inserter(values));
      const Result<Rows> rows = database_.change(sql_.swap_many, values, until, doing);
      if (!rows)
        return std::unexpected(swapped.empty() ? rows.error() : after_a_write(rows.error()));
      // Which of several were swapped is not known, only how many.
      const Swapped each = rows->found() == std::ssize(some) ? Swapped::kYes
                           : rows->found() == 0              ? Swapped::kNo
                                                             : Swapped::kPerhaps;
      swapped.insert(swapped.end(), some.size(), each);
      swaps = swaps.subspan(some.size());
    }
    return swapped;
  }

  Result<bool> hand_out(std::string_view pool, const WorkerSwap& swap, const LeaseTerms* terms,
                        SteadyTime until, std::string_view doing) {
    const CallersClock clock(terms);
    const auto& [from, to] = swap;
    const LeaseState& there = from.state;
    const LeaseState& state = to.state;
    const Values values = values_of<Dialect>(
        Name{pool}, there.worker, there.token, there.generation, there.minted_until,
        there.taken_from.value_or(0), from.nonce, state.token, Name{state.holder}, state.generation,
        state.minted_until, state.taken_from.value_or(0), to.nonce,
        std::int64_t{state.held_for.count()}, since_1970(clock.now()), clock.max_skew());
    const Result<Rows> rows = database_.run(sql_.swap, values, until, doing);
    if (!rows) return std::unexpected(rows.error());
    if (rows->found() != 0) return true;
    if (Result<void> may = may_hand_out(pool, clock, until); !may)
      return std::unexpected(std::move(may.error()));
    return false;
  }

  // Whether a swap that found nothing was refused for the store or the clock, not for the row.
  Result<void> may_hand_out(std::string_view pool, const CallersClock& clock, SteadyTime until) {
    const Instant before = clock.now();
    const Result<Rows> rows = database_.run(sql_.moment, {}, until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty() || (*rows)[0].integer(0) == 0) return database_.expect_trust(until);
    if (clock.max_skew() < 0) return {};
    const Instant servers{std::chrono::milliseconds{(*rows)[0].integer(1)}};
    if (auto error = clocks_apart(pool, before, clock.now(), servers,
                                  std::chrono::milliseconds{clock.max_skew()}))
      return std::unexpected(*std::move(error));
    return {};
  }

  Result<std::int64_t> size_of(std::string_view pool, SteadyTime until) {
    const Result<Rows> rows =
        database_.run(sql_.pool, values_of<Dialect>(Name{pool}), until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected(no_pool(pool, database_.url()));
    return (*rows)[0].integer(0);
  }

  Result<std::vector<WorkerRow>> read(const Query& query, const Values& values, SteadyTime until) {
    constexpr int kNonce = 7;
    constexpr int kNow = 8;
    const Result<Rows> rows = database_.run(query, values, until, "read");
    if (!rows) return std::unexpected(rows.error());
    std::vector<WorkerRow> all;
    for (int i = 0; i < rows->size(); ++i) {
      const Row row = (*rows)[i];
      all.push_back({worker_of(row, row.integer(kNow)), uuid_in(row, kNonce)});
      std::string& holder = all.back().state.holder;
      holder = Dialect::name_of(holder);
    }
    return all;
  }

  Database<Dialect>& database_;
  const WorkerStatements& sql_;
  Leases leases_{database_, *this};
};

}  // namespace idmint::stores::sql
