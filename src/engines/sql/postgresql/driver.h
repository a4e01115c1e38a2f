// libpq, PostgreSQL's C library, loaded when a store of PostgreSQL is opened and not linked: a
// command that does without it starts as fast as before.
#pragma once

#include <libpq-fe.h>

#include "idmint/result.h"

namespace idmint::stores::postgresql {

// Every function of libpq that the store calls. In this namespace each name means the one that was
// loaded.
#define IDMINT_LIBPQ(F)        \
  F(PQbackendPID)              \
  F(PQclear)                   \
  F(PQcmdTuples)               \
  F(PQconnectPoll)             \
  F(PQconnectStartParams)      \
  F(PQconnectionNeedsPassword) \
  F(PQconninfoFree)            \
  F(PQconninfoParse)           \
  F(PQconsumeInput)            \
  F(PQerrorMessage)            \
  F(PQfinish)                  \
  F(PQflush)                   \
  F(PQgetResult)               \
  F(PQgetlength)               \
  F(PQgetvalue)                \
  F(PQisBusy)                  \
  F(PQntuples)                 \
  F(PQresultErrorField)        \
  F(PQresultStatus)            \
  F(PQsendPrepare)             \
  F(PQsendQuery)               \
  F(PQsendQueryParams)         \
  F(PQsendQueryPrepared)       \
  F(PQsetErrorVerbosity)       \
  F(PQsetNoticeReceiver)       \
  F(PQsetnonblocking)          \
  F(PQsocket)                  \
  F(PQstatus)                  \
  F(PQtransactionStatus)

// A name that is declared cannot stand in parentheses, and these are libpq's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DECLARE(name) extern decltype(&::name) name;
IDMINT_LIBPQ(IDMINT_DECLARE)
#undef IDMINT_DECLARE
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

// To be called before any of them; from the second time on it costs nothing. kUnimplemented: this
// host has not the library. Never unloaded.
[[nodiscard]] Result<void> load_libpq();

}  // namespace idmint::stores::postgresql
