#include "engines/mongodb/unique_index_check.h"

#include <array>
#include <optional>

#include "store/backend.h"

namespace idmint::stores::mongodb {

namespace {

// The fields of a key pattern such as {region: 1, account: "hashed"}.
struct Pattern {
  std::string first;
  int fields = 0;
  bool ordered = true;  // directions only: not hashed, text, 2dsphere
  std::string text = "{";
};

Pattern pattern_of(const Document& key) {
  Pattern pattern;
  key.each_field([&](const char* name, bson_iter_t* at) {
    if (pattern.fields++ == 0) pattern.first = name;
    pattern.text += (pattern.fields > 1 ? ", " : "") + std::string(name) + ": ";
    if (bson_iter_type(at) == BSON_TYPE_UTF8) {
      pattern.ordered = false;
      pattern.text += "\"" + std::string(bson_iter_utf8(at, nullptr)) + "\"";
    } else {
      pattern.text += std::to_string(bson_iter_as_int64(at));
    }
  });
  pattern.text += "}";
  return pattern;
}

struct Index {
  const Document& spec;
  const Pattern& key;
  bool built;  // before, it accepts repeated values, and vanishes at the end
};

void each_index(const Bson& reply, const std::function<void(const Index&)>& use) {
  reply.view().each_found([&](const Document& index) {
    const bool built = !index.has("spec");
    const Document spec = built ? index : index.document("spec");
    const Document key = spec.document("key");
    if (!key) return;
    const Pattern pattern = pattern_of(key);
    use({spec, pattern, built});
  });
}

// An option that keeps a unique index from covering every document.
struct Gap {
  const char* option;
  const char* why;
};
constexpr std::array kGaps = {
    Gap{"partialFilterExpression", "is partial, so that documents outside its filter may repeat"},
    Gap{"expireAfterSeconds", "deletes documents by their age, and their ids with them"},
    Gap{"collation", "has a collation, so that look-ups without it cannot use it"},
};

// Nothing: the index guards the field. A sparse one does, since each document that idmint inserts
// has the field.
std::optional<std::string> gap_of(const Index& index) {
  const std::string name = "its index " + shown(index.spec.bytes("name").value_or("")) + " ";
  if (!index.key.ordered) return "its index cannot be unique";
  if (!index.spec.boolean("unique").value_or(false)) return name + "is not unique";
  for (const auto& [option, why] : kGaps)
    if (index.spec.has(option)) return name + why;
  if (!index.built) return name + "is still being built";
  return std::nullopt;
}

// Whether it has MongoDB's own index on _id, whose name is reserved, or is clustered by _id. A time
// series has neither, and a user's index on its _id is not unique.
bool has_id_index(const Bson& indexes) {
  bool found = false;
  each_index(indexes, [&](const Index& index) {
    found = found ||
            (index.built && index.key.text == "{_id: 1}" &&
             (index.spec.bytes("name") == "_id_" || index.spec.boolean("unique").value_or(false)));
  });
  return found;
}

}  // namespace

UniqueIndexCheck judge(std::string_view field, const Bson& indexes, const Bson* sharding) {
  const bool is_id = field == "_id";
  std::optional<Pattern> shard_key;
  if (sharding != nullptr) {
    sharding->view().each_found([&](const Document& entry) {
      // An entry of a dropped collection (until 4.4), or of one that is only tracked (from 8.0).
      if (entry.boolean("dropped").value_or(false) || entry.boolean("unsplittable").value_or(false))
        return;
      if (const Document key = entry.document("key")) shard_key = pattern_of(key);
    });
  }
  // Equal values of a shard key's only field, hashed or not, are on one shard.
  const bool one_shard = !shard_key || (shard_key->fields == 1 && shard_key->first == field);
  if (!one_shard || (!is_id && shard_key && !shard_key->ordered))
    return {IndexState::kProxy,
            "it is sharded by " + shard_key->text +
                ", and each shard sees only its own part: a unique index over all "
                "shards must begin with the whole shard key"};
  if (is_id && (!is_there(indexes) || has_id_index(indexes))) return {IndexState::kUnique};
  if (is_id)
    return {IndexState::kProxy,
            "it has no index of MongoDB's own on _id, as a time-series collection has none"};

  std::string why = is_there(indexes) ? "no index is on it" : "there is no such collection yet";
  bool guarded = false;
  each_index(indexes, [&](const Index& index) {
    if (guarded || index.key.fields != 1 || index.key.first != field) return;
    const std::optional<std::string> gap = gap_of(index);
    guarded = !gap;
    if (gap) why = *gap;
  });
  if (guarded) return {IndexState::kUnique};
  return {IndexState::kMissing, why};
}

bool is_there(const Bson& indexes) { return indexes.view().has("cursor"); }

bool can_look_up(const char* field, const Bson& indexes) {
  bool found = false;
  each_index(indexes, [&](const Index& index) {
    const Document& spec = index.spec;
    found =
        found || (index.built && index.key.first == field && !spec.has("partialFilterExpression") &&
                  !spec.has("collation") && !spec.boolean("sparse").value_or(false));
  });
  return found;
}

}  // namespace idmint::stores::mongodb
