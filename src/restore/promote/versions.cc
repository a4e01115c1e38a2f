#include "restore/promote/versions.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "restore/collections.h"
#include "restore/promote/collection_at.h"

namespace idmint::restore {
namespace {

constexpr std::uint64_t kBeforeLimit = 1;
constexpr std::size_t kIdsAtOnce = 500;

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

// What a promotion chose from: an earlier one, or that which is planned.
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
  [[nodiscard]] Version choose(const LaterDocument& document, const Choice& choice) const {
    Version best;
    if (choice.limit < search_.limit) best.terms = 0;
    if (!choice.merge) return best;
    for (std::size_t index = 0; index < collection_.holders.size(); ++index) {
      const Holder& holder = collection_.holders[index];
      if (!is_there(holder, choice) || is_mistaken(holder, document)) continue;
      if (holder.kind == Holder::Kind::kMade && document.on_spare) continue;
      const Version version = version_in(index, document, choice.visible);
      if ((version.terms & ~kBeforeLimit) != 0 && is_later(version, best)) best = version;
    }
    return best;
  }

  // Why the version lacks a write. kNone: it lacks none.
  [[nodiscard]] Loss loss_of(const LaterDocument& document, const Version& version,
                             bool merge) const {
    const std::uint64_t lacks = document.terms & ~version.terms;
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
    return state.limit == search_.limit && state.mistake_to == search_.mistake_to;
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

  // NOLINTNEXTLINE(misc-no-recursion): each is of an earlier promotion
  [[nodiscard]] Version version_in(std::size_t index, const LaterDocument& document,
                                   std::uint64_t visible) const {
    const Holder& holder = collection_.holders[index];
    const std::uint64_t mine = collection_.terms_of(index);
    Version version{.from = static_cast<std::uint8_t>(index),
                    .terms = document.terms & mine & visible};
    if (holder.kind == Holder::Kind::kOriginal) version.terms |= kBeforeLimit;
    if (holder.kind != Holder::Kind::kPromoted) return version;
    const PastPromotion& promotion = later_.promotions[holder.promotion];
    // Where it had another window, it is not known what it merged.
    version.terms |=
        choose(document, {.limit = promotion.state.limit,
                          .mistake_to = promotion.state.mistake_to,
                          .merge = promotion.state.merge_later && has_our_window(promotion.state),
                          .visible = terms_before(promotion.at),
                          .at = promotion.at})
            .terms;
    return version;
  }

  const LaterWrites& later_;
  const LaterSearch& search_;
  const LaterCollection& collection_;
};

// Adds the collections of promotions that no program wrote to, and sets the kind and the present
// name of each holder.
void describe(const std::string& ns, const LaterWrites& later,
              const std::map<std::string, std::string>& names, LaterCollection& collection) {
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
    }
  }
  for (Holder& holder : holders) {
    const auto now = names.find(holder.uuid);
    holder.now = now == names.end() ? std::string() : now->second;
  }
}

// Of the documents that were written to collections made anew: which ones the spare has.
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
    if (!found) return std::unexpected(found.error());
    for (std::size_t i = 0; i < ids.size(); ++i)
      documents[i]->on_spare = found->contains(bytes_of_id(ids[i].view()));
    ids.clear();
    documents.clear();
    return {};
  };
  for (auto& [element, document] : collection.documents) {
    if ((document.terms & made) == 0) continue;
    ids.push_back(only_id_of(element));
    documents.push_back(&document);
    if (ids.size() < kIdsAtOnce) continue;
    if (Result<void> looked = look(); !looked) return looked;
  }
  return ids.empty() ? Result<void>{} : look();
}

}  // namespace

Result<void> choose_versions(LaterWrites& later, const LaterSearch& search, bool merge,
                             Server& spare, Server& production) {
  Result<std::vector<CollectionFacts>> all = list_namespaces(production);
  if (!all) return std::unexpected(std::move(all.error()));
  std::map<std::string, std::string> names;
  for (const CollectionFacts& each : *all)
    if (!each.uuid.empty()) names[each.uuid] = each.ns();
  for (auto& [ns, collection] : later.collections) {
    describe(ns, later, names, collection);
    if (Result<void> looked = look_on_spare(ns, spare, collection); !looked) return looked;
    const Chooser chooser(later, search, collection);
    for (auto& [id, document] : collection.documents) {
      const Version version = chooser.choose(
          document, {.limit = search.limit, .mistake_to = search.mistake_to, .merge = merge});
      document.from = version.from;
      document.gone = (document.deleted & std::bit_floor(version.terms)) != 0;
      document.loss = chooser.loss_of(document, version, merge);
    }
  }
  return {};
}

}  // namespace idmint::restore
