// Gapless numbers: each one is taken in the transaction that inserts the numbered document. So the
// numbers in the collection have no gap, whichever process dies at whichever time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/definition.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/result.h"
#include "idmint/store.h"

namespace idmint {

struct GaplessOptions {
  // The longest that a call waits. A call that has not begun after three quarters of it, because
  // earlier calls take long, fails with kUnavailable.
  std::chrono::milliseconds deadline = std::chrono::seconds{5};
  // The most calls that wait at one time; a further call fails with kResourceExhausted.
  std::size_t max_outstanding = 100'000;
  Executor* executor = nullptr;  // answers submit(); null: shared_executor()
  // Makes a unique index on the field if it is missing, before the first insert.
  bool make_index = false;
};

struct GaplessStatistics {
  std::uint64_t documents = 0;     // documents inserted
  std::uint64_t calls = 0;         // successful calls
  std::uint64_t transactions = 0;  // transactions begun, including those that failed
};

// Inserts documents into one collection and numbers them from one sequence of strategy gapless. The
// counter and the documents are written in one transaction, with write concern majority and
// journal. Group commit: callers queue while a transaction is under way, and the next one serves
// them, at most 1000 documents or 8 MiB, in the order of their calls. Any thread may call any
// method at any time; any number of processes may share the sequence. In a child of fork() every
// call fails with kFailedPrecondition.
//
// At every instant the numbers in the collection run from the sequence's first one without a gap or
// a repeat, as long as nobody deletes or changes numbers there. The first successful insert
// binds the sequence to its collection and field. Other gapless sequences may number the same field
// if a unique index guards it, or if they cannot give a number that this one gives.
class IDMINT_EXPORT GaplessInserter final {
 public:
  // `store` has the sequence `name` and must outlive the inserter, which opens its own connection
  // to the same servers. `collection` is "DATABASE.COLLECTION" on these servers. `field` receives
  // the number: "_id" or another top-level field. `entropy` is for jitter. Errors, besides those of
  // Store::open():
  // - kNotFound: no such sequence.
  // - kFailedPrecondition: the sequence has another strategy or is retired; the server is a
  //   standalone; or another gapless sequence numbers the field and can give the same numbers, and
  //   no unique index guards it.
  // - kUnimplemented: the store has no transactions.
  // - kInvalidArgument: the name of the collection or of the field is not valid.
  [[nodiscard]] static Result<std::unique_ptr<GaplessInserter>> open(
      Store& store, std::string_view name, std::string_view collection, std::string_view field,
      const GaplessOptions& options = {}, Entropy& entropy = system_entropy());
  ~GaplessInserter();  // like close()
  GaplessInserter(const GaplessInserter&) = delete;
  GaplessInserter& operator=(const GaplessInserter&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept;

  // Inserts the documents, each as BSON, all of them or none. They get the numbers of the range in
  // their order, as int64, or as text if the sequence has a form. The bytes are copied.
  //
  // The first two errors concern this call only: the other calls in its transaction succeed, and no
  // number is lost.
  // - kInvalidArgument: a document is not BSON, is larger than 16 MB with its number, or has the
  //   field already; there are no documents, or more than kMaxDocuments or kMaxBytes; or the
  //   collection's validator rejects one.
  // - kAlreadyExists: a unique index rejects a document.
  // - kFailedPrecondition: another program has written the next number into the collection, or the
  //   sequence was retired.
  // - kOutOfRange: fewer numbers are left.
  // - kUnavailable: nothing was inserted; try again.
  // - kUnknown, kDeadlineExceeded: either all of the documents are or will be in the collection, or
  //   none of them. Look for them, by a key of their own, before you insert them again.
  // - kDataLoss: the counter is missing or damaged, or the store has gone back below a number that
  //   was acknowledged to this inserter. Nothing was inserted, and every later call of this
  //   inserter fails with kDataLoss.
  [[nodiscard]] Result<Range> insert(std::span<const std::span<const std::byte>> documents);
  static constexpr std::size_t kMaxDocuments = 10'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  [[nodiscard]] Result<std::int64_t> insert(std::span<const std::byte> document) {
    const Result<Range> range = insert(std::span(&document, 1));
    if (!range) return std::unexpected(range.error());
    return range->first;
  }

  // The same without waiting. `done` is called once with the result of insert(), never inside
  // submit(): from a task of GaplessOptions::executor, from insert() of another thread, or from
  // close(). It may call submit(); it must not block, throw or close the inserter. If submit()
  // itself fails, nothing was queued and `done` is never called:
  // - kInvalidArgument: as insert().
  // - kUnavailable: the inserter is closed.
  // - kResourceExhausted: max_outstanding is reached, or the executor has no thread.
  [[nodiscard]] Result<void> submit(std::span<const std::span<const std::byte>> documents,
                                    MoveOnlyFunction<void(Result<Range>)> done);

  // Fails all waiting calls with kUnavailable, waits for the transaction that is under way, and
  // refuses later calls.
  void close() noexcept;

  [[nodiscard]] GaplessStatistics statistics() const noexcept;

 private:
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> checked(
      std::span<const std::span<const std::byte>> documents) const;

  struct State;
  explicit GaplessInserter(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace idmint
