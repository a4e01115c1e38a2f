// The nodes of a store in ZooKeeper. What they hold is JSON.
//
// Version 1. Every path begins with the root of the URL, such as "/ids":
//
//   store                  {"id","schema":1,"place","settled","gone_back","root","nonce"}
//                          where the store is known to be complete: the node beside it (Place);
//                          settled: Store::settle_count(); gone_back: what a process saw that the
//                          servers cannot have forgotten; empty as a rule; nonce: random, another
//                          one each time that the record is written
//   trust-NONCE            empty; made in the transaction that writes the record with that nonce,
//                          which ZooKeeper tells of both, and removed in the one that writes the
//                          next
//   place                  empty; whoever copies the nodes one by one makes another one
//   counter/HH/NAME        as in key_value/rows.h, and so are those of pools and worker ids
//   definition/HH/NAME     to_json()
//   space/HH/NAME          open, or closed
//   claim/HH/SPACE/HH/KEY  empty; the second HH is that of the number
//   pool/HH/NAME
//   worker/HH/POOL/N/NUMBER  N is NUMBER / 256
//
// HH are the two hexadecimal digits of shard_of(): the children of a folder are listed in one
// answer, which the clients of ZooKeeper read up to 1 MB of. In a name every byte that is no
// printable character of ASCII, and "/", "%" and a dot at its begin, are %XX. A folder is made with
// the first node in it. Of all these only trust-NONCE is ever removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/key_value/rows.h"
#include "idmint/uuid.h"

namespace idmint::stores::zookeeper {

inline constexpr std::int64_t kSchemaVersion = 1;

struct StoreRecord {
  Uuid id{};
  std::int64_t schema = kSchemaVersion;
  std::string place{};  // the text of place_of()
  std::int64_t settled = 0;
  std::string gone_back{};
  std::string root{};  // of its nodes, since they may be copied under another one
  Uuid nonce{};        // not nil

  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

inline constexpr std::size_t kShards = 256;
[[nodiscard]] std::size_t shard_of(std::string_view text);
// Two hexadecimal digits. REQUIRES: shard < kShards.
[[nodiscard]] std::string shard_text(std::size_t shard);

[[nodiscard]] std::string escaped_name(std::string_view name);
// Nothing: it is not what escaped_name() gives.
[[nodiscard]] std::optional<std::string> name_of(std::string_view escaped);

// The kinds of named nodes.
inline constexpr std::string_view kCounters = "counter";
inline constexpr std::string_view kDefinitions = "definition";
inline constexpr std::string_view kSpaces = "space";
inline constexpr std::string_view kPools = "pool";

// The paths of one store.
class Paths {
 public:
  explicit Paths(std::string root) : root_(std::move(root)) {}

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] std::string store() const { return root_ + "/store"; }
  [[nodiscard]] std::string place() const { return root_ + "/place"; }
  // The node of the record with that nonce.
  [[nodiscard]] std::string trust(const Uuid& nonce) const {
    return root_ + "/trust-" + nonce.to_string();
  }
  // A folder of a kind; it has a part of all names.
  [[nodiscard]] std::string shard(std::string_view kind, std::size_t shard) const;
  [[nodiscard]] std::string named(std::string_view kind, std::string_view name) const;
  [[nodiscard]] std::string counter(std::string_view name) const { return named(kCounters, name); }
  // The folder of a part of the claims, and one of them.
  [[nodiscard]] std::string claims(std::string_view space, std::size_t shard) const;
  [[nodiscard]] std::string claim(std::string_view space, std::int64_t key) const;
  // The folder of a part of the rows, and one of them.
  [[nodiscard]] std::string workers(std::string_view pool, std::int64_t part) const;
  [[nodiscard]] std::string worker(std::string_view pool, std::int64_t worker) const;
  static constexpr std::int64_t kWorkersInPart = 256;

 private:
  std::string root_;
};

// Of values. The reading one gives nothing where the value is damaged.
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

}  // namespace idmint::stores::zookeeper
