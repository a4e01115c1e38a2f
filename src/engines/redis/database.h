// The database of a store: its connections, and scripts that are run by one of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engines/redis/address.h"
#include "engines/redis/connection.h"
#include "engines/redis/record.h"
#include "idmint/clock.h"
#include "idmint/entropy.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "store/engine.h"
#include "store/sessions.h"

namespace idmint::stores::redis {

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
  [[nodiscard]] const std::string& url() const noexcept { return sessions_.url(); }
  [[nodiscard]] milliseconds deadline() const noexcept { return sessions_.deadline(); }

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
  Result<void> expect_trust(SteadyTime until) override {
    if (std::optional<Error> why = doubt(until)) return std::unexpected(*std::move(why));
    return {};
  }

  // Runs the script, again where it changed nothing and another attempt may succeed. `doing`: for
  // messages, such as "read". `values` follow ARGV[1] of scripts.h.
  Result<Answer> run(const Script& script, const Values& values, SteadyTime until,
                     std::string_view doing);

  // As Store::doubt() and Store::settle().
  std::optional<Error> doubt(SteadyTime by);
  Result<void> settle(Store::Settle how);
  // As those of Store.
  [[nodiscard]] std::int64_t settle_count() const noexcept { return settled_; }
  Result<std::int64_t> read_settle_count(SteadyTime by);
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled, SteadyTime by);

  // kDataLoss, with what is wrong and what to do.
  [[nodiscard]] std::unexpected<Error> damaged(const std::string& why) const;

 private:
  struct Session {
    std::unique_ptr<Connection> connection;
    std::optional<Record> record;  // as it was when it connected

    [[nodiscard]] bool is_usable() { return connection->is_usable(); }
    void answer_by(SteadyTime by) { connection->answer_by(by); }
  };

  std::expected<Session, Failure> connect(std::size_t server, SteadyTime until);
  Result<Record> find_or_make(const StoreOptions& options, SteadyTime until);
  Result<Record> make(SteadyTime until);
  Result<Record> read(SteadyTime until);
  std::expected<std::optional<Record>, Failure> look(Connection& connection,
                                                     std::string_view definition, SteadyTime until);
  [[nodiscard]] std::string self(const Uuid& id, std::int64_t settled) const;
  [[nodiscard]] std::optional<Failure> refused_record(const std::optional<Record>& record) const;

  const Address address_;
  Entropy& entropy_;
  // Written while the store is opened only.
  Uuid id_{};
  bool opened_ = false;
  std::string first_definition_{};

  std::atomic<std::int64_t> settled_{0};  // as it was read last

  // A mark that only this process knows, as it could not write it: its settle count, and why.
  struct Unmarked {
    std::int64_t settled = 0;
    std::string gone_back{};
  };
  std::atomic<bool> has_unmarked_{false};
  std::mutex mutex_;  // guards unmarked_
  std::optional<Unmarked> unmarked_{};

  Sessions<Session> sessions_;
};

}  // namespace idmint::stores::redis
