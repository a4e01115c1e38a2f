// The rows of tables as values, for all stores of SQL engines. A Row has integer(column), which
// is 0 for NULL, and bytes(column), which is empty for NULL; columns count from 0.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "idmint/uuid.h"
#include "ids/lease_table.h"
#include "store/counter_store.h"

namespace idmint::stores::sql {

// The columns are "name, first, last, stride, next, closed".
template <class Row>
[[nodiscard]] CounterState counter_of(const Row& row) {
  return {std::string(row.bytes(0)),
          {row.integer(1), row.integer(2), row.integer(3)},
          row.integer(4),
          row.integer(5) != 0};
}

// A UUID as its 16 bytes; of anything else, the nil UUID.
template <class Row>
[[nodiscard]] Uuid uuid_in(const Row& row, int column) {
  Uuid::Bytes bytes{};
  if (row.bytes(column).size() == bytes.size()) std::ranges::copy(row.bytes(column), bytes.begin());
  return Uuid(bytes);
}

// The columns are "worker, token, holder, generation, minted_until, held_until, taken_from";
// held_until is in ms since 1970, as `now` is.
template <class Row>
[[nodiscard]] LeaseState worker_of(const Row& row, std::int64_t now) {
  LeaseState state{.worker = row.integer(0), .token = uuid_in(row, 1)};
  state.holder = row.bytes(2);
  state.generation = row.integer(3);
  state.minted_until = row.integer(4);
  if (state.token != Uuid{})
    state.held_for = std::chrono::milliseconds{std::max<std::int64_t>(row.integer(5) - now, 0)};
  state.taken_from = row.integer(6);
  return state;
}

}  // namespace idmint::stores::sql
