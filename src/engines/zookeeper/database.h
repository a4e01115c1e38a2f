// The nodes of a store in a ZooKeeper ensemble: its sessions, and changes that are made by one of
// them.
//
// Every change names the version of the store's own record, and the node of the record's nonce
// (Paths::trust()), and is refused where one of them is another by now: a store that was removed,
// made anew or settled is noticed in the same transaction that would have changed it. Another store
// has another nonce. A copy that is put back in its place has a record and a trust node of two
// transactions, which every look compares, and its counters are behind what the process wrote last
// (Witness). A restored ensemble uses versions again, so a version that was read counts only for
// the connection on which it was read, and for that record.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_wiped.h"
#include "engines/zookeeper/address.h"
#include "engines/zookeeper/connection.h"
#include "engines/zookeeper/records.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "store/engine.h"
#include "store/sessions.h"

namespace idmint::stores::zookeeper {

using std::chrono::milliseconds;

template <class T>
using Attempt = std::expected<T, Failure>;

struct Session {
  std::unique_ptr<Connection> connection;
  // The record as look() read it. Nothing: it is to be read again, as it was missing or another
  // one.
  std::optional<StoreRecord> record{};
  std::int32_t version = 0;  // of the record
  std::int64_t created = 0;  // the transaction that made its node
  bool has_trust = false;    // the node of its nonce is as its transaction made it
  std::optional<std::int32_t> trust_version{};  // of that node; nothing: it is not there
  std::string place{};                          // of the store as it is here
  std::optional<std::string> definition{};

  [[nodiscard]] bool is_usable() const { return connection->is_usable(); }
  void answer_by(SteadyTime by) { connection->answer_by(by); }
};

// A write that is made whatever becomes of the others.
struct Change {
  Write write{};
  enum class Fate : std::uint8_t {
    kPending,  // nothing was done yet
    kDone,
    kRefused,  // nothing was done: its condition does not hold
    kPerhaps,  // it may have been done, or be done later
  };
  Fate fate = Fate::kPending;
};

// What the tables of one store share. Any thread may call any method at any time.
class Database final : public Engine {
 public:
  Database(Address address, milliseconds deadline, Access access, Entropy& entropy);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Finds or makes the store, before anything else. Errors as Store::open(). `found` is given the
  // text of options.first_definition, if that is there.
  Result<void> open(const StoreOptions& options,
                    const std::function<void(std::string_view json)>& found);

  [[nodiscard]] const Uuid& id() const noexcept { return id_; }
  // The place of the store that was opened.
  [[nodiscard]] const std::string& place() const noexcept { return place_; }
  [[nodiscard]] const std::string& url() const noexcept { return sessions_.url(); }
  [[nodiscard]] milliseconds deadline() const noexcept { return sessions_.deadline(); }
  [[nodiscard]] const Paths& paths() const noexcept { return paths_; }

  // As in Sessions.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const {
    return sessions_.enter_to_read(by);
  }
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const {
    return sessions_.enter(by);
  }

  std::string_view shown_url() const noexcept override { return url(); }
  Entropy& entropy() const noexcept override { return entropy_; }
  Result<SteadyTime> enter(Purpose purpose, SteadyTime by) override {
    return purpose == Purpose::kRead ? enter_to_read(by) : enter(by);
  }
  Result<void> expect_trust(SteadyTime until) override;

  // attempt(Session&), which returns an Attempt, again where another one may succeed. REQUIRES: it
  // reads before it changes anything, so it cannot be applied twice.
  template <class Function>
  auto run(Kind kind, SteadyTime until, std::string_view doing, const Function& attempt) {
    return sessions_.run(kind, until, doing, attempt, true);
  }

  // What is asked for, as it is after all that was done before, and with the record that the
  // session has then. REQUIRES: it has no steps.
  // By::kQuorum: also if the server has lost its quorum and does not know yet. It costs a
  // transaction, and is for readings that can prove that the store has gone back.
  enum class By : std::uint8_t { kLeader, kQuorum };
  Attempt<Answer> read(Session& session, Request request, SteadyTime until, By by = By::kLeader);
  Result<Answer> read(Request request, SteadyTime until, By by = By::kLeader);
  // Makes each change whose condition holds, all of them durable before it returns, and the folders
  // of those that make a node. What became of each stands in its `fate`, also after a failure.
  // `also`: a check that must hold as well; if it does not, another attempt reads anew, and so it
  // does if the record of the store has changed. `then`: a node that is read behind the changes; it
  // is returned as it is then, if it could be read.
  using Nodes = std::vector<std::optional<Node>>;
  Attempt<Nodes> change(Session& session, Kind kind, std::span<Change> changes, SteadyTime until,
                        const Write* also = nullptr, const std::vector<std::string>& then = {});
  // Names of a kind, sorted, those that begin with a prefix.
  Result<std::vector<std::string>> names(std::string_view kind, std::string_view prefix,
                                         SteadyTime until);

  // As Store::doubt() and Store::settle().
  std::optional<Error> doubt(SteadyTime by);
  Result<void> settle(Store::Settle how);
  // As those of Store.
  [[nodiscard]] std::int64_t settle_count() const;
  Result<std::int64_t> read_settle_count(SteadyTime by);
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime by);

  // kDataLoss: a node that was at version `before` beside the record of the session, as this
  // process knows, is that same node at version `now`. Puts the store in doubt.
  Failure gone_back(const Session& session, const std::string& path, std::int32_t before,
                    std::int32_t now);

  // kDataLoss, with what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& why) const;

 private:
  // A node as this process changed it last.
  struct Witness {
    std::string path;
    std::int32_t version;
    std::int64_t changed;
    SteadyTime at;
  };
  // What the process has seen of the servers. It counts until the store is settled anew.
  struct Seen {
    std::int64_t settled = -1;  // Store::settle_count(); -1: nothing was read yet
    std::optional<Witness> witness{};
    std::string gone_back{};  // what cannot be, and is not in the record yet
  };
  // Gives the connections of the store, when it ends, a moment to say good-bye.
  class LastClosings {
   public:
    LastClosings() = default;
    ~LastClosings();
    LastClosings(const LastClosings&) = delete;
    LastClosings& operator=(const LastClosings&) = delete;
    [[nodiscard]] const std::shared_ptr<Closings>& all() const noexcept { return all_; }

   private:
    const OwnedByProcess owner_;
    const std::shared_ptr<Closings> all_ = std::make_shared<Closings>();
  };
  // Changes of one step.
  using Together = std::vector<Change*>;

  Attempt<Session> connect(std::size_t server, SteadyTime until);
  Attempt<Answer> ask(Session& session, const Request& request, SteadyTime until,
                      std::vector<Done>* steps = nullptr) const;
  Attempt<void> take_record(Session& session, const std::optional<Node>& node, const Seen& before);
  [[nodiscard]] bool is_lost(const Witness& before, const std::optional<Node>& node) const;
  Attempt<void> take_witness(const Seen& before, const std::optional<Node>& node);
  Attempt<void> look(Session& session, SteadyTime until);
  Attempt<void> expect_trust(Session& session, SteadyTime until);
  Attempt<void> write_gone_back(Session& session, SteadyTime until);
  Attempt<bool> replace_record(Session& session, StoreRecord record, SteadyTime until);
  Result<StoreRecord> find_or_make(const StoreOptions& options, SteadyTime until,
                                   std::optional<std::string>* definition);
  Attempt<StoreRecord> make(Session& session, SteadyTime until);
  static std::vector<Together> steps_of(std::span<Change> changes, bool alone);
  std::vector<std::string> folders_of(std::span<const Change> changes);
  void remember(const std::vector<std::string>& folders);
  void forget_folders();
  void saw(const Session& session, const Write& write, std::int64_t transaction);
  [[nodiscard]] std::optional<Error> doubt_of(const Session& session);
  [[nodiscard]] Seen seen() const;

  const Address address_;
  const Paths paths_;
  Entropy& entropy_;
  // Written while the store is opened only.
  Uuid id_{};
  std::string place_{};
  bool opened_ = false;
  std::string first_definition_{};

  mutable std::mutex mutex_;  // guards what follows
  Seen seen_;
  std::set<std::string, std::less<>> folders_{};  // that are there

  const LastClosings closings_;  // ends after the sessions
  Sessions<Session> sessions_;
};

}  // namespace idmint::stores::zookeeper
