#include <chrono>

#include "idmint/xid.h"
#include "ids/format.h"
#include "ids/readings.h"
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

namespace detail {
namespace {

void read_xid(Reader& reader, std::string_view text, Alphabets alphabets) {
  if (text.back() != '0' && text.back() != 'g') return;
  const Result<Xid> id = Xid::parse(text);
  if (!id) return;
  const Instant time{std::chrono::seconds{id->seconds()}};
  const bool likely = reader.plausible(time) && (alphabets & kDecimalDigits) == 0;
  reader.add("xid", text, likely ? kLikely : kUnlikely);
  reader.add_time(time);
  reader.add_field("machine", Hex{0, id->machine(), 6});
  reader.add_field("pid", std::uint64_t{id->process()});
  reader.add_field("counter", std::uint64_t{id->counter()});
}

}  // namespace
}  // namespace detail

namespace {
constexpr std::array kXidShapes = {
    detail::Shape{detail::kLowerBase32Hex, Xid::kChars, Xid::kChars, detail::read_xid}};
}

extern const Format kXidFormat = {
    .name = "xid",
    .kind = "xid",
    .bytes = 12,
    .from_bytes = from_bytes_as<Xid>,
    .parse = parsed_as<Xid>,
    .shapes = kXidShapes,
    .bounds = bounds_of<xid_bounds>,
    .ends = kUnsignedSecondsEnd,
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<Xid>(std::make_unique<XidGenerator>(xid_identity(), clock, entropy));
        },
    .order = Order::kBySecond,
    .notes =
        "seconds, 24 bits of the machine id, 16 of the process id, a counter; a repeat takes "
        "the same of all four",
    .plan = {.about = "xid: seconds, machine, process, a counter",
             .reason = "12 bytes, 20 characters; tells which machine made it",
             .chars = Xid::kChars,
             .value_bits = 96,
             .apart_bits = 24,
             .apart_by_process = true,
             .per_second = SecondCounter::kCounters,
             .clock_goes_back = "the seconds go back, the counter does not; after a restart it may "
                                "meet ids of that time"}};

}  // namespace idmint
