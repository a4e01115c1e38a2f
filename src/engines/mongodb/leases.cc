#include "engines/mongodb/leases.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "base/errors.h"
#include "base/figures.h"
#include "engines/mongodb/names.h"
#include "store/backend.h"
#include "store/protocol/lease_rules.h"

namespace idmint::stores::mongodb {

namespace {

constexpr const char* kPool = "pool";  // the _id of the document of the pool, among its worker ids

std::string workers_of(std::string_view pool) { return collection_of("idmint.workers", pool); }

// ---- expressions

// {OPERATION: [FIRST, SECOND]} for values and expressions.
Bson apply(const char* operation, const auto& first, const auto& second) {
  Bson both;
  both.add("0", first).add("1", second);
  return std::move(Bson().add_array(operation, both));
}

Bson either(const Bson& condition, const auto& then, const auto& otherwise) {
  Bson all;
  all.add("0", condition).add("1", then).add("2", otherwise);
  return std::move(Bson().add_array("$cond", all));
}

// For a field that somebody may have typed.
Bson as_long(const Bson& value) { return std::move(Bson().add("$toLong", value)); }

Bson after_now(milliseconds time) {
  return apply("$add", "$$NOW", static_cast<std::int64_t>(time.count()));
}

milliseconds since_1970(Instant time) {
  return std::chrono::floor<milliseconds>(time.time_since_epoch());
}

// Whether the caller's clock and the server's agree.
Bson clocks_agree(Instant clock, milliseconds max_skew) {
  const Bson apart = apply("$subtract", "$$NOW", since_1970(clock));
  return apply("$lte", Bson().add("$abs", apart), static_cast<std::int64_t>(max_skew.count()));
}

// ---- queries

// Matches rows with intact numbers that also meet the conditions. Other rows are never changed:
// that would silently repair a damage, and ids would repeat.
Bson whole_row(const Bson& minted_until, const Bson& generation, const Bson& made_here) {
  const auto integer = [](const Bson& condition) {
    Bson number;
    number.add_array("$type", Bson().add("0", "int").add("1", "long")).add_all(*condition.get());
    return number;
  };
  Bson query;
  query.add("minted_until", integer(minted_until))
      .add("generation", integer(generation))
      .add("held_until", Bson().add("$type", "date"))
      .add(kMadeBy, made_here);
  return query;
}

// Matches free rows: without an owner, or with an expired lease.
Bson free_row() {
  Bson nobodys;
  nobodys.add("token", Bson().add("$exists", false));
  Bson over;
  over.add("token", Bson().add("$type", "binData"))
      .add("$expr", apply("$lte", "$held_until", "$$NOW"));
  return std::move(Bson().add_array("$or", Bson().add("0", nobodys).add("1", over)));
}

Bson row_of_token(const Uuid& token) {
  Bson query;
  add_uuid(query, "token", token);
  return query;
}

Bson taken(const Bson& generation, const Bson& from) {
  return std::move(Bson().add("generation", as_long(generation)).add("from", as_long(from)));
}

// The update of an acquire, computed from the row as it was.
Bson taken_by(const LeaseRequest& request) {
  Bson token;
  add_uuid(token, "$literal", request.token);
  const Bson generation = either(apply("$eq", "$token", token), "$generation",
                                 apply("$add", "$generation", std::int64_t{1}));
  // Like lease_end(); units is at least 1.
  const Bson to =
      apply("$max", apply("$add", "$minted_until", std::int64_t{1}), request.now + request.units);
  Bson set;
  set.add("token", token)
      .add("holder", Bson().add("$literal", std::string_view(request.holder)))
      .add("generation", as_long(generation))
      .add("minted_until", as_long(to))
      .add("held_until", after_now(request.terms.held))
      .add("taken", taken(generation, apply("$max", "$minted_until", request.now)));
  return std::move(Bson().add("0", Bson().add("$set", set)));
}

}  // namespace

Instant Leases::Span::clock(const LeaseTerms& terms) const {
  return terms.clock + (std::chrono::steady_clock::now() - begin);
}

Result<Leases::Span> Leases::enter_to_read(SteadyTime by) const {
  if (!database_.servers->owned()) return std::unexpected(inherited_handle(database_.url));
  const SteadyTime now = std::chrono::steady_clock::now();
  return Span{now, std::min(by, now + database_.deadline)};
}

Result<Leases::Span> Leases::enter(SteadyTime by) const {
  if (database_.access == Access::kReadOnly)
    return std::unexpected(read_only_handle(database_.where));
  return enter_to_read(by);
}

std::unexpected<Error> Leases::damaged(std::string_view pool, std::string_view what) const {
  return std::unexpected(Error{
      Code::kDataLoss, database_.where + " is damaged: pool " + shown(pool) + ": " +
                           std::string(what) + " in " + workers_of(pool) +
                           " is not as idmint writes it; stop all who mint, put it right, then "
                           "raise the pool past every bound that was granted"});
}

// ---- the documents

Result<std::optional<Leases::Pool>> Leases::find_pool(std::string_view pool, SteadyTime until) {
  Bson command;
  command.add("find", std::string_view(workers_of(pool)))
      .add("filter", Bson().add("_id", kPool))
      .add("limit", 1)
      .add("singleBatch", true);
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  bool found = false;
  std::optional<Pool> there;
  reply->view().each_found([&](const Document& document) {
    found = true;
    const auto workers = document.integer("workers");
    const auto made = document.boolean("made");
    const auto raising = document.boolean("raising");
    if (workers && made && raising) there = Pool{*workers, *made, *raising};
  });
  if (found && !there) return damaged(pool, "the document \"pool\"");
  return there;
}

Result<Leases::Pool> Leases::read_pool(std::string_view pool, SteadyTime until) {
  const Result<std::optional<Pool>> there = find_pool(pool, until);
  if (!there) return std::unexpected(there.error());
  const std::optional<Pool>& found = *there;
  if (!found) return std::unexpected(no_pool(pool, database_.url));
  return *found;
}

// Creates the missing rows.
Result<void> Leases::make_rows(std::string_view pool, std::int64_t workers, SteadyTime until) {
  constexpr std::int64_t kAtOnce = 10'000;  // the reply has a line for each existing row
  constexpr std::string_view kDoing = "make worker ids in";
  const std::string collection = workers_of(pool);
  for (std::int64_t from = 0; from < workers; from += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, workers - from);
    Bson documents;
    for (std::int64_t i = 0; i < count; ++i) {
      Bson row;
      row.add("_id", from + i)
          .add("holder", "")
          .add("generation", std::int64_t{0})
          .add("minted_until", std::int64_t{0})
          .add("held_until", milliseconds{0});
      add_uuid(row, kMadeBy, database_.id);
      documents.add(std::to_string(i).c_str(), row);
    }
    const auto made = database_.servers->insert_new(collection, documents, count, until, kDoing);
    if (!made) return std::unexpected(after_a_write(made.error()));
  }
  return mark_pool(pool, "made", true, until, kDoing);
}

Result<void> Leases::mark_pool(std::string_view pool, const char* what, bool is_so,
                               SteadyTime until, std::string_view doing) {
  Bson set;
  set.add(what, is_so);
  const Result<bool> marked = update(pool, Bson().add("_id", kPool),
                                     Bson().add("0", Bson().add("$set", set)), until, doing, true);
  if (!marked) return std::unexpected(after_a_write(marked.error()));
  return {};
}

namespace {

// The fields of a row, and the server's time.
Bson fields_of_row() {
  const Bson is_date = apply("$eq", Bson().add("$type", "$held_until"), "date");
  const Bson held_for = either(is_date, apply("$subtract", "$held_until", "$$NOW"), false);
  return std::move(Bson()
                       .add("token", 1)
                       .add("holder", 1)
                       .add("generation", 1)
                       .add("minted_until", 1)
                       .add("taken", 1)
                       .add("nonce", 1)
                       .add(kMadeBy, 1)
                       .add("held_for", held_for)
                       .add("now", Bson().add("$toLong", "$$NOW")));
}

}  // namespace

Leases::Row Leases::row_of(const Document& document) {
  const auto worker = document.integer("_id");
  const auto token = uuid_in(document, "token");
  const auto holder = document.bytes("holder");
  const auto generation = document.integer("generation");
  const auto minted_until = document.integer("minted_until");
  const auto held_for = document.integer("held_for");
  Row row;
  row.now = Instant(milliseconds{document.number("now")});
  row.whole = names_its_store(document) && worker && (token || !document.has("token")) && holder &&
              generation && minted_until && held_for && *generation >= 0 && *minted_until >= 0;
  row.state.worker = worker.value_or(-1);
  if (!row.whole) return row;
  row.state.token = token.value_or(Uuid{});
  row.state.holder = *holder;
  row.state.generation = *generation;
  row.state.minted_until = *minted_until;
  if (token) row.state.held_for = milliseconds{std::max<std::int64_t>(*held_for, 0)};
  const Document taken = document.document("taken");
  if (taken.integer("generation") == generation) row.state.taken_from = taken.integer("from");
  row.nonce = uuid_in(document, "nonce").value_or(Uuid{});
  row.made_by = uuid_in(document, kMadeBy);
  return row;
}

Result<void> Leases::take_over_other(std::string_view pool, const std::optional<Uuid>& made_by,
                                     SteadyTime until) {
  return database_.take_over(workers_of(pool), Bson(), made_by, until);
}

// The row with the smallest minted_until among those that the filter matches.
Result<std::optional<Leases::Row>> Leases::find_row(std::string_view pool, const Bson& filter,
                                                    SteadyTime until) {
  Bson command;
  command.add("find", std::string_view(workers_of(pool)))
      .add("filter", filter)
      .add("sort", Bson().add("minted_until", 1))
      .add("projection", fields_of_row())
      .add("limit", 1)
      .add("singleBatch", true);
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kReadOne, until, "read");
  if (!reply) return std::unexpected(reply.error());
  std::optional<Row> row;
  reply->view().each_found([&](const Document& document) { row = row_of(document); });
  return row;
}

// Reads all rows, at least `least`, sorted by worker id.
Result<std::vector<LeaseState>> Leases::read_rows(std::string_view pool, std::int64_t least,
                                                  SteadyTime until) {
  constexpr std::int32_t kPage = 5000;
  std::vector<LeaseState> rows;
  std::optional<std::int64_t> broken;
  std::set<Uuid> stores;
  Bson from;
  from.add("$gte", 0);
  for (;;) {
    Bson command;
    command.add("find", std::string_view(workers_of(pool)))
        .add("filter", Bson().add("_id", from))
        .add("sort", Bson().add("_id", 1))
        .add("projection", fields_of_row())
        .add("limit", kPage)
        .add("batchSize", kPage)
        .add("singleBatch", true);
    const Result<Bson> reply =
        database_.servers->run(std::move(command), Kind::kReadOne, until, "read");
    if (!reply) return std::unexpected(reply.error());
    std::int32_t found = 0;
    reply->view().each_found([&](const Document& document) {
      ++found;
      const Row row = row_of(document);
      if (!row.whole && !broken) broken = row.state.worker;
      if (const std::optional<Uuid>& made_by = row.made_by) stores.insert(*made_by);
      rows.push_back(row.state);
    });
    if (broken) return damaged(pool, "worker id " + std::to_string(*broken));
    if (found < kPage) break;
    from = Bson();
    from.add("$gt", rows.back().worker);
  }
  for (const Uuid& store : stores) {
    if (Result<void> ours = take_over_other(pool, store, until); !ours)
      return std::unexpected(std::move(ours.error()));
  }
  if (std::ssize(rows) < least) return damaged(pool, "the number of worker ids");
  return rows;
}

// False: no row matches. An idempotent update has no transaction number, whose storage would be a
// second write of the servers.
Result<bool> Leases::update(std::string_view pool, const Bson& query, const Bson& changes,
                            SteadyTime until, std::string_view doing, bool idempotent) {
  Bson one;
  one.add("q", query).add_array("u", changes).add("hint", Bson().add("_id", 1));
  Bson command;
  command.add("update", std::string_view(workers_of(pool)))
      .add_array("updates", Bson().add("0", one));
  const Result<Bson> reply = database_.servers->run(std::move(command), Kind::kWrite, until, doing,
                                                    {.idempotent = idempotent});
  if (!reply) return std::unexpected(reply.error());
  return reply->view().number("n") == 1;
}

// ---- pools

Result<void> Leases::do_create_pool(std::string_view pool, std::int64_t workers) {
  const Result<Span> span = enter();
  if (!span) return std::unexpected(span.error());
  const SteadyTime until = span->until;
  Result<std::optional<Pool>> there = find_pool(pool, until);
  if (!there) return std::unexpected(there.error());
  if (!*there) {
    constexpr std::string_view kDoing = "make a pool of worker ids in";
    const std::string collection = workers_of(pool);
    Bson index;
    index.add("key", Bson().add("minted_until", 1)).add("name", "minted_until");
    Bson command;
    command.add("createIndexes", std::string_view(collection))
        .add_array("indexes", Bson().add("0", index));
    const Result<Bson> indexed = database_.servers->run(std::move(command), Kind::kWrite, until,
                                                        kDoing, {.idempotent = true});
    if (!indexed) return std::unexpected(indexed.error());
    Bson document;
    document.add("_id", kPool)
        .add("name", pool)
        .add("workers", workers)
        .add("made", false)
        .add("raising", false);
    const auto made =
        database_.servers->insert_new(collection, Bson().add("0", document), 1, until, kDoing);
    if (!made) return std::unexpected(after_a_write(made.error()));
    there = find_pool(pool, until);
    if (!there) return std::unexpected(after_a_write(there.error()));
  }
  const std::optional<Pool>& found = *there;
  if (!found) return damaged(pool, "the document \"pool\"");
  if (found->workers != workers) return std::unexpected(other_pool(pool, found->workers, workers));
  if (found->made) return {};
  return make_rows(pool, workers, until);
}

// Missing rows are created first, because they would start at 0 later. The update may be
// interrupted anywhere. Until a call has seen all rows raised, the pool has `raising`, and the next
// call skips the rows that nobody has owned since they were raised. Applied late, it changes no row
// with a generation of its epoch. After another fence it takes worker ids from their owners; the
// owners' tokens separate them from later ones.
Result<void> Leases::do_raise_floor(std::string_view pool, std::int64_t floor) {
  const Result<Span> span = enter();
  if (!span) return std::unexpected(span.error());
  const SteadyTime until = span->until;
  constexpr std::string_view kDoing = "raise the worker ids of";
  const Result<Pool> there = read_pool(pool, until);
  if (!there) return std::unexpected(there.error());
  if (!there->made)
    if (Result<void> made = make_rows(pool, there->workers, until); !made) return made;
  if (Result<void> marked = mark_pool(pool, "raising", true, until, kDoing); !marked) return marked;

  const std::int64_t generation = draw_generation(entropy_);
  const std::int64_t last = generation + (kEpoch - 1);
  Bson own;
  own.add("generation", Bson().add("$gte", generation).add("$lte", last));
  Bson done;
  done.add("0", own);
  if (there->raising) {
    Bson before;
    before.add("generation", Bson().add("$gt", 0).add("$bitsAllClear", kEpoch - 1))
        .add("minted_until", Bson().add("$gte", floor));
    done.add("1", before);
  }
  // Or a later call did it.
  const auto is_done = [&](const LeaseState& state) {
    const bool ours = state.generation >= generation && state.generation <= last;
    const bool fenced = state.generation > 0 && state.generation % kEpoch == 0;
    return (ours || fenced) && state.minted_until >= floor;
  };
  Bson query = whole_row(Bson().add("$gte", 0), Bson().add("$gte", 0), database_.made_here());
  query.add_array("$nor", done);
  Bson set;
  set.add("holder", "")
      .add("generation", generation)
      .add("minted_until", as_long(apply("$max", "$minted_until", floor)))
      .add("taken",
           taken(Bson().add("$literal", generation), apply("$max", "$minted_until", floor)));
  Bson changes;
  changes.add("0", Bson().add("$set", set)).add("1", Bson().add("$unset", "token"));
  Bson all;
  all.add("q", query).add_array("u", changes).add("multi", true);
  for (;;) {
    Bson command;
    command.add("update", std::string_view(workers_of(pool)))
        .add_array("updates", Bson().add("0", all));
    const Result<Bson> reply = database_.servers->run(std::move(command), Kind::kWrite, until,
                                                      kDoing, {.idempotent = true});
    if (!reply) return std::unexpected(after_a_write(reply.error()));
    const Result<std::vector<LeaseState>> rows = read_rows(pool, there->workers, until);
    if (!rows) return std::unexpected(after_a_write(rows.error()));
    if (std::ranges::all_of(*rows, is_done)) break;
  }
  return mark_pool(pool, "raising", false, until, kDoing);
}

Result<std::vector<LeaseState>> Leases::do_workers(std::string_view pool, SteadyTime by) {
  const Result<Span> span = enter_to_read(by);
  if (!span) return std::unexpected(span.error());
  const Result<Pool> there = read_pool(pool, span->until);
  if (!there) return std::unexpected(there.error());
  return read_rows(pool, there->made ? there->workers : 0, span->until);
}

// ---- leases

// Why there was no row for the request. True: its token owns one. False: another one may be taken,
// since somebody else was faster.
Result<bool> Leases::why_none(std::string_view pool, const LeaseRequest& request,
                              const Span& span) {
  for (const bool own : {true, false}) {
    if (own && !request.repeated) continue;
    Bson filter = own ? row_of_token(request.token) : free_row();
    filter.add("_id", Bson().add("$gte", 0));  // not the document of the pool
    const Instant before = span.clock(request.terms);
    const Result<std::optional<Row>> read = find_row(pool, filter, span.until);
    if (!read) return std::unexpected(read.error());
    const std::optional<Row>& found = *read;
    if (!found) continue;
    const auto& [state, nonce, whole, made_by, now] = *found;
    if (!whole) return damaged(pool, "worker id " + std::to_string(state.worker));
    if (Result<void> ours = take_over_other(pool, made_by, span.until); !ours)
      return std::unexpected(std::move(ours.error()));
    if (auto error =
            clocks_apart(pool, before, span.clock(request.terms), now, request.terms.max_skew))
      return std::unexpected(*std::move(error));
    if (state.minted_until > request.now + request.max_drift)
      return std::unexpected(refused_acquire(pool, request, state.minted_until));
    return own;
  }
  const Result<Pool> there = read_pool(pool, span.until);
  if (!there) return std::unexpected(there.error());
  if (!there->made)
    return std::unexpected(about("pool " + shown(pool), {Code::kUnavailable,
                                                         "not all of its worker ids were made; "
                                                         "create it again, with " +
                                                             std::to_string(there->workers)}));
  return std::unexpected(refused_acquire(pool, request, std::nullopt));
}

Result<Lease> Leases::do_acquire(std::string_view pool, const LeaseRequest& request,
                                 SteadyTime by) {
  const Result<Span> span = enter(by);
  if (!span) return std::unexpected(span.error());
  const Bson changes = taken_by(request);
  // If several want the same row at once, the server may tell some that there is none.
  for (bool own = request.repeated;;) {
    Bson query = whole_row(Bson().add("$gte", 0).add("$lte", request.now + request.max_drift),
                           Bson().add("$gte", 0), database_.made_here());
    query.add_all(*(own ? row_of_token(request.token) : free_row()).get())
        .add("$expr", clocks_agree(span->clock(request.terms), request.terms.max_skew));
    Bson command;
    command.add("findAndModify", std::string_view(workers_of(pool)))
        .add("query", query)
        .add("sort", Bson().add("minted_until", 1))
        .add_array("update", changes)
        .add("new", false);
    const Result<Bson> reply = database_.servers->run(std::move(command), Kind::kWrite, span->until,
                                                      "lease a worker id from");
    if (!reply) return std::unexpected(reply.error());
    if (const Document row = reply->view().document("value")) {
      const auto worker = row.integer("_id");
      const auto generation = row.integer("generation");
      const auto minted_until = row.integer("minted_until");
      if (!worker || !generation || !minted_until) return damaged(pool, "a worker id");
      const bool was_own = uuid_in(row, "token") == request.token;
      const std::int64_t from = std::max(*minted_until, request.now);
      return Lease{*worker, request.token, *generation + (was_own ? 0 : 1), from,
                   lease_end(request, from)};
    }
    const Result<bool> owns = why_none(pool, request, *span);
    if (!owns) return std::unexpected(owns.error());
    own = *owns;
  }
}

// Like may_extend(), and checks the caller's clock.
Bson Leases::to_extend(const Lease& lease, const Extension& extension, const Span& span) {
  Bson named;
  named.add("minted_until", lease.to);
  Bson repeated;
  add_uuid(repeated, "nonce", extension.nonce);
  repeated.add("minted_until", Bson().add("$gte", extension.to));
  Bson query;
  query.add_array("$or", Bson().add("0", named).add("1", repeated))
      .add("$expr", clocks_agree(span.clock(extension.terms), extension.terms.max_skew));
  return query;
}

// Changes the row if the lease is its owner's; otherwise returns why not. An extension also needs
// the bound that it names and a right clock.
Result<void> Leases::change_own(std::string_view pool, const Lease& lease, const Bson& changes,
                                const Extension* extension, const Span& span,
                                std::string_view doing) {
  // Repeats only if the row or a clock has changed between the two commands.
  for (;;) {
    Bson query;
    query.add("_id", lease.worker);
    query.add_all(*row_of_token(lease.token).get())
        .add_all(*whole_row(Bson().add("$gte", 0), Bson().add("$eq", lease.generation),
                            database_.made_here())
                      .get());
    if (extension != nullptr) query.add_all(*to_extend(lease, *extension, span).get());
    const Result<bool> done = update(pool, query, changes, span.until, doing, extension != nullptr);
    if (!done) return std::unexpected(done.error());
    if (*done) return {};

    const Instant before = extension == nullptr ? Instant{} : span.clock(extension->terms);
    const Result<std::optional<Row>> read =
        find_row(pool, Bson().add("_id", lease.worker), span.until);
    if (!read) return std::unexpected(read.error());
    const std::optional<Row>& found = *read;
    if (!found) {
      const Result<Pool> there = read_pool(pool, span.until);
      return std::unexpected(there ? no_worker(pool, lease.worker) : there.error());
    }
    const auto& [state, nonce, whole, made_by, now] = *found;
    if (!whole) return damaged(pool, "worker id " + std::to_string(lease.worker));
    if (Result<void> ours = take_over_other(pool, made_by, span.until); !ours) {
      Error& why = ours.error();
      // The other store knows no bound of this lease, and may lease its rest to others.
      if (extension != nullptr && why.code == Code::kFailedPrecondition) why.code = Code::kDataLoss;
      return ours;
    }
    if (extension == nullptr) {
      if (!is_owned_by(state, lease)) return std::unexpected(refused_lease(pool, lease, state));
      continue;
    }
    if (!may_extend(state, nonce, lease, extension->to, extension->nonce))
      return std::unexpected(refused_extension(pool, lease, state, nonce, extension->nonce));
    if (auto error = clocks_apart(pool, before, span.clock(extension->terms), now,
                                  extension->terms.max_skew))
      return std::unexpected(*std::move(error));
  }
}

Result<Lease> Leases::do_extend(std::string_view pool, const Lease& lease, std::int64_t to,
                                const Uuid& nonce, const LeaseTerms& terms, SteadyTime by) {
  const Result<Span> span = enter(by);
  if (!span) return std::unexpected(span.error());
  Bson nonce_of_this;
  add_uuid(nonce_of_this, "$literal", nonce);
  Bson set;
  set.add("minted_until", as_long(apply("$max", "$minted_until", to)))
      .add("held_until", after_now(terms.held))
      .add("nonce", nonce_of_this);
  const Extension extension{to, nonce, terms};
  const Result<void> extended = change_own(pool, lease, Bson().add("0", Bson().add("$set", set)),
                                           &extension, *span, "extend a lease in");
  if (!extended) return std::unexpected(extended.error());
  Lease longer = lease;
  longer.to = to;
  return longer;
}

Result<void> Leases::do_release(std::string_view pool, std::int64_t worker, const Uuid& token,
                                std::int64_t generation, SteadyTime by) {
  const Result<Span> span = enter(by);
  if (!span) return std::unexpected(span.error());
  Bson changes;
  changes.add("0", Bson().add("$set", Bson().add("holder", "")))
      .add("1", Bson().add("$unset", "token"));
  return change_own(pool, {worker, token, generation, 0, 0}, changes, nullptr, *span,
                    "release a worker id of");
}

}  // namespace idmint::stores::mongodb
