// The tables of a store in a database of PostgreSQL, and what its own record says.
//
// Version 1, in the schema `idmint`:
//
//   store        one row:
//                id (uuid), schema (1)
//                system, timeline: of the server that the store is known to be complete on, the
//                identifier of the cluster and the timeline of the write-ahead log
//   counters     name, first, last, stride, next, taken_from, closed
//   definitions  name, json (to_json)
//   spaces       name, closed
//   claimed      space, part, claimed: how many claims a space has, as a sum over its parts, so
//                that those who claim at once do not wait for each other
//   claims       space, key
//   pools        name, workers
//   workers      pool, worker, token (NULL: no owner), holder, generation, minted_until,
//                taken_from, held_until, nonce (of the latest extension; NULL: none)
//   trusted      a view: one row, if a statement may hand something out now; otherwise none
//
// Names are text as names.h says. `next` is what the next advance hands out. `taken_from` is where
// the latest take began, kept so that the UPDATE can return it.
//
// A new timeline begins when a standby is promoted, or a backup is recovered. What its server had
// not received of the old one is missing there, and nothing else tells. So every statement that
// hands something out has the row of `trusted` in its own condition, and with it the settings
// without which a crash of the host loses what was acknowledged.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "idmint/uuid.h"
#include "stores/postgresql/connection.h"

namespace idmint::stores::postgresql {

// In the condition of each Query of Kind::kHandOut.
#define IDMINT_TRUSTED "EXISTS (SELECT FROM idmint.trusted)"

inline constexpr std::int64_t kSchemaVersion = 1;

// What decides whether a crash of the server loses what it acknowledged.
struct Settings {
  std::string fsync{};
  std::string full_page_writes{};
  std::string synchronous_commit{};
  std::string unlogged{};  // tables of ours that a crash empties
};

// The database, where it has no store yet.
struct Site {
  bool has_schema = false;  // idmint
  Settings settings{};
};

// What the store says of itself, and the server of itself, at one time.
struct Record {
  Uuid id{};
  std::int64_t schema = 0;
  std::string system{};
  std::string timeline{};

  std::string system_now{};
  std::string timeline_now{};
  Settings settings{};
  // The definition that was asked for with it, if it is there.
  std::optional<std::string> definition{};

  // The cluster is another than that of the store.
  [[nodiscard]] bool is_elsewhere() const { return system != system_now; }
};

// Read in one statement, with the definition of a name. Nothing: there is no store.
[[nodiscard]] std::expected<std::optional<Record>, Failure> read_record(Connection& connection,
                                                                        std::string_view definition,
                                                                        SteadyTime until);

[[nodiscard]] std::expected<Site, Failure> read_site(Connection& connection, SteadyTime until);

// The first of the settings under which a value that was acknowledged may be lost:
// kFailedPrecondition, naming the one that would do. `url`: for messages.
[[nodiscard]] std::optional<Error> refused_settings(const Settings& settings, std::string_view url);
// As Store::doubt().
[[nodiscard]] std::optional<Error> doubt_of(const Record& record, std::string_view url);

// All tables, and the record, for Connection::execute(). Fails where a part of it is there already.
[[nodiscard]] std::string statements_that_make(const Uuid& id, bool with_schema);

// Takes the server as it is for the one that the store is complete on.
extern const Query kSettle;

}  // namespace idmint::stores::postgresql
