#include "mint/worker.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "idmint/host.h"

namespace idmint {

namespace {

std::string of_given(int) { return "if no other generator is given the same number"; }

std::string of_environment(int) { return "if no other generator's variable has the same number"; }

std::string of_ordinal(int) {
  return "if all generators are pods of one StatefulSet, or hosts numbered like them";
}

std::string of_address(int bits) {
  return "if all generators are on hosts of one subnet of prefix " + std::to_string(32 - bits) +
         " or longer (IPv6: " + std::to_string(128 - bits) + ")";
}

std::string of_hardware(int) {
  return "a hash of the hardware addresses of all interfaces with an IP address; it changes when "
         "such an interface comes or goes";
}

std::string of_random(int) { return "drawn on each start"; }

using From = Worker::From;

constexpr std::array kOrigins = {
    WorkerOrigin{From::kGiven, "N", Guarantee::kUniqueIfConfigured, of_given},
    WorkerOrigin{From::kEnvironment, "env:NAME", Guarantee::kUniqueIfConfigured, of_environment},
    WorkerOrigin{From::kOrdinal, "ordinal", Guarantee::kUniqueIfConfigured, of_ordinal},
    WorkerOrigin{From::kAddress, "address", Guarantee::kUniqueIfConfigured, of_address},
    WorkerOrigin{From::kHardware, "mac", Guarantee::kPractical, of_hardware, 2},
    WorkerOrigin{From::kRandom, "random", Guarantee::kPractical, of_random},
};

static_assert(
    [] {
      std::size_t row = 0;
      return std::ranges::all_of(kOrigins, [&](const WorkerOrigin& origin) {
        return static_cast<std::size_t>(origin.from) == row++;
      });
    }(),
    "the rows are in the order of Worker::From");

std::string odds_of(int bits, int lost_bits) {
  const auto odds = [&](int hosts) {
    const double least = odds_of_shared_worker(static_cast<std::uint64_t>(hosts), bits);
    const double most =
        odds_of_shared_worker(static_cast<std::uint64_t>(hosts), std::max(0, bits - lost_bits));
    char text[64];
    std::snprintf(text, sizeof text, lost_bits == 0 ? "%.2g" : "%.2g to %.2g", least, most);
    return std::string(text);
  };
  return std::to_string(bits) + " bits of worker id: two of 10 hosts share one with odds of " +
         odds(10) + ", of 100 with " + odds(100) +
         (lost_bits == 0 ? "" : "; the more, the more consecutive addresses each host has");
}

ChosenWorker chosen(const Worker& worker, int bits, std::uint32_t id) {
  const WorkerOrigin& origin = kOrigins[static_cast<std::size_t>(worker.from)];
  return {.id = id,
          .guarantee = origin.guarantee,
          .notes = origin.terms(bits) + (origin.guarantee == Guarantee::kPractical
                                             ? "; " + odds_of(bits, origin.lost_bits)
                                             : "")};
}

}  // namespace

std::span<const WorkerOrigin> worker_origins() noexcept { return kOrigins; }

Result<ChosenWorker> choose_worker(const Worker& worker, const SnowflakeLayout& layout,
                                   Entropy& entropy, detail::HostFacts (*facts)()) {
  const int bits = layout.worker_bits;
  Result<std::uint32_t> id = 0U;
  switch (worker.from) {
    case From::kGiven:
      if (worker.id > layout.max_worker()) {
        return std::unexpected(Error{Code::kInvalidArgument,
                                     "worker id " + std::to_string(worker.id) +
                                         " is not in the layout's range: give 0 to " +
                                         std::to_string(layout.max_worker()),
                                     {.remedy = Remedy::kSetOption, .values = {"worker"}}});
      }
      id = worker.id;
      break;
    case From::kEnvironment:
      id = worker_from_environment(worker.name, bits);
      break;
    case From::kOrdinal:
      id = detail::worker_from_ordinal(facts(), bits);
      break;
    case From::kAddress: {
      Result<AddressWorker> found = detail::worker_from_address(facts(), bits, worker.name);
      if (!found) return std::unexpected(std::move(found.error()));
      ChosenWorker its = chosen(worker, bits, found->worker);
      its.notes = "of the address " + found->address + ": if all generators are on hosts in " +
                  found->block + ", each with its own";
      return its;
    }
    case From::kHardware:
      id = detail::worker_from_hardware(facts().java_addresses, bits, entropy);
      break;
    case From::kRandom:
      id = static_cast<std::uint32_t>(entropy.draw()) & layout.max_worker();
      break;
  }
  if (!id) return std::unexpected(std::move(id.error()));
  return chosen(worker, bits, *id);
}

}  // namespace idmint
