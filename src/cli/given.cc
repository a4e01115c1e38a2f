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

#include "base/errors.h"
#include "base/shell.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "idmint/mongodb.h"
#include "mint/formats.h"
#include "mint/given_before.h"
#include "mint/records.h"
#include "mint/sequence_facts.h"
#include "sequences/life_cycle.h"
#include "sequences/range_source.h"
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

// As a value of the source, or an id of the pool. Nothing: it cannot be, as the source was of
// another kind when it was noted.
std::optional<std::int64_t> value_of(const Seen& seen, const Definition& definition) {
  const auto* const of = std::get_if<SequenceDefinition>(&definition);
  if (seen.kind != (of != nullptr ? kind_of(*of) : LastIssued::Kind::kBound)) return std::nullopt;
  if (seen.kind == LastIssued::Kind::kIndex) {
    if (seen.value < 0 || seen.value >= of->size()) return std::nullopt;
    return permuted_value(*of, seen.value);
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
  std::vector<Seen> noted = in_doubt ? read_seen_anywhere(store.id())
                                     : read_seen({store.name_on_host(), std::string(store.url())});
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

Error with_given_before(Error error, Mint& mint, std::string_view source) {
  const Result<std::string> url = mint.store_url();
  if (error.code != Code::kNotFound || !url) return error;
  const std::optional<GivenBefore> before = given_before(*url, source);
  if (!before) return error;
  add_outcome(error,
              before->words +
                  " from a store that was there: restore that, or go on above every value in use");
  const std::string create = ": idmint create " + shell_word(source);
  if (before->last) {
    end_of(error) += create + " --start N" + store_again() +
                     ", with the options that it had, where N is " +
                     std::to_string(*before->last + 1) +
                     " or more: other hosts and users may have been given larger values";
    error.advice = {};
  } else if (before->bound) {
    end_of(error) += create + " --kind pool" + store_again() + ", with the layout that it had";
    error.advice = {};
  } else {
    end_of(error) += ", with a sequence of other values";
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
