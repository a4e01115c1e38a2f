#include "cli/given.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <variant>

#include "idmint/clock.h"
#include "idmint/mongodb.h"
#include "mint/formats.h"
#include "mint/sequence_facts.h"

namespace idmint::cli {

void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in) noexcept try {
  const auto* const integer = std::get_if<std::int64_t>(&last);
  const auto* const snowflake = std::get_if<Snowflake>(&last);
  if (is_format(source) || (integer == nullptr && snowflake == nullptr)) return;
  // One that is not open by now did not answer: the values came from another one (--over).
  const Result<std::shared_ptr<Store>> store = mint.store(std::chrono::steady_clock::now());
  if (!store) return;
  note_seen({(*store)->id(), std::string((*store)->url())},
            {.source = std::string(source),
             .at = system_clock().now(),
             .value = integer != nullptr ? *integer : static_cast<std::int64_t>(snowflake->value()),
             .used_in = std::string(used_in)});
} catch (const std::bad_alloc&) {
  return;
}

std::vector<Seen> seen_of(const Store& store, bool in_doubt) {
  return in_doubt ? read_seen_anywhere(store.id())
                  : read_seen({store.id(), std::string(store.url())});
}

std::string given_here(const Seen& seen) {
  return "this host was given " + std::to_string(seen.value) + " at " + format_time(seen.at);
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
