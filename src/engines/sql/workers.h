// Workers: the rows of the worker ids in an SQL server, whatever its dialect.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <thread>
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
  // pool, Dialect::swaps(), and the clock of the caller and how far it may be from the server's,
  // both in ms; below 0 nothing is compared. found() is how many were swapped.
  Query swap;
  Query swap_to_operate;  // pool, Dialect::swaps()
  Query moment;           // -> whether something may be handed out now; the server's clock
};

template <class Dialect>
class Workers final : private Engine, private WorkerRows {
 public:
  // Both must outlive it.
  Workers(Database<Dialect>& database, const WorkerStatements& statements)
      : database_(database), sql_(statements) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  using Rows = typename Dialect::Rows;
  using Row = typename Dialect::Row;
  using Values = typename Dialect::Values;

  std::string_view url() const noexcept override { return database_.url(); }
  Entropy& entropy() noexcept override { return database_.entropy(); }
  Result<SteadyTime> enter(Purpose purpose, SteadyTime by) override {
    return purpose == Purpose::kRead ? database_.enter_to_read(by) : database_.enter(by);
  }
  Result<void> expect_trust(SteadyTime until) override { return database_.check_trust(until); }
  void pause(std::chrono::nanoseconds time) override { std::this_thread::sleep_for(time); }

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
    if (rows && rows->empty()) return std::unexpected(no_pool(pool, url()));
    return rows;
  }

  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    const std::size_t most = wanted.start == 0 ? wanted.most : kMostCandidates;
    Result<std::vector<WorkerRow>> rows =
        read(sql_.free,
             values_of<Dialect>(Name{pool}, wanted.token, static_cast<std::int64_t>(most)), until);
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
    const bool hands_out = purpose == Purpose::kHandOut;
    const LeaseTerms none;
    const CallersClock clock(terms != nullptr ? *terms : none);
    std::vector<Swapped> swapped;
    while (!swaps.empty()) {
      const auto some = swaps.first(std::min(swaps.size(), Dialect::kAtOnce));
      Values values = values_of<Dialect>(Name{pool});
      std::ranges::move(Dialect::swaps(some), std::back_inserter(values));
      const Instant before = clock.now();
      if (hands_out)
        std::ranges::move(values_of<Dialect>(since_1970(before), clock.max_skew()),
                          std::back_inserter(values));
      const Result<std::int64_t> done =
          count(hands_out ? sql_.swap : sql_.swap_to_operate, values, until, doing);
      if (!done)
        return std::unexpected(swapped.empty() ? done.error() : after_a_write(done.error()));
      if (*done == 0 && hands_out)
        if (Result<void> may = may_hand_out(pool, clock, until); !may)
          return std::unexpected(std::move(may.error()));
      // Which of several were swapped is not known, only how many.
      const Swapped each = *done == std::ssize(some) ? Swapped::kYes
                           : *done == 0              ? Swapped::kNo
                                                     : Swapped::kPerhaps;
      swapped.insert(swapped.end(), some.size(), each);
      swaps = swaps.subspan(some.size());
    }
    return swapped;
  }

  Result<std::int64_t> count(const Query& query, const Values& values, SteadyTime until,
                             std::string_view doing) {
    // One that hands out is looked at in may_hand_out().
    const Result<Rows> rows = query.kind == Kind::kHandOut
                                  ? database_.run(query, values, until, doing)
                                  : database_.change(query, values, until, doing);
    if (!rows) return std::unexpected(rows.error());
    return rows->found();
  }

  // Whether a swap that found nothing was refused for the store or the clock, not for the row.
  Result<void> may_hand_out(std::string_view pool, const CallersClock& clock, SteadyTime until) {
    const Instant before = clock.now();
    const Result<Rows> rows = database_.run(sql_.moment, {}, until, "read");
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty() || (*rows)[0].integer(0) == 0) return database_.check_trust(until);
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
    if (rows->empty()) return std::unexpected(no_pool(pool, url()));
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
  Leases leases_{*this, *this};
};

}  // namespace idmint::stores::sql
