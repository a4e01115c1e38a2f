#include "cli/given.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <ranges>
#include <utility>
#include <variant>

#include "base/shell.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "idmint/mongodb.h"
#include "mint/formats.h"
#include "mint/records.h"
#include "mint/sequence_facts.h"
#include "sequences/life_cycle.h"
#include "sequences/strategies.h"

namespace idmint::cli {

void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in) noexcept try {
  const auto* const integer = std::get_if<std::int64_t>(&last);
  const auto* const snowflake = std::get_if<Snowflake>(&last);
  if (is_format(source) || (integer == nullptr && snowflake == nullptr)) return;
  // One that is not open by now did not answer: the values came from another one (--over).
  const Result<std::shared_ptr<Store>> store = mint.store(std::chrono::steady_clock::now());
  if (!store) return;
  const Seen printed{
      .source = std::string(source),
      .at = system_clock().now(),
      .value = integer != nullptr ? *integer : static_cast<std::int64_t>(snowflake->value()),
      .used_in = std::string(used_in)};
  write_record(**store, &printed);
} catch (const std::bad_alloc&) {
  return;
}

namespace {

// As a value of the source, or an id of the pool. Nothing: it cannot be.
std::optional<std::int64_t> value_of(const Seen& seen, const Definition& definition) {
  if (seen.kind == LastIssued::Kind::kIndex) {
    const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
    if (sequence == nullptr || sequence->strategy != Strategy::kPermuted || seen.value < 0 ||
        seen.value >= sequence->size())
      return std::nullopt;
    return permuted_value(*sequence, seen.value);
  }
  if (seen.kind != LastIssued::Kind::kBound) return seen.value;
  // The last id below the bound.
  const auto* const pool = std::get_if<PoolDefinition>(&definition);
  const std::size_t slash = seen.source.find('/');
  if (pool == nullptr || slash == std::string::npos) return std::nullopt;
  const std::optional<Instant> time = time_of(pool->layout, seen.value - 1);
  if (!time) return std::nullopt;
  const auto worker = static_cast<std::uint32_t>(std::atoll(seen.source.c_str() + slash + 1));
  const auto id = pool->layout.encode({.time = *time, .worker = worker, .sequence = 0});
  if (!id) return std::nullopt;
  return static_cast<std::int64_t>(id->value());
}

}  // namespace

std::vector<Seen> seen_of(Store& store, bool in_doubt) {
  std::vector<Seen> noted =
      in_doubt ? read_seen_anywhere(store.id()) : read_seen({store.id(), std::string(store.url())});
  constexpr int kMost = 16;
  struct Source {
    Result<SequenceStatus> status;
    int lines = 0;
  };
  std::map<std::string, Source> sources;
  std::vector<Seen> values;
  for (Seen& seen : std::views::reverse(noted)) {
    if (seen.kind) {
      const std::string name = seen.source.substr(0, seen.source.find('/'));
      auto at = sources.find(name);
      if (at == sources.end()) at = sources.emplace(name, Source{peek_sequence(store, name)}).first;
      if (++at->second.lines > kMost) continue;
      std::optional<std::int64_t> value = seen.value;
      if (at->second.status) value = value_of(seen, at->second.status->definition);
      if (!value) continue;
      seen.value = *value;
      seen.source = name;
    }
    values.push_back(std::move(seen));
  }
  std::ranges::reverse(values);
  return values;
}

std::string given_here(const Seen& seen) {
  const bool may_have = seen.kind == LastIssued::Kind::kBound;
  return std::string(may_have ? "this host may have minted " : "this host was given ") +
         std::to_string(seen.value) + (may_have ? ", granted at " : " at ") + format_time(seen.at);
}

std::optional<GivenBefore> given_before(std::string_view url, std::string_view source) {
  std::optional<Seen> value;    // in order
  std::optional<Seen> printed;  // by a command
  std::optional<Seen> other;
  std::optional<std::int64_t> bound;
  Instant bound_at{};
  for (const Seen& seen : read_seen_at(url, source)) {
    if (!seen.kind) {
      printed = seen;
    } else if (seen.kind == LastIssued::Kind::kValue) {
      if (!value || seen.value > value->value) value = seen;
    } else {
      other = seen;
      if (seen.kind != LastIssued::Kind::kBound) continue;
      bound = std::max(bound.value_or(seen.value), seen.value);
      bound_at = seen.at;
    }
  }
  const std::string before = "this host was given ";
  if (value)
    return GivenBefore{before + std::string(source) + " up to " + std::to_string(value->value) +
                           " (" + format_time(value->at) + ")",
                       value->value};
  if (bound)
    return GivenBefore{
        before + "ids of " + std::string(source) + " (" + format_time(bound_at) + ")", std::nullopt,
        bound};
  if (printed || other)
    return GivenBefore{printed ? before + std::to_string(printed->value) + " of " +
                                     std::string(source) + " (" + format_time(printed->at) + ")"
                               : before + "values of " + std::string(source) + " (" +
                                     format_time(other->at) + ")"};
  return std::nullopt;
}

Error with_given_before(Error error, Mint& mint, std::string_view source) {
  const Result<std::string> url = mint.store_url();
  if (error.code != Code::kNotFound || !url) return error;
  const std::optional<GivenBefore> before = given_before(*url, source);
  if (!before) return error;
  error.message += "; " + before->words +
                   " from a store that was there: restore that, or go on above every value in use";
  const std::string create = ": idmint create " + shell_word(source);
  if (before->last) {
    error.message += create + " --start " + std::to_string(*before->last + 1) + store_again();
    error.advice = {};
  } else if (before->bound) {
    error.message += create + " --kind pool" + store_again();
    error.advice = {};
  } else {
    error.message += ", with a sequence of other values";
    error.advice = {};
  }
  return error;
}

Result<Raised> raise_past_field(Mint& mint, const Definition& definition, std::string_view url,
                                std::string_view collection, std::string_view field,
                                std::chrono::milliseconds deadline, RaiseMode mode) {
  const auto [first, last] = ends_of(definition);
  const auto values =
      ExistingValues::open(url, collection, field, {form(definition), first, last}, deadline);
  if (!values) return std::unexpected(values.error());
  return mint.raise(name(definition), **values, mode);
}

}  // namespace idmint::cli
