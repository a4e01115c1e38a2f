#include "engines/redis/errors.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace idmint::stores::redis {
namespace {

struct Meaning {
  std::string_view begin;  // of the errors that it is about; the first that fits counts
  Code code;
  bool passing = false;  // the same command may succeed soon
  std::string_view advice{};
  bool begun = false;
};

constexpr std::string_view kRights =
    "; the user needs ~{idmint}:* +eval +evalsha +select +info +config|get +time +exists +@hash "
    "+sadd +scard +sismember +zadd +zrem +zrange (ACL SETUSER); for a key that it adopts also ~KEY "
    "+@string +type +ttl";

// Redis refuses a script for its state, such as OOM or READONLY, before its first write only. The
// rights are checked at each of its commands, and what came before stays.
constexpr auto kMeanings = std::to_array<Meaning>({
    {"NOAUTH", Code::kUnauthenticated, false,
     "; write redis://USER:PASSWORD@HOST, or put the password into REDISCLI_AUTH"},
    {"WRONGPASS", Code::kUnauthenticated},
    {"ERR AUTH <password>", Code::kUnauthenticated},
    {"ERR invalid password", Code::kUnauthenticated},
    {"ERR Client sent AUTH", Code::kUnauthenticated},
    {"NOPERM", Code::kPermissionDenied, false, kRights},
    {"ERR The user executing the script", Code::kPermissionDenied, false, kRights, true},
    {"ERR ACL failure in script", Code::kPermissionDenied, false, kRights, true},  // since 7.2
    {"OOM", Code::kResourceExhausted, false, "; raise maxmemory, or free memory"},
    {"ERR max number of clients", Code::kResourceExhausted, true, "; raise maxclients"},
    {"READONLY", Code::kUnavailable, true},
    {"LOADING", Code::kUnavailable, true},
    {"MASTERDOWN", Code::kUnavailable, true},
    {"BUSY", Code::kUnavailable, true},
    {"TRYAGAIN", Code::kUnavailable, true},
    {"NOREPLICAS", Code::kUnavailable, true},
    {"MISCONF", Code::kUnavailable, false, "; look at the server's disk and its log"},
    {"DENIED", Code::kFailedPrecondition},  // protected mode
    {"ERR DB index", Code::kFailedPrecondition, false,
     "; the server has fewer databases (its setting databases): name another"},
    {"ERR unknown command", Code::kFailedPrecondition, false,
     "; the server has renamed or left out a command that idmint needs"},
    {"ERR unknown subcommand", Code::kFailedPrecondition, false,
     "; the server has renamed or left out a command that idmint needs"},
    {"WRONGTYPE", Code::kDataLoss},
    {"ERR user_script", Code::kDataLoss},  // it met a record that is none
    {"ERR hash value is not an integer", Code::kDataLoss},
    {"ERR increment or decrement would overflow", Code::kDataLoss},
});

constexpr std::array<std::string_view, 3> kOtherStates = {"READONLY", "LOADING", "MASTERDOWN"};

// Without where in a script it arose: "WHY script: HASH, on @user_script:LINE."
std::string_view without_place(std::string_view error) {
  const std::size_t at = error.rfind(" script: ");
  if (at == std::string_view::npos || !error.substr(at).contains("@user_script")) return error;
  return error.substr(0, at);
}

}  // namespace

Failure failure_of(std::string_view error) {
  const auto* const found = std::ranges::find_if(
      kMeanings, [&](const Meaning& each) { return error.starts_with(each.begin); });
  const Meaning meaning = found != kMeanings.end() ? *found : Meaning{"", Code::kInternal};
  return {
      .error = {meaning.code, escaped(as_utf8(without_place(error))) + std::string(meaning.advice)},
      .reason = std::string(error.substr(0, error.find(' '))),
      .passing = meaning.passing,
      .begun = meaning.begun};
}

bool is_another_state(const Failure& failure) {
  return std::ranges::find(kOtherStates, failure.reason) != kOtherStates.end();
}

}  // namespace idmint::stores::redis
