// The keys of a store in a cluster of etcd: its connections, and transactions that are sent by one
// of them.
//
// Every transaction names the revision at which the store's own record was changed last, and is
// refused where the record is another by now: a store that was removed, made anew or settled is
// noticed in the same step that would have changed it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/etcd/address.h"
#include "engines/etcd/connection.h"
#include "engines/etcd/records.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "store/engine.h"
#include "store/sessions.h"

namespace idmint::stores::etcd {

using std::chrono::milliseconds;

// The part that all tables of one store share. Any thread may call any method at any time.
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
  // The id of the cluster that was opened.
  [[nodiscard]] const std::string& cluster() const noexcept { return cluster_; }
  [[nodiscard]] const std::string& url() const noexcept { return sessions_.url(); }
  [[nodiscard]] milliseconds deadline() const noexcept { return sessions_.deadline(); }
  [[nodiscard]] const Keys& keys() const noexcept { return keys_; }

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

  // The result of each of the operations, at one revision.
  Result<std::vector<Found>> read(const Operations& operations, SteadyTime until);
  // The entries whose keys begin with the prefix and go on with more than `after`, in the order of
  // the keys, `most` at most. Read page by page, each at a later revision.
  Result<std::vector<Entry>> list(const std::string& prefix, SteadyTime until,
                                  std::string_view after = {},
                                  std::size_t most = std::numeric_limits<std::size_t>::max());
  // The transaction, again where another attempt may succeed. `doing`: for messages. The answer is
  // that of the transaction: if it did not succeed, its own compares did not hold, and nothing was
  // changed; but see Answer::sent_before.
  // REQUIRES: its compares, or those of each nested one, do not hold any more once it was applied,
  // or it changes nothing.
  // So it is sent to another member where one has no answer, and cannot be applied twice.
  Result<Answer> change(Kind kind, Transaction transaction, SteadyTime until,
                        std::string_view doing);
  Result<void> expect_trust(SteadyTime until) override;
  // As in key_value/step_aside.h.
  [[nodiscard]] Result<void> step_aside(int attempt, SteadyTime until, std::string_view doing);

  // As Store::doubt() and Store::settle().
  std::optional<Error> doubt(SteadyTime by);
  Result<void> settle(Store::Settle how);
  // As those of Store.
  [[nodiscard]] std::int64_t settle_count() const;
  Result<std::int64_t> read_settle_count(SteadyTime by);
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime by);

  // kDataLoss, with what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& why) const;

 private:
  struct Session {
    std::unique_ptr<Connection> connection;
    std::optional<StoreRecord> record{};  // as it was when it connected, or was looked at later
    std::int64_t changed = 0;             // the revision at which it was changed
    Place place{};                        // of the cluster at this end
    std::int64_t placed = -1;             // `changed` when that was measured
    std::optional<std::string> definition{};

    [[nodiscard]] bool is_usable() const { return connection->is_usable(); }
    void answer_by(SteadyTime by) { connection->answer_by(by); }
  };
  // The cluster as the process has seen it. This counts until the store is settled anew.
  struct Seen {
    std::int64_t settled = -1;  // Store::settle_count(); -1: nothing was read yet
    std::int64_t revision = 0;
    std::string gone_back{};  // a contradiction that is not in the record yet
  };
  template <class T>
  using Attempt = std::expected<T, Failure>;

  Attempt<Session> connect(std::size_t server, SteadyTime until);
  static bool was_not_applied_yet(Session& session, const Transaction& transaction,
                                  SteadyTime until);
  Attempt<Answer> ask(Session& session, Transaction transaction, SteadyTime until);
  Attempt<void> take_record(Session& session, const Found& found, const Header& header,
                            const Seen& before);
  Attempt<void> take_header(Session& session, const Header& header, std::int64_t floor,
                            bool writes);
  Attempt<void> look(Session& session, SteadyTime until);
  Attempt<void> measure(Session& session, SteadyTime until);
  Attempt<Place> place_for_record(Session& session, SteadyTime until);
  Attempt<void> expect_trust(Session& session, SteadyTime until);
  Attempt<void> write_gone_back(Session& session, SteadyTime until);
  Attempt<bool> replace_record(Session& session, const StoreRecord& record, SteadyTime until);
  Result<StoreRecord> find_or_make(const StoreOptions& options, SteadyTime until,
                                   std::optional<std::string>* definition);
  Attempt<StoreRecord> make(Session& session, SteadyTime until);
  [[nodiscard]] std::optional<Error> doubt_of(const Session& session);
  [[nodiscard]] Seen seen() const;

  const Address address_;
  const Keys keys_;
  Entropy& entropy_;
  // Written while the store is opened only.
  Uuid id_{};
  std::string cluster_{};
  bool opened_ = false;
  std::string first_definition_{};

  mutable std::mutex mutex_;  // guards seen_
  Seen seen_;

  Sessions<Session> sessions_;
};

}  // namespace idmint::stores::etcd
