#include "idmint/object_id.h"
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

}  // namespace idmint
