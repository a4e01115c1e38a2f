#include "engines/sql/mariadb/error_number.h"

#include <algorithm>
#include <array>

namespace idmint::stores::mariadb {
namespace {

struct Entry {
  unsigned number;
  Meaning meaning;
};

constexpr std::string_view kPooler =
    "; a proxy seems to hand each statement another connection: name the server itself";
constexpr std::string_view kNoConnection =
    "; no connection is left (max_connections, or a limit of the user)";
constexpr std::string_view kLogCutOff =
    "; if that is the binary log, run FLUSH BINARY LOGS when there is room: recovery after a crash "
    "reads the log only as far as here, and may take back what is acknowledged from now on";
constexpr std::string_view kReadOnly =
    "; the server is a replica, or read_only is on: name the primary";
constexpr std::string_view kLogin =
    "; the user or the password is wrong, or this user may not come from here; a password that the "
    "URL does not give can stand in ~/.my.cnf, in the group [client]";

// Sorted.
constexpr auto kMeanings = std::to_array<Entry>({
    {3, {Code::kUnknown, Outcome::kUnknown, kLogCutOff}},   // as 1026
    {1020, {Code::kUnavailable, Outcome::kPassing}},        // rolled back, as another was quicker
    {1021, {Code::kResourceExhausted, Outcome::kNothing}},  // the disk is full
    // A write or a commit failed after the statement was carried out: in the binary log, perhaps,
    // and what the next recovery makes of that is not known here.
    {1026, {Code::kUnknown, Outcome::kUnknown, kLogCutOff}},
    {1037, {Code::kResourceExhausted, Outcome::kNothing}},
    {1038, {Code::kResourceExhausted, Outcome::kNothing}},
    {1040, {Code::kResourceExhausted, Outcome::kPassing, kNoConnection}},
    {1041, {Code::kResourceExhausted, Outcome::kNothing}},
    {1044, {Code::kPermissionDenied, Outcome::kNothing}},
    {1045, {Code::kUnauthenticated, Outcome::kNothing, kLogin}},
    {1047, {Code::kUnavailable, Outcome::kPassing}},
    {1049,
     {Code::kFailedPrecondition, Outcome::kNothing,
      "; make it with CREATE DATABASE, or name another"}},
    {1053, {Code::kUnknown, Outcome::kUnknown}},  // the server stops
    {kNoSuchColumn, {Code::kDataLoss, Outcome::kNothing}},
    {kDuplicateKey, {Code::kAlreadyExists, Outcome::kNothing}},
    {1105, {Code::kUnknown, Outcome::kUnknown}},  // unknown to the server too
    {1114, {Code::kResourceExhausted, Outcome::kNothing}},
    {1130, {Code::kUnauthenticated, Outcome::kNothing, kLogin}},
    {1142, {Code::kPermissionDenied, Outcome::kNothing}},
    {1143, {Code::kPermissionDenied, Outcome::kNothing}},
    {kNoSuchTable, {Code::kDataLoss, Outcome::kNothing}},
    {1153, {Code::kResourceExhausted, Outcome::kNothing, "; max_allowed_packet is too small"}},
    {1180, {Code::kUnknown, Outcome::kUnknown}},  // as 1026
    {1203, {Code::kResourceExhausted, Outcome::kPassing, kNoConnection}},
    {1205, {Code::kUnavailable, Outcome::kNothing}},  // another holds the row
    {1213, {Code::kUnavailable, Outcome::kPassing}},  // a deadlock
    {1226, {Code::kResourceExhausted, Outcome::kPassing, kNoConnection}},
    {1227, {Code::kPermissionDenied, Outcome::kNothing}},
    {kOtherColumns, {Code::kUnavailable, Outcome::kPassing}},
    {1243, {Code::kFailedPrecondition, Outcome::kNothing, kPooler}},
    {1264, {Code::kDataLoss, Outcome::kNothing}},  // a value that idmint does not write
    {1290, {Code::kFailedPrecondition, Outcome::kNothing, kReadOnly}},
    {1317, {Code::kUnavailable, Outcome::kNothing}},  // an operator has ended the statement
    {1665,
     {Code::kFailedPrecondition, Outcome::kNothing,
      "; set binlog_format to MIXED or ROW in the server's configuration"}},
    {1690, {Code::kDataLoss, Outcome::kNothing}},
    {1698, {Code::kUnauthenticated, Outcome::kNothing, kLogin}},
    {1792, {Code::kFailedPrecondition, Outcome::kNothing, kReadOnly}},
    {1836, {Code::kFailedPrecondition, Outcome::kNothing, kReadOnly}},
    {1927, {Code::kUnknown, Outcome::kUnknown}},      // an operator has ended the connection
    {1969, {Code::kUnavailable, Outcome::kNothing}},  // max_statement_time
    {4025, {Code::kDataLoss, Outcome::kNothing}},     // a CHECK
});
static_assert(std::ranges::is_sorted(kMeanings, {}, &Entry::number));

// The number is the library's own, not the server's.
bool is_of_the_library(unsigned number) {
  return (number >= 2000 && number < 3000) || number >= 5000;
}

}  // namespace

Meaning meaning_of(unsigned number) {
  const auto* const found = std::ranges::lower_bound(kMeanings, number, {}, &Entry::number);
  if (found != kMeanings.end() && found->number == number) return found->meaning;
  // Nor does anybody know after an error of the server's files, below 1000.
  if (is_of_the_library(number) || number < 1000) return {Code::kUnknown, Outcome::kUnknown};
  return {Code::kInternal, Outcome::kNothing};
}

bool is_about_rights(unsigned number) { return meaning_of(number).code == Code::kPermissionDenied; }

}  // namespace idmint::stores::mariadb
