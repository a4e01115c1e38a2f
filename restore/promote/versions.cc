#include "restore/promote/versions.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "restore/collections.h"
#include "restore/promote/collection_at.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kBeforeLimit = 1;
constexpr std::size_t kIdsPerLook = 500;

// A version of a document, and the terms whose writes are in it.
struct Version {
  std::uint8_t from = kFromSpare;
  std::uint64_t terms = kBeforeLimit;
};

bool is_later(const Version& one, const Version& other) {
  const auto key = [](const Version& each) {
    return std::pair(std::bit_width(each.terms), std::popcount(each.terms));
  };
  return key(one) > key(other);
}

bool is_deleted(const LaterDocument& document, const Version& version) {
  return (document.deleted & std::bit_floor(version.terms)) != 0;
}

// The terms whose writes the version lacks. A delete needs no other delete: a promotion may carry
// one over that came between its last record and the swap.
std::uint64_t lacks_of(const LaterDocument& document, const Version& version) {
  const std::uint64_t lacks = document.terms & ~version.terms;
  return is_deleted(document, version) ? lacks & ~document.deleted : lacks;
}

// The versions from which a promotion chooses, an earlier one or the planned one.
struct Choice {
  Timestamp limit{};
  std::optional<Timestamp> mistake_to{};
  bool merge = false;
  std::uint64_t visible = ~std::uint64_t{0};  // the terms before it
  std::optional<Timestamp> at{};              // nullopt: now
};

class Chooser {
 public:
  Chooser(const LaterWrites& later, const LaterSearch& search, const LaterCollection& collection)
      : later_(later), search_(search), collection_(collection) {}

  // NOLINTNEXTLINE(misc-no-recursion): each is of an earlier promotion
  [[nodiscard]] Version choose(std::string_view key, const LaterDocument& document,
                               const Choice& choice) const {
    Version best;
    if (choice.limit < search_.limit) best.terms = 0;
    if (!choice.merge) return best;
    for (std::size_t index = 0; index < collection_.holders.size(); ++index) {
      const Holder& holder = collection_.holders[index];
      if (!is_there(holder, choice) || is_mistaken(holder, document)) continue;
      if (holder.kind == Holder::Kind::kMade && document.on_spare) continue;
      const Version version = version_in(index, key, document, choice.visible);
      if ((version.terms & ~kBeforeLimit) != 0 && is_later(version, best)) best = version;
    }
    return best;
  }

  // Whether this collection may have writes that no other one has that is there.
  [[nodiscard]] bool may_be_only_copy(std::size_t index, std::string_view key,
                                      LaterDocument document) const {
    const std::uint64_t all = ~std::uint64_t{0};
    document.on_spare = false;  // unknown: a promotion then merged most
    LaterDocument least = document;
    least.on_spare = true;
    const std::uint64_t mine = version_in(index, key, document, all).terms & ~kBeforeLimit;
    if (mine == 0) return false;
    for (std::size_t other = 0; other < collection_.holders.size(); ++other)
      if (other != index && !collection_.holders[other].now.empty() &&
          (mine & ~version_in(other, key, least, all).terms) == 0)
        return false;
    return true;
  }

  // Why a version lacks the writes of these terms. kNone: it lacks none.
  [[nodiscard]] Loss loss_of(const LaterDocument& document, std::uint64_t lacks, bool merge) const {
    if (lacks == 0) return Loss::kNone;
    if (!merge) return Loss::kNotMerged;
    const std::uint64_t last = std::bit_floor(lacks);
    if (last == kBeforeLimit) return Loss::kOlder;
    const std::uint8_t index =
        collection_.terms[static_cast<std::size_t>(std::countr_zero(last)) - 1].holder;
    const Holder& holder = collection_.holders[index];
    if (is_mistaken(holder, document)) return Loss::kMistake;
    if (holder.now.empty()) return Loss::kGone;
    return holder.kind == Holder::Kind::kMade && document.on_spare ? Loss::kRestored : Loss::kOlder;
  }

 private:
  // The bits of the terms that began before a promotion gave its collections their names.
  [[nodiscard]] std::uint64_t terms_before(Timestamp at) const {
    std::uint64_t bits = kBeforeLimit;
    for (std::size_t term = 0; term < collection_.terms.size(); ++term)
      if (collection_.terms[term].begin <= at) bits |= std::uint64_t{2} << term;
    return bits;
  }

  [[nodiscard]] bool is_there(const Holder& holder, const Choice& choice) const {
    if (!choice.at) return !holder.now.empty();
    if (holder.kind == Holder::Kind::kPromoted &&
        later_.promotions[holder.promotion].at >= *choice.at)
      return false;
    const auto drop = later_.drops.find(holder.uuid);
    return drop == later_.drops.end() || drop->second > *choice.at;
  }

  [[nodiscard]] std::size_t index_of(const Holder& holder) const {
    return static_cast<std::size_t>(&holder - collection_.holders.data());
  }

  [[nodiscard]] bool has_our_window(const PromoteState& state) const {
    return state.limit == search_.limit && state.mistake_to == search_.mistake_to &&
           state.alike == search_.alike;
  }

  // Whether what the mistake wrote to the document is in this collection.
  [[nodiscard]] bool is_mistaken(const Holder& holder, const LaterDocument& document) const {
    if ((document.mistaken & collection_.terms_of(index_of(holder))) != 0) return true;
    if (document.mistaken == 0 || holder.kind != Holder::Kind::kPromoted) return false;
    const PromoteState& state = later_.promotions[holder.promotion].state;
    if (has_our_window(state)) return false;
    return document.first_mistaken < state.limit ||
           (state.merge_later && document.first_mistaken > state.mistake_to);
  }

  // The version that a collection has: with what its promotion merged, if it came from one.
  // NOLINTNEXTLINE(misc-no-recursion): each is of an earlier promotion
  [[nodiscard]] Version version_in(std::size_t index, std::string_view key,
                                   const LaterDocument& document, std::uint64_t visible) const {
    const Holder& holder = collection_.holders[index];
    const std::uint64_t mine = collection_.terms_of(index);
    Version version{.from = static_cast<std::uint8_t>(index),
                    .terms = document.terms & mine & visible};
    if (holder.kind == Holder::Kind::kOriginal) version.terms |= kBeforeLimit;
    if (holder.kind != Holder::Kind::kPromoted) return version;
    const PastPromotion& promotion = later_.promotions[holder.promotion];
    // It is unknown what a promotion with another window merged.
    const bool merged = promotion.state.merge_later && has_our_window(promotion.state) &&
                        !holder.refused.contains(key) && holder.lists_refused;
    if (std::exchange(document_, &document) != &document)
      merged_.assign(later_.promotions.size(), std::nullopt);
    if (!merged_[holder.promotion]) {
      const std::uint64_t terms = choose(key, document,
                                         {.limit = promotion.state.limit,
                                          .mistake_to = promotion.state.mistake_to,
                                          .merge = merged,
                                          .visible = terms_before(promotion.at),
                                          .at = promotion.at})
                                      .terms;
      merged_[holder.promotion] = terms;
    }
    version.terms |= merged_[holder.promotion].value_or(0);
    return version;
  }

  const LaterWrites& later_;
  const LaterSearch& search_;
  const LaterCollection& collection_;
  // The present document, and the terms of it that each promotion merged: a cache, as every later
  // promotion asks for them.
  mutable const LaterDocument* document_ = nullptr;
  mutable std::vector<std::optional<std::uint64_t>> merged_{};
};

using Names = std::map<std::string, std::string>;  // of collections, by UUID

Result<Names> names_on(Server& production) {
  const Result<std::vector<CollectionFacts>> all = list_namespaces(production);
  if (!all) return error_in(all);
  Names names;
  for (const CollectionFacts& each : *all)
    if (!each.uuid.empty()) names[each.uuid] = each.ns();
  return names;
}

// Adds the collections of promotions that no program wrote to, and sets the kind and the present
// name of each holder.
void describe(const std::string& ns, const LaterWrites& later, const Names& names,
              LaterCollection& collection) {
  std::vector<Holder>& holders = collection.holders;
  for (Holder& holder : holders)
    holder.kind =
        holder.uuid == collection.at_limit ? Holder::Kind::kOriginal : Holder::Kind::kMade;
  for (std::size_t i = 0; i < later.promotions.size(); ++i) {
    for (const PromoteItem& item : later.promotions[i].state.items) {
      if (item.ns != ns || item.new_uuid.empty()) continue;
      auto holder = std::ranges::find(holders, item.new_uuid, &Holder::uuid);
      if (holder == holders.end()) holder = holders.insert(holder, {.uuid = item.new_uuid});
      holder->kind = Holder::Kind::kPromoted;
      holder->promotion = i;
      for (const LostDocument& each : item.unmerged) holder->refused.insert(each.id);
      holder->refused.insert(item.undeleted.begin(), item.undeleted.end());
      holder->lists_refused = item.unmerged.size() == item.unmerged_count && item.lists_undeleted;
    }
  }
  for (Holder& holder : holders) {
    const auto now = names.find(holder.uuid);
    holder.now = now == names.end() ? std::string() : now->second;
  }
}

// Finds out which of the documents that were written to collections made anew the spare has.
Result<void> look_on_spare(const std::string& ns, Server& spare, LaterCollection& collection) {
  std::uint64_t made = 0;
  for (std::size_t term = 0; term < collection.terms.size(); ++term)
    if (collection.holders[collection.terms[term].holder].kind == Holder::Kind::kMade)
      made |= std::uint64_t{2} << term;
  if (made == 0) return {};
  std::vector<Bson> ids;
  std::vector<LaterDocument*> documents;
  const auto look = [&]() -> Result<void> {
    const Result<std::map<std::string, Bson>> found = documents_of(spare, ns, ids);
    if (!found) return error_in(found);
    std::size_t seen = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      documents[i]->on_spare = found->contains(id_key(ids[i].view()));
      if (documents[i]->on_spare) ++seen;
    }
    // Some have an _id that is equal and looks different, such as another letter case by a
    // collation: the server says which.
    for (std::size_t i = 0; i < ids.size() && seen != found->size(); ++i) {
      if (documents[i]->on_spare) continue;
      const Result<std::map<std::string, Bson>> one =
          documents_of(spare, ns, std::span(ids).subspan(i, 1));
      if (!one) return error_in(one);
      documents[i]->on_spare = !one->empty();
    }
    ids.clear();
    documents.clear();
    return {};
  };
  for (auto& [element, document] : collection.documents) {
    if ((document.terms & made) == 0) continue;
    ids.push_back(only_id_of(element));
    documents.push_back(&document);
    if (ids.size() < kIdsPerLook) continue;
    if (Result<void> looked = look(); !looked) return looked;
  }
  return ids.empty() ? Result<void>{} : look();
}

}  // namespace

Result<void> choose_versions(LaterWrites& later, const LaterSearch& search, bool merge,
                             Server& spare, Server& production) {
  const Result<Names> names = names_on(production);
  if (!names) return error_in(names);
  for (auto& [ns, collection] : later.collections) {
    describe(ns, later, *names, collection);
    if (Result<void> looked = look_on_spare(ns, spare, collection); !looked) return looked;
    const Chooser chooser(later, search, collection);
    for (auto& [id, document] : collection.documents) {
      const Version version = chooser.choose(
          id, document, {.limit = search.limit, .mistake_to = search.mistake_to, .merge = merge});
      document.from = version.from;
      document.gone = is_deleted(document, version);
      document.lost = lacks_of(document, version);
      document.loss = chooser.loss_of(document, document.lost, merge);
    }
  }
  return {};
}

Result<std::optional<std::vector<std::string>>> find_only_copies(LaterWrites& later,
                                                                 const LaterSearch& search,
                                                                 const std::string& ns,
                                                                 std::string_view uuid,
                                                                 Server& production) {
  const bool is_known = std::ranges::any_of(later.promotions, [&](const PastPromotion& each) {
    return std::ranges::any_of(each.state.items, [&](const PromoteItem& item) {
      return item.ns == ns && item.new_uuid == uuid;
    });
  });
  if (!is_known) return std::nullopt;
  std::vector<std::string> only;
  const auto found = later.collections.find(ns);
  if (found == later.collections.end()) return only;
  LaterCollection& collection = found->second;
  const Result<Names> names = names_on(production);
  if (!names) return error_in(names);
  describe(ns, later, *names, collection);
  const auto holder = std::ranges::find(collection.holders, uuid, &Holder::uuid);
  if (holder == collection.holders.end()) return only;
  const auto index = static_cast<std::size_t>(holder - collection.holders.begin());
  const Chooser chooser(later, search, collection);
  for (const auto& [key, document] : collection.documents)
    if (chooser.may_be_only_copy(index, key, document)) only.push_back(key);
  return only;
}

}  // namespace idmint::restore
