// One connection to a server of MariaDB: statements that are sent without blocking and answered
// within a deadline, and what a failure says of what was done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engines/sql/mariadb/address.h"
#include "engines/sql/mariadb/driver.h"
#include "engines/sql/query.h"
#include "idmint/clock.h"
#include "idmint/result.h"
#include "idmint/uuid.h"
#include "store/sessions.h"

namespace idmint::stores::mariadb {

using sql::Query;

// A text of characters, where a std::string is a string of bytes.
struct Text {
  std::string text;
};
using Value = std::variant<std::int64_t, std::string, Text>;
using Values = std::vector<Value>;

// Lists for JSON_TABLE; the texts as hexadecimal digits, as they may be any bytes.
[[nodiscard]] Text list_of(std::span<const std::string> texts);
[[nodiscard]] Text list_of(std::span<const std::int64_t> integers);

// One row of Rows, which must outlive it. Columns count from 0.
class Row {
 public:
  explicit Row(const std::vector<std::string>& columns) : columns_(&columns) {}
  // 0 for NULL.
  [[nodiscard]] std::int64_t integer(int column) const;
  // Empty for NULL.
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  const std::vector<std::string>* columns_;
};

// The result of a statement.
class Rows {
 public:
  // The result of a statement without rows. `found`: the rows that it is about, changed or not.
  explicit Rows(std::int64_t found) : found_(found) {}
  explicit Rows(std::vector<std::vector<std::string>> rows) : rows_(std::move(rows)) {}

  [[nodiscard]] int size() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // REQUIRES: 0 <= at < size().
  [[nodiscard]] Row operator[](int at) const { return Row(rows_[static_cast<std::size_t>(at)]); }
  [[nodiscard]] std::int64_t found() const { return found_; }

 private:
  std::vector<std::vector<std::string>> rows_{};
  std::int64_t found_ = 0;
};

// Used by one thread at a time.
class Connection {
 public:
  // Connects, and logs in. Looking a host name up takes as long as the resolver takes; all else
  // ends by `until`.
  static std::expected<std::unique_ptr<Connection>, Failure> open(const Address& address,
                                                                  const Server& server,
                                                                  SteadyTime until);
  // Tells the server, without waiting.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // {place} in statements that were not prepared yet stands for this condition. A statement that
  // fails with kOtherColumns was not applied, and is the last one of the connection.
  void compares_place(std::string condition) { place_ = std::move(condition); }
  // {id} in statements that were not prepared yet stands for the id of this store.
  void uses_store(const Uuid& id) { store_ = id; }

  // Writes are durable, by the settings of the server, when it returns rows.
  std::expected<Rows, Failure> run(const Query& query, const Values& values, SteadyTime until);
  // One statement, without values; it returns no rows.
  std::expected<void, Failure> execute(const std::string& sql, SteadyTime until,
                                       Kind kind = Kind::kWrite);

  // False: a failure left it in a state in which nothing more can be sent, or the server has closed
  // it meanwhile.
  [[nodiscard]] bool is_usable();

 private:
  struct Prepared {
    MYSQL_STMT* handle = nullptr;
    std::vector<std::size_t> places{};  // which of the values each ? is
  };

  explicit Connection(MYSQL* connection) : connection_(connection) {}
  bool finish(SteadyTime until, const auto& start, const auto& go_on);
  int wait(int events, SteadyTime until);
  std::expected<Prepared*, Failure> prepare(const Query& query, SteadyTime until);
  std::expected<Rows, Failure> rows_of(MYSQL_STMT* statement, Kind kind, SteadyTime until);
  Failure failed(Kind kind, unsigned number, const char* why);

  MYSQL* connection_;
  bool usable_ = true;
  bool late_ = false;  // the deadline has ended what was under way
  std::string place_{};
  Uuid store_{};
  std::map<std::string, Prepared, std::less<>> prepared_{};
};

}  // namespace idmint::stores::mariadb
