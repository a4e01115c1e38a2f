// The values in a column of an SQL server, whatever its dialect.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "engines/sql/adopted_record.h"
#include "engines/sql/query.h"
#include "idmint/mongodb.h"
#include "store/backend.h"
#include "store/existing_texts.h"
#include "store/sessions.h"

namespace idmint::stores::sql {

// In those about a column, {table} and {column} stand for it.
struct ColumnStatements {
  // table as statements have it, table, column -> whether it holds numbers, whether texts, its type
  Query describe;
  std::string_view largest_number;  // from, to -> the largest that is within; NULL: none
  // from, to, whether `to` counts -> texts as largest_text() asks for
  std::string_view largest_texts;
  std::string_view any_text;  // -> a text that is not empty
};

template <class Dialect>
class ColumnValues final : public ExistingValues {
 public:
  ColumnValues(typename Dialect::Address address, const ColumnStatements& statements,
               ColumnName where, std::string column, const ExistingForm& form,
               std::chrono::milliseconds deadline)
      : address_(std::move(address)),
        describe_(statements.describe),
        largest_number_(about(statements.largest_number, where)),
        largest_texts_(about(statements.largest_texts, where)),
        any_text_(about(statements.any_text, where)),
        where_(std::move(where)),
        column_(std::move(column)),
        form_(form),
        sessions_(address_.shown, deadline, Access::kReadOnly, address_.servers.size(),
                  [this](std::size_t server, SteadyTime until) { return connect(server, until); }) {
  }

  // kNotFound: there is no such column. kFailedPrecondition: it can hold no values.
  Result<void> look() {
    const Result<SteadyTime> until = sessions_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    const Result<Rows> rows = run(
        describe_,
        {Dialect::text(where_.quoted_table), Dialect::text(where_.table), Dialect::text(column_)},
        *until);
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty())
      return std::unexpected(Error{Code::kNotFound, "there is no column " + name() + " in " +
                                                        sessions_.url() +
                                                        "; nothing was changed; look at its name"});
    holds_texts_ = (*rows)[0].integer(1) != 0;
    if (holds_texts_ || (*rows)[0].integer(0) != 0) return {};
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 name() + " is of type " + std::string((*rows)[0].bytes(2)) +
                                     ", which holds neither numbers nor texts"});
  }

  // All pages of texts share the deadline.
  Result<std::optional<std::int64_t>> largest(std::int64_t from, std::int64_t to) override {
    const Result<SteadyTime> until = sessions_.enter_to_read();
    if (!until) return std::unexpected(until.error());
    if (!holds_texts_) return largest_number(from, to, *until);
    if (has_one_width(form_)) {
      return largest_text(form_, from, to,
                          [&](const std::string& least, const std::string& most, bool inclusive) {
                            return texts(least, most, inclusive, *until);
                          });
    }
    const Result<Rows> any = run({"any_text", any_text_.c_str(), Kind::kRead}, {}, *until);
    if (!any) return std::unexpected(any.error());
    if (any->empty()) return std::nullopt;
    return std::unexpected(text_of_any_width(name(), shown((*any)[0].bytes(0))));
  }

 private:
  using Rows = typename Dialect::Rows;
  struct Session {
    std::unique_ptr<typename Dialect::Connection> connection;
    [[nodiscard]] bool is_usable() { return connection->is_usable(); }
  };

  static std::string about(std::string_view sql, const ColumnName& where) {
    std::string text(sql);
    for (const auto& [mark, name] : {std::pair{std::string_view("{table}"), where.quoted_table},
                                     std::pair{std::string_view("{column}"), where.quoted_column}})
      for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
        text.replace(at, mark.size(), name);
    return text;
  }

  [[nodiscard]] std::string name() const { return where_.table + "." + column_; }

  std::expected<Session, Failure> connect(std::size_t server, SteadyTime until) {
    auto connection =
        Dialect::login(address_, server, sessions_.deadline(), sessions_.access(), until);
    if (!connection) return std::unexpected(std::move(connection.error()));
    return Session{*std::move(connection)};
  }

  Result<Rows> run(const Query& query, const typename Dialect::Values& values, SteadyTime until) {
    Result<Rows> rows = sessions_.run(
        Kind::kRead, until, "read " + name() + " in",
        [&](Session& session) { return session.connection->run(query, values, until); });
    if (!rows && rows.error().code == Code::kUnavailable)
      add_outcome(rows.error(),
                  "without an index that begins with " + column_ + " the whole table is read");
    return rows;
  }

  Result<std::optional<std::int64_t>> largest_number(std::int64_t from, std::int64_t to,
                                                     SteadyTime until) {
    const Result<Rows> rows = run({"largest_number", largest_number_.c_str(), Kind::kRead},
                                  {Dialect::value(from), Dialect::value(to)}, until);
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty() || (*rows)[0].bytes(0).empty()) return std::nullopt;
    return (*rows)[0].integer(0);
  }

  Result<std::vector<std::string>> texts(const std::string& from, const std::string& to,
                                         bool inclusive, SteadyTime until) {
    const Result<Rows> rows = run(
        {"largest_texts", largest_texts_.c_str(), Kind::kRead},
        {Dialect::text(from), Dialect::text(to), Dialect::value(std::int64_t{inclusive})}, until);
    if (!rows) return std::unexpected(rows.error());
    std::vector<std::string> all;
    for (int i = 0; i < rows->size(); ++i) all.emplace_back((*rows)[i].bytes(0));
    return all;
  }

  const typename Dialect::Address address_;
  const Query describe_;
  const std::string largest_number_;
  const std::string largest_texts_;
  const std::string any_text_;
  const ColumnName where_;
  const std::string column_;
  const ExistingForm form_;
  bool holds_texts_ = false;
  Sessions<Session> sessions_;
};

// Implements ExistingValues::open(), for a URL that was read.
template <class Dialect>
[[nodiscard]] Result<std::unique_ptr<ExistingValues>> open_column(
    Result<typename Dialect::Address> address, std::string_view table, std::string_view column,
    const ExistingForm& form, std::chrono::milliseconds deadline) {
  if (!address) return std::unexpected(std::move(address.error()));
  Result<ColumnName> where = column_named(Dialect::kAdoptionRules, table, column);
  if (!where) return std::unexpected(std::move(where.error()));
  auto values = std::make_unique<ColumnValues<Dialect>>(
      *std::move(address), Dialect::kColumnStatements, *std::move(where), std::string(column), form,
      deadline);
  if (Result<void> there = values->look(); !there) return std::unexpected(there.error());
  return values;
}

}  // namespace idmint::stores::sql
