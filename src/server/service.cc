#include "server/service.h"

#include <algorithm>
#include <array>
#include <utility>

#include "terminal/advice.h"

namespace idmint::server {

namespace {

// The error that a client with a token sees if the store has failed.
struct Told {
  Code code;
  std::string_view words;
};
constexpr std::array kTold = {
    Told{Code::kUnknown,
         "the store gave no answer, and may have done what was asked: ids that it took are "
         "skipped; ask again"},
    Told{Code::kDeadlineExceeded,
         "the store did not answer in time, and may have done what was asked: ids that it took are "
         "skipped; ask again"},
    Told{Code::kNotFound, "there is no such source"},
    Told{Code::kUnavailable, "the store is slow or away, and nothing was done: ask again"},
    Told{Code::kResourceExhausted, "the store has no room, and nothing was done: ask again later"},
};
constexpr std::string_view kOfAnother = "the server cannot use its store: its log says why";

// Codes whose messages are about the call and the source that it names.
constexpr std::array kOfTheCall = {Code::kInvalidArgument, Code::kAlreadyExists,
                                   Code::kOutOfRange,      Code::kFailedPrecondition,
                                   Code::kUnimplemented,   Code::kResourceExhausted};

// Whether a client may see the error: it is about what the caller named, or of a format, which has
// no store.
bool is_about_the_call(const Error& error, std::string_view source) {
  if (!error.subject.empty()) return true;
  return error.place.empty() && is_format_name(source.substr(source.find('/') + 1));
}

// Such advice names the store.
bool is_about_store(const Advice& advice) {
  return advice.remedy == Remedy::kRaiseStore || advice.remedy == Remedy::kCreateStore ||
         advice.remedy == Remedy::kFollowMove || advice.remedy == Remedy::kFinishMove;
}

}  // namespace

Error Service::for_client(Error error, std::string_view source) {
  error = sources.followed(std::move(error), source);
  if (access.is_open()) return sources.for_client(std::move(error), source);
  if (std::ranges::find(kOfTheCall, error.code) != kOfTheCall.end() &&
      !is_about_store(error.advice) && is_about_the_call(error, source)) {
    error.place.clear();
    if (error.advice.remedy == Remedy::kSetOption) error.advice = {};
    return worded(std::move(error), "");
  }
  const auto* const row = std::ranges::find(kTold, error.code, &Told::code);
  Error general{error.code, std::string(row != kTold.end() ? row->words : kOfAnother)};
  constexpr std::chrono::seconds at_most_once_in{1};
  const SteadyTime now = loop.now();
  if (error.code != Code::kNotFound && now - told_at >= at_most_once_in) {
    told_at = now;
    const Error whole = sources.for_client(std::move(error), source);
    log.write(LogSettings::Level::kWarning, "store_error",
              {{"source", source}, {"code", name(whole.code)}, {"message", whole.message()}});
  }
  return general;
}

void Service::note_guess(const Connection& connection) {
  count_error(Code::kUnauthenticated);
  ++guesses;
  guesses_from = connection.peer();
  tell_repeated();
}

void Service::note_contradiction(const Connection& connection, const std::string& pool) {
  ++contradictions;
  last_contradiction = {pool, connection.peer()};
  tell_repeated();
}

void Service::tell_repeated() {
  const SteadyTime now = loop.now();
  // One line a second, with the number of those that wait for it.
  const auto is_due = [&](std::int64_t waiting, SteadyTime& told) {
    constexpr std::chrono::seconds at_most_once_in{1};
    if (waiting == 0 || (told != SteadyTime{} && now - told < at_most_once_in)) return false;
    told = now;
    return true;
  };
  if (is_due(guesses, guesses_told_at))
    log.write(LogSettings::Level::kWarning, "unknown_token",
              {{"count", std::exchange(guesses, 0)}, {"peer", guesses_from}});
  if (is_due(contradictions, contradictions_told_at))
    log.write(LogSettings::Level::kWarning, "lease_contradicted",
              {{"count", std::exchange(contradictions, 0)},
               {"source", last_contradiction.first},
               {"peer", last_contradiction.second}});
}

void Service::know_pool(const std::string& name, const PoolDefinition& pool) {
  constexpr std::size_t most = 1000;
  if (pools.contains(name)) return;
  if (pools.size() >= most) pools.clear();
  pools[name] = std::make_shared<const PoolDefinition>(pool);
}

std::shared_ptr<const PoolDefinition> Service::known_pool(const std::string& name) const {
  const auto found = pools.find(name);
  return found != pools.end() ? found->second : nullptr;
}

Error Service::told_to(const Caller& caller, Error error, std::string_view source) {
  if (error.code == Code::kUnauthenticated && caller.is_revoked()) return token_is_gone();
  return for_client(std::move(error), source);
}

AuthorizedView Service::view_of(const Caller& caller) const {
  AuthorizedView view{sources, sources.store_names(), caller.rights()};
  std::erase_if(view.stores, [&](const std::string& store) { return !view.rights.sees_in(store); });
  return view;
}

Result<void> AuthorizedView::each(const ListOptions& options, std::optional<Verb> verb,
                                  SteadyTime until, const Sources::Act& act) const {
  return sources.each(stores, options, until, [&](const SequenceStatus& status) {
    const std::string& its_name = name(status.definition);
    return !(verb ? rights.may(*verb, its_name) : rights.sees(its_name)) || act(status);
  });
}

}  // namespace idmint::server
