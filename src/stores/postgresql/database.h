// The database of a store: its connections, and statements that are sent by one of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fork_wiped.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "stores/postgresql/address.h"
#include "stores/postgresql/connection.h"
#include "stores/postgresql/schema.h"

namespace idmint::stores::postgresql {

using std::chrono::milliseconds;

// What the tables of one store share. Any thread may call any method at any time. Every call has a
// connection to itself while it lasts; there are as many as there were calls at once, up to
// kMostConnections, and they stay open.
class Database {
 public:
  static constexpr std::size_t kMostConnections = 8;

  Database(Address address, milliseconds deadline, Access access, Entropy& entropy)
      : address_(std::move(address)), deadline_(deadline), access_(access), entropy_(entropy) {}
  // REQUIRES: no call is under way, unless this is a child of fork().
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Finds or makes the store, before anything else. Errors as Store::open(). `found` is given the
  // text of options.first_definition, if that is there.
  Result<void> open(const StoreOptions& options,
                    const std::function<void(std::string_view json)>& found);

  [[nodiscard]] const Uuid& id() const noexcept { return id_; }
  [[nodiscard]] const std::string& url() const noexcept { return address_.shown; }
  [[nodiscard]] milliseconds deadline() const noexcept { return deadline_; }
  [[nodiscard]] Entropy& entropy() const noexcept { return entropy_; }

  // When a call that begins now must have answered; at the latest at `by`. kFailedPrecondition: in
  // a child of fork(). enter() also: kPermissionDenied, where the store was opened to read.
  [[nodiscard]] Result<SteadyTime> enter_to_read(SteadyTime by = SteadyTime::max()) const;
  [[nodiscard]] Result<SteadyTime> enter(SteadyTime by = SteadyTime::max()) const;

  // Runs the query, again where it changed nothing and another attempt may succeed. `doing`: for
  // messages, such as "read". A kHandOut that returns no row may have met a store that is not
  // trusted: see check_trust().
  Result<Rows> run(const Query& query, const Values& values, SteadyTime until,
                   std::string_view doing);
  // Why nothing may be handed out: a doubt, or a setting.
  Result<void> check_trust(SteadyTime until);
  // Why a row is not there after the kHandOut that makes it. `read`: the error of reading it. Its
  // kNotFound stays if the store is trusted.
  [[nodiscard]] Error why_not_made(Error read, SteadyTime until);

  // As Store::doubt() and Store::settle().
  std::optional<Error> doubt();
  Result<void> settle();

  // kDataLoss, with what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& why) const;

 private:
  struct Session {
    std::unique_ptr<Connection> connection;
    std::optional<Record> record;  // as it was when it connected, or looked again
  };
  using Opened = std::expected<Session, Failure>;

  Opened connect(std::span<const Setting> server, SteadyTime until);
  Opened connect_to_any(SteadyTime until);
  Opened borrow(SteadyTime until);
  void give_back(Session session);
  void make_room();
  std::optional<Failure> distrust(Session& session, SteadyTime until);
  template <class T>
  Result<T> retry(SteadyTime until, std::string_view doing,
                  const std::function<std::expected<T, Failure>(Session&)>& attempt);
  Result<Record> find_or_make(const StoreOptions& options, SteadyTime until);
  Result<Record> make(SteadyTime until);
  Result<Record> read(SteadyTime until);
  [[nodiscard]] std::unexpected<Error> failed(std::string_view doing, Failure failure,
                                              SteadyTime begin, SteadyTime until) const;
  [[nodiscard]] Failure no_record() const;

  const OwnedByProcess owner_;
  const Address address_;
  const milliseconds deadline_;
  const Access access_;
  Entropy& entropy_;
  // Written while the store is opened only.
  Uuid id_{};
  bool opened_ = false;
  std::string first_definition_{};

  std::mutex mutex_;  // guards what follows
  std::condition_variable freed_;
  std::vector<Session> idle_;  // the one that was used last comes first
  std::size_t open_ = 0;       // of which idle_ are not in use
};

}  // namespace idmint::stores::postgresql
