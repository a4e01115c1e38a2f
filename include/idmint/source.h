// Source: one named thing that ids can be asked of, be it a format or a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/result.h"

namespace idmint {

struct Declaration {
  std::string name;    // what `next` is asked for
  std::string format;  // of its ids, as format_of(Id): "uuid", "integer"
  Guarantee guarantee = Guarantee::kPractical;
  std::string order;               // "none", "by second", "per process", "all"
  std::string notes;               // the odds, the condition, where the values are kept
  Form form{};                     // how its ids are printed
  std::int64_t largest_count = 0;  // the most ids that one call may take; 0: no limit
};

class Sequence;

// May be shared by threads. Errors are those of the generator or sequence behind it.
class IDMINT_EXPORT Source {
 public:
  virtual ~Source() = default;

  [[nodiscard]] virtual const Declaration& declaration() const noexcept = 0;

  // One id. Errors as of the call for many.
  [[nodiscard]] Result<Id> next() {
    Id id{};
    if (Result<void> filled = next(std::span(&id, 1)); !filled)
      return std::unexpected(std::move(filled).error());
    return id;
  }

  // Fills all of `out`, in the declared order. On an error nothing in `out` is to be used.
  [[nodiscard]] virtual Result<void> next(std::span<Id> out) = 0;
  // The same, by `until` if that is earlier than the deadline of the source. A source that waits
  // for no store has no use for it.
  [[nodiscard]] virtual Result<void> next(std::span<Id> out, SteadyTime /*until*/) {
    return next(out);
  }

  // The sequence behind it, for callers that do not wait (Sequence::submit) or want ranges; it
  // lives as long as the source. Null: a format or a pool.
  [[nodiscard]] virtual Sequence* sequence() noexcept { return nullptr; }
  // Whether next() may wait for a store: a sequence or a pool.
  [[nodiscard]] virtual bool waits() const noexcept { return false; }
};

}  // namespace idmint
