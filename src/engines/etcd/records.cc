#include "engines/etcd/records.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace idmint::stores::etcd {
namespace {

using Object = nlohmann::ordered_json;

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

std::string dumped(const Object& object) {
  return object.dump(-1, ' ', false, Object::error_handler_t::replace);
}

// The members of an object, all of which must be there.
class Reader {
 public:
  explicit Reader(std::string_view text) : object_(Object::parse(text, nullptr, false)) {
    whole_ = object_.is_object();
  }
  [[nodiscard]] bool whole() const { return whole_; }

  std::int64_t integer(const char* name) {
    const Object* const value = find(name);
    if (value == nullptr || !value->is_number_integer()) return missing<std::int64_t>();
    if (value->is_number_unsigned() && !std::in_range<std::int64_t>(value->get<std::uint64_t>()))
      return missing<std::int64_t>();
    return value->get<std::int64_t>();
  }
  bool boolean(const char* name) {
    const Object* const value = find(name);
    if (value == nullptr || !value->is_boolean()) return missing<bool>();
    return value->get<bool>();
  }
  std::string text(const char* name) {
    const Object* const value = find(name);
    if (value == nullptr || !value->is_string()) return missing<std::string>();
    return value->get<std::string>();
  }
  // "": it is not there.
  std::string text_or_nothing(const char* name) {
    return find(name) != nullptr ? text(name) : std::string();
  }
  // "": the nil UUID.
  Uuid uuid(const char* name) {
    const std::string digits = text(name);
    if (digits.empty()) return {};
    const Result<Uuid> id = Uuid::parse(digits);
    return id ? *id : missing<Uuid>();
  }

 private:
  const Object* find(const char* name) {
    if (!whole_) return nullptr;
    const auto at = object_.find(name);
    return at != object_.end() ? &*at : nullptr;
  }
  template <class T>
  T missing() {
    whole_ = false;
    return {};
  }

  Object object_;
  bool whole_;
};

std::string text_or_none(const Uuid& id) { return id == Uuid{} ? std::string() : id.to_string(); }

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

std::string text_of(const CounterState& counter) {
  return dumped({{"next", counter.next},
                 {"first", counter.bounds.first},
                 {"last", counter.bounds.last},
                 {"stride", counter.bounds.stride},
                 {"closed", counter.closed}});
}

std::optional<CounterState> read_counter(std::string_view name, std::string_view text) {
  Reader reader(text);
  CounterState counter{.name = std::string(name)};
  counter.next = reader.integer("next");
  CounterBounds& bounds = counter.bounds;
  bounds = {reader.integer("first"), reader.integer("last"), reader.integer("stride")};
  counter.closed = reader.boolean("closed");
  const bool right = reader.whole() && 0 <= bounds.first && bounds.first <= bounds.last &&
                     1 <= bounds.stride && bounds.last <= largest_last(bounds.stride) &&
                     bounds.first <= counter.next && counter.next <= bounds.last + bounds.stride &&
                     (counter.next - bounds.first) % bounds.stride == 0;
  return right ? std::optional(std::move(counter)) : std::nullopt;
}

std::string pool_text(std::int64_t workers) { return dumped({{"workers", workers}}); }

std::optional<std::int64_t> read_pool(std::string_view text) {
  Reader reader(text);
  const std::int64_t workers = reader.integer("workers");
  const bool right = reader.whole() && 1 <= workers && workers <= LeaseTable::kMaxWorkers;
  return right ? std::optional(workers) : std::nullopt;
}

std::string text_of(const WorkerRecord& record) {
  const LeaseState& state = record.row.state;
  return dumped({{"minted_until", state.minted_until},
                 {"generation", state.generation},
                 {"token", text_or_none(state.token)},
                 {"holder", as_utf8(state.holder)},
                 {"taken_from", state.taken_from.value_or(0)},
                 {"held_until", record.held_until},
                 {"nonce", text_or_none(record.row.nonce)}});
}

std::optional<WorkerRecord> read_worker(std::int64_t worker, std::string_view text) {
  Reader reader(text);
  WorkerRecord record{.row = {.state = {.worker = worker}}};
  LeaseState& state = record.row.state;
  state.minted_until = reader.integer("minted_until");
  state.generation = reader.integer("generation");
  state.token = reader.uuid("token");
  state.holder = reader.text("holder");
  state.taken_from = reader.integer("taken_from");
  record.held_until = reader.integer("held_until");
  record.row.nonce = reader.uuid("nonce");
  const bool right = reader.whole() && state.minted_until >= 0;
  return right ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace idmint::stores::etcd
