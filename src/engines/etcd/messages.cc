#include "engines/etcd/messages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.h"
#include "base/text.h"

namespace idmint::stores::etcd {
namespace {

using Json = nlohmann::json;

// ---- requests

std::string field(std::string_view name, std::string_view bytes) {
  return "\"" + std::string(name) + "\":\"" + to_base64(bytes) + "\"";
}

std::string list_of(std::string_view name, const std::vector<std::string>& parts) {
  if (parts.empty()) return {};
  std::string list = "\"" + std::string(name) + "\":[";
  for (const std::string& part : parts) {
    if (list.back() != '[') list += ',';
    list += part;
  }
  return list + "],";
}

std::string range(std::string_view from, std::string_view to, std::size_t limit,
                  std::string_view what) {
  std::string text = R"({"request_range":{)" + field("key", from);
  if (!to.empty()) text += "," + field("range_end", to);
  if (limit != 0) text += ",\"limit\":" + std::to_string(limit);
  if (!what.empty()) text += ",\"" + std::string(what) + "\":true";
  return text + "}}";
}

// ---- answers. The gateway leaves out values that are 0, false or empty, and writes 64-bit
// integers as texts.

const Json& member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto at = object.find(name);
  return at != object.end() ? *at : none;
}

std::string_view text_in(const Json& object, const char* name) {
  const auto* const text = member(object, name).get_ptr<const Json::string_t*>();
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

template <class Integer>
Integer integer_in(const Json& object, const char* name) {
  const std::string_view text = text_in(object, name);
  Integer value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_true(const Json& object, const char* name) {
  const auto* const value = member(object, name).get_ptr<const Json::boolean_t*>();
  return value != nullptr && *value;
}

Header header_in(const Json& answer) {
  const Json& header = member(answer, "header");
  const auto id = integer_in<std::uint64_t>(header, "cluster_id");
  std::array<char, 16> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), id, 16).ptr;
  return {.cluster = id == 0 ? std::string() : std::string(digits.data(), end),
          .revision = integer_in<std::int64_t>(header, "revision")};
}

std::unexpected<std::string> malformed(std::string_view what) {
  return std::unexpected("the answer is none of etcd's: " + std::string(what));
}

std::expected<std::vector<Entry>, std::string> entries_in(const Json& range) {
  std::vector<Entry> entries;
  const Json& all = member(range, "kvs");
  if (all.is_null()) return entries;
  if (!all.is_array()) return malformed("kvs is no list");
  entries.reserve(all.size());
  for (const Json& each : all) {
    auto key = from_base64(text_in(each, "key"));
    auto value = from_base64(text_in(each, "value"));
    const auto changed = integer_in<std::int64_t>(each, "mod_revision");
    if (!key || key->empty() || !value || changed <= 0) return malformed("an entry is damaged");
    entries.push_back({*std::move(key), *std::move(value), changed});
  }
  return entries;
}

std::expected<Found, std::string> found_in(const Json& response) {
  Found found;
  const Json* range = &member(response, "response_range");
  if (const Json& inner = member(response, "response_txn"); inner.is_object()) {
    found.succeeded = is_true(inner, "succeeded");
    const Json& responses = member(inner, "responses");
    static const Json none;
    range = responses.is_array() && !responses.empty()
                ? &member(responses.front(), "response_range")
                : &none;
  } else if (!range->is_object() && !member(response, "response_put").is_object()) {
    return malformed("an operation has no response");
  }
  auto entries = entries_in(*range);
  if (!entries) return std::unexpected(std::move(entries.error()));
  found.entries = *std::move(entries);
  found.count = integer_in<std::int64_t>(*range, "count");
  return found;
}

// ---- errors

struct Meaning {
  std::string_view begin;  // of the message; the first that fits counts
  Code code;
  bool passing = false;
  std::string_view advice{};
  std::string_view reason{};
};

// Nothing was done.
constexpr auto kRefusals = std::to_array<Meaning>({
    {"etcdserver: mvcc: database space exceeded", Code::kResourceExhausted, false,
     "; the database has reached its quota (--quota-backend-bytes): compact and defragment it, "
     "then etcdctl alarm disarm",
     kNoSpace},
    {"etcdserver: too many requests", Code::kUnavailable, true},
    {"etcdserver: no leader", Code::kUnavailable, true, "; the members have no quorum"},
    {"etcdserver: rpc not supported for learner", Code::kFailedPrecondition, false,
     "; the member is a learner, which does not vote: name members that do", kUnfitMember},
    {"etcdserver: not capable", Code::kUnavailable, true},
    {"etcdserver: corrupt cluster", Code::kDataLoss, false,
     "; etcd has found that its members differ: look at etcdctl alarm list"},
    {"etcdserver: permission denied", Code::kPermissionDenied, false,
     "; the user needs a role with the right to read and write keys that begin with the prefix of "
     "the store: etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/"},
    {"etcdserver: authentication failed", Code::kUnauthenticated, false,
     "; the user or the password is wrong"},
    {"etcdserver: user name is empty", Code::kUnauthenticated, false,
     "; it asks for a user: give etcd://USER:PASSWORD@HOST"},
    {"etcdserver: user name not found", Code::kUnauthenticated},
    {"etcdserver: authentication is not enabled", Code::kUnauthenticated, false,
     "; it has no users: leave the user out of the URL, or enable them"},
    {"etcdserver: request is too large", Code::kInvalidArgument},
    {"etcdserver: too many operations in txn request", Code::kFailedPrecondition, false,
     "; idmint needs --max-txn-ops to be 128 or more, as it is by default"},
});
// Nothing was done: log in again.
constexpr std::array<std::string_view, 3> kTokenRefusals = {
    "etcdserver: invalid auth token", "etcdserver: revision of auth store is old",
    "auth: invalid auth token"};

}  // namespace

// ---- requests

std::string is_as_changed(std::string_view key, std::int64_t revision) {
  return R"({"target":"MOD",)" + field("key", key) + R"(,"mod_revision":")" +
         std::to_string(revision) + "\"}";
}

std::string has_value(std::string_view key, std::string_view value) {
  return R"({"target":"VALUE",)" + field("key", key) + "," + field("value", value) + "}";
}

std::string put(std::string_view key, std::string_view value) {
  return R"({"request_put":{)" + field("key", key) + "," + field("value", value) + "}}";
}

std::string get(std::string_view key) { return range(key, {}, 0, {}); }

std::string get_range(std::string_view from, std::string_view to, std::size_t limit) {
  return range(from, to, limit, {});
}

std::string get_keys(std::string_view from, std::string_view to, std::size_t limit) {
  return range(from, to, limit, "keys_only");
}

std::string count_range(std::string_view from, std::string_view to) {
  return range(from, to, 0, "count_only");
}

std::string nested(const Transaction& transaction) {
  return R"({"request_txn":)" + text_of(transaction) + "}";
}

std::string after_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // the end of all keys
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

std::string text_of(const Transaction& transaction) {
  std::string text = "{" + list_of("compare", transaction.compares) +
                     list_of("success", transaction.then) +
                     list_of("failure", transaction.otherwise);
  if (text.back() == ',') text.pop_back();
  return text + "}";
}

std::string log_in_as(std::string_view user, std::string_view password) {
  const Json json{{"name", user}, {"password", password}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// ---- answers

std::expected<Answer, std::string> read_answer(std::string_view json, const Transaction& asked) {
  const Json parsed = Json::parse(json, nullptr, false);
  Answer answer{.header = header_in(parsed), .succeeded = is_true(parsed, "succeeded")};
  if (answer.header.cluster.empty() || answer.header.revision <= 0)
    return malformed("it has no header");
  const Json& responses = member(parsed, "responses");
  const Operations& done = answer.succeeded ? asked.then : asked.otherwise;
  if ((responses.is_array() ? responses.size() : 0) != done.size())
    return malformed("operations have no response");
  for (const Json& response : responses) {
    auto found = found_in(response);
    if (!found) return std::unexpected(std::move(found.error()));
    answer.found.push_back(*std::move(found));
  }
  return answer;
}

std::expected<Status, std::string> read_status(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  Status status{.header = header_in(parsed),
                .version = std::string(text_in(parsed, "version")),
                .log = integer_in<std::int64_t>(parsed, "raftIndex"),
                .applied = integer_in<std::int64_t>(parsed, "raftAppliedIndex")};
  if (status.header.cluster.empty() || status.version.empty() || status.log <= 0)
    return malformed("its status is incomplete");
  return status;
}

std::expected<std::string, std::string> read_token(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  const std::string_view token = text_in(parsed, "token");
  if (token.empty() || token.find_first_of("\r\n") != std::string_view::npos)
    return malformed("it has no token");
  return std::string(token);
}

Failure unanswered(std::string why, bool writes) {
  return stores::unanswered(writes ? Kind::kWrite : Kind::kRead, std::move(why));
}

Failure read_refusal(long http, std::string_view json, bool writes) {
  const Json parsed = Json::parse(json, nullptr, false);
  const std::string_view said = text_in(parsed, "error");
  const std::string why = escaped(as_utf8(said));
  if (std::ranges::any_of(kTokenRefusals, [&](auto begin) { return said.starts_with(begin); }))
    return {.error = {Code::kUnauthenticated, why}, .reason = std::string(kTokenRefused)};
  const auto* const found = std::ranges::find_if(
      kRefusals, [&](const Meaning& each) { return said.starts_with(each.begin); });
  if (found != kRefusals.end())
    return {.error = {found->code, why + std::string(found->advice)},
            .reason = std::string(found->reason),
            .passing = found->passing};
  if (said.empty() && (http == 404 || http == 405 || http == 501))
    return {
        .error = {Code::kFailedPrecondition,
                  "the server does not know /v3 of etcd's API (HTTP status " +
                      std::to_string(http) +
                      "); etcd 3.4 or later is needed, with its gateway (--enable-grpc-gateway)"},
        .reason = std::string(kUnfitMember)};
  return unanswered(said.empty() ? "HTTP status " + std::to_string(http) : why, writes);
}

}  // namespace idmint::stores::etcd
