// Stores: databases of counters and definitions, opened by URL.
//
//   sqlite:PATH            one file, no server, any number of processes of one host; durable
//   mongodb://HOST,.../DB  any number of hosts; durable, and a replica set survives fail-overs
//   postgresql://HOST/DB   any number of hosts; durable, and a fail-over that may have lost
//                          values is noticed
//   mysql://HOST/DB        the same, in MariaDB
//   redis://HOST           the same, in Redis
//   etcd://HOST,.../PREFIX any number of hosts; durable, a cluster survives fail-overs, and a
//                          restored snapshot is noticed; zookeeper://HOST,.../PATH likewise
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
  kReadOnly,  // every call that would change something fails with kPermissionDenied
};

// The internal interfaces of a store.
class Catalog;
class CounterStore;
class GaplessStore;
class LeaseTable;
class UniqueIndex;

struct StoreOptions {
  // The longest that one call waits for another process's lock or for a server.
  std::chrono::milliseconds deadline = std::chrono::seconds{5};
  // open() also ends by then. Lets a caller open and use the store under one deadline.
  SteadyTime until = SteadyTime::max();
  // Create the store if it does not exist. Without it, a missing store is kNotFound.
  bool create = true;
  // Read-only access never creates a store, and needs fewer permissions (docs/stores.md).
  Access access = Access::kReadWrite;
  // The name of the definition that the caller will look up first. Stores on servers read it in the
  // command that opens them, so the first look-up needs no other command. Used during open() only.
  std::string_view first_definition{};
  // A folder, created if needed, with one small file for each SQLite store: the latest state that
  // this user saw. The store is compared with it, which detects an older state in its place, such
  // as a backup that was copied over it (Store::doubt()). Used during open() only.
  // - Empty: the data folder of this user, as for the commands: $XDG_DATA_HOME/idmint, or else
  //   ~/.local/share/idmint. Without both variables nothing is kept (Store::unrecorded()).
  // - nullopt: nothing is kept, and an older state in the place of the store gives values again.
  std::optional<std::string_view> trust_folder = std::string_view{};
};

// A store offers some of these interfaces, and returns null for the others. Interfaces live as long
// as the store. Any thread may use a store.
//
// In a child of fork() every call fails with kFailedPrecondition; the child must open its own
// store. SQLite keeps its locks by process, so a child of a process with an open SQLite store
// cannot open one: open stores after the fork, or exec a program that does.
//
// The destructor of a MongoDB store waits for half a second at most, and for a tenth of a second if
// a server hangs. A thread closes the connections meanwhile, which takes half a second, or up to
// the deadline if a server hangs. exit() waits for that thread as long as for a server that
// answers, and no longer. The other parts of idmint that use MongoDB do the same. A program that
// uses MongoDB's C driver itself must not call mongoc_cleanup().
class IDMINT_EXPORT Store {
 public:
  // `entropy` is for random parts such as the store's id. Errors:
  // - kInvalidArgument: not the URL of a known kind; the message lists them.
  // - kUnimplemented: the backend is not in this build, or its library is not on this host.
  // - kNotFound: the store does not exist, and options.create is false.
  // - kPermissionDenied, kResourceExhausted: the store cannot be written.
  // - kUnauthenticated: no such user, or a wrong password.
  // - kUnavailable: no answer.
  // - kDataLoss: the store is damaged.
  // - kFailedPrecondition: the store belongs to another program or a newer idmint, or a setting of
  //   its server could lose values that were handed out. Nothing was changed.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(std::string_view url,
                                                           const StoreOptions& options = {},
                                                           Entropy& entropy = system_entropy());
  virtual ~Store() = default;

  // The random id that the store got at its creation. A copy of the store has the same id.
  [[nodiscard]] virtual const Uuid& id() const noexcept = 0;
  // The URL as opened, without passwords.
  [[nodiscard]] virtual std::string_view url() const noexcept = 0;
  // The id and the place of the store, as it was opened: a copy has the same id and another place.
  // A part of a file's name, under which this host notes what it was given.
  [[nodiscard]] std::string name_on_host() const;
  // Identifies the server among others that the same URL may reach later, for example through a
  // tunnel: the system identifier of PostgreSQL with the oid of the database, the cluster id of
  // etcd, the node of a store in ZooKeeper. It belongs to the place. Empty: nothing identifies it.
  [[nodiscard]] virtual std::string server() const { return {}; }
  // The longest that one call waits: StoreOptions::deadline.
  [[nodiscard]] virtual std::chrono::milliseconds deadline() const noexcept {
    return StoreOptions{}.deadline;
  }

  // The internal interfaces. Programs open a sequence (sequence.h), a pool (worker_pool.h) or
  // gapless numbers (gapless.h) instead. Null: the store does not offer the interface.
  [[nodiscard]] virtual CounterStore* counters() noexcept = 0;
  [[nodiscard]] virtual Catalog* catalog() noexcept = 0;
  [[nodiscard]] virtual UniqueIndex* unique_index() noexcept = 0;
  [[nodiscard]] virtual LeaseTable* leases() noexcept = 0;
  [[nodiscard]] virtual GaplessStore* gapless() noexcept { return nullptr; }

  // Why the store may be behind what it handed out. kDataLoss: it is a copy or an older backup, or
  // its log is missing. kFailedPrecondition: a standby or replica was promoted, or a snapshot of
  // etcd was restored (kDataLoss if this process saw later values). The error says what to do;
  // nullopt: no doubt is known. A store in doubt can be opened, for writing too.
  // - These work: reads, and the functions that raise, alter, retire and release.
  // - These fail with this error: every call that would hand out a value, a claim or a lease, or
  //   create a counter or a definition.
  // If an SQLite file lies beside the log of its newer state, every call fails, settle() too, until
  // the log is removed and the file copied again.
  // Returns within the deadline, and by `until` if that is earlier.
  [[nodiscard]] virtual std::optional<Error> doubt(SteadyTime until);
  [[nodiscard]] std::optional<Error> doubt() { return doubt(SteadyTime::max()); }
  // Why this host keeps no record of the latest state of the store, so that an older state in its
  // place would not be noticed: the file in the trust folder cannot be read or written. Such a
  // store gives values all the same. nullopt: a record is kept, or none is wanted.
  [[nodiscard]] virtual std::optional<Error> unrecorded() { return std::nullopt; }
  // The store's own clock, to the millisecond, by which it judges leases (MongoDB, PostgreSQL,
  // MariaDB, Redis). Nothing: it has none. Returns within the deadline, and by `until` if that is
  // earlier. kUnavailable, kDeadlineExceeded: no answer.
  [[nodiscard]] virtual Result<std::optional<Instant>> time(SteadyTime until = SteadyTime::max());
  // Ends the doubt, durably and for all processes. For an operator who has raised the store past
  // everything that it handed out (kRaised), or who knows that nothing is missing, for example
  // because a file was only moved (kOnlyMoved). kOnlyMoved fails with the doubt if there is
  // evidence that values are missing. In a store that is not in doubt settle() changes nothing
  // but, in MongoDB with kRaised, the count.
  // Other errors are those of the store.
  enum class Settle : std::uint8_t { kRaised, kOnlyMoved };
  [[nodiscard]] virtual Result<void> settle(Settle how);
  [[nodiscard]] Result<void> settle() { return settle(Settle::kRaised); }
  // Grows with each end of a doubt, and is not used again after an older state was restored: it is
  // the larger one of the next number and the seconds since 1970. What is known of values that were
  // handed out holds within one count. An older state of the store has a lower count. This is what
  // this handle read last. A call that handed something out did so within a count that is not above
  // the one reported after it, nor below the one reported before it. 0: the doubt was never ended,
  // or the store keeps no count.
  [[nodiscard]] virtual std::int64_t settle_count() const noexcept { return 0; }
  // The count that the store has now; settle_count() reports it from then on. Returns within the
  // deadline, and by `until` if that is earlier. Errors are those of the store.
  [[nodiscard]] virtual Result<std::int64_t> read_settle_count(SteadyTime until);
  // Puts the store in doubt for all processes, durably: it has forgotten values that this process
  // was given within the count `settled`. `why` says which. The doubt is kDataLoss, and
  // settle(Settle::kRaised) ends it. Does nothing if the store has another count by now, or keeps
  // no such mark. Returns by `until`. Errors, after which no other process knows: those of the
  // store; kPermissionDenied: this user may not write the mark.
  [[nodiscard]] virtual Result<void> mark_gone_back(std::string_view why, std::int64_t settled,
                                                    SteadyTime until);

 private:
  std::string name_on_host_{};  // empty: it was not opened by open()
};

struct StoreKind {
  std::string_view scheme;   // "sqlite"
  std::string_view example;  // "sqlite:ids.db"
  std::string_view about;
  std::string_view durability{};  // the moment from which a value is safe; empty: never
  bool shared = false;  // several hosts can use it; otherwise each host has a store of its own
  bool lasts = true;    // it outlives the process
  bool is_file = false;
  bool has_documents = false;  // it also holds the documents of applications
};

// The kinds of stores in this build.
[[nodiscard]] IDMINT_EXPORT std::span<const StoreKind> store_kinds() noexcept;
// The kind of a URL. Null: it is none of them.
[[nodiscard]] IDMINT_EXPORT const StoreKind* store_kind(std::string_view url) noexcept;

}  // namespace idmint
