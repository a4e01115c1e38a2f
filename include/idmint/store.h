// Stores: the databases that hold counters and definitions, opened by URL.
//
//   sqlite:PATH            one file, no server, any number of processes of one host; durable
//   mongodb://HOST,.../DB  any number of hosts; durable, and a replica set survives fail-overs
//   memory:                this process only, gone with it; for tests
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint {

enum class Access : std::uint8_t {
  kReadWrite,
  kReadOnly,  // every call that would change something is kPermissionDenied
};

// What a store is to sequences and pools; private.
class Catalog;
class CounterStore;
class GaplessStore;
class LeaseTable;
class UniqueIndex;

struct StoreOptions {
  // The longest that one call waits: for another process's lock, for a server.
  std::chrono::milliseconds deadline = std::chrono::seconds{5};
  // Opening ends by then, too: for a caller that opens the store and uses it under one deadline.
  SteadyTime until = SteadyTime::max();
  // Make the store if it is not there; otherwise that is kNotFound.
  bool create = true;
  // Read-only never makes a store, whatever `create` is, and can do with less: see docs/stores.md.
  Access access = Access::kReadWrite;
  // The definition that will be asked for first. MongoDB reads it with the store, in one command,
  // and answers the first find() with it as it was then. Read while the store is opened only.
  std::string_view first_definition{};
  // A folder, made if it is not there, for one small file a store: how far this user saw it. An
  // SQLite store is compared with it, so that an older state of the file is noticed (Store::doubt).
  // Empty: nothing is kept. Read while the store is opened only.
  std::string_view trust_folder{};
};

// A store offers any subset of the interfaces; null where it does not offer one. They live as long
// as the store. Any thread may use it. A child of fork() cannot use it (kFailedPrecondition), and
// must open its own; as SQLite keeps its locks by process, a child of a process that had an SQLite
// store open can open none: open stores after the fork, or exec a program that does. One of MongoDB
// that is destroyed tells the server, where it can, and closes its connections in a thread that
// goes on for half a second, up to the deadline where a server hangs; exit() waits for it. So does
// whatever else of idmint talks to MongoDB. A program that uses MongoDB's C driver itself leaves
// mongoc_cleanup() to the driver.
class IDMINT_EXPORT Store {
 public:
  // `entropy`: for what is random in it, such as its id. kInvalidArgument: not a URL of a known
  // kind (the message lists them). kUnimplemented: this build left the backend out, or this host
  // has not the library it needs. kNotFound: not there, and options.create is false.
  // kPermissionDenied, kResourceExhausted: cannot be written. kUnauthenticated: no such user.
  // kUnavailable: no answer. kDataLoss: damaged. kFailedPrecondition: another program's, or from a
  // newer idmint; left as it was.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(std::string_view url,
                                                           const StoreOptions& options = {},
                                                           Entropy& entropy = system_entropy());
  virtual ~Store() = default;

  // The random id the store was given when it was made: two URLs with one id are one store.
  [[nodiscard]] virtual const Uuid& id() const noexcept = 0;
  // As opened, without passwords.
  [[nodiscard]] virtual std::string_view url() const noexcept = 0;
  // The longest that one of its calls waits: StoreOptions::deadline.
  [[nodiscard]] virtual std::chrono::milliseconds deadline() const noexcept {
    return StoreOptions{}.deadline;
  }

  // What sequences and pools keep there. Programs do not call it: they open a sequence
  // (sequence.h), a pool (worker_pool.h) or gapless numbers (gapless.h). Null: the store does not
  // offer it.
  [[nodiscard]] virtual CounterStore* counters() noexcept = 0;
  [[nodiscard]] virtual Catalog* catalog() noexcept = 0;
  [[nodiscard]] virtual UniqueIndex* unique_index() noexcept = 0;
  [[nodiscard]] virtual LeaseTable* leases() noexcept = 0;
  [[nodiscard]] virtual GaplessStore* gapless() noexcept { return nullptr; }

  // Why the store may hold less than it handed out (it is a copy or an older backup, or its log is
  // missing): kDataLoss, saying what to do. nullopt: no doubt is known. A store in doubt opens, for
  // writing too. Reading, raise(), raise_floor(), extend() of counters, close(), release() and
  // replacing a definition (by an extended or a retired one) work; every call that would hand out a
  // value, a claim or a lease, or create a counter or a definition, fails with this error. An
  // SQLite file beside the log of a newer state of it is worse: every call fails, and settle() too,
  // until the log is removed and the file copied again.
  [[nodiscard]] virtual std::optional<Error> doubt();
  // What the store's own clock shows, to the millisecond, by which it judges leases (MongoDB).
  // Nothing: it has none. For monitoring: how far the clock of this host is from it. Answers within
  // the deadline, and by `until` if that is earlier. kUnavailable, kDeadlineExceeded: no answer.
  [[nodiscard]] virtual Result<std::optional<Instant>> time(SteadyTime until = SteadyTime::max());
  // Ends the doubt, durably and for all processes. For an operator who raised the store past
  // everything that it handed out (kRaised), or who knows that the file was only moved: kOnlyMoved
  // fails with the doubt if something besides the place shows that values are missing. Without a
  // doubt it changes nothing. Errors as CounterStore::raise().
  enum class Settle : std::uint8_t { kRaised, kOnlyMoved };
  [[nodiscard]] virtual Result<void> settle(Settle how);
  [[nodiscard]] Result<void> settle() { return settle(Settle::kRaised); }
};

struct StoreKind {
  std::string_view scheme;   // "sqlite"
  std::string_view example;  // "sqlite:ids.db"
  std::string_view about;
  std::string_view durability{};  // when a value is safe; empty: it is not
  bool shared = false;  // by several hosts; otherwise each host would have a store of its own
  bool lasts = true;    // when the process ends
  bool is_file = false;
  bool has_documents = false;  // of applications, beside what is idmint's
};

// What Store::open() knows, in this build.
[[nodiscard]] IDMINT_EXPORT std::span<const StoreKind> store_kinds() noexcept;
// Null: it is the URL of none of them.
[[nodiscard]] IDMINT_EXPORT const StoreKind* store_kind(std::string_view url) noexcept;

}  // namespace idmint
