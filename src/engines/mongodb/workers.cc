#include "engines/mongodb/workers.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/figures.h"
#include "engines/mongodb/names.h"
#include "mongo/bson.h"
#include "store/backend.h"
#include "store/callers_clock.h"
#include "store/engine.h"
#include "store/protocol/lease_rules.h"
#include "store/protocol/leases.h"

namespace idmint::stores::mongodb {
namespace {

constexpr const char* kPool = "pool";  // the _id of the document of the pool, among its worker ids
constexpr std::size_t kSwapsAtOnce = 1000;

std::string collection_of_pool(std::string_view pool) {
  return collection_of("idmint.workers", pool);
}

struct Pool {
  std::int64_t workers;
  bool made;
};
struct SeenRow {
  WorkerRow row{};
  bool whole = false;             // intact, as idmint writes it
  std::optional<Uuid> made_by{};  // the store, if the row has it
  Instant now{};                  // the server's time
};

// ---- expressions

// {OPERATION: [FIRST, SECOND]} for values and expressions.
Bson apply(const char* operation, const auto& first, const auto& second) {
  return Bson(operation, mongo::array(first, second));
}

Bson after_now(milliseconds time) {
  return apply("$add", "$$NOW", static_cast<std::int64_t>(time.count()));
}

// Whether the caller's clock and the server's agree.
Bson clocks_agree(const CallersClock& clock) {
  const Bson apart = apply("$subtract", "$$NOW", milliseconds{since_1970(clock.now())});
  return apply("$lte", Bson("$abs", apart), clock.max_skew());
}

// ---- the row

void add_expected(Bson& query, const char* key, const Uuid& id) {
  if (id == Uuid{})
    query.add(key, Bson("$exists", false));
  else
    add_uuid(query, key, id);
}

// Matches the row alone, if it is as it is expected to be, and intact: a damage that is written
// over would be mended in silence, and ids would repeat.
Bson as_expected(const WorkerRow& row, const Bson& made_here) {
  const LeaseState& state = row.state;
  const auto integer = [](std::int64_t value) {
    return Bson("$type", mongo::array("int", "long"), "$eq", value);
  };
  Bson query("_id", state.worker, "minted_until", integer(state.minted_until), "generation",
             integer(state.generation), "held_until", Bson("$type", "date"), kMadeBy, made_here);
  add_expected(query, "token", state.token);
  add_expected(query, "nonce", row.nonce);
  if (state.taken_from)
    query.append("taken.generation", state.generation, "taken.from", *state.taken_from);
  else
    query.append("taken.generation", Bson("$ne", state.generation));
  return query;
}

// Writes the bound, the time and the fields that differ: an extension stays small.
mongo::BsonArray changes_of(const WorkerSwap& swap) {
  const LeaseState& from = swap.from.state;
  const LeaseState& to = swap.to.state;
  Bson set("minted_until", to.minted_until, "held_until", after_now(to.held_for));
  std::vector<const char*> gone;
  const auto change = [&](const char* key, const Uuid& was, const Uuid& is) {
    if (was == is) return;
    if (is == Uuid{}) {
      gone.push_back(key);
      return;
    }
    Bson literal;
    add_uuid(literal, "$literal", is);
    set.add(key, literal);
  };
  change("token", from.token, to.token);
  change("nonce", swap.from.nonce, swap.to.nonce);
  if (from.token != to.token) set.append("holder", Bson("$literal", std::string_view(to.holder)));
  if (from.generation != to.generation) set.append("generation", to.generation);
  if (to.taken_from && (from.generation != to.generation || from.taken_from != to.taken_from))
    set.append("taken", Bson("generation", to.generation, "from", *to.taken_from));
  mongo::BsonArray stages = mongo::array(Bson("$set", set));
  int count = 0;
  for (const char* const key : gone)
    stages.items.add(std::to_string(++count).c_str(), Bson("$unset", key));
  return stages;
}

// Matches free rows: without an owner, or whose owner's time is over.
Bson free_row() {
  const Bson nobodys("token", Bson("$exists", false));
  const Bson over("$expr", apply("$lte", "$held_until", "$$NOW"));
  return Bson("$or", mongo::array(nobodys, over));
}

std::vector<WorkerRow> intact(std::span<const SeenRow> rows) {
  std::vector<WorkerRow> all;
  for (const SeenRow& each : rows)
    if (each.whole) all.push_back(each.row);
  return all;
}

// The fields of a row, and the server's time.
Bson fields_of_row() {
  const Bson is_date = apply("$eq", Bson("$type", "$held_until"), "date");
  const Bson held_for("$cond",
                      mongo::array(is_date, apply("$subtract", "$held_until", "$$NOW"), false));
  return Bson("token", 1, "holder", 1, "generation", 1, "minted_until", 1, "taken", 1, "nonce", 1,
              kMadeBy, 1, "held_for", held_for, "now", Bson("$toLong", "$$NOW"));
}

SeenRow row_of(const Document& document) {
  const auto worker = document.integer("_id");
  const auto token = uuid_in(document, "token");
  const auto nonce = uuid_in(document, "nonce");
  const auto holder = document.bytes("holder");
  const auto generation = document.integer("generation");
  const auto minted_until = document.integer("minted_until");
  const auto held_for = document.integer("held_for");
  SeenRow seen;
  seen.now = Instant(milliseconds{document.number("now")});
  const Document taken = document.document("taken");
  const auto taken_in = taken.integer("generation");
  const auto taken_from = taken.integer("from");
  const auto is_right = [&](const std::optional<Uuid>& id, const char* key) {
    return id ? *id != Uuid{} : !document.has(key);
  };
  seen.whole = names_its_store(document) && worker && is_right(token, "token") &&
               is_right(nonce, "nonce") && holder && generation && minted_until && held_for &&
               *generation >= 0 && *minted_until >= 0 &&
               (!document.has("taken") || (taken_in && taken_from));
  LeaseState& state = seen.row.state;
  state.worker = worker.value_or(-1);
  if (!seen.whole) return seen;
  state.token = token.value_or(Uuid{});
  state.holder = *holder;
  state.generation = *generation;
  state.minted_until = *minted_until;
  if (token) state.held_for = milliseconds{std::max<std::int64_t>(*held_for, 0)};
  if (taken_in == generation) state.taken_from = taken_from;
  seen.row.nonce = nonce.value_or(Uuid{});
  seen.made_by = uuid_in(document, kMadeBy);
  return seen;
}

class Workers final : private WorkerRows {
 public:
  Workers(const Database& database, DatabaseEngine& engine)
      : database_(database), leases_(engine, *this) {}

  [[nodiscard]] LeaseTable& leases() noexcept { return leases_; }

 private:
  Result<std::int64_t> make_pool(std::string_view pool, std::int64_t workers, SteadyTime until,
                                 std::string_view doing) override {
    Result<std::optional<Pool>> there = find_pool(pool, until);
    if (!there) return std::unexpected(there.error());
    if (!*there) {
      const Bson document("_id", kPool, "name", pool, "workers", workers, "made", false);
      const auto made = database_.servers->insert_new(collection_of_pool(pool), Bson("0", document),
                                                      1, until, doing);
      if (!made) return std::unexpected(after_a_write(made.error()));
      there = find_pool(pool, until);
      if (!there) return std::unexpected(after_a_write(there.error()));
    }
    const std::optional<Pool>& found = *there;
    if (!found) return damaged(pool, "the document \"pool\"");
    if (found->workers == workers && !found->made)
      if (Result<void> made = make_rows(pool, workers, until, doing); !made)
        return std::unexpected(std::move(made.error()));
    return found->workers;
  }

  Result<WorkerRow> read_worker(std::string_view pool, std::int64_t worker,
                                SteadyTime until) override {
    const Result<std::vector<SeenRow>> rows = find(pool, "_id", worker, Kind::kReadOne, until);
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) {
      const Result<Pool> there = read_pool(pool, until);
      return std::unexpected(there ? no_worker(pool, worker) : there.error());
    }
    if (Result<void> ours = expect_ours(pool, *rows, until); !ours)
      return std::unexpected(std::move(ours.error()));
    if (!rows->front().whole) return damaged_worker(pool, worker);
    return rows->front().row;
  }

  Result<std::vector<WorkerRow>> read_workers(std::string_view pool, SteadyTime until) override {
    const Result<Pool> there = read_pool(pool, until);
    if (!there) return std::unexpected(there.error());
    constexpr std::size_t kPage = 5000;
    std::vector<WorkerRow> all;
    for (Bson from("$gte", 0);; from = Bson("$gt", all.back().state.worker)) {
      const Result<std::vector<SeenRow>> rows =
          find(pool, "_id", from, Kind::kReadOne, until, kPage);
      if (!rows) return std::unexpected(rows.error());
      for (const SeenRow& each : *rows) {
        if (!each.whole) return damaged_worker(pool, each.row.state.worker);
        all.push_back(each.row);
      }
      if (Result<void> ours = expect_ours(pool, *rows, until); !ours)
        return std::unexpected(std::move(ours.error()));
      if (rows->size() < kPage) break;
    }
    if (std::ssize(all) < there->workers) return damaged(pool, "the number of worker ids");
    return all;
  }

  // The swap decides, so any state of the rows will do; but that nothing is free is told from one
  // that has every acknowledged write.
  Result<std::vector<WorkerRow>> find_free(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) override {
    if (wanted.may_own) {
      Bson own;
      add_uuid(own, "token", wanted.token);
      const auto rows = find_near(pool, std::move(own), 1, Kind::kReadOne, until);
      if (!rows) return std::unexpected(rows.error());
      for (const SeenRow& each : *rows) {
        if (!each.whole) return damaged_worker(pool, each.row.state.worker);
        return std::vector{each.row};
      }
    } else if (wanted.start != 0) {
      Result<std::vector<WorkerRow>> some = find_from(pool, wanted, until);
      if (!some || !some->empty()) return some;
    }
    for (const Kind kind : {Kind::kPlain, Kind::kReadOne}) {
      const auto rows = find_near(pool, free_row(), wanted.most, kind, until);
      if (!rows) return std::unexpected(rows.error());
      std::vector<WorkerRow> free = choose_free(intact(*rows), wanted);
      if (!free.empty() && free.front().state.minted_until <= wanted.limit) return free;
      if (kind == Kind::kPlain) continue;
      for (const SeenRow& each : *rows)
        if (!each.whole) return damaged_worker(pool, each.row.state.worker);
      if (free.empty())
        if (const Result<Pool> there = read_pool(pool, until); !there)
          return std::unexpected(there.error());
      return free;
    }
    std::unreachable();
  }

  Result<std::vector<Swapped>> swap_workers(std::string_view pool,
                                            std::span<const WorkerSwap> swaps, Purpose /*purpose*/,
                                            const LeaseTerms* terms, SteadyTime until,
                                            std::string_view doing) override {
    const CallersClock clock(terms);
    std::vector<Swapped> swapped;
    while (!swaps.empty()) {
      const auto some = swaps.first(std::min(swaps.size(), kSwapsAtOnce));
      const auto& [from, to] = some.front();
      // An update with a transaction number is a second write of the servers, which is saved where
      // the nonce tells what was done.
      const bool extends = some.size() == 1 && from.nonce != to.nonce && to.nonce != Uuid{};
      Bson updates;
      for (const WorkerSwap& swap : some) {
        Bson query = as_expected(swap.from, database_.made_here());
        if (clock.max_skew() >= 0) query.add("$expr", clocks_agree(clock));
        updates.add(std::to_string(&swap - some.data()).c_str(),
                    Bson("q", query, "u", changes_of(swap), "hint", Bson("_id", 1)));
      }
      Bson command("update", std::string_view(collection_of_pool(pool)), "updates",
                   mongo::BsonArray{std::move(updates)});
      const Result<Bson> reply = database_.servers->run(std::move(command), Kind::kWrite, until,
                                                        doing, {.idempotent = extends});
      if (!reply)
        return std::unexpected(swapped.empty() ? reply.error() : after_a_write(reply.error()));
      const std::int64_t done = reply->view().number("n");
      Swapped each = done == std::ssize(some) ? Swapped::kYes : Swapped::kPerhaps;
      if (done == 0) {
        const Result<Swapped> outcome = why_none(pool, some.front(), clock, extends, until);
        if (!outcome)
          return std::unexpected(swapped.empty() ? outcome.error()
                                                 : after_a_write(outcome.error()));
        each = *outcome;
      }
      swapped.insert(swapped.end(), some.size(), each);
      swaps = swaps.subspan(some.size());
    }
    return swapped;
  }

  // The outcome of a swap that found nothing. An error: it was refused for another store or the
  // clock, and not for the row. An extension may have been sent twice, and have found its own work
  // the second time: a reading that has every acknowledged write shows its nonce then.
  Result<Swapped> why_none(std::string_view pool, const WorkerSwap& swap, const CallersClock& clock,
                           bool extends, SteadyTime until) {
    const Instant before = clock.now();
    const Result<std::vector<SeenRow>> rows =
        find(pool, "_id", swap.from.state.worker, extends ? Kind::kReadOne : Kind::kPlain, until);
    if (!rows) return std::unexpected(extends ? after_a_write(rows.error()) : rows.error());
    if (rows->empty()) return Swapped::kNo;
    if (Result<void> ours = expect_ours(pool, *rows, until); !ours) {
      Error& why = ours.error();
      // The other store knows no bound of this lease, and may lease its rest to others.
      if (swap.from.state.token == swap.to.state.token && why.code == Code::kFailedPrecondition)
        why.code = Code::kDataLoss;
      return std::unexpected(std::move(why));
    }
    const auto& [row, whole, made_by, now] = rows->front();
    if (extends && row.nonce == swap.to.nonce) return Swapped::kPerhaps;
    if (clock.max_skew() >= 0)
      if (auto error = clocks_apart(pool, before, clock.now(), now, milliseconds{clock.max_skew()}))
        return std::unexpected(*std::move(error));
    return Swapped::kNo;
  }

  [[nodiscard]] std::unexpected<Error> damaged(std::string_view pool, std::string_view what) const {
    return std::unexpected(Error{
        Code::kDataLoss, database_.where + " is damaged: pool " + shown(pool) + ": " +
                             std::string(what) + " in " + collection_of_pool(pool) +
                             " is not as idmint writes it; stop all who mint, put it right, then "
                             "raise the pool past every bound that was granted"});
  }
  [[nodiscard]] std::unexpected<Error> damaged_worker(std::string_view pool,
                                                      std::int64_t worker) const {
    return damaged(pool, "worker id " + std::to_string(worker));
  }

  // ---- the documents

  Result<std::optional<Pool>> find_pool(std::string_view pool, SteadyTime until) {
    bool found = false;
    std::optional<Pool> there;
    const Result<bool> read =
        database_.read(collection_of_pool(pool), kPool, until, [&](const Document& document) {
          found = true;
          const auto workers = document.integer("workers");
          const auto made = document.boolean("made");
          if (workers && made) there = Pool{*workers, *made};
        });
    if (!read) return std::unexpected(read.error());
    if (found && !there) return damaged(pool, "the document \"pool\"");
    return there;
  }

  Result<Pool> read_pool(std::string_view pool, SteadyTime until) {
    const Result<std::optional<Pool>> there = find_pool(pool, until);
    if (!there) return std::unexpected(there.error());
    const std::optional<Pool>& found = *there;
    if (!found) return std::unexpected(no_pool(pool, database_.url));
    if (found->made) return *found;
    return std::unexpected(
        about("pool " + shown(pool),
              {Code::kNotFound, "not all of its worker ids were made; create it again, with " +
                                    std::to_string(found->workers)}));
  }

  // Creates the missing rows.
  Result<void> make_rows(std::string_view pool, std::int64_t workers, SteadyTime until,
                         std::string_view doing) {
    constexpr std::int64_t kAtOnce = 10'000;  // the reply has a line for each existing row
    const std::string collection = collection_of_pool(pool);
    for (std::int64_t from = 0; from < workers; from += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, workers - from);
      Bson documents;
      for (std::int64_t i = 0; i < count; ++i) {
        Bson row("_id", from + i, "holder", "", "generation", std::int64_t{0}, "minted_until",
                 std::int64_t{0}, "held_until", milliseconds{0});
        add_uuid(row, kMadeBy, database_.id);
        documents.add(std::to_string(i).c_str(), row);
      }
      const auto made = database_.servers->insert_new(collection, documents, count, until, doing);
      if (!made) return std::unexpected(after_a_write(made.error()));
    }
    Bson command(
        "update", std::string_view(collection), "updates",
        mongo::array(Bson("q", Bson("_id", kPool), "u", Bson("$set", Bson("made", true)))));
    const Result<Bson> marked = database_.servers->run(std::move(command), Kind::kWrite, until,
                                                       doing, {.idempotent = true});
    if (!marked) return std::unexpected(after_a_write(marked.error()));
    return {};
  }

  // The rows whose `key` is as `value` says, by their numbers.
  Result<std::vector<SeenRow>> find(std::string_view pool, const char* key, const auto& value,
                                    Kind kind, SteadyTime until, std::size_t most = 1) {
    return rows_in(found_by(pool, Bson(key, value), Bson("_id", 1), most), kind, until);
  }

  // The rows that `which` matches, the smallest bounds first; taken over if another store made
  // them.
  Result<std::vector<SeenRow>> find_near(std::string_view pool, Bson which, std::size_t most,
                                         Kind kind, SteadyTime until) {
    which.append("_id", Bson("$gte", 0));  // not the document of the pool
    Result<std::vector<SeenRow>> rows =
        rows_in(found_by(pool, which, Bson("minted_until", 1, "_id", 1), most), kind, until);
    if (!rows) return rows;
    if (Result<void> ours = expect_ours(pool, *rows, until); !ours)
      return std::unexpected(std::move(ours.error()));
    return rows;
  }

  // Free rows that are near enough, from a worker id on. Nothing: there are none, or they are of no
  // use as they are.
  Result<std::vector<WorkerRow>> find_from(std::string_view pool, const FreeWorkers& wanted,
                                           SteadyTime until) {
    std::optional<std::int64_t> size;
    if (wanted.workers > 0) {
      size = wanted.workers;
    } else {
      const Result<Bson> reply = database_.servers->run(
          found_by(pool, Bson("_id", kPool), Bson("_id", 1), 1), Kind::kPlain, until, "read");
      if (!reply) return std::unexpected(reply.error());
      reply->view().each_found(
          [&](const Document& document) { size = document.integer("workers"); });
    }
    if (!size || *size < 1) return std::vector<WorkerRow>{};
    const auto start = static_cast<std::int64_t>(wanted.start % static_cast<std::uint64_t>(*size));
    std::vector<WorkerRow> free;
    for (const std::int64_t first : {start, std::int64_t{0}}) {
      Bson which = free_row();
      which.append("_id", Bson("$gte", first), "minted_until", Bson("$lte", wanted.limit));
      const Result<std::vector<SeenRow>> rows =
          rows_in(found_by(pool, which, Bson("_id", 1), wanted.most), Kind::kPlain, until);
      if (!rows) return std::unexpected(rows.error());
      free = intact(*rows);
      if (!free.empty()) break;
    }
    return free;
  }

  static Bson found_by(std::string_view pool, const Bson& which, const Bson& order,
                       std::size_t most) {
    const auto count = static_cast<std::int32_t>(most);
    Bson fields = fields_of_row();
    fields.append("workers", 1);
    return Bson("find", std::string_view(collection_of_pool(pool)), "filter", which, "sort", order,
                "projection", fields, "limit", count, "batchSize", count, "singleBatch", true);
  }

  Result<std::vector<SeenRow>> rows_in(Bson command, Kind kind, SteadyTime until) {
    const Result<Bson> reply = database_.servers->run(std::move(command), kind, until, "read");
    if (!reply) return std::unexpected(reply.error());
    std::vector<SeenRow> rows;
    reply->view().each_found([&](const Document& document) { rows.push_back(row_of(document)); });
    return rows;
  }

  // Takes all rows of the pool over if another store made one of these.
  Result<void> expect_ours(std::string_view pool, std::span<const SeenRow> rows, SteadyTime until) {
    std::set<Uuid> stores;
    for (const SeenRow& each : rows)
      if (const std::optional<Uuid>& made_by = each.made_by) stores.insert(*made_by);
    return database_.take_over(collection_of_pool(pool), stores, until);
  }

  const Database& database_;
  Leases leases_;
};

}  // namespace

std::shared_ptr<LeaseTable> workers_of(const Database& database, DatabaseEngine& engine) {
  const auto workers = std::make_shared<Workers>(database, engine);
  return {workers, &workers->leases()};
}

}  // namespace idmint::stores::mongodb
