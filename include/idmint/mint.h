// Mint: the sources a program can be asked for: every format, and every sequence of one store.
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

// Where a Snowflake generator's worker id comes from (host.h has how). What the source declares
// says on what condition no other generator has it, or with which odds.
struct Worker {
  enum class From : std::uint8_t {
    kGiven,        // unique if configured so
    kEnvironment,  // the number in an environment variable: likewise
    kOrdinal,      // the number at the end of the host name, as of a StatefulSet: likewise
    kAddress,      // the low bits of the host's IP address: likewise
    kHardware,     // a hash of the hardware addresses: practical
    kRandom,       // drawn when the source is opened: practical
  };
  From from = From::kGiven;
  std::uint32_t id = 0;  // kGiven
  // kEnvironment: of the variable. kAddress: of the interface; empty: the one of the default route.
  std::string name{};

  friend bool operator==(const Worker&, const Worker&) = default;
};

// Where the node of a version 1 or 2 UUID comes from.
struct UuidNode {
  enum class From : std::uint8_t {
    kRandom,    // 47 random bits: practical
    kHardware,  // host_address() (host.h): unique if configured so
    kGiven,     // likewise
  };
  From from = From::kRandom;
  HardwareAddress address{};  // kGiven

  friend bool operator==(const UuidNode&, const UuidNode&) = default;
};

// What is asked of a format beyond its name. Each format takes some of them; another one that is
// set is kInvalidArgument, and so is a needed one that is not.
struct FormatOptions {
  // Of all but typeid.
  std::optional<Form> form{};
  // snowflake. No worker id is ever guessed: it must be given.
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
  // Of a pool, which is no format, but takes this: how far ahead the lease is kept
  // (SnowflakeLeaseOptions).
  std::optional<std::chrono::nanoseconds> window{};

  friend bool operator==(const FormatOptions&, const FormatOptions&) = default;
};

struct MintOptions {
  // Empty: sqlite:DATA/ids.db, where DATA is $XDG_DATA_HOME/idmint or ~/.local/share/idmint.
  std::string store{};
  // Its deadline is that of a call for ids of a sequence, too, and of source(): the store is
  // opened, the definition is found and the sequence is opened by one point in time. A format waits
  // as long for the lock of its state file.
  StoreOptions store_options{};
  // Of sequences (SequenceOptions::executor); null: shared_executor().
  Executor* executor = nullptr;
  // Where state files are kept; empty: DATA.
  std::string state_directory{};
  // Asked, a few times a second, while the source of a pool waits because every worker id is owned:
  // false ends the waiting. With it the source waits until the first worker id that is held is
  // free, as it was when the waiting began, and at least until StoreOptions::deadline; `of` is all
  // of that time. Without it the source waits until StoreOptions::deadline. Must not throw.
  std::function<bool(std::chrono::milliseconds waited, std::chrono::milliseconds of)> wait_on{};
  // Told, in one line, what is not an error but should be known: a state file was made. Called from
  // within source(); must not throw.
  std::function<void(std::string_view)> notice{};
};

// Opens nothing until it is needed: asking for a format never touches the store. Only create()
// makes a store, or the data folder that it lies in (mode 0700; for the state file of a Snowflake
// source too). May be shared by threads. Sources keep what they need of the mint alive, but for the
// clock and the entropy.
class IDMINT_EXPORT Mint final {
 public:
  // The formats that are ordered by second take seconds_clock() where `clock` is system_clock().
  explicit Mint(MintOptions options = {}, Clock& clock = system_clock(),
                Entropy& entropy = system_entropy());
  // Over a store that is open already; options.store and options.store_options but for the deadline
  // are not looked at. The mint and its sources share the store. REQUIRES: store is not null.
  explicit Mint(std::shared_ptr<Store> store, MintOptions options = {},
                Clock& clock = system_clock(), Entropy& entropy = system_entropy());
  ~Mint();
  Mint(Mint&&) noexcept;
  Mint& operator=(Mint&&) noexcept;

  // The formats, which every mint has: "uuid4", "uuid7", "ulid", "snowflake", ...
  [[nodiscard]] static std::vector<Declaration> formats();

  // A format or a sequence by its name. kNotFound: neither; the error has the advice to
  // create it. kInvalidArgument: the options do not go with it; a sequence takes none, as its
  // definition says everything, and a pool the window only. The source of a pool leases a worker id
  // when it is first asked for ids; if all are owned it asks again until
  // StoreOptions::deadline, or longer with MintOptions::wait_on, and is then kResourceExhausted;
  // the message says until when the first of them is held.
  [[nodiscard]] Result<std::unique_ptr<Source>> source(std::string_view name,
                                                       const FormatOptions& options = {});

  // kInvalidArgument: also a name that means something else to a command: that of a format, of a
  // version of UUID, of a Snowflake layout; and a new pool whose layout has no ids of the present
  // time. Otherwise as create_sequence and create_pool.
  [[nodiscard]] Result<void> create(
      const Definition& definition,
      const std::function<void(std::int64_t done, std::int64_t of)>& progress = {});
  [[nodiscard]] Result<void> create(const SequenceDefinition& sequence) {
    return create(Definition(sequence));
  }
  // As raise_sequence, alter_sequence, retire_sequence and peek_sequence.
  [[nodiscard]] Result<Raised> raise(std::string_view name, std::int64_t past,
                                     RaiseMode mode = RaiseMode::kCarryOut,
                                     SteadyTime until = SteadyTime::max());
  [[nodiscard]] Result<Raised> raise(std::string_view name, std::span<const std::int64_t> past,
                                     RaiseMode mode = RaiseMode::kCarryOut);
  [[nodiscard]] Result<Raised> raise(std::string_view name, ExistingValues& values,
                                     RaiseMode mode = RaiseMode::kCarryOut);
  [[nodiscard]] Result<Raised> raise(std::string_view name, Store& from,
                                     RaiseMode mode = RaiseMode::kCarryOut);
  [[nodiscard]] Result<SequenceDefinition> alter(std::string_view name, std::int64_t last);
  [[nodiscard]] Result<void> retire(std::string_view name);
  [[nodiscard]] Result<SequenceStatus> peek(std::string_view name,
                                            SteadyTime until = SteadyTime::max());
  // As list_workers, release_worker and raise_pool.
  [[nodiscard]] Result<std::vector<LeaseState>> list_workers(std::string_view pool);
  [[nodiscard]] Result<LeaseState> release_worker(std::string_view pool, std::int64_t worker);
  [[nodiscard]] Result<std::int64_t> raise_pool(std::string_view pool, Instant past);
  // By name. Empty when nothing was ever created: the store is the default one and is not there.
  [[nodiscard]] Result<std::vector<SequenceStatus>> list(SteadyTime until = SteadyTime::max());

  // As idmint::has_given().
  [[nodiscard]] Result<bool> has_given(std::string_view name, std::int64_t value);
  // The store itself, for what concerns all of it: raise_all(), Store::settle(). kNotFound: it is
  // not there; it is not made.
  [[nodiscard]] Result<std::shared_ptr<Store>> store();
  // What options.store came to, without passwords.
  [[nodiscard]] Result<std::string> store_url() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace idmint
