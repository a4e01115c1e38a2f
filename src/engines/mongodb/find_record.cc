// CounterTable::find_record(): the one document that a user names for adoption. Nothing is made
// here.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/similar.h"
#include "base/text.h"
#include "engines/mongodb/adopted.h"
#include "engines/mongodb/counters.h"
#include "idmint/object_id.h"
#include "idmint/uuid.h"
#include "store/backend.h"

namespace idmint::stores::mongodb {
namespace {

constexpr std::int32_t kMostLookedAt = 1000;  // documents that are looked at for a similar name

std::string without_collection(const AdoptedRecord& record) {
  return spelled(record).substr(record.collection.size() + 1);
}

bool is_integral(const AdoptedRecord& record) {
  return record.type == IdType::kInt || record.type == IdType::kLong ||
         (record.type == IdType::kDouble &&
          record.id.find_first_not_of("-0123456789") == std::string::npos);
}

bool is_text(const AdoptedRecord& record) {
  return record.type == IdType::kPlain || record.type == IdType::kText;
}

// The _ids that the text may stand for.
std::vector<AdoptedRecord> readings_of(const AdoptedRecord& record) {
  if (record.type != IdType::kPlain) return {record};
  std::vector<AdoptedRecord> all{record};
  for (const std::string_view type : {"long=", "oid=", "uuid="}) {
    // The field does not matter: only the _id is of interest.
    const auto read =
        adopted_from_text(record.collection + "/" + std::string(type) + record.id + ":next=n");
    // A spelling that the value would not get is a text: 042, or a UUID in braces.
    if (read && (read->id == record.id || type == "uuid=")) all.push_back(*read);
  }
  return all;
}

// "a, b and c".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

// "; did you mean A or B", or else "; there are A, B and C". Empty: there is nothing.
std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  if (known.empty()) return "";
  if (const std::string close = close_matches(name, known); !close.empty())
    return "; did you mean " + close;
  constexpr std::size_t kMost = 5;
  std::vector<std::string> some(
      known.begin(), known.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, known.size())));
  if (known.size() > kMost) some.emplace_back("others");
  return "; there " + std::string(some.size() == 1 ? "is " : "are ") + listed(some);
}

}  // namespace

// The documents that look like the wanted one.
std::string CounterTable::similar_to(const AdoptedRecord& record, SteadyTime until) {
  Bson command;
  command.add("find", std::string_view(record.collection))
      .add("limit", kMostLookedAt)
      .add("batchSize", kMostLookedAt)
      .add("singleBatch", true);
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kReadMany, until, "read");
  if (!reply) return "";
  std::vector<std::string> ids;
  std::string by_field;
  reply->view().each_found([&](const Document& document) {
    document.each_field([&](const char* name, const bson_iter_t* at) {
      const std::string_view key = name;
      if (key == "_id") ids.push_back(without_collection(with_id(record, *at)));
      if (key != "_id" && by_field.empty() && bson_iter_type(at) == BSON_TYPE_UTF8 &&
          mongo::as_text(*at) == record.id && record.type != IdType::kWhere)
        by_field = escaped(key);
    });
  });
  if (!by_field.empty())
    return "; a document has it in the field " + by_field + ": name it by a query, {\"" + by_field +
           "\": \"" + record.id + "\"}, in place of the _id";
  return suggestion(record.type == IdType::kWhere ? "" : without_collection(record), ids);
}

// The collections that look like the wanted one, or the databases that have it.
std::string CounterTable::similar_collections(const std::string& collection, SteadyTime until) {
  const auto names = [&](const std::string& database, const Bson& filter) {
    std::vector<std::string> found;
    Bson command;
    command.add("listCollections", 1)
        .add("filter", filter)
        .add("nameOnly", true)
        .add("authorizedCollections", true);
    const Result<Bson> reply = database_.servers->run(std::move(command), Kind::kPlain, until,
                                                      "look at", {.database = database});
    if (!reply) return found;
    reply->view().each_found([&](const Document& each) {
      const std::string_view name = each.bytes("name").value_or("");
      if (!name.starts_with("idmint.") && !name.starts_with("system.")) found.emplace_back(name);
    });
    return found;
  };
  const std::vector<std::string> here = names("", Bson());
  if (const std::string close = close_matches(collection, here); !close.empty())
    return "; did you mean " + close;
  const Result<Bson> all = database_.servers->run(
      std::move(
          Bson().add("listDatabases", 1).add("nameOnly", true).add("authorizedDatabases", true)),
      Kind::kPlain, until, "look at", {.database = "admin"});
  std::vector<std::string> databases;
  if (all)
    all->view().each("databases", [&](const Document& each) {
      databases.emplace_back(each.bytes("name").value_or(""));
    });
  constexpr std::size_t kMostDatabases = 50;
  databases.resize(std::min(databases.size(), kMostDatabases));
  std::erase_if(databases, [&](const std::string& database) {
    return database == "admin" || database == "config" || database == "local" ||
           names(database, Bson().add("name", std::string_view(collection))).empty();
  });
  if (!databases.empty())
    return "; the database " + listed(databases) + " has one: name it in the URL of the store";
  return suggestion(collection, here);
}

// Whether the collection is there. kFailedPrecondition: it is of a kind that no counter can be in.
Result<bool> CounterTable::look_at_collection(const AdoptedRecord& record, SteadyTime until) {
  Bson command;
  command.add("listCollections", 1)
      .add("filter", Bson().add("name", std::string_view(record.collection)));
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kPlain, until, "look at");
  // Without the right to look, the document tells.
  if (!reply && reply.error().code == Code::kPermissionDenied) return true;
  if (!reply) return std::unexpected(reply.error());
  bool there = false;
  std::string why;
  reply->view().each_found([&](const Document& collection) {
    there = true;
    const Document options = collection.document("options");
    const std::string_view type = collection.bytes("type").value_or("collection");
    if (type == "view")
      why = "it is a view on " + std::string(options.bytes("viewOn").value_or("a collection")) +
            ": adopt the document from there";
    else if (type != "collection")
      why = "it is of the type " + escaped(type) + ", whose documents cannot be updated";
    else if (options.boolean("capped").value_or(false))
      why =
          "it is capped, and MongoDB removes its oldest documents: copy the document into "
          "another collection";
  });
  if (why.empty()) return there;
  return std::unexpected(Error{
      Code::kFailedPrecondition,
      database_.where + ": cannot adopt from the collection " + record.collection + ": " + why});
}

Result<std::string> CounterTable::find_record(const SequenceDefinition& definition) {
  const Result<AdoptedRecord> given = adopted_from_text(definition.adopted);
  if (!given) return std::unexpected(given.error());
  const Result<SteadyTime> until = database_.enter_to_read();
  if (!until) return std::unexpected(until.error());
  const bool make = definition.make_adopted;
  const std::int64_t count = has_stripes(*given) ? definition.stripes : 1;
  const auto refuse = [&](const AdoptedRecord& record, const std::string& why, Advice advice = {}) {
    return std::unexpected(Error{
        Code::kFailedPrecondition,
        database_.where + ": cannot adopt " + place_of(record) + ": " + why, std::move(advice)});
  };
  const auto is_missing = [&](const AdoptedRecord& record, const std::string& similar) {
    Advice advice;
    if (record.type != IdType::kWhere)
      advice = {.remedy = Remedy::kSetOption,
                .subject = "; to begin a new one, have it made",
                .values = {"make_adopted"}};
    return refuse(record, "it is not there" + similar, std::move(advice));
  };

  const Result<bool> there = look_at_collection(*given, *until);
  if (!there) return std::unexpected(there.error());
  if (!*there && !make)
    return is_missing(of_stripe(*given, 0), ", nor is the collection " + given->collection +
                                                similar_collections(given->collection, *until));

  // All of them in one command.
  Bson filter;
  if (given->type == IdType::kWhere) {
    filter = filter_of(*given);
  } else {
    Bson ids;
    std::size_t size = 0;
    for (std::int64_t k = 0; k < count; ++k)
      for (const AdoptedRecord& reading : readings_of(of_stripe(*given, k))) {
        const Bson one = filter_of(reading);
        bson_iter_t id;
        if (one.view().find("_id", &id)) ids.add(std::to_string(size++).c_str(), &id);
      }
    filter.add("_id", Bson().add_array("$in", ids));
  }
  Bson fields;
  fields.add(given->field.c_str(), 1);
  if (!given->max.empty()) fields.add(given->max.c_str(), 1);
  const auto most = static_cast<std::int32_t>(3 * count);
  Bson command;
  command.add("find", std::string_view(given->collection))
      .add("filter", filter)
      .add("projection", fields)
      .add("limit", most)
      .add("batchSize", most)
      .add("singleBatch", true);
  const Result<Bson> reply =
      database_.servers->run(std::move(command), Kind::kReadOne, *until, "look for a document in");
  if (!reply) return std::unexpected(reply.error());
  std::vector<AdoptedRecord> found;
  std::vector<std::string> no_field;  // of each: the field that it lacks
  std::vector<std::string> spellings;
  reply->view().each_found([&](const Document& document) {
    bson_iter_t id;
    if (!document.find("_id", &id)) return;
    found.push_back(with_id(*given, id));
    spellings.push_back(spelled(found.back()));
    no_field.emplace_back();
    for (const std::string& field : {given->max, given->field})
      if (!field.empty() && !document.has(field.c_str())) no_field.back() = field;
  });

  AdoptedRecord kept = *given;
  if (given->type == IdType::kWhere) {
    if (found.empty()) return is_missing(*given, similar_to(*given, *until));
    if (found.size() > 1)
      return refuse(*given, "the query finds several, such as " + spellings[0] + " and " +
                                spellings[1] + ": give fields that only one has");
    kept = found.front();
  } else {
    const auto by_spelling = [&](const std::string& wanted) {
      const auto at = std::ranges::find(spellings, wanted);
      return at != spellings.end() ? &found[static_cast<std::size_t>(at - spellings.begin())]
                                   : nullptr;
    };
    std::optional<IdType> type;
    for (std::int64_t k = 0; k < count; ++k) {
      const AdoptedRecord one = of_stripe(*given, k);
      const AdoptedRecord* text = nullptr;
      const AdoptedRecord* number = nullptr;
      const AdoptedRecord* other = nullptr;
      for (const AdoptedRecord& reading : readings_of(one)) {
        for (const AdoptedRecord& each : found) {
          const bool equal = each.id == reading.id;
          if (is_text(reading) && is_text(each) && equal)
            text = &each;
          else if (is_integral(reading) && is_integral(each) && equal)
            number = &each;
          else if (!is_text(each) &&
                   (equal ? each.type == reading.type : is_integral(reading) && count == 1))
            other = &each;
        }
      }
      const AdoptedRecord* exact = by_spelling(spelled(one));
      if (given->type == IdType::kPlain && text != nullptr && number != nullptr)
        return refuse(
            one, "there are two, " +
                     spelled({.collection = one.collection, .id = one.id, .type = IdType::kText}) +
                     " and " + spelled(*number) + ": say which, as spelled here");
      if (given->type == IdType::kPlain || given->type == IdType::kText)
        exact = text != nullptr ? text : given->type == IdType::kPlain ? number : nullptr;
      if (exact == nullptr) {
        if (const AdoptedRecord* const like = other != nullptr ? other : number)
          return refuse(one, "it is not there, but " + spelled(*like) + " is: name it so" +
                                 (like->type == IdType::kWhere ? ", by a query" : ""));
        if (!make) return is_missing(one, similar_to(one, *until));
      }
      const IdType now = exact != nullptr ? exact->type : given->type;
      if (type && now != *type)
        return refuse(one, "the stripes before it have an _id of another type: all need one type");
      type = now;
      if (count == 1 && exact != nullptr) kept = *exact;
    }
    if (count > 1) kept.type = type.value_or(kept.type);
    // A text has one spelling.
    if (kept.type == IdType::kText) {
      AdoptedRecord plain = kept;
      plain.type = IdType::kPlain;
      if (const auto read = adopted_from_text(to_text(plain)); read && read->type == plain.type)
        kept = plain;
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_kept = count > 1 ? found[i].type == kept.type : spellings[i] == spelled(kept);
    if (!is_kept || no_field[i].empty()) continue;
    std::vector<std::string> numbers;
    const Result<bool> read =
        database_.read(kept.collection, filter_of(found[i]), *until, [&](const Document& document) {
          document.each_field([&](const char* name, const bson_iter_t* at) {
            if (mongo::as_integer(*at) && std::string_view(name) != "_id")
              numbers.push_back(escaped(name));
          });
        });
    if (!read) return std::unexpected(read.error());
    return refuse(found[i], "it has no field " + no_field[i] + suggestion(no_field[i], numbers) +
                                "; it was left as it is");
  }
  return to_text(kept);
}

}  // namespace idmint::stores::mongodb
