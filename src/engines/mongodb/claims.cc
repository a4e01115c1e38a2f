#include "engines/mongodb/claims.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mongodb/names.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {
namespace {

constexpr const char* kSpace = "space";  // the _id of the document of the space, among its claims

// The collection of a space.
std::string claims_of(std::string_view space) { return collection_of("idmint.claims", space); }

}  // namespace

Result<bool> Claims::is_closed(std::string_view space, SteadyTime until) {
  std::optional<bool> closed;
  std::optional<Uuid> made_by;
  const Result<bool> there =
      database_.read(claims_of(space), kSpace, until, [&](const Document& document) {
        made_by = uuid_in(document, kMadeBy);
        if (names_its_store(document)) closed = document.boolean("closed");
      });
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_space(space, database_.url));
  const Result<void> ours =
      database_.take_over(claims_of(space), Bson("_id", kSpace), made_by, until);
  if (!ours) return std::unexpected(ours.error());
  if (!closed)
    return database_.damaged("the document \"space\" in " + claims_of(space) +
                             " is not as idmint writes it");
  return *closed;
}

Result<void> Claims::do_create_space(std::string_view space) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  Bson document;
  document.add("_id", kSpace).add("name", space).add("closed", false);
  add_uuid(document, kMadeBy, database_.id);
  const auto made = database_.servers->insert_new(claims_of(space), Bson().add("0", document), 1,
                                                  *until, "make a space of claims in");
  if (!made) return std::unexpected(made.error());
  return {};
}

// A close that ends meanwhile may come before or after it.
Result<std::vector<bool>> Claims::do_insert(std::string_view space,
                                            std::span<const std::int64_t> keys, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter(by);
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = is_closed(space, *until);
  if (!closed) return std::unexpected(closed.error());
  if (*closed) return std::unexpected(closed_space(space));
  const std::string collection = claims_of(space);
  std::vector<bool> ours(keys.size(), true);
  constexpr std::size_t kAtOnce = 10'000;  // the reply has a line for each claim that is taken
  for (std::size_t from = 0; from < keys.size(); from += kAtOnce) {
    const auto some = keys.subspan(from, std::min(kAtOnce, keys.size() - from));
    Bson documents;
    for (std::size_t i = 0; i < some.size(); ++i)
      documents.add(std::to_string(i).c_str(), Bson().add("_id", some[i]));
    const auto taken = database_.servers->insert_new(collection, documents, std::ssize(some),
                                                     *until, "claim numbers in");
    if (!taken && from > 0) return std::unexpected(after_a_write(taken.error()));
    if (!taken) return std::unexpected(taken.error());
    for (const std::size_t i : *taken) ours.at(from + i) = false;
  }
  return ours;
}

Result<std::int64_t> Claims::do_claimed(std::string_view space, SteadyTime by) {
  const Result<SteadyTime> until = database_.enter_to_read(by);
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = is_closed(space, *until);
  if (!closed) return std::unexpected(closed.error());
  Bson command;
  command.add("count", std::string_view(claims_of(space)));
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kReadMany, *until, "read");
  if (!reply) return std::unexpected(reply.error());
  return reply->view().number("n") - 1;
}

Result<bool> Claims::do_contains(std::string_view space, std::int64_t key) {
  const Result<SteadyTime> until = database_.enter_to_read();
  if (!until) return std::unexpected(until.error());
  const Result<bool> closed = is_closed(space, *until);
  if (!closed) return std::unexpected(closed.error());
  return database_.read(claims_of(space), Bson().add("_id", key), *until, [](const Document&) {});
}

Result<void> Claims::do_close_space(std::string_view space) {
  const Result<SteadyTime> until = database_.enter();
  if (!until) return std::unexpected(until.error());
  const Result<bool> there =
      database_.change(claims_of(space), std::move(Bson().add("_id", kSpace)), Bson(kClose), *until,
                       "close a space of claims in", [](const Document&) {});
  if (!there) return std::unexpected(there.error());
  if (!*there) return std::unexpected(no_space(space, database_.url));
  return {};
}

}  // namespace idmint::stores::mongodb
