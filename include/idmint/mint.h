// Mint: all sources of a program by name: every format, and every sequence and pool of one store.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/digits.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/form.h"
#include "idmint/host.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "idmint/uuid_time.h"
#include "idmint/worker_pool.h"

namespace idmint {

// The origin of a Snowflake generator's worker id (details: host.h). The declaration of the source
// states the condition under which no other generator has it, or the odds that one does.
struct Worker {
  enum class From : std::uint8_t {
    kGiven,        // unique if configured so
    kEnvironment,  // the number in an environment variable: unique if configured so
    kOrdinal,      // the ordinal at the end of the host name: unique if configured so
    kAddress,      // the low bits of the host's IP address: unique if configured so
    kHardware,     // a hash of the hardware addresses: practical
    kRandom,       // drawn when the source is opened: practical
  };
  From from = From::kGiven;
  std::uint32_t id = 0;  // kGiven
  // kEnvironment: the name of the variable. kAddress: the name of the interface; empty: the one
  // with the default route.
  std::string name{};

  friend bool operator==(const Worker&, const Worker&) = default;
};

// The origin of the node of a version 1 or 2 UUID.
struct UuidNode {
  enum class From : std::uint8_t {
    kRandom,    // 47 random bits, version 1 only: practical
    kHardware,  // host_address() (host.h): unique if configured so
    kGiven,     // given here: unique if configured so
  };
  From from = From::kRandom;
  HardwareAddress address{};  // kGiven

  friend bool operator==(const UuidNode&, const UuidNode&) = default;
};

// The options of a format. Each format takes some of them. kInvalidArgument: an option that the
// format does not take is set, or one that it needs is not.
struct FormatOptions {
  // All formats except typeid.
  std::optional<Form> form{};
  // snowflake. A worker id is required, because none is ever guessed.
  std::optional<Worker> worker{};
  std::optional<SnowflakeLayout> layout{};  // nothing: the preset sequence-generator
  std::optional<std::chrono::nanoseconds> run_ahead{};
  // uuid1: random if not given; uuid2: hardware.
  std::optional<UuidNode> node{};
  // uuid2, both needed.
  std::optional<DceDomain> domain{};
  std::optional<std::uint32_t> local_id{};
  // digits.
  std::optional<DigitsLayout> digits{};
  // typeid.
  std::optional<std::string> type{};
  // For a pool, which is no format: how far ahead of the clock the lease is kept
  // (SnowflakeLeaseOptions).
  std::optional<std::chrono::nanoseconds> window{};

  friend bool operator==(const FormatOptions&, const FormatOptions&) = default;
};

struct MintOptions {
  // The URL of the store. Empty: sqlite:DATA/ids.db. DATA is $XDG_DATA_HOME/idmint or
  // ~/.local/share/idmint.
  std::string store{};
  // The deadline also holds for next() of a sequence and for source(), which opens the store, finds
  // the definition and opens the sequence under one deadline. A format waits this long at most for
  // the lock of its state file.
  StoreOptions store_options{};
  // The URLs of stores to which sequences may be moved (move_sequence()). All calls for a sequence
  // that was moved to one of them go there; list() covers `store` alone. next() of an open source
  // goes on there, and during the move tries again until its deadline. If the URL is not here, the
  // error says where the sequence is (Remedy::kFollowMove). A caller of Source::sequence() must
  // open the source again.
  std::vector<std::string> also{};
  // URLs for all sequences over several stores (MultiStoreOptions::over, over_others). If `store`
  // does not answer, source() and peek() also look for such a sequence in these stores.
  std::vector<std::string> over{};
  // For Source::submit() and sequences (SequenceOptions::executor); null: shared_executor(). It
  // must outlive the sources.
  Executor* executor = nullptr;
  // The folder of the state files; empty: DATA.
  std::string state_directory{};
  // Whether the first take from a store is compared with what programs of this host were given from
  // it before, and what this mint is given is noted for them: at most once a second, and when the
  // last handle of a store is closed, in DATA/seen-*, without a sync. A store that has gone back to
  // an older state is kDataLoss then. A file that cannot be read or written is no error.
  bool keep_record = true;
  // Called a few times a second while a pool's source waits because all worker ids are owned;
  // returns false to end the wait. With this function the source waits until the first lease
  // expires, as known when the wait began, and at least until StoreOptions::deadline; `of` is that
  // total time. Without it the source waits until StoreOptions::deadline. Must not throw.
  std::function<bool(std::chrono::milliseconds waited, std::chrono::milliseconds of)> wait_on{};
  // Receives one-line notices that are not errors, for example when a state file was created, or
  // when a store of a sequence over several is left out until somebody mends it (once for each
  // store), or when this host keeps no record of a store (Store::unrecorded(), once for each
  // process). Called within the calls that open a store; must not throw.
  std::function<void(std::string_view)> notice{};
  // As MultiStoreOptions::store_changed, with the name of the sequence.
  std::function<void(std::string_view sequence, std::string_view url, const Error* why)>
      store_changed{};
};

// Opens everything lazily: asking for a format never touches the store. Only create() and
// create_over() create a store. The data folder (mode 0700) is created when a file is written to
// it. Threads may share it. Sources keep alive the parts of the mint that they need, except the
// clock and the entropy.
class IDMINT_EXPORT Mint final {
 public:
  // If `clock` is system_clock(), the formats that are ordered by second use seconds_clock().
  explicit Mint(MintOptions options = {}, Clock& clock = system_clock(),
                Entropy& entropy = system_entropy());
  // Uses an open store in place of options.store; options.store_options still hold for deadlines
  // and for other stores. The mint and its sources share the store. REQUIRES: store is not null.
  explicit Mint(std::shared_ptr<Store> store, MintOptions options = {},
                Clock& clock = system_clock(), Entropy& entropy = system_entropy());
  ~Mint();
  Mint(Mint&&) noexcept;
  Mint& operator=(Mint&&) noexcept;

  // The formats. Every mint has them: "uuid4", "uuid7", "ulid", "snowflake", ...
  [[nodiscard]] static std::vector<Declaration> formats();

  // The format, sequence or pool of this name. The source of a pool leases a worker id at the first
  // call for ids. If all are owned, the call tries again until StoreOptions::deadline, or longer
  // with MintOptions::wait_on; then it fails with kResourceExhausted, and the message says when the
  // first lease expires. Errors of source():
  // - kNotFound: no such name; the advice is to create it.
  // - kInvalidArgument: an option does not apply. A sequence takes none; a pool takes `window`
  //   only.
  [[nodiscard]] Result<std::unique_ptr<Source>> source(std::string_view name,
                                                       const FormatOptions& options = {});

  // As create_sequence() and create_pool(), with more cases of kInvalidArgument: a format, a UUID
  // version or a Snowflake layout has the name already, and commands would read it as such; or the
  // layout of a new pool has no ids of the present time.
  [[nodiscard]] Result<Changed> create(const Definition& definition,
                                       const CreateOptions& options = {});
  [[nodiscard]] Result<Changed> create(const SequenceDefinition& sequence) {
    return create(Definition(sequence));
  }
  // As create_sequence() of several stores. Opens the stores at these URLs, and creates those that
  // are missing. Does not use MintOptions::store. Errors also as for create().
  [[nodiscard]] Result<Changed> create_over(const SequenceDefinition& sequence,
                                            std::span<const std::string> urls);
  // As raise_sequence(), alter_sequence(), retire_sequence() and peek_sequence().
  [[nodiscard]] Result<Raised> raise(std::string_view name, std::int64_t past,
                                     RaiseMode mode = RaiseMode::kCarryOut,
                                     SteadyTime until = SteadyTime::max());
  [[nodiscard]] Result<Raised> raise(std::string_view name, std::span<const std::int64_t> past,
                                     RaiseMode mode = RaiseMode::kCarryOut);
  [[nodiscard]] Result<Raised> raise(std::string_view name, ExistingValues& values,
                                     RaiseMode mode = RaiseMode::kCarryOut);
  [[nodiscard]] Result<Raised> raise(std::string_view name, Store& from,
                                     RaiseMode mode = RaiseMode::kCarryOut);
  [[nodiscard]] Result<Changed> alter(std::string_view name, std::int64_t last);
  [[nodiscard]] Result<Changed> retire(std::string_view name);
  [[nodiscard]] Result<SequenceStatus> peek(std::string_view name,
                                            SteadyTime until = SteadyTime::max());
  // As list_workers(), release_worker() and raise_pool().
  [[nodiscard]] Result<std::vector<LeaseState>> list_workers(std::string_view pool);
  [[nodiscard]] Result<LeaseState> release_worker(std::string_view pool, std::int64_t worker);
  [[nodiscard]] Result<std::int64_t> raise_pool(std::string_view pool, Instant past);
  // As list_sequences(). Empty if the store is the default one and does not exist yet.
  [[nodiscard]] Result<std::vector<SequenceStatus>> list(SteadyTime until = SteadyTime::max(),
                                                         const ListOptions& options = {});

  // As idmint::has_given().
  [[nodiscard]] Result<bool> has_given(std::string_view name, std::int64_t value);
  // The store itself, for operations on all of it: raise_all(), Store::settle(). Opens it by
  // `until`; an open one is returned even after `until`.
  // - kNotFound: it does not exist; it is not created.
  // - kUnavailable: it was not opened in time.
  [[nodiscard]] Result<std::shared_ptr<Store>> store(SteadyTime until = SteadyTime::max());
  // The resolved URL of options.store, without passwords.
  [[nodiscard]] Result<std::string> store_url() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace idmint
