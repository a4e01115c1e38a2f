#include "engines/sql/postgresql/sqlstate.h"

#include <algorithm>
#include <array>

namespace idmint::stores::postgresql {
namespace {

struct Entry {
  std::string_view begin;  // of the codes that it is about; the first entry that fits counts
  Meaning meaning;
  std::string_view advice{};
};

constexpr std::string_view kPooler =
    "; a connection pooler seems to hand each transaction another connection: pool by session, or "
    "name the server itself";

constexpr auto kMeanings = std::to_array<Entry>({
    {"08", {Code::kUnavailable, true}},  // connection exceptions
    {"0A000", {Code::kUnimplemented, false}},
    {"2200H", {Code::kOutOfRange, false}},  // a sequence has come to its end
    {kOtherBackend, {Code::kFailedPrecondition, false}, kPooler},
    {"22021", {Code::kInvalidArgument, false}, "; make the database with the encoding UTF8"},
    {"22P05", {Code::kInvalidArgument, false}, "; make the database with the encoding UTF8"},
    {"22", {Code::kDataLoss, false}},  // a value that idmint does not write
    {"23", {Code::kDataLoss, false}},  // the same: the tables have checks
    {"25006",                          // read_only_sql_transaction
     {Code::kFailedPrecondition, false},
     "; the server is a standby, or default_transaction_read_only is on: name the primary, and "
     "switch that setting off for the user of idmint"},
    {"26000",  // invalid_sql_statement_name
     {Code::kFailedPrecondition, false},
     kPooler},
    {"28",
     {Code::kUnauthenticated, false},
     "; the user or the password is wrong, or pg_hba.conf does not let this user in from here"},
    {"3D000", {Code::kFailedPrecondition, false}, "; make it with createdb, or name another"},
    {"3F000", {Code::kDataLoss, false}},  // invalid_schema_name
    {"40", {Code::kUnavailable, true}},   // serialization_failure, deadlock_detected
    {kInsufficientPrivilege, {Code::kPermissionDenied, false}},
    {"42P01", {Code::kDataLoss, false}},  // undefined_table
    {"42P05",                             // duplicate_prepared_statement
     {Code::kFailedPrecondition, false},
     kPooler},
    {"42703", {Code::kDataLoss, false}},  // undefined_column
    {"42809", {Code::kDataLoss, false}},  // wrong_object_type
    {"42883", {Code::kDataLoss, false}},  // undefined_function: of values of such a type
    {"53300",
     {Code::kResourceExhausted, true},
     "; no connection is left (max_connections, or a limit of the user or the database)"},
    {"53", {Code::kResourceExhausted, false}},  // disk, memory
    {"54", {Code::kResourceExhausted, false}},
    {"55P03", {Code::kUnavailable, false}},  // lock_not_available
    {"57014", {Code::kUnavailable, false}},  // query_canceled
    {"57", {Code::kUnavailable, true}},      // the server stops or starts
    {"58", {Code::kUnavailable, false}, "; look at the server's disk and its log"},
    {"XX001", {Code::kDataLoss, false}},
    {"XX002", {Code::kDataLoss, false}},
});

const Entry* entry_of(std::string_view sqlstate) {
  const auto* const found = std::ranges::find_if(
      kMeanings, [&](const Entry& each) { return sqlstate.starts_with(each.begin); });
  return found != kMeanings.end() ? found : nullptr;
}

}  // namespace

Meaning meaning_of(std::string_view sqlstate) {
  if (sqlstate.empty()) return {Code::kUnavailable, true};
  const Entry* const entry = entry_of(sqlstate);
  return entry != nullptr ? entry->meaning : Meaning{Code::kInternal, false};
}

std::string_view advice_for(std::string_view sqlstate) {
  const Entry* const entry = entry_of(sqlstate);
  return entry != nullptr ? entry->advice : "";
}

}  // namespace idmint::stores::postgresql
