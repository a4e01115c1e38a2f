#include "restore/backup/ranges.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "restore/backup/base.h"

namespace idmint::restore {
namespace {

// A server takes a sample of less than a twentieth without reading all documents.
constexpr std::int64_t kSample = 400;
constexpr std::int64_t kFewestDocuments = 50 * kSample;
// A range has a few documents of the sample at least.
constexpr std::size_t kSampledInRange = 4;

bool has_plain_ids(const CollectionFacts& collection) {
  constexpr std::array kOther = {"capped", "clusteredIndex", "collation"};
  return collection.kind == CollectionKind::kCollection &&
         std::ranges::none_of(
             kOther, [&](const char* option) { return collection.options.view().has(option); }) &&
         std::ranges::any_of(collection.indexes, [](const Bson& index) {
           return index.view().document("key").is_only("_id");
         });
}

struct Sample {
  std::vector<Bson> ids;         // each {_id: value}, in order
  std::vector<std::int64_t> at;  // where each document is stored: its record id
  std::int64_t bytes = 0;        // of a document, on average
};

// Empty: the member refuses it. $sample returns no record ids: a second query reads them.
Result<Sample> sample_of(Member& member, const CollectionFacts& collection) {
  Sample sample;
  const auto read = [&](const Bson& command, auto take) -> Result<void> {
    const Result<bool> done = member.documents(collection.database, command, [&](Document row) {
      take(row);
      return Result<void>{};
    });
    if (done || done.error().code != Code::kUnavailable) return {};
    return error_in(done);
  };
  BsonArray ids;
  std::int64_t size = 0;
  Result<void> done = read(Bson("aggregate", collection.name, "pipeline",
                                array(Bson("$sample", Bson("size", kSample)),
                                      Bson("$project", Bson("bytes", Bson("$bsonSize", "$$ROOT")))),
                                "cursor", Bson("batchSize", kSample)),
                           [&](Document row) {
                             if (!ids.items.add_from(row, "_id", std::to_string(size).c_str()))
                               return;
                             ++size;
                             sample.bytes += row.number("bytes");
                           });
  if (!done) return error_in(done);
  if (size != 0) sample.bytes /= size;
  done = read(
      Bson("find", collection.name, "filter", Bson("_id", Bson("$in", ids)), "sort", Bson("_id", 1),
           "projection", Bson("_id", 1, "at", Bson("$meta", "recordId")), "batchSize", kSample),
      [&](Document row) {
        Bson id;
        const std::optional<std::int64_t> at = row.integer("at");
        if (!id.add_from(row, "_id") || !at) return;
        sample.ids.push_back(std::move(id));
        sample.at.push_back(*at);
      });
  if (!done) return error_in(done);
  return sample;
}

// Whether neighbours by _id are neighbours on the disk, nearly all.
bool is_in_order(const std::vector<std::int64_t>& at) {
  std::size_t falls = 0;
  for (std::size_t i = 1; i < at.size(); ++i) falls += at[i] < at[i - 1] ? 1U : 0U;
  return falls * 10 <= at.size() || (at.size() - falls) * 10 <= at.size();
}

}  // namespace

Result<std::vector<IdRange>> split(Member& member, const CollectionFacts& collection,
                                   std::int64_t documents, std::int64_t bytes) {
  std::vector<IdRange> ranges(1);
  if (documents < kFewestDocuments || !has_plain_ids(collection)) return ranges;
  Result<Sample> sample = sample_of(member, collection);
  if (!sample) return error_in(sample);
  const std::size_t size = sample->ids.size();
  if (size < 2 * kSampledInRange || !is_in_order(sample->at)) return ranges;
  const std::int64_t all = sample->bytes * documents;
  const std::size_t parts = std::min(
      static_cast<std::size_t>(std::max<std::int64_t>(all / bytes, 1)), size / kSampledInRange);
  for (std::size_t part = 1; part < parts; ++part) {
    const Bson& bound = sample->ids[part * size / parts];
    if (ranges.back().min && ranges.back().min.view() == bound.view()) continue;
    ranges.back().max = Bson::copy_of(bound.view());
    ranges.push_back({.min = Bson::copy_of(bound.view())});
  }
  return ranges;
}

}  // namespace idmint::restore
