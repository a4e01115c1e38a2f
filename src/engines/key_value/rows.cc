#include "engines/key_value/rows.h"

#include <utility>

#include "base/text.h"
#include "engines/key_value/json.h"
#include "ids/lease_table.h"

namespace idmint::stores::key_value {

std::string text_of(const CounterState& counter) {
  return dumped({{"next", counter.next},
                 {"first", counter.bounds.first},
                 {"last", counter.bounds.last},
                 {"stride", counter.bounds.stride},
                 {"closed", counter.closed}});
}

std::optional<CounterState> read_counter(std::string_view name, std::string_view text) {
  Reader reader(text);
  CounterState counter{.name = std::string(name)};
  counter.next = reader.integer("next");
  CounterBounds& bounds = counter.bounds;
  bounds = {reader.integer("first"), reader.integer("last"), reader.integer("stride")};
  counter.closed = reader.boolean("closed");
  const bool right = reader.whole() && 0 <= bounds.first && bounds.first <= bounds.last &&
                     1 <= bounds.stride && bounds.last <= largest_last(bounds.stride) &&
                     bounds.first <= counter.next && counter.next <= bounds.last + bounds.stride &&
                     (counter.next - bounds.first) % bounds.stride == 0;
  return right ? std::optional(std::move(counter)) : std::nullopt;
}

std::string pool_text(std::int64_t workers) { return dumped({{"workers", workers}}); }

std::optional<std::int64_t> read_pool(std::string_view text) {
  Reader reader(text);
  const std::int64_t workers = reader.integer("workers");
  const bool right = reader.whole() && 1 <= workers && workers <= LeaseTable::kMaxWorkers;
  return right ? std::optional(workers) : std::nullopt;
}

std::string text_of(const WorkerRecord& record) {
  const LeaseState& state = record.row.state;
  return dumped({{"minted_until", state.minted_until},
                 {"generation", state.generation},
                 {"token", text_or_none(state.token)},
                 {"holder", as_utf8(state.holder)},
                 {"taken_from", state.taken_from.value_or(0)},
                 {"held_until", record.held_until},
                 {"nonce", text_or_none(record.row.nonce)}});
}

std::optional<WorkerRecord> read_worker(std::int64_t worker, std::string_view text) {
  Reader reader(text);
  WorkerRecord record{.row = {.state = {.worker = worker}}};
  LeaseState& state = record.row.state;
  state.minted_until = reader.integer("minted_until");
  state.generation = reader.integer("generation");
  state.token = reader.uuid("token");
  state.holder = reader.text("holder");
  state.taken_from = reader.integer("taken_from");
  record.held_until = reader.integer("held_until");
  record.row.nonce = reader.uuid("nonce");
  // What is left of the lease is computed from it: of a negative one that would overflow.
  const bool right = reader.whole() && state.minted_until >= 0 && record.held_until >= 0;
  return right ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace idmint::stores::key_value
