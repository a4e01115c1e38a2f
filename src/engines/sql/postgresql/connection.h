// One connection to a server of PostgreSQL: statements that are sent without blocking and answered
// within a deadline, and what a failure says of what was done.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/sql/postgresql/address.h"
#include "engines/sql/postgresql/driver.h"
#include "engines/sql/query.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "store/sessions.h"

namespace idmint::stores::postgresql {

using sql::Query;

// The values of a statement, as text.
using Values = std::vector<std::string>;

// An array of PostgreSQL, as text.
[[nodiscard]] std::string array_of(std::span<const std::string> texts);
[[nodiscard]] std::string array_of(std::span<const std::int64_t> integers);

// One row of Rows, which must outlive it. Columns count from 0.
class Row {
 public:
  Row(const PGresult* rows, int at) : rows_(rows), at_(at) {}
  // The value of a boolean, or of an integer of any size; 0 for NULL.
  [[nodiscard]] std::int64_t integer(int column) const;
  // The bytes of a text, or the 16 bytes of a uuid; empty for NULL.
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  const PGresult* rows_;
  int at_;
};

// The result of a statement.
class Rows {
 public:
  Rows() = default;
  // Takes `rows` over.
  explicit Rows(PGresult* rows) : rows_(rows) {}
  [[nodiscard]] int size() const { return rows_ == nullptr ? 0 : PQntuples(rows_.get()); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  // How many rows the statement found, inserted or updated.
  [[nodiscard]] std::int64_t found() const;
  // REQUIRES: 0 <= at < size().
  [[nodiscard]] Row operator[](int at) const { return {rows_.get(), at}; }

 private:
  struct Clear {
    void operator()(PGresult* rows) const { PQclear(rows); }
  };
  std::unique_ptr<PGresult, Clear> rows_;
};

// Used by one thread at a time.
class Connection {
 public:
  // Connects, and logs in. Looking a host name up takes as long as the resolver takes; all else
  // ends by `until`.
  static std::expected<std::unique_ptr<Connection>, Failure> open(std::span<const Setting> server,
                                                                  SteadyTime until);
  // Tells the server, without waiting.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // {id} in statements that were not prepared yet stands for the id of this store.
  void uses_store(const Uuid& id) { store_ = id; }

  // The process of the server that has the settings of the connection, by its number. Statements
  // with {backend} have that number in its place, and fail with the reason kOtherBackend in another
  // process.
  void is_set_up_in(std::int64_t backend) { backend_ = std::to_string(backend); }

  // The number of that process as the login said it. Another one than the process says itself: a
  // pooler is in between.
  [[nodiscard]] std::int64_t backend_at_login() const;
  // Leaves no statement prepared in the server, where others would find it.
  void never_prepare() { prepares_ = false; }

  // Writes are durable, by the settings of the connection, when it returns rows.
  std::expected<Rows, Failure> run(const Query& query, const Values& values, SteadyTime until);
  // Any number of statements, without values, as one transaction; they return no rows.
  std::expected<Rows, Failure> execute(const std::string& sql, SteadyTime until);

  // False: a failure left it in a state in which nothing more can be sent, or the server has closed
  // it meanwhile.
  [[nodiscard]] bool is_usable();

 private:
  explicit Connection(PGconn* connection) : connection_(connection) {}
  std::expected<void, Failure> connect(SteadyTime until);
  std::expected<Rows, Failure> exchange(Kind kind, SteadyTime until);
  Failure broken(Kind kind, std::string why);
  [[nodiscard]] std::string filled_in(std::string sql) const;
  void notice(const PGresult* notice);

  PGconn* connection_;
  bool usable_ = true;
  bool prepares_ = true;
  std::string backend_ = "0";
  Uuid store_{};
  std::string unawaited_{};  // the warning that the statement under way did not wait for a standby
  std::map<std::string, int, std::less<>> uses_{};
};

}  // namespace idmint::stores::postgresql
