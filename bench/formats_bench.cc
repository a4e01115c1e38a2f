// Nanoseconds for each id of every format, beside other libraries and the limits of the machine.
#include <bson/bson.h>
#include <time.h>
#include <uuid/uuid.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/print.h"
#include "idmint/clock.h"
#include "idmint/digits.h"
#include "idmint/encoding.h"
#include "idmint/entropy.h"
#include "idmint/ksuid.h"
#include "idmint/object_id.h"
#include "idmint/snowflake.h"
#include "idmint/store.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"
#include "idmint/uuid_time.h"
#include "idmint/xid.h"
#include "ids/lease_table.h"

namespace {

using namespace idmint;
using Steady = std::chrono::steady_clock;

constexpr std::string_view kUsage =
    "usage: idmint_bench [--json | --markdown] [--runs N] [--ms N] [FILTER]\n"
    "Prints how many nanoseconds an id takes: the median of N runs (7) of N ms (250) each after "
    "one\n"
    "to warm up, and the least and the most. With two threads it is the time for one id of both\n"
    "together. FILTER: only rows whose name contains it.\n";

// ---- measuring

// So many calls, one after the other. Each thread has a copy: what it captures by value is the
// thread's own, what it captures by shared pointer is shared.
using Calls = std::function<void(int)>;

template <class Call>
Calls repeat(Call call) {
  return [call = std::move(call)](int count) mutable {
    for (int i = 0; i < count; ++i) call();
  };
}

template <class T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

[[gnu::cold, noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "idmint_bench: %s\n", error.message().c_str());
  std::exit(1);
}

template <class T>
T must(Result<T>&& result) {
  if (!result) give_up(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// A careful caller looks at the result, and uses the value where it is.
template <class T>
void keep(const Result<T>& result) {
  if (!result) give_up(result.error());
  keep(*result);
}

std::chrono::nanoseconds processor_time_of_thread() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

struct Run {
  double ns_per_call = 0;  // of all threads together
  double processor = 0;    // the share of the time that the threads had one
  [[nodiscard]] double processor_ns_per_call() const { return ns_per_call * processor; }
};

Run run(const Calls& calls, int threads, std::chrono::milliseconds duration) {
  constexpr int kBatch = 256;
  std::barrier begin(threads);
  std::atomic<double> calls_per_ns{0};
  std::atomic<double> processor{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      const Calls mine = calls;
      begin.arrive_and_wait();
      const auto worked = processor_time_of_thread();
      const auto start = Steady::now();
      auto now = start;
      double made = 0;
      for (; now - start < duration; now = Steady::now()) {
        mine(kBatch);
        made += kBatch;
      }
      const std::chrono::duration<double, std::nano> took = now - start;
      calls_per_ns.fetch_add(made / took.count());
      processor.fetch_add((processor_time_of_thread() - worked) / took);
    });
  }
  for (std::thread& worker : workers) worker.join();
  return {1 / calls_per_ns.load(), processor.load() / threads};
}

// ---- rows

enum class Kind : std::uint8_t { kOurs, kPeer, kLimit };

struct Row {
  std::string_view group;  // what ours and its peers do
  Kind kind = Kind::kOurs;
  std::string_view name;
  std::string_view clock;        // empty: none is read
  std::string_view sharing;      // between two threads
  int threads = 1;               // measured with 1 up to so many
  int ids = 1;                   // in a call
  std::function<Calls()> start;  // before each run, so that each has new generators
  double limit = 0;              // of a row that is not measured
};

constexpr int kBulk = 1000;

template <class Generator, class... Arguments>
std::function<Calls()> one(Arguments&... arguments) {
  return [&arguments...] {
    auto generator = std::make_shared<Generator>(arguments...);
    return repeat([generator] { keep(generator->next()); });
  };
}

template <class Generator, class Id>
std::function<Calls()> bulk() {
  return [] {
    auto generator = std::make_shared<Generator>();
    return repeat([generator, ids = std::vector<Id>(kBulk)]() mutable {
      if constexpr (std::is_void_v<decltype(generator->next(ids))>) {
        generator->next(ids);
      } else {
        must(generator->next(ids));
      }
      keep(*ids.data());
    });
  };
}

template <class Generator, class Options>
std::function<Calls()> with_options(Options options, Clock& clock) {
  return [options, &clock] {
    auto generator = std::make_shared<Generator>(options, clock);
    return repeat([generator] { keep(generator->next()); });
  };
}

std::function<Calls()> snowflake(const SnowflakeLayout& layout, Clock& clock) {
  return [layout, &clock] {
    const std::shared_ptr generator =
        must(SnowflakeGenerator::open({.layout = layout, .worker = 1}, clock));
    return repeat([generator] { keep(generator->next()); });
  };
}

// Under a leased worker id, of a store in memory: what an id costs between two renewals.
std::function<Calls()> leased(const SnowflakeLayout& layout, Clock& clock) {
  return [layout, &clock] {
    const std::shared_ptr store = must(Store::open("memory:"));
    LeaseTable& table = *store->leases();
    static_cast<void>(table.create_pool("p", 4));
    const std::shared_ptr generator = must(open_leased(table, "p", {.layout = layout}, clock));
    // The store outlives the generator: it is captured first.
    return repeat([store, generator] { keep(generator->next()); });
  };
}

std::function<Calls()> uuid1(Clock& clock) {
  return [&clock] {
    const std::shared_ptr generator = must(Uuid1Generator::open({}, clock));
    return repeat([generator] { keep(generator->next()); });
  };
}

// Reads the precise clock and shows 200 ns more each time, so that 5000 ids fill a millisecond:
// what an id costs while the layout has room for it. For one thread.
class FastClock final : public Clock {
 public:
  Instant now() noexcept override {
    keep(system_clock().now());
    ns_.store(ns_.load(std::memory_order_relaxed) + 200, std::memory_order_relaxed);
    return Instant{std::chrono::nanoseconds{ns_.load(std::memory_order_relaxed)}};
  }
  void sleep_until(Instant, std::chrono::nanoseconds) noexcept override {}

 private:
  std::atomic<std::int64_t> ns_{1'800'000'000'000'000'000};
};

std::function<Calls()> time_of(Clock& clock) {
  return [&clock] { return repeat([&clock] { keep(clock.now()); }); };
}

template <std::size_t Bytes, char* (*Print)(const std::uint8_t*, char*) noexcept>
std::function<Calls()> print_bytes() {
  return [] {
    std::array<std::uint8_t, Bytes> bytes;
    system_entropy().fill(std::as_writable_bytes(std::span(bytes)));
    return repeat([bytes] {
      alignas(64) char text[40];
      keep(bytes);
      Print(bytes.data(), text);
      keep(text);
    });
  };
}

template <class Id>
std::function<Calls()> print_value() {
  return [] {
    typename Id::Bytes bytes;
    system_entropy().fill(std::as_writable_bytes(std::span(bytes)));
    return repeat([id = Id{bytes}] {
      alignas(64) char text[40];
      keep(id);
      id.to_chars(text);
      keep(text);
    });
  };
}

std::function<Calls()> digits(const DigitsLayout& layout) {
  return [layout] {
    auto generator = std::make_shared<DigitsGenerator>(layout);
    return repeat([generator] { keep(generator->next()); });
  };
}

std::function<Calls()> digits_bulk(const DigitsLayout& layout) {
  return [layout] {
    auto generator = std::make_shared<DigitsGenerator>(layout);
    return repeat([generator, ids = std::vector<Digits>(kBulk)]() mutable {
      generator->next(ids);
      keep(*ids.data());
    });
  };
}

template <class Print>
std::function<Calls()> print_with(Print print) {
  return [print] {
    return repeat([print] {
      alignas(64) char text[40];
      print(text);
      keep(text);
    });
  };
}

constexpr std::string_view kUuid4 = "UUIDv4, one";
constexpr std::string_view kUuid4Bulk = "UUIDv4, bulk";
constexpr std::string_view kUuid1 = "UUIDv1, one";
constexpr std::string_view kUuid6 = "UUIDv6, one";
constexpr std::string_view kUuid6Bulk = "UUIDv6, bulk";
constexpr std::string_view kUuid7 = "UUIDv7, one";
constexpr std::string_view kUuid7Bulk = "UUIDv7, bulk";
constexpr std::string_view kUlid = "ULID, one";
constexpr std::string_view kObjectId = "ObjectId, one";
constexpr std::string_view kXid = "xid, one";
constexpr std::string_view kXidBulk = "xid, bulk";
constexpr std::string_view kClassicObjectId = "ObjectId of before 2018, one";
constexpr std::string_view kSnowflake = "Snowflake 41/10/12, one";
constexpr std::string_view kSnowflake20 = "Snowflake 41/2/20, one";
constexpr std::string_view kKsuid = "KSUID, one";
constexpr std::string_view kKsuidBulk = "KSUID, bulk";
constexpr std::string_view kTypeId = "TypeID as text, one";
constexpr std::string_view kDigits = "12 digits, one";
constexpr std::string_view kDigitsBulk = "12 digits, bulk";
constexpr std::string_view kPrintUuid = "print a UUID";
constexpr std::string_view kPrintUlid = "print a ULID";
constexpr std::string_view kPrintObjectId = "print an ObjectId";
constexpr std::string_view kPrintKsuid = "print a KSUID";
constexpr std::string_view kPrintTypeId = "print a TypeID";
constexpr std::string_view kPrintDigits = "print 12 digits";
constexpr std::string_view kPrintInteger = "print an int64 of 19 digits";
constexpr std::string_view kMachine = "the machine";

std::vector<Row> rows() {
  const SnowflakeLayout classic = must(snowflake_layout("sequence-generator"));
  SnowflakeLayout wide = classic;
  wide.worker_bits = 2;
  wide.sequence_bits = 20;

  static FastClock fast_clock;

  uuid_t uuid;
  ::uuid_generate_random(uuid);
  boost::uuids::uuid boost_uuid;
  std::memcpy(&boost_uuid, uuid, sizeof uuid);
  bson_oid_t oid;
  ::bson_oid_init(&oid, nullptr);
  static volatile std::int64_t integer = 7'223'372'036'854'775'807;

  std::vector<Row> all = {
      {kUuid4, Kind::kOurs, "idmint", "", "one generator", 2, 1, one<Uuid4Generator>()},
      {kUuid4, Kind::kPeer, "Boost 1.81 random_generator_mt19937", "", "one each", 2, 1,
       [] {
         return repeat([] {
           static thread_local boost::uuids::random_generator_mt19937 generator;
           keep(generator());
         });
       }},
      {kUuid4, Kind::kPeer, "libuuid uuid_generate_random", "", "the library", 2, 1,
       [] {
         return repeat([] {
           uuid_t out;
           ::uuid_generate_random(out);
           keep(out);
         });
       }},
      {kUuid4Bulk, Kind::kOurs, "idmint, 1000 a call", "", "one generator", 2, kBulk,
       bulk<Uuid4Generator, Uuid>()},
      {kUuid1, Kind::kOurs, "idmint", "precise", "one generator", 2, 1, uuid1(system_clock())},
      {kUuid1, Kind::kOurs, "idmint, below 10,000 a millisecond", "precise", "", 1, 1,
       uuid1(fast_clock)},
      {kUuid1, Kind::kPeer, "libuuid uuid_generate_time", "precise", "the library", 2, 1,
       [] {
         return repeat([] {
           uuid_t out;
           ::uuid_generate_time(out);
           keep(out);
         });
       }},
      {kUuid1, Kind::kLimit, "the layout: 10,000 ids a millisecond", "", "", 0, 1, {}, 100},
      {kUuid6, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       with_options<Uuid6Generator>(Uuid6Options{}, system_clock())},
      {kUuid6, Kind::kOurs, "idmint", "tsc, 1 ms", "one generator", 2, 1,
       with_options<Uuid6Generator>(Uuid6Options{}, tsc_clock())},
      {kUuid6Bulk, Kind::kOurs, "idmint, 1000 a call", "precise", "one generator", 2, kBulk,
       bulk<Uuid6Generator, Uuid>()},
      {kUuid7, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       with_options<Uuid7Generator>(Uuid7Options{}, system_clock())},
      {kUuid7, Kind::kOurs, "idmint", "tsc, 1 ms", "one generator", 2, 1,
       with_options<Uuid7Generator>(Uuid7Options{}, tsc_clock())},
      {kUuid7Bulk, Kind::kOurs, "idmint, 1000 a call", "precise", "one generator", 2, kBulk,
       bulk<Uuid7Generator, Uuid>()},
      {kUlid, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       with_options<UlidGenerator>(UlidOptions{}, system_clock())},
      {kUlid, Kind::kOurs, "idmint", "tsc, 1 ms", "one generator", 2, 1,
       with_options<UlidGenerator>(UlidOptions{}, tsc_clock())},
      {kObjectId, Kind::kOurs, "idmint", "seconds", "one generator", 2, 1,
       [] {
         auto generator = std::make_shared<ObjectIdGenerator>();
         return repeat([generator] { keep(generator->next()); });
       }},
      {kObjectId, Kind::kPeer, "libbson bson_oid_init", "seconds", "one context", 2, 1,
       [] {
         return repeat([] {
           bson_oid_t out;
           ::bson_oid_init(&out, nullptr);
           keep(out);
         });
       }},
      {kXid, Kind::kOurs, "idmint", "seconds", "one generator", 2, 1,
       [] {
         auto generator = std::make_shared<XidGenerator>();
         return repeat([generator] { keep(generator->next()); });
       }},
      {kXid, Kind::kLimit, "the format: 2^24 ids a second", "", "", 0, 1, {}, 1e9 / (1 << 24)},
      {kXidBulk, Kind::kOurs, "idmint, 1000 a call", "seconds", "one generator", 2, kBulk,
       bulk<XidGenerator, Xid>()},
      {kClassicObjectId, Kind::kOurs, "idmint", "seconds", "one generator", 2, 1,
       [] {
         auto generator = std::make_shared<ClassicObjectIdGenerator>();
         return repeat([generator] { keep(generator->next()); });
       }},
      {kSnowflake, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       snowflake(classic, system_clock())},
      {kSnowflake,
       Kind::kLimit,
       "the layout: 4096 ids a millisecond",
       "",
       "",
       0,
       1,
       {},
       1e6 / 4096},
      {kSnowflake20, Kind::kOurs, "idmint", "tsc, 1 ms", "one generator", 2, 1,
       snowflake(wide, tsc_clock())},
      {kSnowflake20, Kind::kOurs, "idmint, leased", "tsc, 1 ms", "one generator", 2, 1,
       leased(wide, tsc_clock())},
      {kSnowflake20, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       snowflake(wide, system_clock())},
      {kSnowflake20, Kind::kOurs, "idmint, leased", "precise", "one generator", 2, 1,
       leased(wide, system_clock())},
      {kKsuid, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       one<KsuidGenerator>(system_clock())},
      {kKsuid, Kind::kOurs, "idmint", "seconds", "one generator", 2, 1, one<KsuidGenerator>()},
      {kKsuidBulk, Kind::kOurs, "idmint, 1000 a call", "seconds", "one generator", 2, kBulk,
       bulk<KsuidGenerator, Ksuid>()},
      {kTypeId, Kind::kOurs, "idmint", "precise", "one generator", 2, 1,
       [] {
         auto generator = std::make_shared<Uuid7Generator>();
         return repeat([generator] {
           char text[TypeId::kMaxChars];
           const Result<Uuid> id = generator->next();
           keep(id);
           char* const suffix = std::ranges::copy(std::string_view("user_"), text).out;
           encode(Encoding::kBase32Lower, id->bytes(), suffix);
           keep(text);
         });
       }},
      {kDigits, Kind::kOurs, "idmint", "", "one generator", 2, 1, digits({.digits = 12})},
      {kDigits, Kind::kOurs, "idmint, with a Damm check digit", "", "one generator", 2, 1,
       digits({.digits = 12, .check = Check::kDamm})},
      {kDigitsBulk, Kind::kOurs, "idmint, 1000 a call", "", "one generator", 2, kBulk,
       digits_bulk({.digits = 12})},
      {kDigitsBulk, Kind::kOurs, "idmint, 36 digits", "", "one generator", 2, kBulk,
       digits_bulk({.digits = 36})},
      {kPrintUuid, Kind::kOurs, "idmint", "", "", 1, 1, print_bytes<16, detail::print_uuid>()},
      {kPrintUuid, Kind::kOurs, "idmint without SIMD", "", "", 1, 1,
       print_bytes<16, detail::print_uuid_portable>()},
      {kPrintUuid, Kind::kPeer, "libuuid uuid_unparse_lower", "", "", 1, 1,
       print_with([uuid](char* out) { ::uuid_unparse_lower(uuid, out); })},
      {kPrintUuid, Kind::kPeer, "Boost 1.81 to_chars", "", "", 1, 1,
       print_with([boost_uuid](char* out) { boost::uuids::to_chars(boost_uuid, out, out + 37); })},
      {kPrintUlid, Kind::kOurs, "idmint", "", "", 1, 1, print_bytes<16, detail::print_ulid>()},
      {kPrintUlid, Kind::kOurs, "idmint without SIMD", "", "", 1, 1,
       print_bytes<16, detail::print_ulid_portable>()},
      {kPrintObjectId, Kind::kOurs, "idmint", "", "", 1, 1,
       print_bytes<12, detail::print_object_id>()},
      {kPrintObjectId, Kind::kOurs, "idmint without SIMD", "", "", 1, 1,
       print_bytes<12, detail::print_object_id_portable>()},
      {kPrintObjectId, Kind::kPeer, "libbson bson_oid_to_string", "", "", 1, 1,
       print_with([oid](char* out) { ::bson_oid_to_string(&oid, out); })},
      {kPrintKsuid, Kind::kOurs, "idmint", "", "", 1, 1, print_value<Ksuid>()},
      {kPrintTypeId, Kind::kOurs, "idmint", "", "", 1, 1,
       print_with([uuid](char* out) { encode(Encoding::kBase32Lower, uuid, out); })},
      {kPrintDigits, Kind::kOurs, "idmint", "", "", 1, 1, print_with([](char* out) {
         Digits(12, static_cast<std::uint64_t>(integer) % 1'000'000'000'000).to_chars(out);
       })},
      {kPrintInteger, Kind::kOurs, "idmint", "", "", 1, 1, print_with([](char* out) {
         detail::print_decimal(static_cast<std::uint64_t>(integer), out);
       })},
      {kPrintInteger, Kind::kPeer, "std::to_chars", "", "", 1, 1,
       print_with([](char* out) { std::to_chars(out, out + 20, integer); })},
      {kMachine, Kind::kLimit, "read CLOCK_REALTIME", "precise", "", 1, 1, time_of(system_clock())},
      {kMachine, Kind::kLimit, "read CLOCK_REALTIME_COARSE", "coarse, 4 ms", "", 1, 1,
       time_of(coarse_clock())},
      {kMachine, Kind::kLimit, "read time()", "seconds", "", 1, 1, time_of(seconds_clock())},
      {kMachine, Kind::kLimit, "read the time stamp counter clock", "tsc, 1 ms", "", 1, 1,
       time_of(tsc_clock())},
      {kMachine, Kind::kLimit, "atomic fetch_add", "", "one counter", 2, 1,
       [] {
         return repeat([counter = std::make_shared<std::atomic<std::uint64_t>>()] {
           keep(counter->fetch_add(1, std::memory_order_relaxed));
         });
       }},
      {kMachine, Kind::kLimit, "16 random bytes", "", "a stream each", 2, 1,
       [] {
         return repeat([] {
           std::byte bytes[16];
           system_entropy().fill(bytes);
           keep(bytes);
         });
       }},
  };
  return all;
}

// ---- results

struct Figure {
  const Row* row = nullptr;
  int threads = 1;
  double median = 0;
  double least = 0;
  double most = 0;
  double processor_ns = 0;  // the median of what each run would have taken undisturbed
  double processor = 1;     // the least share that the threads had
};

Figure measure(const Row& row, int threads, int runs, std::chrono::milliseconds duration) {
  if (!row.start) return {&row, threads, row.limit, row.limit, row.limit, 0};
  std::vector<double> ns;
  std::vector<double> processor_ns;
  double processor = 1;
  for (int i = -1; i < runs; ++i) {
    const Run one = run(row.start(), threads, duration);
    if (i < 0) continue;
    ns.push_back(one.ns_per_call / row.ids);
    processor_ns.push_back(one.processor_ns_per_call() / row.ids);
    processor = std::min(processor, one.processor);
  }
  std::sort(ns.begin(), ns.end());
  std::sort(processor_ns.begin(), processor_ns.end());
  return {&row,     threads, ns[ns.size() / 2], ns.front(), ns.back(), processor_ns[ns.size() / 2],
          processor};
}

// A figure taken beside other work says nothing. (Waiting for the next millisecond or second is not
// work.)
void warn_of_other_work(const std::vector<Figure>& figures) {
  const auto disturbed = std::count_if(figures.begin(), figures.end(), [](const Figure& f) {
    constexpr std::array waiting = {kSnowflake, kUuid1, kXid, kXidBulk, kClassicObjectId};
    return f.processor < 0.97 && std::ranges::find(waiting, f.row->group) == waiting.end();
  });
  if (disturbed != 0) {
    std::fprintf(stderr,
                 "idmint_bench: %td of %zu rows were measured while something else used the "
                 "processors: not to be trusted\n",
                 disturbed, figures.size());
  }
}

std::string_view kind_name(Kind kind) {
  return kind == Kind::kOurs ? "idmint" : kind == Kind::kPeer ? "peer" : "limit";
}

const char* cstr(std::string_view literal) { return literal.data(); }  // all are literals

void print_table(const std::vector<Figure>& figures) {
  std::printf("%-28s %-38s %7s %9s %17s %9s  %-13s %s\n", "what", "by", "threads", "ns an id",
              "least - most", "cpu ns", "clock", "shared");
  for (const Figure& f : figures) {
    std::printf("%-28s %-38s %7d %9.2f %8.2f %8.2f %9.2f  %-13s %s\n", cstr(f.row->group),
                cstr(f.row->name), f.threads, f.median, f.least, f.most, f.processor_ns,
                f.row->clock.empty() ? "-" : cstr(f.row->clock),
                f.threads < 2 || f.row->sharing.empty() ? "-" : cstr(f.row->sharing));
  }
}

void print_json(const std::vector<Figure>& figures) {
  std::puts("[");
  for (const Figure& f : figures) {
    std::printf(
        "  {\"what\": \"%s\", \"by\": \"%s\", \"kind\": \"%s\", \"threads\": %d, \"clock\": "
        "\"%s\", \"shared\": \"%s\", \"ns\": %.3f, \"least_ns\": %.3f, \"most_ns\": %.3f, "
        "\"cpu_ns\": %.3f}%s\n",
        cstr(f.row->group), cstr(f.row->name), cstr(kind_name(f.row->kind)), f.threads,
        cstr(f.row->clock), f.threads < 2 ? "" : cstr(f.row->sharing), f.median, f.least, f.most,
        f.processor_ns, &f == &figures.back() ? "" : ",");
  }
  std::puts("]");
}

// Ours, each with its peers and limits of the same number of threads beside it.
void print_markdown(const std::vector<Figure>& figures) {
  const auto threads = [](int n) { return n == 1 ? "1 thread" : "2 threads"; };
  std::puts("| what | this run | others in the same run |\n|---|---|---|");
  for (const Figure& f : figures) {
    if (f.row->kind != Kind::kOurs && f.row->group != kMachine) continue;
    std::string what(f.row->group);
    if (f.row->name != "idmint") what += ", " + std::string(f.row->name);
    if (!f.row->clock.empty() && f.row->group != kMachine) {
      what += ", clock: " + std::string(f.row->clock);
    }
    if (f.row->threads > 1) {
      what += std::string(", ") + threads(f.threads);
      if (f.threads > 1) what += ", shared: " + std::string(f.row->sharing);
    }
    std::string others;
    for (const Figure& other : figures) {
      if (other.row->group != f.row->group || other.row->kind == Kind::kOurs ||
          f.row->group == kMachine || other.threads != f.threads) {
        continue;
      }
      char text[160];
      std::snprintf(text, sizeof text, "%s%s %.1f", others.empty() ? "" : ", ",
                    cstr(other.row->name), other.median);
      others += text;
    }
    std::printf("| %s | %.2f ns (%.2f to %.2f) | %s |\n", what.c_str(), f.median, f.least, f.most,
                others.c_str());
  }
}

int number(const char* text) {
  const int value = text == nullptr ? 0 : std::atoi(text);
  if (value < 1) {
    std::fputs(cstr(kUsage), stderr);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  void (*print)(const std::vector<Figure>&) = print_table;
  int runs = 7;
  std::chrono::milliseconds duration{250};
  std::string_view filter;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      print = print_json;
    } else if (argument == "--markdown") {
      print = print_markdown;
    } else if (argument == "--runs") {
      runs = number(argv[++i]);
    } else if (argument == "--ms") {
      duration = std::chrono::milliseconds{number(argv[++i])};
    } else if (argument.starts_with('-')) {
      std::fputs(cstr(kUsage), argument == "--help" ? stdout : stderr);
      return argument == "--help" ? 0 : 2;
    } else {
      filter = argument;
    }
  }
  const std::vector<Row> all = rows();
  std::vector<Figure> figures;
  for (const Row& row : all) {
    const std::string name = std::string(row.group) + ' ' + std::string(row.name);
    if (name.find(filter) == std::string::npos) continue;
    const int most = row.start ? row.threads : 2;
    for (int threads = 1; threads <= most; ++threads) {
      figures.push_back(measure(row, threads, runs, duration));
    }
  }
  if (figures.empty()) {
    std::fprintf(stderr, "idmint_bench: no row contains \"%s\"\n", std::string(filter).c_str());
    return 2;
  }
  print(figures);
  warn_of_other_work(figures);
}
