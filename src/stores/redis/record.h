// The record of a store: what it says of itself, and its server of itself.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "idmint/uuid.h"
#include "stores/redis/connection.h"

namespace idmint::stores::redis {

struct Record {
  Uuid id{};
  std::int64_t schema = 0;
  std::string replid{};
  std::string replid_now{};
  // As scripts.h judges: "same", "restarted", "promoted" or "renewed".
  std::string judged{};
  // The definition that was asked for with it, if it is there.
  std::optional<std::string> definition{};
};

// Read in one step, with the definition of a name. Nothing: there is no store.
[[nodiscard]] std::expected<std::optional<Record>, Failure> read_record(Connection& connection,
                                                                        std::string_view definition,
                                                                        SteadyTime until);

// As Store::doubt().
[[nodiscard]] std::optional<Error> doubt_of(const Record& record, std::string_view url);

// Makes the record, with the id of values[0]. The outcomes: "ok"; "there": there is one; "parts":
// there is none, and other keys of a store are there.
extern const Script kMakeStore;
// Takes the server as it is for the one that the store is complete on.
extern const Script kSettle;

}  // namespace idmint::stores::redis
