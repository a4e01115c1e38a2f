// A server puts its own time in the place of a timestamp of zeros, where that is a field of a
// document that is inserted or takes the place of another, with applyOps too. A diff it leaves as
// it is.
#pragma once

#include <optional>

#include "mongo/document.h"
#include "restore/server.h"

namespace idmint::restore {

struct TwoSteps {
  Bson first = Bson::none();  // the document, those timestamps 0:1
  Bson diff = Bson::none();   // what `u` is given then
};
[[nodiscard]] bool has_zero_timestamp(Document document);
// Nothing: there is none, and one step does it.
[[nodiscard]] std::optional<TwoSteps> in_two_steps(Document document);
// What the second one is of: o2.
[[nodiscard]] Bson only_id(Document document);

}  // namespace idmint::restore
