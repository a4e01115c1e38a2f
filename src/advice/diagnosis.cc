#include "advice/diagnosis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "base/local_disk.h"
#include "base/quantity.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/sequence.h"
#include "ids/snowflake_space.h"
#include "ids/uuid_bits.h"
#include "mint/sequence_facts.h"
#include "sequences/strategies.h"

namespace idmint::advice {

namespace {

using namespace std::chrono_literals;

// Years in nanoseconds overflow 64 bits.
__extension__ using Wide = __int128;

std::chrono::nanoseconds max_drift() { return SnowflakeOptions{}.max_drift; }
constexpr double kLittleDisk = 100e6;
constexpr double kNoDisk = 1e6;
constexpr auto kLargestClockError = 1s;
// Longer than any window: a clock was wrong when the bound was granted, or this one is.
constexpr auto kLongAhead = 24h;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Nothing: later than the year 2262.
std::optional<Instant> after(Instant start, double in_seconds) {
  const double most = seconds(Instant::max() - std::max(start, Instant{}));
  if (!(in_seconds < most)) return std::nullopt;
  return start + std::chrono::nanoseconds{static_cast<std::int64_t>(in_seconds * 1e9)};
}

std::string day(Instant at) { return format_time(at).substr(0, 10); }

std::optional<Instant> end_of_time(Instant epoch, std::chrono::nanoseconds unit,
                                   int bits) noexcept {
  const auto units = static_cast<Wide>((std::uint64_t{1} << bits) - 1);
  const Wide end = units * unit.count() + epoch.time_since_epoch().count();
  if (end > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(end)}};
}

// Marks a sequence without values left.
void use_up(Finding& finding, const SequenceDefinition& definition) {
  Onward onward = onward_from(definition);
  finding.health = Health::kFail;
  finding.text = "used up: go on with " + onward.words;
  finding.advice = std::move(onward.advice);
}

}  // namespace

std::string_view name(Health health) noexcept {
  constexpr std::array<std::string_view, 3> names = {"ok", "warn", "fail"};
  return names[static_cast<std::size_t>(health)];
}

namespace {

// Has a text if no judgement is needed any more.
Finding begin(std::string_view kind, const SequenceStatus& status) {
  Finding finding{.kind = std::string(kind), .subject = name(status.definition)};
  if (is_retired(status.definition)) {
    const Move* const move = move_of(status.definition);
    finding.text = move != nullptr ? "moved to " + move->url : "retired";
  } else if (status.error) {
    finding.health = Health::kFail;
    finding.text = without_subject(*status.error, status.definition);
    finding.advice = status.error->advice;
  }
  return finding;
}

// The largest distance of a bound from the clock at which the worker id can still be leased with
// the default options.
std::chrono::nanoseconds usual_drift(const SnowflakeLayout& layout) {
  return drift_of(layout, {}) / layout.unit * layout.unit;
}

// The distance of the end of `units` from now, in seconds.
double ahead_of(Instant now, Instant epoch, std::chrono::nanoseconds unit, std::int64_t units) {
  const auto bound = static_cast<Wide>(units) * unit.count() + epoch.time_since_epoch().count();
  return static_cast<double>(bound - now.time_since_epoch().count()) / 1e9;
}

}  // namespace

std::optional<Instant> leased_from(const SnowflakeLayout& layout,
                                   std::span<const LeaseState> workers, Instant now) {
  std::optional<std::int64_t> least;
  for (const LeaseState& state : workers)
    if (!is_owned(state)) least = std::min(least.value_or(state.minted_until), state.minted_until);
  if (!least) return std::nullopt;
  const Wide from = static_cast<Wide>(*least) * layout.unit.count() +
                    layout.epoch.time_since_epoch().count() - usual_drift(layout).count();
  if (from <= now.time_since_epoch().count()) return std::nullopt;
  constexpr Wide last = std::numeric_limits<std::int64_t>::max();
  return Instant{std::chrono::nanoseconds{static_cast<std::int64_t>(std::min(from, last))}};
}

Finding diagnose_pool(const SequenceStatus& status, std::span<const LeaseState> workers,
                      const Limits& limits, Instant now) {
  Finding finding = begin("pool", status);
  if (!finding.text.empty()) return finding;
  const auto& pool = std::get<PoolDefinition>(status.definition);
  const SnowflakeLayout& layout = pool.layout;
  const auto all = static_cast<double>(workers.size());
  const auto owned = static_cast<double>(std::ranges::count_if(workers, is_owned));
  finding.left = (all - owned) / all;
  finding.ends = end_of(layout);
  const std::string owners = print_count(owned) + " of " + print_count(all) + " worker ids owned";
  finding.text = owners;
  const auto warn = [&](const std::string& why) {
    finding.health = std::max(finding.health, Health::kWarn);
    finding.text += why;
  };
  const auto ahead = [&](const LeaseState& state) {
    return ahead_of(now, layout.epoch, layout.unit, state.minted_until);
  };
  double furthest = 0;
  std::int64_t many = 0;
  for (const LeaseState& state : workers) {
    if (ahead(state) > seconds(kLongAhead)) ++many;
    furthest = std::max(furthest, ahead(state));
  }
  if (const auto from = leased_from(layout, workers, now)) {
    const std::chrono::nanoseconds wait = *from - now;
    warn("; who starts now gets none for " + print_duration(seconds(wait)) +
         ", as ids of the free ones go up to " +
         print_duration(seconds(wait) + seconds(usual_drift(layout))) +
         " or more ahead of this clock: is it right?");
  } else if (many != 0) {
    warn("; under " + print_count(static_cast<double>(many)) + " of them ids go up to " +
         print_duration(furthest) + " ahead of this clock: is it right, or was another wrong?");
  }
  if (finding.ends && *finding.ends <= now) {
    finding.health = Health::kFail;
    finding.text += "; the time of its layout ended " + day(*finding.ends);
  } else if (finding.ends && *finding.ends - now < limits.horizon) {
    warn("; the time of its layout ends " + day(*finding.ends));
  }
  if (owned == all) {
    warn((finding.text == owners ? ": " : "; ") +
         std::string("who starts now gets none; stop some, or see who is gone"));
    finding.advice = {Remedy::kListWorkers, pool.name};
  }
  return finding;
}

Finding diagnose(const SequenceStatus& status, std::optional<double> rate, const Limits& limits,
                 Instant now) {
  Finding finding = begin("sequence", status);
  // Ids go on while one of several stores does not answer.
  if (!status.stripes.empty() && status.error && status.error->code == Code::kUnavailable)
    finding.health = Health::kWarn;
  if (!finding.text.empty()) return finding;
  const auto& definition = std::get<SequenceDefinition>(status.definition);
  const std::int64_t size = size_of(status.definition);
  const auto all = static_cast<double>(size);
  const auto used = static_cast<double>(size - status.left);
  finding.left = static_cast<double>(status.left) / all;
  if (status.left == 0) {
    use_up(finding, definition);
    return finding;
  }
  finding.text =
      print_part(used / all) + " used, " + print_count(static_cast<double>(status.left)) + " left";
  if (*finding.left < limits.least_left) {
    finding.health = Health::kWarn;
    finding.text += ", less than " + print_percent(limits.least_left);
  }
  if (rate) {
    const double lasts = static_cast<double>(status.left) / *rate;
    finding.ends = after(now, lasts);
    finding.text += "; at " + print_rate(*rate) + " they last " + print_duration(lasts);
    if (lasts < seconds(limits.horizon)) {
      finding.health = Health::kWarn;
      finding.text += ", less than " + print_duration(seconds(limits.horizon));
    }
  }
  if (!status.stripes.empty())
    finding.text += "; in " + std::to_string(status.stripes.size()) + " stores, the next values " +
                    print_count(static_cast<double>(status.skew())) + " apart";
  if (!status.adopted_from.empty()) finding.text += "; adopted from " + status.adopted_from;
  if (status.no_floor) {
    finding.health = Health::kWarn;
    finding.text +=
        ", and if its program sets it back that is not noticed before the next value was taken";
  }
  return finding;
}

Finding diagnose_lost(Finding finding, const Definition& definition, std::int64_t value,
                      std::string_view evidence, const std::optional<FieldInUse>& field) {
  const std::string or_above = std::to_string(value) + " or above";
  const auto raise = [&](Remedy remedy) -> Advice {
    if (field)
      return {Remedy::kRaisePastField, name(definition), {field->collection, field->field}};
    return {remedy, name(definition)};
  };
  finding.health = Health::kFail;
  finding.text = std::string(evidence) +
                 ", and the store does not know of it: an older state of it was restored, or it "
                 "was changed by hand, and values come again; stop what mints from it, then ";
  const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
  if (sequence == nullptr) {
    finding.text += "raise it past a time later than that of every id in use";
    finding.advice = {Remedy::kRaisePool, name(definition)};
    return finding;
  }
  switch (sequence->strategy) {
    case Strategy::kCounter:
    case Strategy::kInterleaved:
    case Strategy::kCached:
      finding.text += "raise it past the largest value in use, " + or_above;
      finding.advice = raise(Remedy::kRaiseSequence);
      break;
    case Strategy::kStriped:
      finding.text +=
          "raise each block past the largest value in use in it, one for each block, "
          "with " +
          or_above + " for its own";
      finding.advice = raise(Remedy::kRaiseEach);
      break;
    case Strategy::kPermuted:
      finding.text += "raise it by index, past at least as many of its values as were ever given";
      finding.advice = {Remedy::kRaiseSequence, name(definition)};
      break;
    case Strategy::kRandom:
      finding.text +=
          "go on with a sequence of other values, as no claim comes back, and retire this one";
      finding.advice = {Remedy::kRetireSequence, name(definition)};
      break;
    case Strategy::kGapless:
      finding.text +=
          "go on with a gapless sequence that begins above every number in use, " + or_above;
      finding.advice = {Remedy::kCreateAbove, "", {"gapless"}};
      break;
  }
  return finding;
}

std::optional<Instant> end_of(const SnowflakeLayout& layout) noexcept {
  return end_of_time(layout.epoch, layout.unit, layout.time_bits);
}

Finding diagnose_end(std::string_view subject, std::optional<Instant> ends, Use use,
                     const Limits& limits, Instant now) {
  Finding finding{.kind = "layout", .subject = std::string(subject), .ends = ends};
  const bool soon = ends && *ends > now && *ends - now < limits.horizon;
  finding.matters = use == Use::kYes || soon;
  if (!ends) {
    finding.text = "its time ends after the year 2262";
    return finding;
  }
  const bool over = *ends <= now;
  finding.text = std::string(over ? "its time ended " : "its time ends ") + day(*ends);
  if (use == Use::kNo) {
    finding.text += "; nothing here uses it";
  } else if (over) {
    finding.health = Health::kFail;
    finding.matters = true;
    finding.text += ": nothing can be minted; go over to another layout";
  } else if (soon) {
    finding.health = Health::kWarn;
    finding.text += ", in " + print_duration(seconds(*ends - now)) + ": go over to another layout";
  }
  return finding;
}

std::optional<IdSpace> parse_id_space(std::string_view text) {
  const std::string terminated(text);
  long long epoch = 0;
  long long unit = 0;
  if (std::sscanf(terminated.c_str(), "snowflake epoch %lld ns, unit %lld ns, ", &epoch, &unit) !=
      2) {
    return std::nullopt;
  }
  const std::size_t at = text.rfind("worker ");
  unsigned worker = 0;
  if (at == std::string_view::npos || unit < 1 ||
      std::sscanf(terminated.c_str() + at, "worker %u", &worker) != 1) {
    return std::nullopt;
  }
  return IdSpace{.epoch = Instant{std::chrono::nanoseconds{epoch}},
                 .unit = std::chrono::nanoseconds{unit},
                 .worker = worker};
}

Finding diagnose_state(std::string_view path, const IdSpace& space, std::int64_t minted_until,
                       const Limits& limits, Instant now) {
  Finding finding{.kind = "state file", .subject = std::string(path)};
  if (space.time_bits != 0) {
    finding.ends = end_of_time(space.epoch, space.unit, space.time_bits);
  }
  const std::string worker = "worker " + std::to_string(space.worker);
  const double ahead = ahead_of(now, space.epoch, space.unit, minted_until);
  if (ahead > seconds(max_drift())) {
    finding.health = Health::kFail;
    finding.text = worker + " may mint again in " + print_duration(ahead - seconds(max_drift())) +
                   ": its bound is that far ahead of the clock; is the clock right?";
    return finding;
  }
  finding.text = minted_until == 0 ? worker + ", has not minted yet"
                 : ahead > 0 ? worker + ", bound " + print_duration(ahead) + " ahead of the clock"
                             : worker + ", bound behind the clock";
  if (finding.ends && *finding.ends <= now) {
    finding.health = Health::kFail;
    finding.text += "; the time of its layout ended " + day(*finding.ends);
  } else if (finding.ends && *finding.ends - now < limits.horizon) {
    finding.health = Health::kWarn;
    finding.text += "; the time of its layout ends " + day(*finding.ends);
  }
  return finding;
}

std::optional<Finding> diagnose_uuid_state(std::string_view path, std::string_view id_space,
                                           std::int64_t minted_until, Instant now) {
  constexpr std::string_view version_1 = "uuid version 1, ";
  constexpr std::string_view version_2 = "uuid version 2, ";
  const bool is_1 = id_space.starts_with(version_1);
  if (!is_1 && !id_space.starts_with(version_2)) return std::nullopt;
  Finding finding{.kind = "state file", .subject = std::string(path)};
  finding.text = id_space.substr(version_1.size());
  if (minted_until == 0) {
    finding.text += ", has not minted yet";
    return finding;
  }
  const auto since_1970 = static_cast<Wide>(now.time_since_epoch().count());
  if (is_1) {  // the bound is in milliseconds
    const auto ahead =
        static_cast<double>(static_cast<Wide>(minted_until) * 1'000'000 - since_1970) / 1e9;
    finding.text += ahead > 0 ? ", bound " + print_duration(ahead) + " ahead of the clock"
                              : ", bound behind the clock";
    if (ahead > seconds(max_drift())) {
      finding.health = Health::kWarn;
      finding.text += ": it goes on with another clock sequence; is the clock right?";
    }
    return finding;
  }
  // A tick of 2^32 steps of 100 ns since 1582 has 64 ids: see uuid_time.cc.
  constexpr Wide ids = 64;
  constexpr Wide steps = Wide{1} << 32;
  const Wide step = since_1970 / 100 + static_cast<Wide>(uuid_bits::kStepsTo1970);
  const Wide begun = step / steps * ids;  // the number of the first id of this tick
  const Wide left = begun + ids - std::max(static_cast<Wide>(minted_until), begun);
  const Wide next = minted_until / ids * steps;  // the step from which that number may be minted
  const std::string wait = print_duration(static_cast<double>(next - step) / 1e7);
  if (left < 0) {
    finding.health = Health::kFail;
    finding.text += " may mint again in " + wait +
                    ": its bound is that far ahead of the clock; is the clock right?";
  } else if (left == 0) {
    finding.text += ", the 64 ids of these 7 minutes are used up: more in " + wait;
  } else {
    finding.text +=
        ", " + print_count(static_cast<double>(left)) + " of the 64 ids of these 7 minutes left";
  }
  return finding;
}

Finding diagnose_clock(bool synchronised, std::chrono::microseconds largest_error) {
  Finding finding{.kind = "clock", .subject = "system"};
  const std::string error = print_duration(seconds(largest_error));
  if (!synchronised) {
    finding.health = Health::kWarn;
    finding.text =
        "the kernel says that it is not synchronised: run an NTP service (no id repeats "
        "for it, but times in ids may be wrong)";
  } else if (largest_error > kLargestClockError) {
    finding.health = Health::kWarn;
    finding.text = "synchronised, but it may be wrong by " + error + ": look at the NTP service";
  } else {
    finding.text = "synchronised, to " + error + " at most";
  }
  return finding;
}

Finding diagnose_disk(std::string_view path, double free_bytes, long file_system) {
  Finding finding{.kind = "disk", .subject = std::string(path)};
  struct Kind {
    long type;  // f_type of statfs(2)
    Health health;
    std::string_view says;
  };
  constexpr std::array kinds = {
      Kind{0x01021994, Health::kWarn, "tmpfs: gone when the host restarts"},
      Kind{static_cast<long>(0x858458f6), Health::kWarn, "ramfs: gone when the host restarts"},
      Kind{0x794c7630, Health::kWarn,
           "overlayfs: gone with its container, unless that is a volume"}};
  finding.text = print_count(std::floor(free_bytes / 1e6)) + " MB free";
  if (free_bytes < kLittleDisk) {
    finding.health = free_bytes < kNoDisk ? Health::kFail : Health::kWarn;
    finding.text += ": make room";
  }
  if (is_shared_between_hosts(file_system)) {
    finding.health = Health::kFail;
    finding.text += "; a file system that hosts share: keep it on a disk of this host";
  }
  for (const Kind& kind : kinds) {
    if (kind.type != file_system) continue;
    finding.health = std::max(finding.health, kind.health);
    finding.text += "; " + std::string(kind.says);
  }
  return finding;
}

}  // namespace idmint::advice
