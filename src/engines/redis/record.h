// The record of a store: what it says of itself, and its server of itself.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "engines/redis/connection.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint::stores::redis {

struct Record {
  Uuid id{};
  std::int64_t schema = 0;
  std::string replid{};
  std::string replid_now{};
  // As scripts.h judges: "same", "restarted", "promoted", "renewed", "copied", "elsewhere" or
  // "unread".
  std::string judged{};
  // A doubt that lasts until the store is settled: "copied"; "elsewhere"; "unread", or "unlogged",
  // where a process came to the server while it ran without its append-only file; or empty.
  std::string doubted{};
  std::int64_t settled = 0;
  std::string gone_back{};  // empty: nobody saw that it has
  // The definition that was asked for with it, if it is there.
  std::optional<std::string> definition{};
};

// Read in one step, with the definition of a name. `database`: the number of the one that the
// connection uses. Nothing: there is no store.
[[nodiscard]] std::expected<std::optional<Record>, Failure> read_record(Connection& connection,
                                                                        int database,
                                                                        std::string_view definition,
                                                                        SteadyTime until);

// As Store::doubt().
[[nodiscard]] std::optional<Error> doubt_of(const Record& record, std::string_view url);

// Makes the record, with the id of values[0] in the database of the number values[1]. The outcomes:
// "ok"; "there": there is one; "parts": there is none, and other keys of a store are there.
extern const Script kMakeStore;
// Doubts a store that was in the server before that was started without its append-only file. The
// outcomes: "marked"; "none": no store, or the server was not started since.
extern const Script kMarkUnlogged;

// The next two do nothing where the settle count is not values[0] any more.
// Takes the server as it is for the one that the store is complete on. values[1]: the new count.
extern const Script kSettle;
// values[1]: what a process saw that the store has forgotten.
extern const Script kMarkGoneBack;

}  // namespace idmint::stores::redis
