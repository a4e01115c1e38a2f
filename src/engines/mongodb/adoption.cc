#include "engines/mongodb/adoption.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "base/text.h"
#include "engines/mongodb/adopted_record.h"

namespace idmint::stores::mongodb {
namespace {

// A classic recipe: the documents of its set-up script, and the way its programs take values.
struct Recipe {
  std::string_view name;  // a name with a final colon is followed by the _id
  std::string_view place;
  Strategy strategy;
  std::optional<std::int64_t> stripes;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> digits;
  std::int64_t first;
};
constexpr std::array kRecipes = {
    Recipe{"counter", "uniqueIdentifierCounter/UNIQUE COUNT DOCUMENT IDENTIFIER:next=COUNT",
           Strategy::kCounter, std::nullopt, std::nullopt, std::nullopt, 0},
    Recipe{"counters",
           "uniqueIdentifierCounter/COUNTER DOCUMENT NUMBER {k}:next=COUNT,max=MAX_VALUE",
           Strategy::kStriped, 1000, std::nullopt, 12, 0},
    Recipe{"ids:", "ids/:next=index", Strategy::kCached, std::nullopt, 10, std::nullopt, 1000},
};

}  // namespace

constinit const DocumentAdoption kAdoption;

Result<Adoptable> DocumentAdoption::read(std::string_view text, bool guarded) const {
  // 2^53 - 2: the value after it is the last one that a double represents exactly.
  constexpr std::int64_t kLargestForAll = 9'007'199'254'740'990;
  std::string place(text);
  const auto* const recipe = std::ranges::find_if(kRecipes, [&](const Recipe& row) {
    return row.name.ends_with(':') ? text.starts_with(row.name) : text == row.name;
  });
  const bool classic = recipe != kRecipes.end();
  if (classic) {
    const std::string_view id = text.substr(recipe->name.size());
    place = recipe->place;
    if (!id.empty()) place.insert(place.find('/') + 1, id);
  }
  Result<AdoptedRecord> record = adopted_from_text(place);
  if (!record) {
    add_outcome(record.error(), "or adopt counter, counters or ids:NAME");
    return std::unexpected(std::move(record.error()));
  }
  record->validator = record->validator || guarded;
  Adoptable adoptable{
      .record = to_text(*record), .first = record->holds_last ? 1 : 0, .last = kLargestForAll};
  if (!classic) return adoptable;
  adoptable.first = recipe->first;
  adoptable.strategy = recipe->strategy;
  adoptable.stripes = recipe->stripes;
  adoptable.step = recipe->step;
  adoptable.digits = recipe->digits;
  return adoptable;
}

// The other programs of the document count by one, and use the values as they are.
Result<void> DocumentAdoption::check(const SequenceDefinition& definition) const {
  const std::string sequence = "sequence " + definition.name;
  const bool striped = definition.strategy == Strategy::kStriped;
  Result<AdoptedRecord> record = adopted_from_text(definition.adopted);
  // The document of the last stripe, which has the longest number.
  if (record && striped)
    if (auto longest = adopted_from_text(to_text(of_stripe(*record, definition.stripes - 1)));
        !longest)
      record = std::move(longest);
  if (!record) return refused(sequence, record.error());
  if (has_stripes(*record) != striped)
    return refuse(sequence + (striped ? " has stripes, each in a document of its own: write {k} in "
                                        "the _id for the number of the stripe"
                                      : " has one document: {k} in its _id is for stripes"));
  if (Result<void> ok = must_count_by_one(definition, record->collection); !ok) return ok;
  if (record->holds_last) {
    if (auto ok = must_begin_above_0(definition.first, sequence, record->field); !ok) return ok;
  }
  if (const std::string text = to_text(*record); text != definition.adopted)
    return refuse(sequence + " adopts " + shown(definition.adopted) + ": write it as " +
                  shown(text));
  return {};
}

Result<std::string> DocumentAdoption::with_query(std::string_view text,
                                                 std::string_view query) const {
  return mongodb::with_query(text, query);
}

std::string DocumentAdoption::place_of(std::string_view record) const {
  const Result<AdoptedRecord> read = adopted_from_text(record);
  return read ? read->collection : std::string();
}

}  // namespace idmint::stores::mongodb
