// Preserves zero timestamps. A server replaces a zero timestamp in a top-level field by its own
// time when a document is inserted or replaced, with an atomic applyOps too. It does not when a
// diff is applied, nor when an applyOps that is not atomic inserts a new document.
#pragma once

#include <optional>

#include "mongo/document.h"
#include "restore/server.h"

namespace idmint::restore {

struct TwoSteps {
  Bson first = Bson::none();  // the document, with 0:1 for these timestamps, in place
  Bson diff = Bson::none();   // the diff for the `u` operation that follows
};
[[nodiscard]] bool has_zero_timestamp(Document document);
// Whether a field occurs twice, with a zero timestamp and with another value. A diff would set
// both, so only an applyOps that is not atomic can write the document.
[[nodiscard]] bool needs_one_step(Document document);
// nullopt: there is no zero timestamp, and one step is enough.
[[nodiscard]] std::optional<TwoSteps> in_two_steps(Document document);
// The `o2` of the second step: {_id: ID}.
[[nodiscard]] Bson only_id(Document document);

}  // namespace idmint::restore
