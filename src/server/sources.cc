#include "server/sources.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"
#include "terminal/advice.h"

namespace idmint::server {

using std::chrono::steady_clock;

namespace {
constexpr std::chrono::seconds kAtMostOnceIn{1};

// The counts of its sequence are kept.
void close_source(const OpenSource& source) {
  if (source.sequence == nullptr) return;
  source.sequence->close();
  source.counts->add(source.sequence->statistics());
}

// Ranges of one source that are logged when it is closed. One of strategy random may hold
// thousands, of one value each.
constexpr std::size_t kMostGivenUp = 1000;
}  // namespace

Sources::Sources(Loop& loop, std::vector<ServedStore> stores)
    : loop_(loop), rounds_(loop.rounds_on(shared_executor())), teller_(std::make_shared<Teller>()) {
  teller_->loop = &loop_;
  for (ServedStore& each : stores) {
    each.mint.executor = rounds_.get();
    each.mint.store_changed =
        [this, teller = teller_, before = each.name.empty() ? "" : each.name + "/"](
            std::string_view sequence, std::string_view url, const Error* why) {
          const std::lock_guard lock(teller->mutex);
          if (teller->loop == nullptr) return;
          teller->loop->post([this, source = before + std::string(sequence), at = std::string(url),
                              left_out = why != nullptr ? std::optional(*why) : std::nullopt] {
            note_store(source, at, left_out);
          });
        };
    std::string shown = redacted(each.mint.store);
    std::vector<std::string> also = each.mint.also;
    auto mint = each.store != nullptr
                    ? std::make_unique<Mint>(std::move(each.store), std::move(each.mint))
                    : std::make_unique<Mint>(std::move(each.mint));
    stores_.push_back({std::move(each.name), std::move(shown), std::move(also), std::move(mint)});
  }
}

Sources::~Sources() {
  const std::lock_guard lock(teller_->mutex);
  teller_->loop = nullptr;
}

// ---- stores

const Sources::Served* Sources::served(std::string_view source) const noexcept {
  const std::size_t slash = source.find('/');
  if (slash == 0) return nullptr;  // "/orders" is not another name of "orders"
  const std::string_view store =
      slash == std::string_view::npos ? std::string_view() : source.substr(0, slash);
  const auto found = std::ranges::find(stores_, store, &Served::name);
  return found != stores_.end() ? &*found : nullptr;
}

std::vector<Sources::NamedMint> Sources::mints() const {
  std::vector<NamedMint> all;
  for (const Served& each : stores_) all.push_back({each.name, *each.mint});
  return all;
}

std::vector<std::string> Sources::store_names() const {
  std::vector<std::string> names;
  for (const Served& each : stores_) names.push_back(each.name);
  return names;
}

bool Sources::is_store(std::string_view name) const noexcept {
  return !name.empty() && std::ranges::find(stores_, name, &Served::name) != stores_.end();
}

Result<Sources::Place> Sources::place(std::string_view source) const {
  const Served* const found = served(source);
  if (found == nullptr)
    return fail(Code::kNotFound,
                "there is no source " + shown(source) + ": this server has no such store");
  const std::size_t slash = source.find('/');
  return Place{*found->mint, std::string(source.substr(slash + 1))};
}

namespace {

// `before`: what clients put before its name, "" or "store/".
SequenceStatus named(SequenceStatus status, std::string_view before) {
  std::visit([&](auto& definition) { definition.name.insert(0, before); }, status.definition);
  return status;
}

}  // namespace

Result<SequenceStatus> Sources::peek(std::string_view source, SteadyTime until) const {
  return at(source, [&](Mint& mint, const std::string& name) -> Result<SequenceStatus> {
    Result<SequenceStatus> status = mint.peek(name, until);
    if (!status) return status;
    return named(*std::move(status), source.substr(0, source.size() - name.size()));
  });
}

Result<Changed> Sources::change(
    std::string_view source,
    const std::function<Result<Changed>(Mint&, const std::string&)>& act) const {
  return at(source, [&](Mint& mint, const std::string& name) {
    Result<Changed> changed = act(mint, name);
    if (changed)
      changed->status =
          named(std::move(changed->status), source.substr(0, source.size() - name.size()));
    return changed;
  });
}

Result<void> Sources::each(std::span<const std::string> stores, const ListOptions& options,
                           SteadyTime until, const Act& act) const {
  const std::size_t part = std::clamp<std::size_t>(options.most, 100, 5000);
  for (const Served& each : stores_) {
    if (std::ranges::find(stores, each.name) == stores.end()) continue;
    const std::string before = each.name.empty() ? "" : each.name + "/";
    const bool is_in = options.after.starts_with(before);
    if (!is_in && options.after > before) continue;  // all of its names come before that one
    ListOptions of_part{.after = is_in ? options.after.substr(before.size()) : "",
                        .most = part,
                        .counters = options.counters};
    for (bool more = true; more;) {
      Result<std::vector<SequenceStatus>> some = each.mint->list(until, of_part);
      if (!some && some.error().code == Code::kNotFound) break;  // nothing was created in it
      if (!some) return std::unexpected(worded(std::move(some.error()), each.store));
      more = some->size() == part;
      if (more) of_part.after = name(some->back().definition);
      for (SequenceStatus& status : *some) {
        if (act(named(std::move(status), before))) continue;
        more = false;
        break;
      }
    }
  }
  return {};
}

bool is_format_name(std::string_view name) {
  return std::ranges::any_of(Mint::formats(),
                             [&](const Declaration& format) { return format.name == name; });
}

Error Sources::followed(Error error, std::string_view source) const {
  const Served* const found = served(source);
  if (error.advice.remedy != Remedy::kFollowMove || error.advice.values.empty() || found == nullptr)
    return error;
  const std::string place = place_of(error.advice.values.front());
  if (std::ranges::find(found->also, place, &place_of) == found->also.end()) return error;
  return about("sequence " + shown(source),
               {Code::kUnavailable, "it was moved to another store; ask again"});
}

Error Sources::for_client(Error error, std::string_view source) const {
  // An option of a command is not theirs to give who ask a server.
  if (error.advice.remedy == Remedy::kSetOption) error.advice = {};
  const Served* const found = served(source);
  if (found == nullptr) return worded(std::move(error), "");
  // The default store of this server is not that of the reader, who may be another user.
  const std::string store =
      !found->store.empty() ? found->store : found->mint->store_url().value_or("");
  return worded(std::move(error), store);
}

Result<void> Sources::ready(SteadyTime until) const {
  for (const Served& each : stores_) {
    const Result<std::shared_ptr<Store>> store = each.mint->store();
    // In the default store, or one in memory, nothing may have been created yet.
    const StoreKind* const kind = store_kind(each.store);
    const bool may_be_none = each.store.empty() || (kind != nullptr && !kind->lasts);
    if (!store && store.error().code == Code::kNotFound && may_be_none) continue;
    if (!store && store.error().code == Code::kNotFound)  // of a probe, as if it were away
      return fail(Code::kUnavailable, worded(store.error(), each.store).message());
    if (!store) return std::unexpected(worded(store.error(), each.store));
    if (const std::optional<Error> doubt = (*store)->doubt(until)) return std::unexpected(*doubt);
    // A store on the network may have gone since it was opened.
    if (const auto time = (*store)->time(until); !time)
      return std::unexpected(worded(time.error(), each.store));
  }
  return {};
}

void Sources::look_ready(std::function<void(const Result<void>&)> then) {
  asking_ready_.push_back(std::move(then));
  if (asking_ready_.size() > 1) return;
  loop_.elsewhere(
      loop_.due(), [this](SteadyTime until) { return ready(until); },
      [this](const Result<void>& is) {
        for (const auto& answer : std::exchange(asking_ready_, {})) answer(is);
      });
}

// ---- open sources

SourceHandle Sources::find(std::string_view name) const {
  const auto found = open_.find(name);
  return found != open_.end() ? found->second.source : nullptr;
}

SourceHandle Sources::find(std::string_view name, Recent& recent) const {
  if (recent.found == nullptr || recent.closings != closings_ || recent.found->first != name) {
    const auto found = open_.find(name);
    if (found == open_.end()) return nullptr;
    recent = {&*found, closings_};
  }
  return recent.found->second.source;
}

void Sources::open(std::string_view name, std::function<void(const Result<SourceHandle>&)> then) {
  if (const auto ended = ended_.find(name); ended != ended_.end()) {
    if (steady_clock::now() - ended->second.since < kAtMostOnceIn) {
      loop_.post([then = std::move(then), why = ended->second.why] { then(std::unexpected(why)); });
      return;
    }
    ended_.erase(ended);
  }
  const auto [asked, first] = opening_.try_emplace(std::string(name));
  (asked->second.is_stale ? asked->second.later : asked->second.waiting).push_back(std::move(then));
  if (!first) return;
  const Served* const from = served(name);
  const std::string_view own = name.substr(name.find('/') + 1);
  const bool is_format = is_format_name(own);
  const auto begin = [&](auto work, auto done) {
    if (from == nullptr || is_format) {  // no store is asked
      loop_.post([work = std::move(work), done = std::move(done)]() mutable { done(work({})); });
    } else {
      loop_.elsewhere(from->name, loop_.due(), std::move(work), std::move(done));
    }
  };
  begin(
      [this, name = asked->first](SteadyTime /*until*/) -> Result<SourceHandle> {
        Result<std::unique_ptr<Source>> opened =
            at(name, [](Mint& mint, const std::string& own) { return mint.source(own); });
        if (!opened) return std::unexpected(std::move(opened.error()));
        // Closing a sequence may wait for its store: the loop, which may drop the last handle, does
        // not.
        SourceHandle source(
            new OpenSource{.rounds = rounds_, .name = name, .source = *std::move(opened)},
            [&executor = loop_.executor()](OpenSource* last) {
              std::unique_ptr<OpenSource> owned(last);
              // Not taken, the task is destroyed here, and the source with it.
              [[maybe_unused]] const Result<void> posted =
                  executor.post([owned = std::move(owned)]() mutable {
                    close_source(*owned);
                    owned.reset();
                  });
            });
        source->sequence = source->source->sequence();
        switch (source->declaration().kind) {
          case SourceKind::kFormat:
            source->height = Height::of_format(source->declaration().format);
            break;
          case SourceKind::kSequence: {
            const SequenceDefinition& definition = source->sequence->definition();
            source->height = Height::of_sequence(definition);
            if (definition.strategy == Strategy::kCounter)
              source->counter = static_cast<CounterSequence*>(source->sequence);
            break;
          }
          case SourceKind::kPool:
            break;
        }
        return source;
      },
      [this, name = asked->first](Result<SourceHandle> opened) {
        Opening asked = std::move(opening_.extract(name).mapped());
        if (closed_ && opened) {
          opened = fail(Code::kUnavailable, "this server is shutting down");
        } else if (opened) {
          (*opened)->counts = counts_of(name);
          if (asked.is_stale) {
            forgotten_.push_back(*opened);
          } else {
            open_[name] = {*opened, steady_clock::now()};
          }
        }
        for (const auto& answer : asked.waiting) answer(opened);
        for (auto& answer : asked.later) open(name, std::move(answer));
      });
}

void Sources::close(Log& log) {
  closed_ = true;
  std::vector<SourceHandle> all;
  for (const auto& [name, entry] : open_) all.push_back(entry.source);
  for (const std::weak_ptr<OpenSource>& forgotten : forgotten_) {
    if (SourceHandle source = forgotten.lock()) all.push_back(std::move(source));
  }
  for (const SourceHandle& source : all) {
    if (source->sequence == nullptr) continue;
    source->sequence->close();
    const std::vector<Range> given_up = source->sequence->given_up();
    for (const Range& range : std::span(given_up).first(std::min(given_up.size(), kMostGivenUp)))
      log.write(LogSettings::Level::kWarning, "given_up",
                {{"source", source->name},
                 {"first", range.first},
                 {"last", range.last()},
                 {"count", range.count}});
    const SequenceStatistics is = source->sequence->statistics();
    log.write(LogSettings::Level::kInfo, "closed",
              {{"source", source->name}, {"handed_out", is.values}, {"waste", is.waste}});
  }
}

void Sources::note_store(const std::string& source, const std::string& url,
                         const std::optional<Error>& why) {
  std::pair<std::string, std::string> store{source, url};
  const bool changed =
      why ? stores_left_out_.insert(std::move(store)).second : stores_left_out_.erase(store) != 0;
  if (changed && store_changed_) store_changed_(source, url, why ? &*why : nullptr);
}

std::shared_ptr<SourceCounts> Sources::counts_of(std::string_view name) {
  if (const auto found = counts_.find(name); found != counts_.end()) return found->second;
  if (counts_.size() >= kMostCounted) return others_;
  return counts_.try_emplace(std::string(name), std::make_shared<SourceCounts>()).first->second;
}

std::vector<SourceUse> Sources::uses() {
  struct Open {
    SequenceStatistics statistics{};
    std::int64_t held = 0;
    bool is_sequence = false;
  };
  std::unordered_map<const SourceCounts*, Open> open;
  const auto add = [&](const OpenSource& source) {
    if (source.sequence == nullptr) return;
    Open& sum = open[source.counts.get()];
    const SequenceStatistics its = source.sequence->statistics();
    sum.statistics.requests += its.requests;
    sum.statistics.rounds += its.rounds;
    sum.statistics.waste += its.waste;
    sum.is_sequence = true;
    sum.held += source.sequence->held();
  };
  for (const auto& [name, entry] : open_) add(*entry.source);
  for (const std::weak_ptr<OpenSource>& forgotten : forgotten_) {
    if (const SourceHandle source = forgotten.lock()) add(*source);
  }
  std::vector<SourceUse> all;
  const auto tell = [&](std::string_view name, SourceCounts& counts) {
    const Open& now = open[&counts];
    const SequenceStatistics& statistics = counts.all(now.statistics);
    all.push_back({.name = name,
                   .calls = counts.calls,
                   .ids = counts.ids,
                   .errors = counts.errors,
                   .is_sequence = now.is_sequence || statistics.rounds != 0,
                   .statistics = statistics,
                   .held = now.held});
  };
  for (const auto& [name, counts] : counts_) tell(name, *counts);
  if (counts_.size() >= kMostCounted) tell(kOthers, *others_);
  std::ranges::sort(all, {}, &SourceUse::name);
  return all;
}

std::vector<std::string> Sources::open_pools(std::string_view store) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : open_) {
    const Served* const from = served(name);
    if (entry.source->is_pool() && from != nullptr && from->name == store)
      names.push_back(name.substr(store.empty() ? 0 : store.size() + 1));
  }
  return names;
}

void Sources::reopen(std::string_view name) {
  if (const auto ended = ended_.find(name); ended != ended_.end()) ended_.erase(ended);
  if (const auto opening = opening_.find(name); opening != opening_.end())
    opening->second.is_stale = true;
  const auto found = open_.find(name);
  if (found == open_.end()) return;
  std::erase_if(forgotten_, [](const auto& gone) { return gone.expired(); });
  forgotten_.push_back(found->second.source);
  open_.erase(found);
  ++closings_;
}

void Sources::forget(const SourceHandle& source, const Error& why, bool of_one) {
  const std::string& name = source->name;
  const auto found = open_.find(name);
  if (found == open_.end() || found->second.source != source) return;
  const auto now = steady_clock::now();
  if (why.code == Code::kOutOfRange && of_one) {
    ended_.insert_or_assign(name, Ended{why, now});
  } else if (why.code == Code::kOutOfRange && now - found->second.opened < kAtMostOnceIn) {
    return;
  }
  std::erase_if(forgotten_, [](const auto& gone) { return gone.expired(); });
  forgotten_.push_back(source);
  open_.erase(found);
  ++closings_;
}

}  // namespace idmint::server
