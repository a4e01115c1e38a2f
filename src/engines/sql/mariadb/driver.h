// libmariadb, MariaDB's C library, loaded when a store of MariaDB is opened and not linked: a
// command that does without it starts as fast as before.
#pragma once

#include <mariadb/mysql.h>

#include "idmint/result.h"

namespace idmint::stores::mariadb {

// Every function of libmariadb that the store calls. In this namespace each name means the one that
// was loaded.
#define IDMINT_LIBMARIADB(F)      \
  F(mysql_close)                  \
  F(mysql_errno)                  \
  F(mysql_error)                  \
  F(mysql_get_socket)             \
  F(mysql_init)                   \
  F(mysql_options)                \
  F(mysql_real_connect_cont)      \
  F(mysql_real_connect_start)     \
  F(mysql_real_query_cont)        \
  F(mysql_real_query_start)       \
  F(mysql_server_init)            \
  F(mysql_stmt_affected_rows)     \
  F(mysql_stmt_bind_param)        \
  F(mysql_stmt_bind_result)       \
  F(mysql_stmt_close)             \
  F(mysql_stmt_errno)             \
  F(mysql_stmt_error)             \
  F(mysql_stmt_execute_cont)      \
  F(mysql_stmt_execute_start)     \
  F(mysql_stmt_fetch)             \
  F(mysql_stmt_fetch_column)      \
  F(mysql_stmt_field_count)       \
  F(mysql_stmt_free_result)       \
  F(mysql_stmt_init)              \
  F(mysql_stmt_more_results)      \
  F(mysql_stmt_next_result_cont)  \
  F(mysql_stmt_next_result_start) \
  F(mysql_stmt_prepare_cont)      \
  F(mysql_stmt_prepare_start)     \
  F(mysql_stmt_store_result_cont) \
  F(mysql_stmt_store_result_start)

// A name that is declared cannot stand in parentheses, and these are libmariadb's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DECLARE(name) extern decltype(&::name) name;
IDMINT_LIBMARIADB(IDMINT_DECLARE)
#undef IDMINT_DECLARE
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

// To be called before any of them; from the second time on it costs nothing. kUnimplemented: this
// host has not the library. Never unloaded.
[[nodiscard]] Result<void> load_libmariadb();

}  // namespace idmint::stores::mariadb
