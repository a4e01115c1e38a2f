#include "idmint/object_id.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <ratio>

#include "base/biased_counter.h"
#include "base/fork_wiped.h"
#include "ids/format.h"
#include "ids/readings.h"
#include "ids/second_counter.h"

namespace idmint {
namespace {

constexpr int kCounterBits = 24;
constexpr std::uint64_t kCounterMask = (std::uint64_t{1} << kCounterBits) - 1;
// In ns since 1970, unsigned: a time is below this exactly if it is in 1970 to 2106.
constexpr std::uint64_t kEndOfObjectIds = std::nano::den << 32;

}  // namespace

Result<Bounds<ObjectId>> object_id_bounds(Instant at) {
  const auto ns = static_cast<std::uint64_t>(at.time_since_epoch().count());
  if (ns >= kEndOfObjectIds) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "an ObjectId has times from 1970 to 2106-02-07T06:28:15Z only"});
  }
  const auto seconds = static_cast<std::uint32_t>(ns / std::nano::den);
  return Bounds<ObjectId>{
      ObjectId{twelve_bytes(seconds, 0, 0)},
      ObjectId{twelve_bytes(seconds, ~std::uint64_t{0} >> kCounterBits, kCounterMask)}};
}

// Ids are numbered; 2^24 of them are a lap, with its own random bits and first counter value. The
// draw of a lap is read under a sequence lock; a thread that finds a later lap drops its number and
// takes another one.
struct ObjectIdGenerator::State {
  State(Clock& from, Entropy& source) : clock(from), entropy(source) {}

  // The latest lap, under a sequence lock.
  struct Lap {
    std::atomic<std::uint64_t> number_plus_1;   // 0: none yet, or being written
    std::atomic<std::uint64_t> random_counter;  // random 40 | first counter value 24
  };

  // All zero means that nothing is drawn yet, as in a child of fork().
  struct Shared {
    BiasedCounter taken;
    alignas(64) Lap latest;
    std::mutex drawing;
  };

  // Fills the beginning of `out`, which is not empty, with ids of one lap: at least one id, or an
  // error.
  Result<std::size_t> take(std::span<ObjectId> out) {
    const auto ns = static_cast<std::uint64_t>(clock.now().time_since_epoch().count());
    if (ns >= kEndOfObjectIds) [[unlikely]]
      return outside();
    const auto seconds = static_cast<std::uint32_t>(ns / std::nano::den);
    for (;;) {
      const std::uint64_t first = shared->taken.fetch_add(out.size());
      const std::uint64_t lap = first >> kCounterBits;
      const Lap& latest = shared->latest;
      if (latest.number_plus_1.load(std::memory_order_acquire) != lap + 1) [[unlikely]]
        draw(lap);
      const std::uint64_t drawn = latest.random_counter.load(std::memory_order_acquire);
      if (latest.number_plus_1.load(std::memory_order_relaxed) != lap + 1) [[unlikely]]
        continue;
      const std::uint64_t left = kCounterMask + 1 - (first & kCounterMask);
      const std::size_t size = std::min<std::size_t>(out.size(), left);
      for (std::size_t i = 0; i < size; ++i) {
        out[i] = ObjectId{
            twelve_bytes(seconds, drawn >> kCounterBits, (drawn + first + i) & kCounterMask)};
      }
      return size;
    }
  }

  [[gnu::cold]] static std::unexpected<Error> outside() {
    return std::unexpected(
        Error{Code::kOutOfRange,
              "the clock shows a time outside 1970 to 2106, which no ObjectId can hold: set it"});
  }

  // Does nothing if a later lap is there.
  [[gnu::cold]] void draw(std::uint64_t lap) {
    const std::lock_guard lock(shared->drawing);
    Lap& latest = shared->latest;
    if (latest.number_plus_1.load(std::memory_order_relaxed) > lap) return;
    const std::uint64_t random = entropy.draw();
    latest.number_plus_1.store(0, std::memory_order_relaxed);
    latest.random_counter.store(random, std::memory_order_release);
    latest.number_plus_1.store(lap + 1, std::memory_order_release);
  }

  Clock& clock;
  Entropy& entropy;
  ForkWiped<Shared> shared;
};

ObjectIdGenerator::ObjectIdGenerator(Clock& clock, Entropy& entropy)
    : state_(std::make_unique<State>(clock, entropy)) {}

ObjectIdGenerator::~ObjectIdGenerator() = default;

Result<ObjectId> ObjectIdGenerator::next() {
  // Not in a Result from the beginning: clearing that one, with room for an error, takes as long as
  // an id.
  ObjectId id;
  if (Result<std::size_t> taken = state_->take(std::span(&id, 1)); !taken) [[unlikely]]
    return std::unexpected(std::move(taken.error()));
  return id;
}

Result<void> ObjectIdGenerator::next(std::span<ObjectId> out) {
  while (!out.empty()) {
    Result<std::size_t> taken = state_->take(out.first(std::min<std::size_t>(out.size(), 1024)));
    if (!taken) return std::unexpected(std::move(taken.error()));
    out = out.subspan(*taken);
  }
  return {};
}

namespace detail {
namespace {

void read_object_id(Reader& reader, std::string_view text, Alphabets alphabets) {
  if (text.size() != ObjectId::kChars && text[0] != 'O') return;
  const Result<ObjectId> id = ObjectId::parse(text);
  if (!id) return;
  const ObjectId::Bytes& bytes = id->bytes();
  const std::uint64_t high = load(bytes.data());
  const std::uint64_t low = load(bytes.data() + 4);
  const FoundValue canonical =
      (alphabets & kLowerHex) != 0 ? FoundValue{text} : FoundValue{Hex{high >> 32, low, 24}};
  const Instant time{std::chrono::seconds{id->seconds()}};

  // Ids before July 2018, when the specification changed, have the other layout.
  constexpr Instant changed =
      std::chrono::sys_days{std::chrono::year{2018} / std::chrono::July / 1};
  const int first = reader.plausible(time) ? kLikely : kConceivable;
  const int second = first * 6 / 10;
  reader.add("object-id", canonical, time < changed ? second : first);
  reader.add_time(time);
  reader.add_field("random", Hex{0, low >> 24, 10});
  reader.add_field("counter", low & 0xffffff);
  reader.add("object-id-classic", canonical, time < changed ? first : second);
  reader.add_time(time);
  reader.add_field("machine", Hex{0, low >> 40, 6});
  reader.add_field("pid", low >> 24 & 0xffff);
  reader.add_field("counter", low & 0xffffff);
}

}  // namespace
}  // namespace detail

namespace {
constexpr std::array kObjectIdShapes = {
    detail::Shape{detail::kHexDigits, ObjectId::kChars, ObjectId::kChars, detail::read_object_id},
    detail::Shape{detail::kPrintable, 36, 36, detail::read_object_id},  // ObjectId("...")
};
}

extern const Format kObjectIdFormat = {
    .name = "object-id",
    .kind = "object-id",
    .bytes = 12,
    .from_bytes = from_bytes_as<ObjectId>,
    .parse = parsed_as<ObjectId>,
    .shapes = kObjectIdShapes,
    .bounds = bounds_of<object_id_bounds>,
    .ends = kUnsignedSecondsEnd,
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<ObjectId>(std::make_unique<ObjectIdGenerator>(clock, entropy));
        },
    .order = Order::kBySecond,
    .notes =
        "seconds, 40 random bits for each process, a counter; a repeat takes the same second, "
        "bits and count",
    .plan = {.about = "ObjectId: seconds, 40 random bits of the process, a counter",
             .chars = ObjectId::kChars,
             .value_bits = 96,
             .apart_bits = 40,
             .apart_by_process = true,
             .per_second = 1 << kCounterBits,
             .clock_goes_back =
                 "the seconds go back, the random bits and the counter do not: no id "
                 "comes again"}};

}  // namespace idmint
