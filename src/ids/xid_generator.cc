#include <chrono>

#include "idmint/xid.h"
#include "ids/second_counter.h"

namespace idmint {

Result<Bounds<Xid>> xid_bounds(Instant at) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  if (seconds < 0 || seconds > 0xffff'ffff) {
    return std::unexpected(
        Error{Code::kInvalidArgument, "an xid has times from 1970 to 2106-02-07T06:28:15Z only"});
  }
  const auto second = static_cast<std::uint32_t>(seconds);
  return Bounds<Xid>{Xid{twelve_bytes(second, 0, 0)},
                     Xid{twelve_bytes(second, (std::uint64_t{1} << 40) - 1, 0xff'ffff)}};
}

struct XidGenerator::State final : SecondCounterIds<Xid> {
  using SecondCounterIds::SecondCounterIds;
};

XidGenerator::XidGenerator(const ProcessIdentity& identity, Clock& clock, Entropy& entropy)
    : state_(std::make_unique<State>(identity, clock, entropy)) {}

XidGenerator::~XidGenerator() = default;

Result<Xid> XidGenerator::next() { return state_->next(); }

Result<void> XidGenerator::next(std::span<Xid> out) { return state_->fill(out); }

}  // namespace idmint
