// Source: a format, sequence or pool that hands out ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/executor.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/result.h"

namespace idmint {

enum class SourceKind : std::uint8_t {
  kFormat,    // waits for nobody
  kSequence,  // its ids are integers that a store counts
  kPool,      // its ids are Snowflakes, of a worker id that a store leases
};

struct Declaration {
  SourceKind kind = SourceKind::kFormat;
  std::string name;    // the name that Mint::source() and the command `next` take
  std::string format;  // of its ids, a name from format_of(Id): "uuid", "integer"
  Guarantee guarantee = Guarantee::kPractical;
  Order order = Order::kNone;
  std::string notes;               // for users: the odds or the condition, the store, ...
  Form form{};                     // how the ids are printed
  std::int64_t largest_count = 0;  // the most ids that one call may take; 0: no limit
};

class Sequence;

// Threads may share it. Errors are those of the generator or the sequence behind it.
class IDMINT_EXPORT Source {
 public:
  virtual ~Source() = default;

  [[nodiscard]] virtual const Declaration& declaration() const noexcept = 0;

  // One id. Errors as for next(out).
  [[nodiscard]] Result<Id> next() {
    Id id{};
    if (Result<void> filled = next(std::span(&id, 1)); !filled)
      return std::unexpected(std::move(filled).error());
    return id;
  }

  // Fills all of `out`, in the declared order. On an error the content of `out` is unspecified.
  [[nodiscard]] virtual Result<void> next(std::span<Id> out) = 0;
  // The same with a deadline, which holds if it is earlier than the source's own. A source that
  // waits for no store ignores it.
  [[nodiscard]] virtual Result<void> next(std::span<Id> out, SteadyTime /*until*/) {
    return next(out);
  }

  // The same without waiting. `done` is called once with the result of next(), never inside
  // submit(): from a task of MintOptions::executor, or from the destructor (kUnavailable). It may
  // call submit(); it must not block, throw or destroy the source. `out` must stay valid until
  // then. The deadline is StoreOptions::deadline from submit() on. Requests that wait at the same
  // time share a call of the store. If the source has an order, ids come in the order in which a
  // thread submits.
  //
  // If submit() itself fails, nothing was queued and `done` is never called:
  // - kResourceExhausted: a million requests wait already, or the executor has no thread.
  // - kFailedPrecondition: the source was inherited through fork().
  // - kUnimplemented: the source is none of Mint::source().
  [[nodiscard]] virtual Result<void> submit(std::span<Id> out,
                                            MoveOnlyFunction<void(Result<void>)> done);

  // The sequence behind it, for its ranges and statistics. It lives as long as the source. Null
  // unless it is a kSequence. On an executor of one thread, use its submit() or that of the source,
  // not both: a task would wait for another one.
  [[nodiscard]] virtual Sequence* sequence() noexcept { return nullptr; }
};

}  // namespace idmint
