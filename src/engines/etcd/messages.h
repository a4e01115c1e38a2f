// The messages of etcd's v3 API, as its JSON gateway has them: transactions, answers and errors.
//
// Every request of the store is a transaction. One that only reads is linearizable and takes no
// place in the log of the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"
#include "store/sessions.h"

namespace idmint::stores::etcd {

// The Failure::reason of a refused token: another one may be accepted.
inline constexpr std::string_view kTokenRefused = "token";
// The reason of a member that cannot serve the store, whatever the others can: a learner, or no
// etcd.
inline constexpr std::string_view kUnfitMember = "member";
// The database is full. The transaction may have been applied all the same.
inline constexpr std::string_view kNoSpace = "space";

// ---- what is asked

// Parts of a transaction, as JSON.
using Compares = std::vector<std::string>;
using Operations = std::vector<std::string>;

// The most operations of one transaction, and of those within it. A server allows 128 together
// (--max-txn-ops).
inline constexpr std::size_t kMostOperations = 100;

// All of `compares` hold: `then` is done, and otherwise `otherwise`, in one step.
struct Transaction {
  Compares compares{};
  Operations then{};
  Operations otherwise{};
  bool writes = false;  // one of its operations changes something
};

// The key was changed last at that revision; 0: it is not there.
[[nodiscard]] std::string is_as_changed(std::string_view key, std::int64_t revision);
[[nodiscard]] std::string has_value(std::string_view key, std::string_view value);

[[nodiscard]] std::string put(std::string_view key, std::string_view value);
[[nodiscard]] std::string get(std::string_view key);
// The keys from `from` on and below `to`, in their order, `limit` at most; 0: all.
[[nodiscard]] std::string get_range(std::string_view from, std::string_view to, std::size_t limit);
[[nodiscard]] std::string get_keys(std::string_view from, std::string_view to, std::size_t limit);
[[nodiscard]] std::string count_range(std::string_view from, std::string_view to);
[[nodiscard]] std::string nested(const Transaction& transaction);

// The end of a range: it follows every key that begins with the prefix.
[[nodiscard]] std::string after_prefix(std::string_view prefix);

[[nodiscard]] std::string text_of(const Transaction& transaction);
// The body of a request to /v3/auth/authenticate.
[[nodiscard]] std::string log_in_as(std::string_view user, std::string_view password);

// ---- what is answered

struct Entry {
  std::string key{};
  std::string value{};
  std::int64_t changed = 0;  // the revision of its latest change
};

// The result of one operation.
struct Found {
  bool succeeded = false;  // of a nested transaction: its compares held
  std::vector<Entry> entries{};
  std::int64_t count = 0;  // how many keys there are, past the limit too
};

struct Header {
  std::string cluster{};      // its id, in hexadecimal digits as etcdctl prints it
  std::int64_t revision = 0;  // of the whole key space; the change that was made has it
};

struct Answer {
  Header header{};
  bool succeeded = false;  // the compares held
  // It did not succeed, and was sent before to a member that has not answered: that may have been
  // applied, and may be why the compares do not hold.
  bool sent_before = false;
  std::vector<Found> found{};  // for each operation that was done
};

// The status of one member, by itself. Another member may be further.
struct Status {
  Header header{};
  std::string version{};
  std::int64_t log = 0;      // entries of the replicated log that are committed
  std::int64_t applied = 0;  // entries of these that are applied here
};

// The error says what is wrong: it is not what the API answers.
[[nodiscard]] std::expected<Answer, std::string> read_answer(std::string_view json,
                                                             const Transaction& asked);
[[nodiscard]] std::expected<Status, std::string> read_status(std::string_view json);
[[nodiscard]] std::expected<std::string, std::string> read_token(std::string_view json);

// The meaning of a refusal. `http`: the status of the response, whose body is `json`. `writes`: the
// request would have changed something. Only the errors that etcd gives before it proposes a change
// to the cluster, or instead of applying it, say that nothing was done; and kNoSpace, which it also
// gives after it has applied a transaction for which the room sufficed when it was proposed.
[[nodiscard]] Failure read_refusal(long http, std::string_view json, bool writes);

// The outcome of a request without an answer. kUnknown: it may have been done. kUnavailable: it
// writes nothing.
[[nodiscard]] Failure unanswered(std::string why, bool writes);

}  // namespace idmint::stores::etcd
