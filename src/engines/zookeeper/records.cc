#include "engines/zookeeper/records.h"

#include "base/url.h"
#include "engines/key_value/json.h"

namespace idmint::stores::zookeeper {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

}  // namespace

// FNV-1a, whose low bits alone are not even.
std::size_t shard_of(std::string_view text) {
  std::uint32_t hash = 2'166'136'261;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
  return (hash ^ (hash >> 16)) % kShards;
}

std::string shard_text(std::size_t shard) { return {kHex[shard / 16], kHex[shard % 16]}; }

std::string escaped_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool dot_at_begin = c == '.' && text.empty();
    if (c > ' ' && c < '\x7f' && c != '/' && c != '%' && !dot_at_begin)
      text += c;
    else
      text += {'%', kHex[byte / 16], kHex[byte % 16]};
  }
  return text;
}

std::optional<std::string> name_of(std::string_view escaped) {
  std::string name = percent_decoded(escaped);
  if (name.empty() || escaped_name(name) != escaped) return std::nullopt;
  return name;
}

std::string Paths::shard(std::string_view kind, std::size_t shard) const {
  return root_ + "/" + std::string(kind) + "/" + shard_text(shard);
}
std::string Paths::named(std::string_view kind, std::string_view name) const {
  return shard(kind, shard_of(name)) + "/" + escaped_name(name);
}
std::string Paths::claims(std::string_view space, std::size_t shard) const {
  return named("claim", space) + "/" + shard_text(shard);
}
std::string Paths::claim(std::string_view space, std::int64_t key) const {
  const std::string number = std::to_string(key);
  return claims(space, shard_of(number)) + "/" + number;
}
std::string Paths::workers(std::string_view pool, std::int64_t part) const {
  return named("worker", pool) + "/" + std::to_string(part);
}
std::string Paths::worker(std::string_view pool, std::int64_t worker) const {
  return workers(pool, worker / kWorkersInPart) + "/" + std::to_string(worker);
}

std::string text_of(const StoreRecord& record) {
  return key_value::dumped({{"id", record.id.to_string()},
                            {"schema", record.schema},
                            {"place", record.place},
                            {"settled", record.settled},
                            {"gone_back", record.gone_back},
                            {"root", record.root},
                            {"nonce", record.nonce.to_string()}});
}

std::optional<StoreRecord> read_store(std::string_view text) {
  key_value::Reader reader(text);
  StoreRecord record{.id = reader.uuid("id"), .schema = reader.integer("schema")};
  // What a newer idmint writes may have other members.
  if (reader.whole() && record.id != Uuid{} && record.schema > kSchemaVersion) return record;
  record.place = reader.text("place");
  record.settled = reader.integer("settled");
  record.gone_back = reader.text("gone_back");
  record.root = reader.text("root");
  record.nonce = reader.uuid("nonce");
  const bool whole = reader.whole() && record.id != Uuid{} && record.schema == kSchemaVersion &&
                     record.nonce != Uuid{};
  return whole ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace idmint::stores::zookeeper
