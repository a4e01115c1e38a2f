// The cost for the primary of a replica set of three when so many workers of a pool renew their
// leases, each every third of the window: processor time, as the server counts it, less that of the
// same time with nobody renewing. The workers renew once spread out, and once at the quarters of a
// second, where hosts whose clocks agree meet. Beside that, what the same number of the smallest
// durable writes costs: an update by _id of one field, by the driver alone.
//
//   lease_bench [WORKERS [SECONDS]]        (1024 10)
//
// Everything runs on this machine.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/smallest_writes.h"
#include "idmint/store.h"
#include "ids/lease_table.h"
#include "tests/servers/mongo.h"

using namespace idmint;
using std::chrono::duration;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr seconds kWindow{15};
constexpr int kThreads = 64;
constexpr nanoseconds kSpread{1};
constexpr nanoseconds kQuarter = std::chrono::milliseconds{250};

// The time of the process, in seconds.
double processor_time(const std::string& member) {
  const std::string reply = servers::mongo_command(member, "admin", R"({"serverStatus":1})");
  double all = 0;
  for (const std::string field : {"\"user_time_us\" : ", "\"system_time_us\" : "}) {
    std::size_t at = reply.find(field);
    if (at == std::string::npos) {
      std::fprintf(stderr, "lease_bench: the server does not count its processor time\n");
      std::exit(1);
    }
    at = reply.find_first_of("0123456789", at + field.size());
    if (reply.compare(at - 1, 1, "\"") != 0 && reply.find("numberLong", at) == at) at += 10;
    all += std::strtod(reply.c_str() + at, nullptr) / 1e6;
  }
  return all;
}

LeaseTerms terms() {
  return {.held = kWindow, .clock = system_clock().now(), .max_skew = seconds{1}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t workers = argc > 1 ? std::atoll(argv[1]) : 1024;
  const seconds lasting{argc > 2 ? std::atoll(argv[2]) : 10};
  servers::MongoSet set;
  const auto store = Store::open(set.url("bench"), {.deadline = seconds{60}});
  if (!store || !(*store)->leases()->create_pool("p", workers)) {
    std::fprintf(stderr, "lease_bench: no pool\n");
    return 1;
  }
  LeaseTable& table = *(*store)->leases();
  std::vector<Lease> leases;
  for (std::int64_t i = 0; i < workers; ++i) {
    const auto lease = table.acquire(
        "p",
        {.token = Uuid4Generator().next(), .now = 0, .units = 1, .max_drift = 1, .terms = terms()});
    if (!lease) {
      std::fprintf(stderr, "lease_bench: %s\n", lease.error().message().c_str());
      return 1;
    }
    leases.push_back(*lease);
  }
  const std::string primary = set.direct(set.primary());
  const auto measured = [&](const auto& load) {
    const double before = processor_time(primary);
    const auto begin = steady_clock::now();
    load();
    const duration<double> took = steady_clock::now() - begin;
    return (processor_time(primary) - before) / took.count();
  };
  SmallestWrites smallest(set.url("bench"));
  if (!smallest.make(workers)) {
    std::fprintf(stderr, "lease_bench: no documents\n");
    return 1;
  }
  const double idle = measured([&] { std::this_thread::sleep_for(lasting); });
  // One thread at a time has a lease: it comes again a third of the window later.
  const auto renew = [&](std::int64_t worker) {
    Lease& lease = leases[static_cast<std::size_t>(worker)];
    const auto extended = table.extend("p", lease, lease.to + 1, Uuid4Generator().next(), terms());
    if (extended) lease = *extended;
    return extended.has_value();
  };
  const auto write = [&](std::int64_t worker) { return smallest.write(worker); };
  using Work = std::function<bool(std::int64_t worker)>;
  for (const auto& [what, work] :
       {std::pair{"renewals", Work(renew)}, std::pair{"smallest writes", Work(write)}})
    for (const nanoseconds meeting : {kSpread, kQuarter}) {
      std::atomic<std::int64_t> renewed{0};
      std::atomic<std::int64_t> failed{0};
      const double busy = measured([&] {
        const auto begin = steady_clock::now();
        const nanoseconds apart = nanoseconds(kWindow) / 3 / workers;
        std::atomic<std::int64_t> next{0};
        std::vector<std::jthread> threads;
        for (int i = 0; i < kThreads; ++i)
          threads.emplace_back([&] {
            for (;;) {
              const std::int64_t mine = next.fetch_add(1);
              if (apart * mine > lasting) return;
              std::this_thread::sleep_until(begin + apart * mine / meeting * meeting);
              if (work(mine % workers))
                ++renewed;
              else
                ++failed;
            }
          });
      });
      const double rate = static_cast<double>(renewed.load()) / duration<double>(lasting).count();
      const double each = (busy - idle) / rate;
      std::printf(
          "%lld workers, window 15 s, %s: %.0f %s/s, %lld failed; primary: %.1f %% of a core idle, "
          "%.1f %% under them; %.2f ms each; 10,000 hosts: %.0f %%\n",
          static_cast<long long>(workers),
          meeting == kSpread ? "spread out" : "at quarters of a second", rate, what,
          static_cast<long long>(failed.load()), 100 * idle, 100 * busy, 1e3 * each,
          100 * each * 10'000 / 5);
    }
}
