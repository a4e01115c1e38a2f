// The values of a field of a collection. Numbers of all types compare with each other, and texts of
// one width sort like their numbers; so the largest value is the first one in descending order.
#include "engines/mongodb/existing_values.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/mongodb/servers.h"
#include "idmint/mongodb.h"
#include "mongo/bson.h"
#include "store/backend.h"
#include "store/existing_texts.h"

namespace idmint::stores::mongodb {
namespace {

class MongodbValues final : public ExistingValues {
 public:
  MongodbValues(std::string url, OwnedServers servers, milliseconds deadline, NumberField where,
                ExistingForm form)
      : url_(std::move(url)),
        servers_(std::move(servers)),
        deadline_(deadline),
        where_(std::move(where)),
        form_(std::move(form)) {}

  Result<std::optional<std::int64_t>> largest(std::int64_t from, std::int64_t to) override;
  // kNotFound: the field has no values and never will.
  Result<void> look();

 private:
  Result<Bson> ask(Bson command, SteadyTime until);
  Result<bool> has_any(const Bson& filter, SteadyTime until);
  std::string name() const { return where_.database + "." + where_.collection; }
  Result<std::optional<std::int64_t>> largest_number(std::int64_t from, std::int64_t to,
                                                     SteadyTime until);
  Result<std::vector<std::string>> texts(const std::string& from, const std::string& below,
                                         bool inclusive, SteadyTime until);
  Result<void> no_text(SteadyTime until);
  Result<Bson> find(const Bson& condition, std::int32_t limit, SteadyTime until);
  std::unexpected<Error> refuse(const std::string& what) const {
    return std::unexpected(
        Error{Code::kFailedPrecondition, name() + " holds " + what + " in " + where_.field});
  }

  const std::string url_;
  const OwnedServers servers_;
  const milliseconds deadline_;
  const NumberField where_;
  const ExistingForm form_;
};

Bson types(std::initializer_list<const char*> names) {
  Bson all;
  int i = 0;
  for (const char* const name : names) all.add(std::to_string(i++).c_str(), name);
  return all;
}

// Reads the field alone, in descending order.
Result<Bson> MongodbValues::find(const Bson& condition, std::int32_t limit, SteadyTime until) {
  const char* const field = where_.field.c_str();
  Bson projection;
  projection.add(field, 1);
  if (where_.field != "_id") projection.add("_id", 0);
  Bson command;
  command.add("find", std::string_view(where_.collection))
      .add("filter", Bson().add(field, condition))
      .add("sort", Bson().add(field, -1))
      .add("projection", projection)
      .add("collation", Bson().add("locale", "simple"))
      .add("limit", limit)
      .add("batchSize", limit)
      .add("singleBatch", true);
  return ask(std::move(command), until);
}

// Asks the primary without a read concern: values that no majority has yet are in use too.
Result<Bson> MongodbValues::ask(Bson command, SteadyTime until) {
  return servers_->run(std::move(command), Kind::kPlain, until,
                       "read " + where_.collection + " of " + where_.database + " in",
                       {.database = where_.database});
}

// Whether the reply's cursor has any document.
bool has_some(const Bson& reply) {
  bool some = false;
  reply.view().each_found([&](const Document&) { some = true; });
  return some;
}

Result<bool> MongodbValues::has_any(const Bson& filter, SteadyTime until) {
  Bson command;
  command.add("find", std::string_view(where_.collection))
      .add("filter", filter)
      .add("projection", Bson().add("_id", 1))
      .add("limit", 1)
      .add("singleBatch", true);
  const Result<Bson> reply = ask(std::move(command), until);
  if (!reply) return std::unexpected(reply.error());
  return has_some(*reply);
}

Result<void> MongodbValues::look() {
  const SteadyTime until = std::chrono::steady_clock::now() + deadline_;
  const Bson with_field = std::move(Bson().add(where_.field.c_str(), Bson().add("$exists", true)));
  const Result<bool> used = has_any(with_field, until);
  if (!used) return std::unexpected(used.error());
  if (*used) return {};
  const Result<bool> filled = has_any(Bson(), until);
  if (!filled) return std::unexpected(filled.error());
  if (*filled)
    return std::unexpected(Error{Code::kNotFound, "no document of " + name() + " has the field " +
                                                      shown(where_.field) +
                                                      "; nothing was changed; look at its name"});
  // Lists at least the authorized collections for a user who may not list all.
  Bson command;
  command.add("listCollections", 1)
      .add("filter", Bson().add("name", std::string_view(where_.collection)))
      .add("nameOnly", true)
      .add("authorizedCollections", true);
  const Result<Bson> list = ask(std::move(command), until);
  if (!list) return std::unexpected(list.error());
  if (has_some(*list)) return {};
  return std::unexpected(Error{Code::kNotFound, "there is no collection " + name() +
                                                    "; nothing was changed; look at its name"});
}

Result<std::optional<std::int64_t>> MongodbValues::largest_number(std::int64_t from,
                                                                  std::int64_t to,
                                                                  SteadyTime until) {
  Bson condition;
  condition.add("$gte", from).add("$lte", to).add_array("$type", types({"int", "long", "double"}));
  const Result<Bson> reply = find(condition, 1, until);
  if (!reply) return std::unexpected(reply.error());
  std::optional<std::int64_t> found;
  bool array = false;
  reply->view().each_found([&](const Document& document) {
    // A double may have a fraction; it is truncated, and the value below is raised past, too.
    found = document.number(where_.field.c_str());
    array = document.is_array(where_.field.c_str());
  });
  if (array) return refuse("an array");
  if (found) found = std::clamp(*found, from, to);
  return found;
}

// Checks for texts that could be numbers, whose largest cannot be found.
Result<void> MongodbValues::no_text(SteadyTime until) {
  Bson condition;
  condition.add("$gte", "").add("$type", "string");
  const Result<Bson> reply = find(condition, 1, until);
  if (!reply) return std::unexpected(reply.error());
  std::optional<std::string> text;
  reply->view().each_found(
      [&](const Document& document) { text = document.bytes(where_.field.c_str()).value_or(""); });
  if (!text) return {};
  return std::unexpected(text_of_any_width(name() + ", in " + where_.field + ",", shown(*text)));
}

Result<std::vector<std::string>> MongodbValues::texts(const std::string& from,
                                                      const std::string& below, bool inclusive,
                                                      SteadyTime until) {
  Bson condition;
  condition.add("$gte", std::string_view(from))
      .add(inclusive ? "$lte" : "$lt", std::string_view(below))
      .add("$type", "string");
  const Result<Bson> reply = find(condition, kPageOfTexts, until);
  if (!reply) return std::unexpected(reply.error());
  std::vector<std::string> all;
  bool array = false;
  reply->view().each_found([&](const Document& document) {
    array = array || document.is_array(where_.field.c_str());
    all.emplace_back(document.bytes(where_.field.c_str()).value_or(""));
  });
  if (array) return refuse("an array");
  return all;
}

Result<std::optional<std::int64_t>> MongodbValues::largest(std::int64_t from, std::int64_t to) {
  if (!servers_->owned()) return std::unexpected(inherited_handle(url_));
  const SteadyTime until = std::chrono::steady_clock::now() + deadline_;
  const auto number = largest_number(from, to, until);
  if (!number) return number;
  if (!has_one_width(form_)) {
    if (Result<void> none = no_text(until); !none) return std::unexpected(none.error());
    return number;
  }
  const auto text = largest_text(
      form_, from, to, [&](const std::string& least, const std::string& below, bool inclusive) {
        return texts(least, below, inclusive, until);
      });
  if (!text) return text;
  return std::max(*number, *text);  // nullopt is less than any value
}

}  // namespace

Result<std::unique_ptr<ExistingValues>> open_values(std::string_view url,
                                                    std::string_view collection,
                                                    std::string_view field,
                                                    const ExistingForm& form,
                                                    milliseconds deadline) {
  Result<NumberField> where = number_field(collection, field);
  if (!where) return std::unexpected(std::move(where).error());
  Result<Connected> connected = connect(url, deadline);
  if (!connected) return std::unexpected(std::move(connected).error());
  auto values =
      std::make_unique<MongodbValues>(std::move(connected->url), std::move(connected->servers),
                                      connected->deadline, *std::move(where), form);
  if (Result<void> there = values->look(); !there) return std::unexpected(there.error());
  return values;
}

}  // namespace idmint::stores::mongodb
