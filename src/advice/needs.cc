#include "advice/needs.h"

#include <algorithm>
#include <chrono>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/text.h"
#include "idmint/store.h"

namespace idmint::advice {

namespace {

using namespace std::chrono_literals;

// The URL of a store of this build that several hosts reach; empty: none.
std::string_view shared_url() {
  const auto kinds = store_kinds();
  const auto shared = std::ranges::find_if(kinds, &StoreKind::shared);
  return shared == kinds.end() ? std::string_view{} : shared->example;
}

// Adds the option to the message.
template <class Value>
Result<Value> of_option(std::string_view option, Result<Value> value) {
  if (!value) value.error() = in_context(option, std::move(value.error()));
  return value;
}

Result<int> read_width(std::string_view option, const std::string& text, int most) {
  const Result<double> width = of_option(option, parse_count(text));
  if (!width) return std::unexpected(width.error());
  if (*width > most) {
    return refuse(std::string(option) + " is \"" + shortened(text) +
                  "\": give a whole number, 1 to " + std::to_string(most));
  }
  return static_cast<int>(*width);
}

}  // namespace

Result<Needs> needs_of(const NeedsTexts& given, Words words) {
  const auto option = [words](std::string_view its_name) { return spelled(words, its_name); };
  Needs needs;
  if (!given.digits.empty() && !given.bits.empty()) {
    return refuse(option("digits") + " and " + option("bits") +
                  " both say how wide an id is: give one");
  }
  const Result<double> count = of_option(option("count"), parse_count(given.count));
  const Result<double> hosts = of_option(option("hosts"), parse_count(given.hosts));
  const Result<double> rate = of_option(option("rate"), parse_rate(given.rate));
  for (const Result<double>* const value : {&count, &hosts, &rate}) {
    if (!*value) return std::unexpected(value->error());
  }
  needs.count = *count;
  needs.hosts = *hosts;
  needs.rate = *rate;
  if (!given.digits.empty()) {
    const Result<int> digits = read_width(option("digits"), given.digits, 36);
    if (!digits) return std::unexpected(digits.error());
    needs.digits = *digits;
  }
  if (!given.bits.empty()) {
    const Result<int> bits = read_width(option("bits"), given.bits, 160);
    if (!bits) return std::unexpected(bits.error());
    needs.bits = *bits;
  }
  const Result<Ordering> order = of_option(option("order"), ordering_named(given.order));
  if (!order) return std::unexpected(order.error());
  needs.order = *order;
  const Result<Database> database = of_option(option("database"), database_named(given.database));
  if (!database) return std::unexpected(database.error());
  needs.database = *database;
  needs.round_trip = needs.hosts > 1 ? 25ms : 1ms;
  if (!given.round_trip.empty()) {
    const auto round_trip = of_option(option("round-trip"), parse_duration(given.round_trip));
    if (!round_trip) return std::unexpected(round_trip.error());
    if (*round_trip < 1us) {
      return refuse(option("round-trip") + " is below 1us, which no durable store is");
    }
    needs.round_trip = *round_trip;
  }
  needs.unguessable = given.unguessable;
  needs.shared_store =
      given.shared_store || (needs.database == Database::kMongodb && !shared_url().empty());
  if (needs.shared_store) needs.shared_url = shared_url();
  // Without a shared store, the round trip is that of each host's own store.
  if (!given.round_trip.empty() && !needs.shared_store) needs.own_round_trip = needs.round_trip;
  return needs;
}

}  // namespace idmint::advice
