// The keys of a store in etcd, and their values, which are JSON.
//
// Version 1. Every key begins with the prefix of the URL, such as "idmint/":
//
//   store               {"id","schema":1,"cluster","log_ahead","settled","gone_back","prefix"}
//                       where the store is known to be complete: the id of the cluster, and
//                       how many more entries its log had than it had revisions (Place);
//                       settled: Store::settle_count(); gone_back: what a process saw that the
//                       cluster cannot have forgotten; empty as a rule
//   counter/NAME        as in key_value/rows.h, and so are those of pools and worker ids
//   definition/NAME     to_json()
//   space/NAME          open, or closed
//   claim/SPACE/KEY     empty
//   pool/NAME
//   worker/POOL/NUMBER
//
// Names are the bytes that they are; in the middle of a key, SPACE and POOL have % and / as %25 and
// %2F, so that none is the beginning of another.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/key_value/rows.h"
#include "idmint/uuid.h"

namespace idmint::stores::etcd {

inline constexpr std::int64_t kSchemaVersion = 1;

// A cluster at one time. Every change of a key is an entry of the replicated log, and so are
// elections and changes of members: in one cluster the log only gets further ahead of the
// revisions. A cluster that was restored from a snapshot may have the id of the old one, and has
// its revisions; but its log begins anew.
struct Place {
  std::string cluster{};
  std::int64_t log_ahead = 0;

  friend bool operator==(const Place&, const Place&) = default;
};
// As Place::log_ahead: ahead of every log, so the store is in doubt until it is settled.
inline constexpr std::int64_t kInDoubt = std::numeric_limits<std::int64_t>::max();

struct StoreRecord {
  Uuid id{};
  std::int64_t schema = kSchemaVersion;
  Place place{};
  std::int64_t settled = 0;
  std::string gone_back{};
  // The prefix of its keys, since a cluster may have a copy under another one. Empty: an older
  // store, which is not compared.
  std::string prefix{};

  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

// The keys of one store. A prefix ends with a slash.
class Keys {
 public:
  explicit Keys(std::string prefix) : all_(std::move(prefix)) {}

  [[nodiscard]] const std::string& all() const { return all_; }  // the prefix of all keys
  [[nodiscard]] std::string store() const { return all_ + "store"; }
  [[nodiscard]] std::string counter(std::string_view name) const;
  [[nodiscard]] std::string definition(std::string_view name) const;
  [[nodiscard]] std::string space(std::string_view name) const;
  [[nodiscard]] std::string claims(std::string_view space) const;  // a prefix
  [[nodiscard]] std::string claim(std::string_view space, std::int64_t key) const;
  [[nodiscard]] std::string pool(std::string_view name) const;
  [[nodiscard]] std::string workers(std::string_view pool) const;  // a prefix
  [[nodiscard]] std::string worker(std::string_view pool, std::int64_t worker) const;

 private:
  std::string all_;
};

// The number at the end of a key behind a prefix; nothing: it is none.
[[nodiscard]] std::optional<std::int64_t> number_behind(std::string_view prefix,
                                                        std::string_view key);

// The texts of values. Reading gives nothing if the value is damaged.
[[nodiscard]] std::string text_of(const StoreRecord& record);
[[nodiscard]] std::optional<StoreRecord> read_store(std::string_view text);

using key_value::clock_of_the_host;
using key_value::kClosed;
using key_value::kOpen;
using key_value::pool_text;
using key_value::read_counter;
using key_value::read_pool;
using key_value::read_worker;
using key_value::text_of;
using key_value::WorkerRecord;

}  // namespace idmint::stores::etcd
