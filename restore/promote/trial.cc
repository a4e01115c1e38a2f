#include "restore/promote/trial.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "restore/cursor.h"
#include "restore/oplog/fields.h"
#include "restore/promote/collection_at.h"
#include "restore/promote/merge.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/load.h"
#include "restore/replay/record.h"

namespace idmint::restore {
namespace {

constexpr const char* kTrialCollection = "trial";
constexpr std::size_t kClausesAtOnce = 100;

// Adds the values at a dotted path, those of an array and the array itself.
void add_values(Document document, std::string_view path, BsonArray& values) {
  const std::size_t dot = path.find('.');
  const std::optional<Field> field = find_field(document, path.substr(0, dot));
  const auto add = [&](const Field& value) {
    append_field_as(values.items.get(), std::to_string(values.size++), value);
  };
  if (!field) return;
  if (dot == std::string_view::npos) {
    add(*field);
    if (field->type != BSON_TYPE_ARRAY) return;
    for (const Field& each : Fields(field->document())) add(each);
    return;
  }
  const std::string_view rest = path.substr(dot + 1);
  add_values(field->document(), rest, values);  // of an array: a number in the path
  if (field->type != BSON_TYPE_ARRAY) return;
  for (const Field& each : Fields(field->document()))
    if (each.type == BSON_TYPE_DOCUMENT) add_values(each.document(), rest, values);
}

// A condition that each document fulfils which has a key of this one in the index, and perhaps
// others. nullopt: it has none.
std::optional<Bson> clause_for(Document document, Document index) {
  Bson clause;
  bool has_value = false;
  for (const Field& key : Fields(index.document("key"))) {
    BsonArray values;
    add_values(document, key.key, values);
    has_value = has_value || values.size != 0;
    const std::string path(key.key);
    Fields only(values.items.view());
    Field value;
    if (values.size == 0) {
      clause.add(path.c_str(), nullptr);
    } else if (values.size == 1 && only.next(value)) {
      const Bson equal;  // $in would take a regular expression for a pattern
      append_field_as(equal.get(), "$eq", value);
      clause.add(path.c_str(), equal);
    } else {
      clause.add(path.c_str(), Bson("$in", values));
    }
  }
  if (!has_value && index.boolean("sparse").value_or(false)) return std::nullopt;
  const Document partial = index.document("partialFilterExpression");
  if (!partial) return clause;
  return Bson("$and", array(clause, Bson::copy_of(partial)));
}

class Trial {
 public:
  Trial(const CollectionFacts& facts, LaterCollection& later, Server& spare, Server& production)
      : facts_(facts), later_(later), spare_(spare), production_(production) {}

  Result<void> run(const TakeProgress& progress) {
    const std::vector<MergeBatch> batches = batches_of(facts_.ns(), later_);
    for (const MergeBatch& batch : batches)
      for (const Bson& id : batch.ids)
        if (!batch.from.empty()) replaced_.insert(id_key(id.view()));
    if (replaced_.empty()) return {};
    if (Result<void> made = make(); !made) return made;
    for (const MergeBatch& batch : batches) {
      if (batch.from.empty() || batch.gone) continue;
      if (Result<void> brought = bring_in_the_way(batch); !brought) return brought;
    }
    const Result<Merged> merged = merge_into(spare_, ns(), batches, spare_, production_, progress);
    if (!merged) return error_in(merged);
    for (const MergeRefusal& each : merged->refused) {
      const auto document = later_.documents.find(id_key(each.id.view()));
      if (document != later_.documents.end()) document->second.loss = Loss::kRefused;
    }
    return {};
  }
  Result<void> end() { return drop_collection(spare_, ns()); }

 private:
  static std::string ns() { return std::string(kRecordDatabase) + "." + kTrialCollection; }

  Result<void> make() {
    if (Result<void> dropped = drop_collection(spare_, ns()); !dropped) return dropped;
    CollectionFacts trial;
    trial.database = kRecordDatabase;
    trial.name = kTrialCollection;
    for (const Field& option : Fields(facts_.options.view()))
      if (!option.key.starts_with("validat")) append_field(trial.options.get(), option);
    if (Result<void> made = create_collection(spare_, trial); !made) return made;
    std::vector<Bson> specs;
    for (const Bson& each : facts_.indexes) {
      if (text_of(each.view(), "name") == "_id_" || each.view().has("clustered")) continue;
      Bson& spec = specs.emplace_back();
      for (const Field& field : Fields(each.view()))
        if (!field.is("expireAfterSeconds")) append_field(spec.get(), field);
    }
    std::vector<Document> views;
    for (const Bson& each : specs) views.push_back(each.view());
    return views.empty() ? Result<void>{} : create_indexes(spare_, ns(), views);
  }

  // Restored documents that stay and may have a unique value of one in the batch.
  Result<void> bring_in_the_way(const MergeBatch& batch) {
    const Result<std::map<std::string, Bson>> now =
        documents_of(production_, batch.from, batch.ids);
    if (!now) return error_in(now);
    for (const Bson& index : facts_.indexes) {
      if (!index.view().boolean("unique").value_or(false)) continue;
      BsonArray clauses;
      for (const auto& [id, document] : *now) {
        const std::optional<Bson> clause = clause_for(document.view(), index.view());
        if (!clause) continue;
        clauses.push(*clause);
        if (clauses.size < kClausesAtOnce) continue;
        if (Result<void> brought = bring(index.view(), clauses); !brought) return brought;
        clauses = {};
      }
      if (clauses.size == 0) continue;
      if (Result<void> brought = bring(index.view(), clauses); !brought) return brought;
    }
    return {};
  }

  Result<void> bring(Document index, const BsonArray& clauses) {
    const Document collation = index.document("collation");
    const Bson options = Bson("maxTimeMS", kCommandLimit, "collation",
                              collation ? Bson::copy_of(collation) : Bson("locale", "simple"));
    std::vector<Bson> found;
    Result<void> read = find_each(
        spare_, facts_.ns(), Bson("$or", clauses), options, [&](Document document) -> Result<void> {
          std::string key = id_key(document);
          if (!replaced_.contains(key) && brought_.insert(std::move(key)).second)
            found.push_back(Bson::copy_of(document));
          return {};
        });
    if (!read) return read;
    for (const Bson& each : found) {
      Bson insert = Bson("insert", kTrialCollection, "documents", array(each));
      if (Result<Bson> put = change(spare_, kRecordDatabase, std::move(insert)); !put)
        return error_in(put);
    }
    return {};
  }

  const CollectionFacts& facts_;
  LaterCollection& later_;
  Server& spare_;
  Server& production_;
  std::set<std::string> replaced_;  // by id_key()
  std::set<std::string> brought_;
};

}  // namespace

Result<void> try_merge(const std::vector<PromoteItem>& items, LaterWrites& later, Server& spare,
                       Server& production, const TakeProgress& progress) {
  Result<std::vector<CollectionFacts>> all = list_collections(spare);
  if (!all) return error_in(all);
  for (const CollectionFacts& each : *all) {
    const auto item = std::ranges::find(items, each.ns(), &PromoteItem::ns);
    const auto found = later.collections.find(each.ns());
    // Without an index or a limit of size, it refuses nothing.
    if (item == items.end() || !item->is_replaced() || found == later.collections.end() ||
        (each.indexes.size() <= 1 && !each.options.view().has("capped")))
      continue;
    Trial trial(each, found->second, spare, production);
    Result<void> tried = trial.run(progress);
    Result<void> ended = trial.end();
    if (tried) tried = std::move(ended);
    if (!tried) {
      if (tried.error().code == Code::kPermissionDenied)
        add_outcome(tried.error(),
                    "the user of the spare needs the role readWrite of the database " +
                        std::string(kRecordDatabase) + " there");
      return tried;
    }
  }
  return {};
}

}  // namespace idmint::restore
