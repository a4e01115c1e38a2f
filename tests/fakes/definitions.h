// The definition that a test knows to be of a sequence, or of a pool. Throws where it is not, which
// fails the test.
#pragma once

#include "idmint/definition.h"

namespace idmint {

inline const SequenceDefinition& as_sequence(const Definition& definition) {
  return std::get<SequenceDefinition>(definition);
}

inline const PoolDefinition& as_pool(const Definition& definition) {
  return std::get<PoolDefinition>(definition);
}

}  // namespace idmint
