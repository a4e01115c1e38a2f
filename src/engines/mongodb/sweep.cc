// Settles the unfinished claims of a proxy collection.
#include <algorithm>
#include <string>
#include <utility>

#include "engines/mongodb/collection.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {

namespace {

using idmint::mongodb::SweepOptions;
using idmint::mongodb::Swept;

constexpr std::int32_t kPage = 1000;

// The ids of at most a page of unused claims, from `from` on, in order.
Result<Bson> open_claims(Target& target, const std::string& proxy, milliseconds before,
                         const Bson* from) {
  Bson open;
  open.add_array("$in", Bson().add("0", "claimed").add("1", "abandoned"));
  Bson command;
  command.add("find", std::string_view(proxy))
      .add("filter", Bson().add("state", open).add("at", Bson().add("$lt", before)))
      .add("projection", Bson().add("_id", 1))
      .add("sort", Bson().add("_id", 1))
      .add("hint", Bson().add("_id", 1));
  // A comparison would find ids of one type only.
  if (from != nullptr) command.add("min", *from);
  command.add("limit", kPage).add("batchSize", kPage).add("singleBatch", true);
  return target.read(std::move(command), "read the claims of");
}

// The values of a field in a reply to find, as an array.
Bson values_in(const Bson& reply, const char* field, std::int32_t* count, Bson* last) {
  Bson values;
  reply.view().each_found([&](const Document& document) {
    document.each_field([&](const char* name, bson_iter_t* at) {
      if (std::string_view(name) != field) return;
      values.add(std::to_string((*count)++).c_str(), at);
      *last = Bson();
      last->add("_id", at);
    });
  });
  return values;
}

}  // namespace

Result<Swept> sweep(Target& target, const SweepOptions& options, Clock& clock) {
  const std::string proxy = options.proxy.empty() ? target.collection() + ".ids" : options.proxy;
  if (Result<void> ok = check_field(options.field); !ok) return std::unexpected(ok.error());
  if (Result<void> ok = options.proxy.empty() ? check_collection(proxy) : target.check_proxy(proxy);
      !ok)
    return std::unexpected(ok.error());
  if (options.older_than < milliseconds{0})
    return std::unexpected(Error{Code::kInvalidArgument, "the age of claims to sweep is negative"});
  const char* const field = options.field.c_str();
  const Result<Bson> indexes = target.indexes(target.collection());
  if (!indexes) return std::unexpected(indexes.error());
  if (!is_there(*indexes))
    return std::unexpected(Error{Code::kNotFound, "there is no collection " + target.name() +
                                                      ", and no claim was changed; look at its "
                                                      "name"});
  if (Result<void> ok = target.need_look_up(options.field, false); !ok)
    return std::unexpected(ok.error());
  const Result<Bson> of_proxy = target.indexes(proxy);
  if (!of_proxy) return std::unexpected(of_proxy.error());
  if (!is_there(*of_proxy))
    return std::unexpected(Error{Code::kNotFound,
                                 "there is no proxy collection " + shown(proxy) + " beside " +
                                     target.name() +
                                     ": nothing was claimed there yet, or it has another name",
                                 {.remedy = Remedy::kSetOption, .values = {"proxy"}}});
  const auto before =
      std::chrono::floor<milliseconds>(clock.now().time_since_epoch()) - options.older_than;

  Swept swept;
  std::int64_t looked_at = 0;
  Bson last;
  for (bool first = true;; first = false) {
    const Result<Bson> claims = open_claims(target, proxy, before, first ? nullptr : &last);
    if (!claims) return std::unexpected(claims.error());
    std::int32_t count = 0;
    const Bson ids = values_in(*claims, "_id", &count, &last);
    if (count == 0) break;
    Bson wanted;
    wanted.add_array("$in", ids);
    Bson projection;
    if (options.field != "_id") projection.add("_id", 0);
    projection.add(field, 1);
    Bson look;
    look.add("find", std::string_view(target.collection()))
        .add("filter", Bson().add(field, wanted))
        .add("projection", projection)
        .add("batchSize", 100'000)
        .add("singleBatch", true);
    const Result<Bson> documents = target.read(std::move(look), "look for the documents of");
    if (!documents) return std::unexpected(documents.error());
    std::int32_t found_count = 0;
    Bson ignored;
    const Bson found = values_in(*documents, field, &found_count, &ignored);
    // The servers compare, because an id may be an int32 there and an int64 here.
    Bson there;
    there.add_array("$in", found);
    Bson not_used;
    not_used.add("$ne", "used");
    const auto used = target.mark(proxy, Bson().add("_id", there).add("state", not_used), "used");
    if (!used) return std::unexpected(used.error());
    Bson not_there;
    not_there.add_array("$in", ids).add_array("$nin", found);
    const auto abandoned =
        target.mark(proxy, Bson().add("_id", not_there).add("state", "claimed"), "abandoned");
    if (!abandoned) return std::unexpected(abandoned.error());
    swept.used += *used;
    swept.abandoned += *abandoned;
    looked_at += count;
    if (options.progress) options.progress(looked_at);
    if (count < kPage) break;
  }
  return swept;
}

}  // namespace idmint::stores::mongodb

namespace idmint::mongodb {

Result<Swept> sweep(Collection& collection, const SweepOptions& options, Clock& clock) {
  return stores::mongodb::sweep(collection.state(), options, clock);
}

}  // namespace idmint::mongodb
