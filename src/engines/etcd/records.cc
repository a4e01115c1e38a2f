#include "engines/etcd/records.h"

#include <charconv>
#include <utility>

#include "engines/key_value/json.h"

namespace idmint::stores::etcd {
namespace {

using key_value::dumped;
using key_value::Reader;

// A name in the middle of a key.
std::string inner(std::string_view name) {
  std::string escaped_name;
  for (const char c : name) {
    if (c == '%')
      escaped_name += "%25";
    else if (c == '/')
      escaped_name += "%2F";
    else
      escaped_name += c;
  }
  return escaped_name;
}

}  // namespace

// ---- keys

std::string Keys::counter(std::string_view name) const {
  return all_ + "counter/" + std::string(name);
}
std::string Keys::definition(std::string_view name) const {
  return all_ + "definition/" + std::string(name);
}
std::string Keys::space(std::string_view name) const { return all_ + "space/" + std::string(name); }
std::string Keys::claims(std::string_view space) const {
  return all_ + "claim/" + inner(space) + "/";
}
std::string Keys::claim(std::string_view space, std::int64_t key) const {
  return claims(space) + std::to_string(key);
}
std::string Keys::pool(std::string_view name) const { return all_ + "pool/" + std::string(name); }
std::string Keys::workers(std::string_view pool) const {
  return all_ + "worker/" + inner(pool) + "/";
}
std::string Keys::worker(std::string_view pool, std::int64_t worker) const {
  return workers(pool) + std::to_string(worker);
}

std::optional<std::int64_t> number_behind(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc{} || end != key.data() + key.size()) return std::nullopt;
  return number;
}

// ---- values

std::string text_of(const StoreRecord& record) {
  return dumped({{"id", record.id.to_string()},
                 {"schema", record.schema},
                 {"cluster", record.place.cluster},
                 {"log_ahead", record.place.log_ahead},
                 {"settled", record.settled},
                 {"gone_back", record.gone_back},
                 {"prefix", record.prefix}});
}

std::optional<StoreRecord> read_store(std::string_view text) {
  Reader reader(text);
  StoreRecord record{.id = reader.uuid("id"), .schema = reader.integer("schema")};
  // The record of a newer idmint may have other members.
  if (reader.whole() && record.id != Uuid{} && record.schema > kSchemaVersion) return record;
  record.place = {reader.text("cluster"), reader.integer("log_ahead")};
  record.settled = reader.integer("settled");
  record.gone_back = reader.text("gone_back");
  record.prefix = reader.text_or_nothing("prefix");
  const bool whole = reader.whole() && record.id != Uuid{} && record.schema == kSchemaVersion;
  return whole ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace idmint::stores::etcd
