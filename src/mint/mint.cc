#include "idmint/mint.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/bounded_mutex.h"
#include "base/data_folder.h"
#include "base/errors.h"
#include "base/side_by_side.h"
#include "base/similar.h"
#include "base/sqlite_url.h"
#include "base/url.h"
#include "idmint/sequence.h"
#include "mint/down_stores.h"
#include "mint/formats.h"
#include "mint/pool_source.h"
#include "mint/records.h"
#include "mint/sequence_source.h"
#include "sequences/multi_store.h"
#include "sequences/strategies.h"
#include "store/catalog.h"

namespace idmint {

namespace {

// In quotes, truncated if it is long.
std::string quoted_start(std::string_view text) {
  constexpr std::size_t longest = 100;
  return text.size() <= longest ? "\"" + std::string(text) + "\""
                                : "\"" + std::string(text.substr(0, longest)) + "...\"";
}

}  // namespace

struct Mint::State {
  State(MintOptions its_options, Clock& its_clock, Entropy& its_entropy)
      : options(std::move(its_options)),
        clock(its_clock),
        entropy(its_entropy),
        down(data_folder().value_or(std::filesystem::path()), its_clock),
        others(options.also, [this](const std::string& where, SteadyTime until) {
          return open_at(where, false, {}, until);
        }) {}

  const MintOptions options;
  Clock& clock;
  Entropy& entropy;
  const DownStores down;
  BoundedMutex mutex;
  std::shared_ptr<Store> store;  // guarded by mutex; null until it was opened
  // Those besides `store`: of sequences over several, and of sequences that were moved.
  OtherStores others;
  std::mutex noted_mutex;
  std::set<std::string> noted;  // the places of stores that were left out; guarded by noted_mutex

  [[nodiscard]] MadeWith made_with() const { return {options, clock, entropy}; }

  [[nodiscard]] Result<std::string> url() const {
    if (!options.store.empty()) return options.store;
    const Result<std::filesystem::path> data = data_folder();
    if (!data) return std::unexpected(data.error());
    return sqlite_url((*data / "ids.db").string());
  }

  // The store, opened by the first call; created only if `make`. `name`: the definition to be
  // looked up next.
  Result<std::shared_ptr<Store>> open(bool make, std::string_view name = {},
                                      SteadyTime until = SteadyTime::max()) {
    // Callers that come while another one opens the store do not each wait that long again.
    const SteadyTime patience =
        std::min(until, std::chrono::steady_clock::now() + options.store_options.deadline);
    const std::unique_lock lock(mutex, patience);
    if (lock && store != nullptr) return store;
    if (!lock || std::chrono::steady_clock::now() >= patience) {
      return fail(Code::kUnavailable,
                  "the store did not answer in time whoever asked for it first; ask again");
    }
    const Result<std::string> where = url();
    if (!where) return std::unexpected(where.error());
    const Result<std::filesystem::path> data = data_folder();
    if (make && options.store_options.create &&
        options.store_options.access == Access::kReadWrite && options.store.empty()) {
      if (!data) return std::unexpected(data.error());
      if (Result<void> made = make_folder(*data); !made) {
        return std::unexpected(std::move(made.error()));
      }
    }
    Result<std::shared_ptr<Store>> opened = open_at(*where, make, name, until);
    if (!opened) {
      if (opened.error().code == Code::kInvalidArgument)
        opened.error().advice = {.remedy = Remedy::kSetOption, .values = {"store"}};
      return opened;
    }
    store = *std::move(opened);
    return store;
  }

  // Null: it is not open, or another caller still opens it at `until`.
  [[nodiscard]] std::shared_ptr<Store> opened_usual(SteadyTime until) {
    const std::unique_lock lock(mutex, until);
    return lock ? store : nullptr;
  }

  [[nodiscard]] Result<std::shared_ptr<Store>> open_at(const std::string& where, bool make,
                                                       std::string_view name,
                                                       SteadyTime until) const {
    StoreOptions store_options = options.store_options;
    store_options.create =
        make && store_options.create && store_options.access == Access::kReadWrite;
    store_options.first_definition = name;
    store_options.until = std::min(store_options.until, until);
    Result<std::unique_ptr<Store>> opened = Store::open(where, store_options, entropy);
    if (!opened) return std::unexpected(std::move(opened.error()));
    note_unrecorded(**opened);
    std::shared_ptr<Store> shared = *std::move(opened);
    const bool gives = store_options.access == Access::kReadWrite;
    return options.keep_record && gives ? with_record(std::move(shared)) : shared;
  }

  // A notice, once for each process, that the host would not notice an older state of its stores.
  void note_unrecorded(Store& opened) const {
    static std::atomic_flag told;
    if (!options.notice || options.store_options.access == Access::kReadOnly) return;
    const std::optional<Error> why = opened.unrecorded();
    if (why && !told.test_and_set()) options.notice(why->message());
  }

  // For a sequence that may outlive the mint.
  [[nodiscard]] static MultiStoreOptions multi_store(const std::shared_ptr<State>& state) {
    return {.over = state->options.over,
            .over_others = true,
            .open = [state](const std::string& where,
                            SteadyTime until) { return state->others.at(where, until); },
            .seems_down = [state](std::string_view where) { return state->down.has(where); }};
  }

  // Notes the answer of one store of a sequence over several.
  void note_answer(std::string_view its_url, const Error* why) const {
    if (why != nullptr && may_come_back(why->code)) down.add(its_url);
    if (why == nullptr && down.has(its_url)) down.remove(its_url);
  }

  // A notice, once for each store, that values of the sequence come from its other stores until
  // somebody mends this one.
  void note_left_out(std::string_view name, std::string_view its_url, const Error& why) {
    if (!options.notice || may_come_back(why.code)) return;
    {
      const std::lock_guard lock(noted_mutex);
      if (!noted.insert(place_of(its_url)).second) return;
    }
    options.notice("sequence " + std::string(name) + " leaves out its store " + redacted(its_url) +
                   " (" + why.message() +
                   "): mend that, or give the whole URL of the store for a sequence over several");
  }

  // As multi_store(), for a sequence that gives values.
  [[nodiscard]] static MultiStoreOptions multi_store_to_take(const std::shared_ptr<State>& state,
                                                             std::string_view name) {
    MultiStoreOptions watched = multi_store(state);
    watched.store_changed = [state, name = std::string(name)](std::string_view its_url,
                                                              const Error* why) {
      state->note_answer(its_url, why);
      if (state->options.store_changed) state->options.store_changed(name, its_url, why);
    };
    return watched;
  }

  // Likewise, within source(): stores that are left out are noted.
  [[nodiscard]] static MultiStoreOptions multi_store_noted(const std::shared_ptr<State>& state,
                                                           std::string_view name) {
    MultiStoreOptions noted = multi_store_to_take(state, name);
    noted.left_out = [state, name = std::string(name)](std::string_view its_url, const Error& why) {
      state->note_left_out(name, its_url, why);
    };
    return noted;
  }

  // The sequence at its place. The executor and the deadline are those of the options.
  [[nodiscard]] static Result<PlacedSequence> open_placed(const std::shared_ptr<State>& state,
                                                          PlacedDefinition at, SteadyTime until,
                                                          MultiStoreOptions multi_store) {
    const SequenceOptions sequence_options{
        .until = until, .executor = state->options.executor, .multi_store = std::move(multi_store)};
    Result<std::unique_ptr<Sequence>> sequence = open_defined(
        *at.store, std::move(at.found), sequence_options, state->clock, state->entropy);
    if (!sequence) return std::unexpected(std::move(sequence.error()));
    return PlacedSequence{.store = std::move(at.store), .sequence = *std::move(sequence)};
  }

  // Whether other stores of a sequence over several may serve a call that failed so in the usual
  // one.
  [[nodiscard]] static bool may_be_left_out(Code code) {
    return !must_be_mended(code) && code != Code::kNotFound;
  }

  // The store at `where`, if it has the sequence over several of which one is at `place`. Null:
  // another sequence of the name is not the one that was asked for.
  [[nodiscard]] Result<std::shared_ptr<Store>> open_another(std::string_view name,
                                                            std::string_view place,
                                                            const std::string& where,
                                                            SteadyTime until) {
    Result<std::shared_ptr<Store>> opened = others.at(where, until);
    if (!opened) return opened;
    if ((*opened)->catalog() == nullptr) return nullptr;
    const Result<Definition> found = (*opened)->catalog()->find(name, until);
    const auto* const sequence = found ? std::get_if<SequenceDefinition>(&*found) : nullptr;
    const auto is_there = [&](const StoreOfStripe& stripe) {
      return place_of(stripe.url) == place;
    };
    if (sequence == nullptr || std::ranges::none_of(sequence->over, is_there)) return nullptr;
    return opened;
  }

  // The usual store, or else another one that has the sequence over several. They are asked side by
  // side, the others a moment later unless the usual one seems down. Once another one has the
  // sequence, the usual one has a quarter of the time, or a moment if it seems down. The other half
  // of the time is for what follows.
  // As long as none has answered, all are waited for: they may be restarting.
  [[nodiscard]] Result<std::shared_ptr<Store>> open_any(std::string_view name, SteadyTime until) {
    constexpr std::chrono::milliseconds kTooLittle{100};
    for (;;) {
      const SteadyTime half = share_of(until, 2);
      Result<std::shared_ptr<Store>> opened = open_any_by(name, half);
      const SteadyTime now = std::chrono::steady_clock::now();
      if (opened || !may_come_back(opened.error().code) || now < half || until - now < kTooLittle)
        return opened;
    }
  }

  [[nodiscard]] Result<std::shared_ptr<Store>> open_any_by(std::string_view name,
                                                           SteadyTime until) {
    constexpr std::chrono::milliseconds kHeadStart{100};
    constexpr std::chrono::milliseconds kMoment{50};
    const Result<std::string> usual = url();
    if (!usual) return std::unexpected(usual.error());
    const std::string place = place_of(without_secrets(*usual));
    const bool seems_down = down.has(*usual);
    const SteadyTime longest = share_of(until, 2);  // that the usual one is waited for
    std::promise<void> is_decided;
    const std::shared_future<void> decided = is_decided.get_future().share();
    const auto decides = [](const Result<std::shared_ptr<Store>>& opened) {
      return opened || !may_be_left_out(opened.error().code);
    };
    using MaybeStore = std::optional<Result<std::shared_ptr<Store>>>;
    std::vector<MaybeStore> all(options.over.size() + 1);  // the usual one first
    const auto ask = [&](std::size_t i) {
      if (i == 0) {
        all[0] = open(false, name, until);
        if (decides(*all[0])) is_decided.set_value();
        return;
      }
      const auto head_start = seems_down ? std::chrono::milliseconds{0} : kHeadStart;
      if (decided.wait_for(head_start) == std::future_status::ready) return;
      all[i] = open_another(name, place, options.over[i - 1], until);
    };
    SteadyTime first = SteadyTime::max();  // another one had the sequence then
    const auto has_it = [&](std::size_t i) { return all[i] && *all[i] && **all[i] != nullptr; };
    const auto patience = [&](std::span<const char> returned) {
      if (returned[0] != 0 && decides(*all[0])) return SteadyTime::min();
      bool has_one = false;
      for (std::size_t i = 1; i < all.size(); ++i)
        has_one = has_one || (returned[i] != 0 && has_it(i));
      if (!has_one) return SteadyTime::max();
      if (returned[0] != 0) return SteadyTime::min();
      if (first == SteadyTime::max()) first = std::chrono::steady_clock::now();
      return seems_down ? std::min(first + kMoment, longest) : longest;
    };
    side_by_side(all.size(), ask, patience);
    // NOLINTBEGIN(bugprone-unchecked-optional-access): the usual one was waited for, or all were.
    if (decides(*all[0])) return *std::move(all[0]);
    const Error& why = all[0]->error();
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i] && !*all[i]) note_left_out(name, options.over[i - 1], all[i]->error());
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (!has_it(i)) continue;
      note_answer(*usual, &why);
      note_left_out(name, options.store, why);
      return *std::move(all[i]);
    }
    return std::unexpected(why);
    // NOLINTEND(bugprone-unchecked-optional-access)
  }

  [[nodiscard]] bool nothing_created(const Error& opening) const {
    return opening.code == Code::kNotFound && options.store.empty();
  }

  template <class Act>
  auto on_sequence(std::string_view name, Act act, SteadyTime until = SteadyTime::max())
      -> decltype(act(std::declval<Store&>()));

  // kNotFound for a name that is no format, sequence or pool. `minting`: formats are suggested too.
  // Names of the store are suggested if it lists them by `until`.
  Error unknown(std::string_view name, bool minting, SteadyTime until) {
    std::vector<std::string> known;
    if (minting) {
      for (const Declaration& format : format_declarations()) known.push_back(format.name);
    }
    const Result<std::shared_ptr<Store>> opened = open(false, {}, until);
    if (opened && (*opened)->catalog() != nullptr) {
      constexpr std::size_t kMost = 10'000;  // in a huge store the first ones do
      if (const auto definitions = (*opened)->catalog()->list_after({}, kMost, until)) {
        for (const CatalogEntry& entry : *definitions) known.push_back(entry.name);
      }
    }
    const Result<std::string> where = url();
    std::string message = std::string(minting ? "there is no format, sequence or pool "
                                              : "there is no sequence or pool ") +
                          quoted_start(name);
    const bool no_store = !opened && opened.error().code == Code::kNotFound;
    const StoreKind* const kind = where ? store_kind(*where) : nullptr;
    const bool in_memory = kind != nullptr && !kind->lasts;
    // The folder of the default store is made with it; no other one is.
    const bool cannot_be_made = no_store && !in_memory && !options.store.empty() &&
                                opened.error().advice.remedy != Remedy::kCreateStore;
    if (in_memory) {
      message += " in " + std::string(kind->example) +
                 ", which is empty at first and gone with the process";
    } else if (no_store && !options.store.empty()) {
      message += ", and there is no store " + redacted(*where);
    } else if (where) {
      message += " in " + redacted(*where);
    }
    Advice advice;
    if (std::optional<Hint> hint = minting ? hint_for(name) : std::nullopt) {
      message += ": " + hint->text;
      advice = std::move(hint->advice);
    } else if (const std::string meant = close_matches(name, known); !meant.empty()) {
      message += ": did you mean " + meant + "?";
    } else if (cannot_be_made) {
      message += ": " + opened.error().message();
    } else if (minting && validate(SequenceDefinition{.name = std::string(name)})) {
      message += in_memory ? ": create it in a store that stays" : ": create it";
      advice = {Remedy::kCreateSource, std::string(name)};
    } else if (in_memory || (no_store && !options.store.empty())) {
      message += minting ? ": list the formats" : ": give the store that has it";
      if (minting) {
        advice.remedy = Remedy::kListFormats;
      } else {
        advice = {.remedy = Remedy::kSetOption, .values = {"store"}};
      }
    } else {
      message += ": list what there is";
      advice.remedy = minting ? Remedy::kListSources : Remedy::kListSequences;
    }
    return {Code::kNotFound, std::move(message), std::move(advice)};
  }
};

Mint::Mint(MintOptions options, Clock& clock, Entropy& entropy)
    : state_(std::make_shared<State>(std::move(options), clock, entropy)) {}
Mint::Mint(std::shared_ptr<Store> store, MintOptions options, Clock& clock, Entropy& entropy) {
  options.store = store->url();
  if (options.keep_record) store = with_record(std::move(store));
  state_ = std::make_shared<State>(std::move(options), clock, entropy);
  state_->store = std::move(store);
}
Mint::~Mint() = default;
Mint::Mint(Mint&&) noexcept = default;
Mint& Mint::operator=(Mint&&) noexcept = default;

std::vector<Declaration> Mint::formats() { return format_declarations(); }

Result<std::unique_ptr<Source>> Mint::source(std::string_view name, const FormatOptions& options) {
  if (is_format(name)) return open_format(name, options, state_->made_with());
  const StoreOptions& of_store = state_->options.store_options;
  const SteadyTime until =
      std::min(of_store.until, std::chrono::steady_clock::now() + of_store.deadline);
  if (!validate(SequenceDefinition{.name = std::string(name)})) {
    return std::unexpected(state_->unknown(name, true, until));
  }
  const bool is_over = !state_->options.over.empty();
  Result<std::shared_ptr<Store>> store =
      is_over ? state_->open_any(name, until) : state_->open(false, name, until);
  if (!store) {
    if (store.error().code == Code::kNotFound)
      return std::unexpected(state_->unknown(name, true, until));
    return std::unexpected(std::move(store.error()));
  }
  PlacedDefinition at{.store = *store, .found = find_definition(**store, name, until)};
  at = state_->others.follow(std::move(at), until);
  const Result<Definition>& definition = at.found;
  if (definition) {
    if (Result<void> taken = check_made(*definition, options); !taken)
      return std::unexpected(std::move(taken.error()));
  }
  const auto* const pool = definition ? std::get_if<PoolDefinition>(&*definition) : nullptr;
  if (pool != nullptr && !pool->retired)
    return make_pool_source(*std::move(store), *pool, options.window, state_->made_with());
  Result<PlacedSequence> opened =
      State::open_placed(state_, std::move(at), until, State::multi_store_noted(state_, name));
  if (!opened) {
    if (opened.error().code == Code::kNotFound)
      return std::unexpected(state_->unknown(name, true, until));
    return std::unexpected(std::move(opened.error()));
  }
  Reopen reopen;
  if (state_->others.can_follow())
    reopen = [state = state_, first = *std::move(store),
              name = std::string(name)](SteadyTime by) -> Result<PlacedSequence> {
      PlacedDefinition now{.store = first, .found = find_definition(*first, name, by)};
      return State::open_placed(state, state->others.follow(std::move(now), by), by,
                                State::multi_store_to_take(state, name));
    };
  return make_sequence_source(*std::move(opened), std::move(reopen), state_->made_with());
}

Result<Changed> Mint::create(const Definition& definition, const CreateOptions& options) {
  if (Result<void> free = check_sequence_name(name(definition)); !free)
    return std::unexpected(std::move(free.error()));
  if (Result<void> valid = validate(definition); !valid)
    return std::unexpected(std::move(valid.error()));
  const auto* const pool = std::get_if<PoolDefinition>(&definition);
  const bool asks = pool != nullptr || options.may_make;
  CreateOptions asking = options;
  asking.may_make = [&]() -> Result<void> {
    // The layout of an existing pool may have reached its end since.
    if (pool != nullptr)
      if (Result<void> fit = check_new(definition, state_->clock.now()); !fit) return fit;
    return options.may_make ? options.may_make() : Result<void>{};
  };
  // Nothing is made, the store neither, unless the source may be.
  Result<std::shared_ptr<Store>> store = state_->open(!asks, name(definition));
  if (!store && asks && store.error().code == Code::kNotFound) {
    if (Result<void> may = std::exchange(asking.may_make, {})(); !may)
      return std::unexpected(std::move(may.error()));
    store = state_->open(true, name(definition));
  }
  if (!store) return std::unexpected(store.error());
  if (pool != nullptr) return create_pool(**store, *pool, asking);
  return create_sequence(**store, std::get<SequenceDefinition>(definition), asking,
                         state_->entropy);
}

Result<Changed> Mint::create_over(const SequenceDefinition& sequence,
                                  std::span<const std::string> urls) {
  if (Result<void> free = check_sequence_name(sequence.name); !free)
    return std::unexpected(std::move(free.error()));
  std::vector<std::shared_ptr<Store>> opened;
  std::vector<Store*> stores;
  for (const std::string& url : urls) {
    Result<std::shared_ptr<Store>> store =
        state_->open_at(url, true, sequence.name, SteadyTime::max());
    if (!store) return std::unexpected(std::move(store.error()));
    stores.push_back(store->get());
    opened.push_back(*std::move(store));
  }
  return create_sequence(stores, sequence);
}

// Runs `act` with the store of the sequence `name`, or with the one to which it was moved.
template <class Act>
auto Mint::State::on_sequence(std::string_view name, Act act, SteadyTime until)
    -> decltype(act(std::declval<Store&>())) {
  if (is_format(name)) {
    return std::unexpected(about("\"" + std::string(name) + "\"",
                                 {Code::kInvalidArgument,
                                  "it is a format, which keeps nothing in a store: its declaration "
                                  "says what it promises",
                                  {.remedy = Remedy::kListFormats}}));
  }
  const Result<std::shared_ptr<Store>> opened = open(false, name, until);
  if (!opened) {
    if (opened.error().code == Code::kNotFound) return std::unexpected(unknown(name, false, until));
    return std::unexpected(opened.error());
  }
  std::shared_ptr<Store> its = *opened;
  if (others.can_follow()) {
    PlacedDefinition at = others.follow({its, find_definition(*its, name, until)}, until);
    if (!at.found && at.found.error().code != Code::kNotFound)
      return std::unexpected(std::move(at.found.error()));
    its = std::move(at.store);
  }
  auto done = act(*its);
  if (!done && done.error().code == Code::kNotFound)
    return std::unexpected(unknown(name, false, until));
  return done;
}

Result<SequenceStatus> Mint::peek(std::string_view name, SteadyTime until) {
  const bool is_over = !state_->options.over.empty();
  if (is_over)
    until =
        std::min(until, std::chrono::steady_clock::now() + state_->options.store_options.deadline);
  if (is_over && state_->opened_usual(share_of(until, 4)) == nullptr) {
    const Result<std::shared_ptr<Store>> any = state_->open_any(name, until);
    // Errors of the usual one are worded below.
    if (any && *any != state_->opened_usual(share_of(until, 4)))
      return peek_sequence(**any, name, until, State::multi_store(state_));
    if (!any && State::may_be_left_out(any.error().code)) return std::unexpected(any.error());
  }
  const SteadyTime by = is_over ? share_of(until, 2) : until;
  Result<SequenceStatus> status = state_->on_sequence(
      name,
      [&](Store& store) { return peek_sequence(store, name, by, State::multi_store(state_)); }, by);
  if (status || !is_over || !State::may_be_left_out(status.error().code)) return status;
  const std::string place = place_of(without_secrets(state_->url().value_or("")));
  std::size_t shares = state_->options.over.size() + 1;
  for (const std::string& each : state_->options.over) {
    const auto another = state_->open_another(name, place, each, share_of(until, shares--));
    if (another && *another != nullptr)
      return peek_sequence(**another, name, until, State::multi_store(state_));
  }
  return status;
}

Result<Raised> Mint::raise(std::string_view name, std::int64_t past, RaiseMode mode,
                           SteadyTime until) {
  return state_->on_sequence(
      name,
      [&](Store& store) {
        return raise_sequence(store, name, past, mode, until, State::multi_store(state_));
      },
      until);
}

Result<Raised> Mint::raise(std::string_view name, std::span<const std::int64_t> past,
                           RaiseMode mode) {
  return state_->on_sequence(name,
                             [&](Store& store) { return raise_sequence(store, name, past, mode); });
}

Result<Raised> Mint::raise(std::string_view name, ExistingValues& values, RaiseMode mode) {
  return state_->on_sequence(name, [&](Store& store) {
    return raise_sequence(store, name, values, mode, State::multi_store(state_));
  });
}

Result<Raised> Mint::raise(std::string_view name, Store& from, RaiseMode mode) {
  return state_->on_sequence(name,
                             [&](Store& store) { return raise_sequence(store, name, from, mode); });
}

Result<Changed> Mint::alter(std::string_view name, std::int64_t last) {
  return state_->on_sequence(name, [&](Store& store) {
    return alter_sequence(store, name, last, State::multi_store(state_));
  });
}

Result<Changed> Mint::retire(std::string_view name) {
  return state_->on_sequence(
      name, [&](Store& store) { return retire_sequence(store, name, State::multi_store(state_)); });
}

Result<std::vector<LeaseState>> Mint::list_workers(std::string_view pool) {
  return state_->on_sequence(pool, [&](Store& store) { return idmint::list_workers(store, pool); });
}

Result<LeaseState> Mint::release_worker(std::string_view pool, std::int64_t worker) {
  return state_->on_sequence(
      pool, [&](Store& store) { return idmint::release_worker(store, pool, worker); });
}

Result<std::int64_t> Mint::raise_pool(std::string_view pool, Instant past) {
  return state_->on_sequence(pool,
                             [&](Store& store) { return idmint::raise_pool(store, pool, past); });
}

Result<std::vector<SequenceStatus>> Mint::list(SteadyTime until, const ListOptions& options) {
  const Result<std::shared_ptr<Store>> store = state_->open(false, {}, until);
  if (!store) {
    if (state_->nothing_created(store.error())) return std::vector<SequenceStatus>{};
    return std::unexpected(store.error());
  }
  return list_sequences(**store, until, State::multi_store(state_), options);
}

Result<bool> Mint::has_given(std::string_view name, std::int64_t value) {
  return state_->on_sequence(name,
                             [&](Store& store) { return idmint::has_given(store, name, value); });
}

Result<std::shared_ptr<Store>> Mint::store(SteadyTime until) {
  return state_->open(false, {}, until);
}

Result<std::string> Mint::store_url() const {
  Result<std::string> url = state_->url();
  if (url) *url = redacted(*url);
  return url;
}

}  // namespace idmint
