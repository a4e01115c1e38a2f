// The database of a store: its connections, and statements that are sent by one of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "stores/postgresql/address.h"
#include "stores/postgresql/connection.h"
#include "stores/postgresql/schema.h"
#include "stores/sessions.h"

namespace idmint::stores::postgresql {

using std::chrono::milliseconds;

// What the tables of one store share. Any thread may call any method at any time.
class Database {
 public:
  Database(Address address, milliseconds deadline, Access access, Entropy& entropy);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Finds or makes the store, before anything else. Errors as Store::open(). `found` is given the
  // text of options.first_definition, if that is there.
  Result<void> open(const StoreOptions& options,
                    const std::function<void(std::string_view json)>& found);

  [[nodiscard]] const Uuid& id() const noexcept { return id_; }
  [[nodiscard]] const std::string& url() const noexcept { return sessions_.url(); }
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

    [[nodiscard]] bool is_usable() { return connection->is_usable(); }
    void abandon() noexcept { connection->abandon(); }
  };

  std::expected<Session, Failure> connect(std::size_t server, SteadyTime until);
  std::optional<Failure> distrust(Session& session, SteadyTime until);
  Result<Record> find_or_make(const StoreOptions& options, SteadyTime until);
  Result<Record> make(SteadyTime until);
  Result<Record> read(SteadyTime until);
  [[nodiscard]] Failure no_record() const;

  const Address address_;
  const milliseconds deadline_;
  const Access access_;
  Entropy& entropy_;
  // Written while the store is opened only.
  Uuid id_{};
  bool opened_ = false;
  std::string first_definition_{};

  Sessions<Session> sessions_;
};

}  // namespace idmint::stores::postgresql
