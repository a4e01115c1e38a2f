#include "server/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "server/counts.h"
#include "server/sources.h"
#include "server/store_probe.h"

namespace idmint::server {
namespace {

struct Label {
  std::string_view name;
  std::string_view value;
};
using Labels = std::initializer_list<Label>;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// In seconds since 1970.
double seconds(Instant at) { return seconds(at.time_since_epoch()); }

// Families of series, each with its samples behind it.
class Page {
 public:
  enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };

  void family(std::string_view name, Type type, std::string_view help) {
    family_ = name;
    text_ += "# HELP ";
    text_ += name;
    text_ += ' ';
    text_ += help;
    text_ += "\n# TYPE ";
    text_ += name;
    text_ += type == Type::kCounter ? " counter\n"
             : type == Type::kGauge ? " gauge\n"
                                    : " histogram\n";
  }

  template <class Number>
  void sample(Labels labels, Number value) {
    sample("", labels, {}, value);
  }

  // `labels` but for "le".
  void histogram(Labels labels, const Histogram& histogram) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < Histogram::kBounds; ++i) {
      count += histogram.buckets()[i];
      std::array<char, 32> digits;
      char* const end = print(digits, seconds(Histogram::bound(i)));
      sample("_bucket", labels, {"le", {digits.data(), end}}, count);
    }
    count += histogram.buckets()[Histogram::kBounds];
    sample("_bucket", labels, {"le", "+Inf"}, count);
    sample("_sum", labels, {}, seconds(histogram.sum()));
    sample("_count", labels, {}, count);
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  using Digits = std::array<char, 32>;

  template <std::integral Number>
  static char* print(Digits& digits, Number value) {
    return std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  }
  static char* print(Digits& digits, double value) {
    if (std::isinf(value))
      return std::ranges::copy(std::string_view(value > 0 ? "+Inf" : "-Inf"), digits.data()).out;
    return std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  }

  // `further`: one more label; without a name: none.
  template <class Number>
  void sample(std::string_view suffix, Labels labels, Label further, Number value) {
    text_ += family_;
    text_ += suffix;
    char before = '{';
    const auto put = [&](const Label& label) {
      text_ += before;
      before = ',';
      text_ += label.name;
      text_ += "=\"";
      for (const char c : label.value) {
        if (c == '\\' || c == '"') text_ += '\\';
        if (c == '\n') {
          text_ += "\\n";
        } else {
          text_ += c;
        }
      }
      text_ += '"';
    };
    for (const Label& label : labels) put(label);
    if (!further.name.empty()) put(further);
    if (before == ',') text_ += '}';
    text_ += ' ';
    Digits digits;
    text_.append(digits.data(), print(digits, value));
    text_ += '\n';
  }

  std::string text_;
  std::string_view family_;
};

using enum Page::Type;

// ---- the process

// The names that every exporter has for these.
void put_process(Page& page, Instant started_at) {
  page.family("process_start_time_seconds", kGauge, "When the process started, since 1970.");
  page.sample({}, seconds(started_at));
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    const auto of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    page.family("process_cpu_seconds_total", kCounter, "CPU time of the process.");
    page.sample({}, of(used.ru_utime) + of(used.ru_stime));
  }
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  if (file >> all >> resident) {
    page.family("process_resident_memory_bytes", kGauge, "Memory of the process that is in RAM.");
    page.sample({}, resident * ::sysconf(_SC_PAGESIZE));
  }
}

// ---- the daemon

void put_connections(Page& page, const Service& service) {
  page.family("idmint_connections", kGauge, "Connections that are open.");
  page.sample({}, service.open_connections);
  page.family("idmint_connections_max", kGauge, "Connections that may be open.");
  page.sample({}, service.most_connections);
  page.family("idmint_connections_total", kCounter, "Connections that were accepted.");
  page.sample({}, service.connections);
  page.family("idmint_connections_refused_total", kCounter,
              "Connections that were refused, as too many were open.");
  page.sample({}, service.connections_refused);
  page.family("idmint_connections_cut_total", kCounter,
              "Connections that were cut off, as all together held too much unsent.");
  page.sample({}, service.unsent.cut);
}

std::string_view name_of_verb(std::size_t index) {
  return index < CallCounts::kVerbs ? name(static_cast<Verb>(index)) : "other";
}

void put_calls(Page& page, const Service& service) {
  const std::array protocols{
      std::pair<std::string_view, const CallCounts*>{"redis", &service.counts.redis},
      std::pair<std::string_view, const CallCounts*>{"http", &service.counts.http}};
  page.family("idmint_calls_total", kCounter,
              "Calls that were read, by what they ask for as rights call it.");
  for (const auto& [protocol, counts] : protocols) {
    for (std::size_t i = 0; i < counts->calls.size(); ++i)
      page.sample({{"protocol", protocol}, {"verb", name_of_verb(i)}}, counts->calls[i]);
  }
  page.family("idmint_call_wait_seconds", kHistogram,
              "Calls that waited for a store: from reading the call to making its reply.");
  for (const auto& [protocol, counts] : protocols) {
    for (std::size_t i = 0; i < counts->waits.size(); ++i) {
      const Histogram& histogram = counts->waits[i];
      if (std::ranges::any_of(histogram.buckets(), [](std::uint64_t n) { return n != 0; }))
        page.histogram({{"protocol", protocol}, {"verb", name_of_verb(i)}}, histogram);
    }
  }
  page.family("idmint_errors_total", kCounter, "Calls that were answered with an error, by code.");
  for (const Code code :
       {Code::kInvalidArgument, Code::kUnauthenticated, Code::kPermissionDenied, Code::kNotFound,
        Code::kAlreadyExists, Code::kFailedPrecondition, Code::kOutOfRange,
        Code::kResourceExhausted, Code::kDataLoss, Code::kUnknown, Code::kInternal,
        Code::kUnimplemented, Code::kUnavailable, Code::kDeadlineExceeded})
    page.sample({{"code", name(code)}}, service.counts.errors[static_cast<std::size_t>(code)]);
  page.family("idmint_waiting_calls", kGauge, "Calls that wait for their stores.");
  page.sample({}, service.waiting_calls);
  page.family("idmint_streams", kGauge, "Streams of many ids that are under way over HTTP.");
  page.sample({}, service.streams);
  page.family("idmint_unsent_bytes", kGauge,
              "Replies that clients have not read, and requests that were not taken.");
  page.sample({}, service.unsent.bytes);
}

// ---- sources, as they are used here

void put_uses(Page& page, const std::vector<SourceUse>& uses) {
  const auto put = [&](std::string_view family, Page::Type type, std::string_view help,
                       bool only_sequences, auto value_of) {
    page.family(family, type, help);
    for (const SourceUse& use : uses) {
      if (use.is_sequence || !only_sequences) page.sample({{"source", use.name}}, value_of(use));
    }
  };
  put("idmint_source_calls_total", kCounter, "Calls that were answered with ids.", false,
      [](const SourceUse& use) { return use.calls; });
  put("idmint_source_ids_total", kCounter, "Ids that were handed out.", false,
      [](const SourceUse& use) { return use.ids; });
  put("idmint_source_errors_total", kCounter, "Calls that were answered with an error.", false,
      [](const SourceUse& use) { return use.errors; });
  put("idmint_source_store_rounds_total", kCounter, "Round trips to the store.", true,
      [](const SourceUse& use) { return use.statistics.rounds; });
  put("idmint_source_store_calls_total", kCounter,
      "Calls that were served by them; by the round trips it is how many share one.", true,
      [](const SourceUse& use) { return use.statistics.requests; });
  put("idmint_source_wasted_values_total", kCounter,
      "Values that were taken from the store, or perhaps taken, and handed to nobody.", true,
      [](const SourceUse& use) { return use.statistics.waste; });
  put("idmint_source_held_values", kGauge,
      "Values of a cached sequence in memory; they are lost if the daemon ends now.", true,
      [](const SourceUse& use) { return use.held; });
}

// ---- stores

// The store without a name has one that no store can have.
std::string_view label_of(const ProbedStore& store) {
  return store.name.empty() ? std::string_view("(default)") : store.name;
}

void put_stores(Page& page, const std::vector<const ProbedStore*>& stores) {
  const auto put = [&](std::string_view family, std::string_view help, auto value_of) {
    page.family(family, kGauge, help);
    for (const ProbedStore* const store : stores) {
      if (const auto value = value_of(*store)) page.sample({{"store", label_of(*store)}}, *value);
    }
  };
  using Seconds = std::optional<double>;
  using Count = std::optional<std::size_t>;
  put("idmint_store_up", "Whether the store answers in time and is not in doubt.",
      [](const ProbedStore& store) { return Count(store.up ? 1 : 0); });
  put("idmint_store_looked_at_seconds",
      "When the store last answered, since 1970; what is told of its sources is of then.",
      [](const ProbedStore& store) {
        return store.looked_at ? Seconds(seconds(*store.looked_at)) : std::nullopt;
      });
  put("idmint_store_look_seconds", "How long reading all its sequences and pools took.",
      [](const ProbedStore& store) {
        return store.looked_at ? Seconds(seconds(store.took)) : std::nullopt;
      });
  put("idmint_store_clock_offset_seconds",
      "The clock of the store less that of this host; of stores that have a clock.",
      [](const ProbedStore& store) {
        return store.clock_offset ? Seconds(seconds(*store.clock_offset)) : std::nullopt;
      });
  put("idmint_store_damaged_sources", "Sequences and pools whose state cannot be read.",
      [](const ProbedStore& store) { return Count(store.damaged); });
  put("idmint_store_unlisted_sources", "Sequences and pools past the limit, without series here.",
      [](const ProbedStore& store) { return Count(store.left_out); });
}

void put_contents(Page& page, const std::vector<const ProbedSource*>& sources, Instant now) {
  const auto put = [&](std::string_view family, std::string_view help, bool of_pools,
                       auto value_of) {
    page.family(family, kGauge, help);
    for (const ProbedSource* const source : sources) {
      if (source->is_pool != of_pools) continue;
      if (const auto value = value_of(*source)) page.sample({{"source", source->name}}, *value);
    }
  };
  using Count = std::optional<std::int64_t>;
  put("idmint_sequence_next_value",
      "What the counter hands out next; of sequences that have one counter.", false,
      [](const ProbedSource& source) { return source.next; });
  put("idmint_sequence_left_values", "Values that are not taken yet.", false,
      [](const ProbedSource& source) { return Count(source.left); });
  put("idmint_sequence_exhausts_at_seconds",
      "When none is left at the rate of the last hour, since 1970; +Inf: none was taken.", false,
      [](const ProbedSource& source) { return source.exhausts_at; });
  put("idmint_pool_workers", "Worker ids of the pool.", true,
      [](const ProbedSource& source) { return Count(source.workers); });
  put("idmint_pool_free_workers", "Worker ids that nobody owns.", true,
      [](const ProbedSource& source) { return Count(source.left); });
  page.family("idmint_pool_lease_ahead_seconds", kGauge,
              "How far the bound of a lease of this daemon is ahead of its clock.");
  for (const ProbedSource* const source : sources) {
    for (const OwnLease& lease : source->leases)
      page.sample({{"source", source->name}, {"worker", std::to_string(lease.worker)}},
                  seconds(lease.bound - now));
  }
}

}  // namespace

std::string metrics_page(Service& service, const Caller& caller, Instant now) {
  Page page;
  page.family("idmint_build_info", kGauge, "1, with the version of the daemon.");
  page.sample({{"version", service.version}}, 1);
  put_process(page, service.started_at);
  put_connections(page, service);
  put_calls(page, service);
  page.family("idmint_sources_open", kGauge, "Formats, sequences and pools that are open.");
  page.sample({}, service.sources.open_count());
  std::vector<SourceUse> uses = service.sources.uses();
  std::erase_if(uses, [&](const SourceUse& use) {
    return use.name != Sources::kOthers && !caller.sees(use.name);
  });
  put_uses(page, uses);
  std::vector<const ProbedStore*> stores;
  std::vector<const ProbedSource*> sources;
  for (const ProbedStore& store : service.probe.stores()) {
    if (caller.sees_in(store.name)) stores.push_back(&store);
    for (const ProbedSource& source : store.sources) {
      if (caller.may(Verb::kPeek, source.name)) sources.push_back(&source);
    }
  }
  put_stores(page, stores);
  put_contents(page, sources, now);
  return page.take();
}

}  // namespace idmint::server
