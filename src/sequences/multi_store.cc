#include "sequences/multi_store.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/outcome.h"
#include "base/side_by_side.h"
#include "base/url.h"
#include "ids/form_width.h"
#include "sequences/life_cycle.h"
#include "sequences/strategies.h"
#include "store/catalog.h"
#include "store/counter_store.h"

namespace idmint {
namespace {

const Advice kOtherStores{.remedy = Remedy::kSetOption, .values = {"over"}};

SteadyTime by_deadline(const Store& store, SteadyTime until) {
  return std::min(until, std::chrono::steady_clock::now() + store.deadline());
}

// Copies the fields in which two stores may differ: the end, while it is moved; whether it is
// retired; the stripe; the URLs.
SequenceDefinition as_in(const SequenceDefinition& other, SequenceDefinition definition) {
  definition.last = other.last;
  definition.retired = other.retired;
  definition.stripe = other.stripe;
  if (std::ranges::equal(definition.over, other.over, {}, &StoreOfStripe::id, &StoreOfStripe::id))
    definition.over = other.over;
  return definition;
}

}  // namespace

bool must_be_mended(Code code) noexcept {
  return code == Code::kFailedPrecondition || code == Code::kDataLoss ||
         code == Code::kInvalidArgument || code == Code::kInternal;
}

bool may_come_back(Code code) noexcept {
  return code == Code::kUnavailable || code == Code::kResourceExhausted || outcome_unknown(code);
}

SteadyTime share_of(SteadyTime until, std::size_t parts) {
  const SteadyTime now = std::chrono::steady_clock::now();
  return now + std::max(until - now, SteadyTime::duration{}) /
                   static_cast<std::int64_t>(std::max<std::size_t>(parts, 1));
}

MultiStores::MultiStores(Store& own, SequenceDefinition definition, MultiStoreOptions options)
    : store_(own),
      definition_(std::move(definition)),
      options_(std::move(options)),
      own_(static_cast<std::size_t>(definition_.stripe)) {
  for (const StoreOfStripe& each : definition_.over) slots_.push_back({.url = each.url});
  for (const std::string& given : options_.over) {
    const auto same = std::ranges::find(slots_, place_of(given),
                                        [](const Slot& slot) { return place_of(slot.url); });
    if (same != slots_.end()) {
      same->url = given;
    } else {
      elsewhere_.push_back(given);
    }
  }
}

std::string MultiStores::url(std::size_t k) const {
  return k == own_ ? std::string(store_.url()) : redacted(slots_[k].url);
}

Error MultiStores::other_store(std::size_t k, const Store& store) const {
  return naming_places(error_at(store, Code::kFailedPrecondition, definition_,
                                "it is another store than that of its stripe " + std::to_string(k) +
                                    ": its id is " + store.id().to_string() +
                                    ", and the definition names " +
                                    definition_.over[k].id.to_string() + ", which was at " +
                                    definition_.over[k].url + "; say where that is now",
                                kOtherStores));
}

Result<void> MultiStores::identify(SteadyTime until) {
  if (store_.id() != definition_.over[own_].id) return std::unexpected(other_store(own_, store_));
  slots_[own_].member = std::make_unique<Member>(&store_, definition_);
  if (options_.over_others) return {};
  for (const std::string& url : elsewhere_) {
    Result<std::shared_ptr<Store>> opened = open(url, until);
    if (!opened) return std::unexpected(std::move(opened.error()));
    const auto at = std::ranges::find(definition_.over, (*opened)->id(), &StoreOfStripe::id);
    if (at == definition_.over.end())
      return std::unexpected(error_at(**opened, Code::kFailedPrecondition, definition_,
                                      "it is not over this store, whose id is " +
                                          (*opened)->id().to_string() + "; leave it out",
                                      kOtherStores));
    const auto k = static_cast<std::size_t>(at - definition_.over.begin());
    if (k == own_) continue;
    slots_[k].url = url;
    slots_[k].opened = *std::move(opened);
  }
  return {};
}

Result<std::shared_ptr<Store>> MultiStores::open(const std::string& url, SteadyTime until) const {
  if (options_.open) return options_.open(url, until);
  Result<std::unique_ptr<Store>> opened =
      Store::open(url, {.deadline = store_.deadline(), .until = until, .create = false});
  if (!opened) return std::unexpected(std::move(opened.error()));
  return std::shared_ptr<Store>(*std::move(opened));
}

// At one of the URLs that name no place of the definition, or else at its place. The error is that
// of its place.
Result<std::shared_ptr<Store>> MultiStores::open_stripe(std::size_t k, SteadyTime until) {
  const std::span<const std::string> others =
      options_.over_others ? std::span(elsewhere_) : std::span<const std::string>();
  std::size_t shares = others.size() + 1;
  for (const std::string& url : others) {
    Result<std::shared_ptr<Store>> other = open(url, share_of(until, shares--));
    if (other && (*other)->id() == definition_.over[k].id) return other;
  }
  Result<std::shared_ptr<Store>> opened = open(slots_[k].url, until);
  slots_[k].refused = !opened && opened.error().code == Code::kFailedPrecondition;
  if (opened && (*opened)->id() != definition_.over[k].id)
    opened = std::unexpected(other_store(k, **opened));
  if (!opened && opened.error().code == Code::kNotFound)
    opened = fail(Code::kFailedPrecondition,
                  "sequence " + definition_.name + ": the store of its stripe " +
                      std::to_string(k) + " is not at " + url(k) + " (" + opened.error().message() +
                      "); say where it is now",
                  kOtherStores);
  return opened;
}

void MultiStores::on_all(SteadyTime until, const std::function<bool(std::size_t k)>& work) const {
  constexpr std::chrono::milliseconds kMoment{50};
  const SteadyTime half = share_of(until, 2);
  std::vector<char> answered(size(), 0);
  SteadyTime first = SteadyTime::max();  // the first of them answered then
  const auto patience = [&](std::span<const char> returned) {
    bool all_down = true;  // all that are waited for seem so
    bool any = false;
    for (std::size_t k = 0; k < size(); ++k) {
      any = any || (returned[k] != 0 && answered[k] != 0);
      if (returned[k] == 0)
        all_down = all_down && k != own_ && options_.seems_down && options_.seems_down(url(k));
    }
    if (!any) return SteadyTime::max();
    if (first == SteadyTime::max()) first = std::chrono::steady_clock::now();
    return all_down ? std::min(first + kMoment, half) : half;
  };
  side_by_side(size(), [&](std::size_t k) { answered[k] = work(k) ? 1 : 0; }, patience);
}

Result<const MultiStores::Member*> MultiStores::at(std::size_t k, SteadyTime until) {
  Slot& slot = slots_[k];
  if (slot.member != nullptr) return slot.member.get();
  if (slot.opened == nullptr) {
    Result<std::shared_ptr<Store>> opened = open_stripe(k, until);
    if (!opened) return std::unexpected(std::move(opened.error()));
    slot.opened = *std::move(opened);
  }
  if (Result<void> verified = verify(k, *slot.opened, until); !verified)
    return std::unexpected(std::move(verified.error()));
  return slot.member.get();
}

Result<void> MultiStores::verify(std::size_t k, Store& store, SteadyTime until) {
  const auto refuse_it = [&](const std::string& what) {
    return std::unexpected(
        naming_places(error_at(store, Code::kFailedPrecondition, definition_, what)));
  };
  Result<Definition> found = find_definition(store, definition_.name, until);
  if (!found && found.error().code == Code::kNotFound)
    return refuse_it(
        "it is over this store too, and not defined in it: its create was interrupted, or "
        "an older state of the store was restored; create it again in the first case");
  if (!found) return std::unexpected(std::move(found.error()));
  auto* const there = std::get_if<SequenceDefinition>(&*found);
  if (there == nullptr || as_in(definition_, *there) != definition_ ||
      std::cmp_not_equal(there->stripe, k)) {
    SequenceDefinition wanted = there != nullptr ? as_in(*there, definition_) : definition_;
    wanted.stripe = static_cast<std::int64_t>(k);
    return refuse_it("defined otherwise than in " + std::string(store_.url()) + ": " +
                     differences(*found, wanted));
  }
  slots_[k].member = std::make_unique<Member>(&store, std::move(*there));
  return {};
}

// ---- acts on all stores

namespace {

// Calls `act` with each store that can be opened and is the right one. The result has the errors of
// the others, and of those in which `act` failed, by stripe: a store that is lost for good must not
// keep the rest from being raised or retired.
using Failures = std::vector<std::pair<std::size_t, Error>>;
Result<Failures> on_each_store(MultiStores& stores, SteadyTime until,
                               const std::function<Result<void>(const MultiStores::Member&)>& act) {
  if (Result<void> known = stores.identify(until); !known)
    return std::unexpected(std::move(known.error()));
  Failures failures;
  std::vector<const MultiStores::Member*> reached;
  for (std::size_t k = 0; k < stores.size(); ++k) {
    const Result<const MultiStores::Member*> member =
        stores.at(k, share_of(until, stores.size() - k + 1));
    if (member) {
      reached.push_back(*member);
    } else {
      failures.emplace_back(k, member.error());
    }
  }
  for (const MultiStores::Member* const member : reached) {
    if (Result<void> done = act(*member); !done)
      failures.emplace_back(static_cast<std::size_t>(member->definition.stripe), done.error());
  }
  return failures;
}

// "sequence NAME: raised in 1 of its 2 stores, not in URL (why): ...".
std::unexpected<Error> not_everywhere(const MultiStores& stores, std::string_view done,
                                      const Failures& failures) {
  // The same reason everywhere, such as a value past the end.
  const Error& first = failures.front().second;
  const auto same = [&](const auto& failure) { return failure.second.code == first.code; };
  if (failures.size() == stores.size() && std::ranges::all_of(failures, same) &&
      !was_not_applied(first.code) && !outcome_unknown(first.code))
    return std::unexpected(first);
  std::string not_in;
  for (const auto& [k, error] : failures)
    not_in += (not_in.empty() ? "" : ", nor in ") + stores.url(k) + " (" + error.message() + ")";
  return fail(first.code,
              "sequence " + stores.definition().name + ": " + std::string(done) + " in " +
                  std::to_string(stores.size() - failures.size()) + " of its " +
                  std::to_string(stores.size()) + " stores, not in " + not_in +
                  "; the same again does the rest",
              first.advice);
}

// Null: it is not of a sequence over several stores.
const SequenceDefinition* as_multi_store(const Definition& definition) {
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  return sequence != nullptr && sequence->is_multi_store() ? sequence : nullptr;
}

Result<SequenceStatus>& stripe_of(std::vector<Result<SequenceStatus>>& stripes,
                                  const MultiStores::Member& member) {
  return stripes[static_cast<std::size_t>(member.definition.stripe)];
}

// Changes the source in this store, or in all stores of the sequence. `done`: for messages.
Result<Changed> change_everywhere(
    Store& store, std::string_view name, const MultiStoreOptions& multi_store,
    std::string_view done,
    const std::function<Result<Changed>(Store&, const Definition&)>& change) {
  Result<Definition> found = find_definition(store, name);
  if (!found) return std::unexpected(std::move(found.error()));
  const SequenceDefinition* const over = as_multi_store(*found);
  if (over == nullptr) return change(store, *found);
  MultiStores stores(store, *over, multi_store);
  std::vector<Result<SequenceStatus>> stripes(stores.size());
  bool made = false;
  const Result<Failures> failures =
      on_each_store(stores, by_deadline(store, SteadyTime::max()),
                    [&](const MultiStores::Member& member) -> Result<void> {
                      Result<Changed> changed = change(*member.store, member.definition);
                      if (!changed) return std::unexpected(std::move(changed.error()));
                      made = made || changed->made;
                      stripe_of(stripes, member) = std::move(changed->status);
                      return {};
                    });
  if (!failures) return std::unexpected(failures.error());
  if (!failures->empty()) return not_everywhere(stores, done, *failures);
  return Changed{joined(*over, stripes), made};
}

}  // namespace

Result<Raised> raise_stripes(Store& store, const SequenceDefinition& definition, std::int64_t past,
                             RaiseMode mode, SteadyTime until,
                             const MultiStoreOptions& multi_store) {
  MultiStores stores(store, definition, multi_store);
  std::optional<Raised> all;
  std::vector<Result<SequenceStatus>> stripes(stores.size());
  const Result<Failures> failures = on_each_store(
      stores, by_deadline(store, until), [&](const MultiStores::Member& member) -> Result<void> {
        Result<Raised> raised =
            with_latest(*member.store, member.definition, [&](const SequenceDefinition& its) {
              return raise_here(*member.store, its, past, mode, until);
            });
        if (!raised) return std::unexpected(raised.error());
        const Raised before = all.value_or(Raised{.next = raised->next});
        all = {.next = std::min(before.next, raised->next),
               .skipped = before.skipped + raised->skipped,
               .left = before.left + raised->left};
        stripe_of(stripes, member) = std::move(raised->status);
        return {};
      });
  if (!failures) return std::unexpected(failures.error());
  if (!failures->empty() && (mode == RaiseMode::kCarryOut || !all))
    return not_everywhere(stores, "raised", *failures);
  if (!all) return Raised{};
  for (const auto& [k, error] : *failures) stripes[k] = std::unexpected(error);
  all->status = joined(definition, stripes);
  return *std::move(all);
}

Result<Changed> alter_sequence(Store& store, std::string_view name, std::int64_t last,
                               const MultiStoreOptions& multi_store) {
  return change_everywhere(
      store, name, multi_store, "its end was moved",
      [&](Store& its, const Definition& definition) { return alter_here(its, definition, last); });
}

Result<Changed> retire_sequence(Store& store, std::string_view name,
                                const MultiStoreOptions& multi_store) {
  return change_everywhere(store, name, multi_store, "retired", retire_here);
}

std::int64_t SequenceStatus::skew() const noexcept {
  std::optional<std::int64_t> least;
  std::optional<std::int64_t> most;
  for (const StripeStatus& stripe : stripes) {
    if (!stripe.next) continue;
    least = std::min(least.value_or(*stripe.next), *stripe.next);
    most = std::max(most.value_or(*stripe.next), *stripe.next);
  }
  return most.value_or(0) - least.value_or(0);
}

SequenceStatus joined(const SequenceDefinition& own,
                      std::span<const Result<SequenceStatus>> stripes) {
  const auto index = static_cast<std::size_t>(own.stripe);
  SequenceStatus status = stripes[index].value_or(SequenceStatus{.definition = own});
  if (is_retired(status.definition)) return status;
  for (std::size_t k = 0; k < stripes.size(); ++k) {
    StripeStatus& stripe = status.stripes.emplace_back(StripeStatus{.store = own.over[k]});
    const Result<SequenceStatus>& there = stripes[k];
    if (!there) {
      stripe.error = there.error();
      continue;
    }
    stripe.next = there->next;
    stripe.error = there->error;
    if (k == index) continue;
    status.left += there->left;
    status.closed = status.closed || there->closed || is_retired(there->definition);
  }
  for (const StripeStatus& stripe : status.stripes) {
    if (stripe.next) status.next = std::min(status.next.value_or(*stripe.next), *stripe.next);
    // An error that somebody must mend is shown before that of a store that does not answer.
    if (stripe.error && (!status.error || (must_be_mended(stripe.error->code) &&
                                           !must_be_mended(status.error->code)))) {
      status.error = stripe.error;
      if (!must_be_mended(stripe.error->code)) status.error->code = Code::kUnavailable;
    }
  }
  return status;
}

Result<SequenceStatus> with_stripes(Store& store, Result<SequenceStatus> own, SteadyTime until,
                                    const MultiStoreOptions& multi_store) {
  if (!own) return own;
  const SequenceDefinition* const sequence = as_multi_store(own->definition);
  if (sequence == nullptr || sequence->retired) return own;
  MultiStores stores(store, *sequence, multi_store);
  until = by_deadline(store, until);
  const Result<void> known = stores.identify(until);
  std::vector<std::optional<Result<const MultiStores::Member*>>> members(stores.size());
  if (known)
    stores.on_all(share_of(until, 2), [&](std::size_t k) {
      members[k] = stores.at(k, share_of(until, 2));
      return members[k]->has_value();
    });
  std::vector<Result<SequenceStatus>> stripes;
  for (std::size_t k = 0; k < stores.size(); ++k) {
    if (k == stores.own()) {
      stripes.push_back(own);
      continue;
    }
    const Result<const MultiStores::Member*> member =
        known ? *members[k] : std::unexpected(known.error());
    Result<SequenceStatus>& there =
        stripes.emplace_back(member ? status_of(*(*member)->store, (*member)->definition, until)
                                    : std::unexpected(member.error()));
    if (there && is_retired(there->definition))
      there->error = refuse_retired(*(*member)->store, there->definition,
                                    "and not in every store: retire it again");
  }
  return joined(*sequence, stripes);
}

// ---- create

Result<Changed> create_sequence(std::span<Store* const> stores,
                                const SequenceDefinition& definition) {
  std::vector<SequenceDefinition> wanted;
  SequenceDefinition all = definition;
  all.stripes = std::ssize(stores);
  all.over.clear();
  for (const Store* const store : stores)
    all.over.push_back({.id = store->id(), .url = without_secrets(store->url())});
  all.form = settled(all.form, all.last);
  for (std::size_t k = 0; k < stores.size(); ++k) {
    all.stripe = static_cast<std::int64_t>(k);
    wanted.push_back(all);
  }
  if (definition.strategy != Strategy::kInterleaved)
    return refuse("sequence " + definition.name + " is " + std::string(name(definition.strategy)) +
                      ", and only an interleaved sequence is kept over several stores",
                  {.remedy = Remedy::kSetOption, .values = {"strategy"}});
  if (Result<void> valid = validate(all); !valid) return std::unexpected(std::move(valid.error()));
  if (definition.retired)
    return refuse("sequence " + definition.name +
                  " cannot be made retired: create it, then retire it");
  std::vector<bool> defined;
  for (std::size_t k = 0; k < stores.size(); ++k) {
    Store& store = *stores[k];
    if (Result<void> offered = offers(store, wanted[k]); !offered)
      return std::unexpected(std::move(offered.error()));
    if (const Adoption* const adoption = store.counters()->adoption();
        adoption != nullptr && !all.adopted.empty()) {
      if (Result<void> can = adoption->check(wanted[k]); !can)
        return std::unexpected(std::move(can.error()));
    }
    const Result<Definition> found = store.catalog()->find(definition.name);
    if (!found && found.error().code != Code::kNotFound) return std::unexpected(found.error());
    if (found) {
      if (Result<void> agreed = must_agree(store, *found, wanted[k]); !agreed)
        return std::unexpected(std::move(agreed.error()));
      wanted[k] = std::get<SequenceDefinition>(*found);
    }
    defined.push_back(found.has_value());
  }
  // Counters come before any definition, so with one definition there, each store must have its own
  // counter: a missing one was lost, and a new one would begin again.
  const bool some = std::ranges::find(defined, true) != defined.end();
  std::vector<std::vector<CounterState>> counters;
  for (std::size_t k = 0; k < stores.size(); ++k) {
    Result<std::vector<CounterState>> made =
        some ? read_counters(*stores[k], wanted[k]) : make_counters(*stores[k], wanted[k]);
    if (!made && some) return std::unexpected(std::move(made.error()));
    if (!made) {
      // Which stripe a store has is said by the order of the stores.
      const std::vector<std::string>& options = made.error().advice.values;
      if (std::ranges::any_of(options,
                              [](std::string_view each) { return each.starts_with("stride="); }))
        made.error().advice = kOtherStores;
      if (made.error().code != Code::kAlreadyExists)
        return std::unexpected(std::move(made.error()));
      return std::unexpected(error_at(*stores[k], Code::kFailedPrecondition, wanted[k],
                                      "there is a counter of that name with other bounds and no "
                                      "definition, left by an interrupted create (" +
                                          made.error().message() +
                                          "); create it over the same stores in the same order, "
                                          "or choose another name"));
    }
    counters.push_back(*std::move(made));
  }
  bool made = false;
  std::vector<Result<SequenceStatus>> stripes;
  for (std::size_t k = 0; k < stores.size(); ++k) {
    if (!defined[k]) {
      const Result<Defined> now = stores[k]->catalog()->define(wanted[k]);
      if (!now) return std::unexpected(now.error());
      if (Result<void> agreed = must_agree(*stores[k], now->definition, wanted[k]); !agreed)
        return std::unexpected(std::move(agreed.error()));
      made = made || now->made;
    }
    stripes.emplace_back(status_with(*stores[k], wanted[k], counters[k]));
  }
  return Changed{joined(wanted.front(), stripes), made};
}

}  // namespace idmint
