// The argument checks of all stores.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "idmint/definition.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint {
namespace {

std::unexpected<Error> refuse_to(std::string what, const std::string& why) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(what) + ": " + why});
}

Result<void> check_name(const std::string& making, std::string_view name) {
  constexpr std::size_t kLongest = 1024;
  if (name.empty()) return refuse_to(making, "the name is empty");
  if (name.size() > kLongest)
    return refuse_to(making,
                     "the name has " + std::to_string(name.size()) + " bytes, 1024 are allowed");
  return {};
}

Result<void> check_new_counter(std::string_view name, const CounterBounds& bounds) {
  const std::string making = "cannot make counter " + shown(name);
  if (Result<void> ok = check_name(making, name); !ok) return ok;
  if (bounds.first < 0)
    return refuse_to(
        making, "the first value is " + std::to_string(bounds.first) + ", it must be 0 or more");
  if (bounds.stride < 1)
    return refuse_to(making,
                     "the stride is " + std::to_string(bounds.stride) + ", it must be 1 or more");
  if (bounds.last > largest_last(bounds.stride))
    return refuse_to(making, "the last value is " + std::to_string(bounds.last) +
                                 ", the largest possible is " +
                                 std::to_string(largest_last(bounds.stride)));
  if (bounds.first > bounds.last)
    return refuse_to(making, "the first value, " + std::to_string(bounds.first) +
                                 ", is above the last, " + std::to_string(bounds.last));
  return {};
}

Result<void> check_new_counters(std::span<const NewCounter> counters, bool may_adopt) {
  if (counters.size() > CounterStore::kMaxCounters)
    return refuse_to("cannot make " + std::to_string(counters.size()) + " counters at once",
                     std::to_string(CounterStore::kMaxCounters) + " are allowed");
  for (const NewCounter& counter : counters) {
    if (Result<void> ok = check_new_counter(counter.name, counter.bounds); !ok) return ok;
    if (counter.adopted.empty() || may_adopt) continue;
    return std::unexpected(Error{Code::kUnimplemented,
                                 "cannot make counter " + shown(counter.name) +
                                     ": this store adopts no documents or rows of other "
                                     "programs; use the store of the database that has them",
                                 {.remedy = Remedy::kSetOption, .values = {"store"}}});
  }
  return {};
}

Result<void> check_counters(std::size_t count) {
  if (count <= CounterStore::kMaxCounters) return {};
  return refuse_to("cannot change " + std::to_string(count) + " counters at once",
                   std::to_string(CounterStore::kMaxCounters) + " are allowed");
}

Result<void> check_new_space(std::string_view space) {
  return check_name("cannot make the space of claims " + shown(space), space);
}

Result<void> check_keys(std::string_view space, std::size_t count) {
  if (count >= 1 && count <= UniqueIndex::kMaxKeys) return {};
  return refuse_to("cannot claim " + std::to_string(count) + " numbers of " + shown(space),
                   "ask for 1 to " + std::to_string(UniqueIndex::kMaxKeys));
}

Result<void> check_count(std::string_view counter, std::int64_t count) {
  if (count >= 1) return {};
  return std::unexpected(Error{Code::kInvalidArgument, "cannot take " + std::to_string(count) +
                                                           " values from counter " +
                                                           shown(counter) + ": ask for 1 or more"});
}

}  // namespace

Result<void> must_count_by_one(const SequenceDefinition& definition, std::string_view place) {
  const bool interleaved = definition.strategy == Strategy::kInterleaved;
  if (definition.stride == 1 && !interleaved) return {};
  return refuse_to("sequence " + definition.name + " cannot adopt " + std::string(place) +
                       (interleaved ? " over several stores" : " with a stride"),
                   "the other programs that use it count by one");
}

Result<void> must_begin_above_0(std::int64_t first, const std::string& subject,
                                std::string_view holder) {
  if (first != 0) return {};
  return std::unexpected(Error{Code::kInvalidArgument,
                               subject + " would begin at 0, and " + std::string(holder) +
                                   " holds the value before the next: begin at 1 or above",
                               {.remedy = Remedy::kSetOption, .values = {"first=1"}}});
}

Result<std::string> Adoption::with_query(std::string_view text, std::string_view) const {
  return std::unexpected(Error{Code::kInvalidArgument,
                               "cannot adopt " + shown(text) +
                                   " by a query: only documents of MongoDB are found so; name it",
                               {.remedy = Remedy::kSetOption, .values = {"where"}}});
}

Result<std::vector<CounterState>> CounterStore::create(std::span<const NewCounter> counters) {
  if (auto ok = check_new_counters(counters, adoption() != nullptr); !ok)
    return std::unexpected(std::move(ok.error()));
  return do_create(counters);
}

Result<Range> CounterStore::advance(std::string_view counter, std::int64_t count, Take take,
                                    SteadyTime until) {
  if (auto ok = check_count(counter, count); !ok) return std::unexpected(std::move(ok).error());
  return do_advance(counter, count, take, until);
}

Result<std::vector<std::int64_t>> CounterStore::raise(std::span<const std::string> counters,
                                                      std::int64_t floor, SteadyTime until) {
  if (auto ok = check_counters(counters.size()); !ok) return std::unexpected(std::move(ok).error());
  return do_raise(counters, floor, until);
}

Result<std::vector<CounterBounds>> CounterStore::extend(std::span<const std::string> counters,
                                                        std::int64_t last) {
  if (auto ok = check_counters(counters.size()); !ok) return std::unexpected(std::move(ok).error());
  return do_extend(counters, last);
}

Result<void> CounterStore::can_extend(std::span<const std::string> counters, std::int64_t last) {
  if (auto ok = check_counters(counters.size()); !ok) return ok;
  return do_can_extend(counters, last);
}

Result<void> CounterStore::close(std::span<const std::string> counters) {
  if (auto ok = check_counters(counters.size()); !ok) return ok;
  return do_close(counters);
}

Result<void> check_stored(const Definition& definition) {
  if (Result<void> ok = validate(definition); !ok) return ok;
  if (const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
      sequence != nullptr && sequence->strategy == Strategy::kPermuted && sequence->key.empty())
    return refuse_to("cannot store sequence " + sequence->name, "its key is missing");
  if (const auto* const pool = std::get_if<PoolDefinition>(&definition);
      pool != nullptr && pool->workers == 0)
    return refuse_to("cannot store pool " + pool->name, "its number of worker ids is missing");
  return {};
}

Result<Defined> Catalog::define(const Definition& definition) {
  if (auto ok = check_stored(definition); !ok) return std::unexpected(std::move(ok).error());
  return do_define(definition);
}

Result<Defined> Catalog::replace(const Definition& old, const Definition& updated) {
  if (name(old) != name(updated)) {
    return refuse_to("cannot replace the definition of " + shown(name(old)),
                     "the new one is of " + shown(name(updated)));
  }
  if (auto ok = check_stored(updated); !ok) return std::unexpected(std::move(ok).error());
  return do_replace(old, updated);
}

Result<std::vector<CatalogEntry>> Catalog::list(SteadyTime until) {
  constexpr std::size_t kPart = 1000;
  std::vector<CatalogEntry> all;
  for (std::size_t found = kPart; found == kPart;) {
    const std::string after = all.empty() ? std::string() : all.back().name;
    Result<std::vector<CatalogEntry>> part = do_list_after(after, kPart, until);
    if (!part) return part;
    found = part->size();
    std::ranges::move(*part, std::back_inserter(all));
  }
  return all;
}

Result<void> UniqueIndex::create_space(std::string_view space) {
  if (auto ok = check_new_space(space); !ok) return ok;
  return do_create_space(space);
}

Result<std::vector<bool>> UniqueIndex::insert(std::string_view space,
                                              std::span<const std::int64_t> keys,
                                              SteadyTime until) {
  if (auto ok = check_keys(space, keys.size()); !ok) return std::unexpected(std::move(ok).error());
  return do_insert(space, keys, until);
}

}  // namespace idmint
