#include "idmint/object_id.h"
#include "ids/format.h"
#include "ids/second_counter.h"

namespace idmint {

struct ClassicObjectIdGenerator::State final : SecondCounterIds<ObjectId> {
  using SecondCounterIds::SecondCounterIds;
};

ClassicObjectIdGenerator::ClassicObjectIdGenerator(const ProcessIdentity& identity, Clock& clock,
                                                   Entropy& entropy)
    : state_(std::make_unique<State>(identity, clock, entropy)) {}

ClassicObjectIdGenerator::~ClassicObjectIdGenerator() = default;

Result<ObjectId> ClassicObjectIdGenerator::next() { return state_->next(); }

Result<void> ClassicObjectIdGenerator::next(std::span<ObjectId> out) { return state_->fill(out); }

// inspect() reads both kinds of ObjectId at once.
extern const Format kClassicObjectIdFormat = {
    .name = "object-id-classic",
    .kind = "object-id",
    .bounds = bounds_of<object_id_bounds>,
    .make =
        [](Clock& clock, Entropy& entropy) {
          return generator_of<ObjectId>(std::make_unique<ClassicObjectIdGenerator>(
              classic_object_id_identity(), clock, entropy));
        },
    .order = Order::kBySecond,
    .notes =
        "seconds, 24 bits of the hardware address, 16 of the process id, a counter: the "
        "layout before 2018; a repeat takes the same of all four"};

}  // namespace idmint
