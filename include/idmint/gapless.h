// Gapless numbers: each is taken in the transaction that inserts the document which bears it, so
// that the numbers in the collection have no hole, whatever dies and whenever.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  // The longest that a call waits. A call that was not begun after three quarters of it, because
  // those before it take long, is kUnavailable.
  std::chrono::milliseconds deadline = std::chrono::seconds{5};
  // Calls waiting at one time; one more is kResourceExhausted.
  std::size_t max_outstanding = 100'000;
  Executor* executor = nullptr;  // answers submit(); null: shared_executor()
};

struct GaplessStatistics {
  std::uint64_t documents = 0;     // inserted
  std::uint64_t calls = 0;         // that inserted them
  std::uint64_t transactions = 0;  // begun; of those that were refused or broken, too
};

// Inserts documents into one collection and numbers them with one sequence of strategy gapless. The
// counter and the documents are written in one transaction, with write concern majority and
// journal. While one is under way callers queue, and the next one serves them all, in the order
// they came. Any thread may call any method at any time; any number of processes may share the
// sequence. In a child of fork() every call is kFailedPrecondition.
//
// In the collection are, at every instant, the numbers from the sequence's first one on without a
// hole, each once, as long as nobody deletes or changes them there.
class IDMINT_EXPORT GaplessInserter final {
 public:
  // `store`: it has the sequence `name`, and must outlive the inserter, which connects to its
  // servers with a connection of its own. `collection`: "DATABASE.COLLECTION", on these servers.
  // `field`: where the number goes, "_id" or another name of a field of the document itself.
  // kNotFound: no such sequence. kFailedPrecondition: of another strategy, or retired; the server
  // is a standalone. kUnimplemented: a store without transactions. kInvalidArgument: no such name
  // is possible. `entropy`: for jitter. Errors of Store::open().
  [[nodiscard]] static Result<std::unique_ptr<GaplessInserter>> open(
      Store& store, std::string_view name, std::string_view collection, std::string_view field,
      const GaplessOptions& options = {}, Entropy& entropy = system_entropy());
  ~GaplessInserter();  // as close()
  GaplessInserter(const GaplessInserter&) = delete;
  GaplessInserter& operator=(const GaplessInserter&) = delete;

  [[nodiscard]] const SequenceDefinition& definition() const noexcept;

  // Inserts the documents, each as BSON, all of them or none; they get the numbers of the range, in
  // their order: as an int64 or, where the sequence has a form of its own, as its text. The bytes
  // are copied.
  //
  // kInvalidArgument: not BSON, larger than 16 MB with its number, with that field already; none,
  // more than kMaxDocuments or kMaxBytes; or the collection's validator refuses one.
  // kAlreadyExists: a unique index refuses one. These are this call's alone: those that share its
  // transaction are served without it, and no number is lost. kFailedPrecondition: the collection
  // has the next number already, which another program wrote; or retired. kOutOfRange: fewer
  // numbers are left. kUnavailable: nothing was inserted; ask again. kUnknown, kDeadlineExceeded:
  // all of the documents are in the collection or none, now or later: look for them (by a key of
  // their own) before they are inserted again. kDataLoss: the counter is gone or damaged, or the
  // store has gone back, below a number that this inserter was acknowledged; nothing was inserted,
  // and every later call of this inserter is kDataLoss too.
  [[nodiscard]] Result<Range> insert(std::span<const std::span<const std::byte>> documents);
  static constexpr std::size_t kMaxDocuments = 10'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  [[nodiscard]] Result<std::int64_t> insert(std::span<const std::byte> document) {
    const Result<Range> range = insert(std::span(&document, 1));
    if (!range) return std::unexpected(range.error());
    return range->first;
  }

  // The same without waiting: `done` gets what insert() would return, once, never inside submit():
  // from a task of GaplessOptions::executor, from insert() of another thread, or from close(). It
  // may call submit(); it must not block, throw or close the inserter. If submit() itself returns
  // an error, nothing was queued, and `done` is never called. kInvalidArgument: as above.
  // kUnavailable: closed. kResourceExhausted: max_outstanding, or the executor has no thread.
  [[nodiscard]] Result<void> submit(std::span<const std::span<const std::byte>> documents,
                                    std::move_only_function<void(Result<Range>)> done);

  // Answers all that wait with kUnavailable, waits for the transaction that is under way, and
  // refuses what comes after.
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
