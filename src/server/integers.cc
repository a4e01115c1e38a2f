#include "server/integers.h"

#include <algorithm>
#include <array>
#include <string>
#include <variant>

#include "base/text.h"

namespace idmint::server {

namespace {

struct Library {
  std::string_view name;  // in lower case, without what is in brackets behind it
  Integers integers;
};
// Those with a program in tests/clients are tried there. Of the others the documents say the name.
constexpr std::array kLibraries = {
    Library{"@valkey/valkey-glide", Integers::kText},
    Library{"glidego", Integers::kWhole},
    Library{"glidejava", Integers::kWhole},
    Library{"glidejs", Integers::kText},
    Library{"glidepy", Integers::kWhole},
    Library{"glidepysync", Integers::kWhole},
    Library{"go-redis", Integers::kWhole},  // tests/clients/go_redis
    Library{"ioredis", Integers::kText},    // tests/clients/ioredis
    Library{"iovalkey", Integers::kText},
    Library{"jedis", Integers::kWhole},  // tests/clients/jedis
    Library{"lettuce", Integers::kWhole},
    Library{"node-redis", Integers::kText},  // tests/clients/node_redis
    Library{"nredisstack", Integers::kWhole},
    Library{"predis", Integers::kWhole},
    Library{"redis-js", Integers::kText},
    Library{"redis-py", Integers::kWhole},  // tests/clients/redis_py
    Library{"redis-rs", Integers::kWhole},  // tests/clients/redis_rs
    Library{"rueidis", Integers::kWhole},
    Library{"se.redis", Integers::kWhole},
    Library{"valkey-py", Integers::kWhole},
};
static_assert(std::ranges::is_sorted(kLibraries, {}, &Library::name));

}  // namespace

Integers integers_of(std::string_view library) {
  const std::string name = lower_case(library.substr(0, library.find('(')));
  const auto* const found =
      std::ranges::lower_bound(kLibraries, std::string_view(name), {}, &Library::name);
  return found != kLibraries.end() && found->name == name ? found->integers : Integers::kUnknown;
}

Height Height::of_format(std::string_view format) noexcept {
  return Height(format == "snowflake" ? Values::kAny : Values::kBelow);
}

Height Height::of_sequence(const SequenceDefinition& sequence) noexcept {
  if (is_exact(sequence.last)) return Height(Values::kBelow);
  switch (sequence.strategy) {
    case Strategy::kCounter:
    case Strategy::kCached:
      return Height(Values::kNotSeen, sequence.stride);
    case Strategy::kInterleaved:
      return Height(Values::kNotSeen, sequence.stride * sequence.stripes);
    case Strategy::kStriped:
    case Strategy::kRandom:
    case Strategy::kPermuted:
    case Strategy::kGapless:
      break;
  }
  return Height(Values::kAny);
}

Result<void> Height::look(const SequenceStatus& status) {
  if (const auto* const pool = std::get_if<PoolDefinition>(&status.definition)) {
    const SnowflakeLayout& layout = pool->layout;
    constexpr int exact_bits = 53;
    const bool exact = layout.time_bits + layout.worker_bits + layout.sequence_bits <= exact_bits;
    values_ = exact ? Values::kBelow : Values::kAny;
    return {};
  }
  const auto& sequence = std::get<SequenceDefinition>(status.definition);
  std::optional<std::int64_t> next = status.next;
  for (const StripeStatus& stripe : status.stripes) next = std::max(next, stripe.next);
  if (!next && status.error) return std::unexpected(*status.error);
  if (!next) {
    // Counters in one store, whose places are not told: the highest is where it would be if all
    // values had come from one of them.
    const std::int64_t taken = sequence.size() - status.left;
    next = taken <= (kMostExact - sequence.first) / pace_ ? sequence.first + taken * pace_
                                                          : sequence.last;
  }
  reached_ = std::max(reached_, *next - pace_);
  values_ = Values::kRising;
  return {};
}

void Height::got(std::int64_t asked, std::int64_t highest) noexcept {
  asked_ -= asked;
  reached_ = std::max(reached_, highest);
}

bool Height::may_pass(std::int64_t count) const noexcept {
  if (values_ != Values::kRising) return values_ == Values::kAny;
  if (reached_ >= kMostExact) return true;
  return count > (kMostExact - reached_) / pace_ - asked_;
}

}  // namespace idmint::server
