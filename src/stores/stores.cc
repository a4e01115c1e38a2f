#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"
#include "idmint/store.h"
#include "stores/backend.h"

namespace idmint {
namespace {

// Each reads its own URL.
using Open = Result<std::unique_ptr<Store>> (*)(std::string_view url, const StoreOptions& options);

// One row for each backend; kStoreKinds and kStoreOpeners run in parallel.
constexpr std::array kStoreKinds = {
    StoreKind{"sqlite", "sqlite:ids.db",
              "one file, no server, any number of processes of one host; durable", false},
    StoreKind{"memory", "memory:", "this process only, gone with it; for tests", false},
#ifdef IDMINT_MONGODB
    StoreKind{"mongodb", "mongodb://HOST/DATABASE",
              "MongoDB 4.4 or later, any number of hosts; survives fail-overs as a replica set",
              true},
#endif
};
constexpr std::array<Open, kStoreKinds.size()> kStoreOpeners = {
    stores::open_sqlite,
    stores::open_memory,
#ifdef IDMINT_MONGODB
    stores::open_mongodb,
#endif
};

// Those that a build may leave out, and what brings them in.
struct Optional {
  std::string_view scheme;
  std::string_view option;
};
constexpr std::array kOptional = {Optional{"mongodb", "-DIDMINT_MONGODB=ON"}};

}  // namespace

std::span<const StoreKind> store_kinds() noexcept { return kStoreKinds; }

Result<std::unique_ptr<Store>> open_store(std::string_view url, const StoreOptions& options) {
  const std::size_t colon = url.find(':');
  std::string_view scheme = url.substr(0, colon);
  if (scheme == "mongodb+srv") scheme = "mongodb";  // the hosts come from DNS
  const auto* const kind = std::ranges::find(kStoreKinds, scheme, &StoreKind::scheme);
  if (colon != std::string_view::npos && kind != kStoreKinds.end()) {
    const auto row = static_cast<std::size_t>(kind - kStoreKinds.begin());
    return kStoreOpeners[row](url, options);
  }
  if (const auto* const left_out = std::ranges::find(kOptional, scheme, &Optional::scheme);
      colon != std::string_view::npos && left_out != kOptional.end())
    return std::unexpected(Error{
        Code::kUnimplemented, "this build of idmint left out the stores of " + std::string(scheme) +
                                  ":; configure it with " + std::string(left_out->option)});
  std::string message =
      "not the URL of a store: " + stores::shown(redacted(url)) + "; give one such as ";
  for (const StoreKind& each : kStoreKinds) {
    if (&each != kStoreKinds.data()) message += " or ";
    message += each.example;
  }
  return std::unexpected(Error{Code::kInvalidArgument, std::move(message)});
}

std::optional<Error> Store::doubt() { return std::nullopt; }

Result<void> Store::settle(Settle) { return {}; }

Result<std::unique_ptr<ExistingValues>> open_existing_values(std::string_view url,
                                                             std::string_view collection,
                                                             std::string_view field,
                                                             const ExistingForm& form,
                                                             std::chrono::milliseconds deadline) {
  Result<stores::NumberField> where = stores::number_field(collection, field);
  if (!where) return std::unexpected(std::move(where.error()));
  if (!url.starts_with("mongodb:") && !url.starts_with("mongodb+srv:"))
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "a collection is in MongoDB, and this is the URL of another kind "
                                 "of store; say where the collection is",
                                 {.remedy = Remedy::kSetOption, .values = {"from"}}});
#ifdef IDMINT_MONGODB
  return stores::open_mongodb_values(url, *std::move(where), form, deadline);
#else
  return std::unexpected(
      Error{Code::kUnimplemented, "this build of idmint left MongoDB out; configure it with " +
                                      std::string(kOptional.front().option)});
#endif
}

namespace stores {

Uuid draw_store_id(const StoreOptions& options) {
  Entropy& entropy = options.entropy != nullptr ? *options.entropy : system_entropy();
  return Uuid4Generator(entropy).next();
}

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 120;
  if (name.size() <= kMost) return "\"" + escaped(name) + "\"";
  std::size_t end = kMost;  // no character is cut in two
  while (end > kMost - 4 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return "\"" + escaped(name.substr(0, end)) + "...\"";
}

namespace {

std::unexpected<Error> refuse_to(std::string what, const std::string& why) {
  return std::unexpected(Error{Code::kInvalidArgument, std::move(what) + ": " + why});
}

Result<void> check_name(const std::string& making, std::string_view name) {
  constexpr std::size_t kLongest = 1024;
  if (name.empty()) return refuse_to(making, "the name is empty");
  if (name.size() > kLongest)
    return refuse_to(making,
                     "the name has " + std::to_string(name.size()) + " bytes, 1024 are allowed");
  return {};
}

Result<void> check_new_counter(std::string_view name, const CounterBounds& bounds) {
  const std::string making = "cannot make counter " + shown(name);
  if (Result<void> ok = check_name(making, name); !ok) return ok;
  if (bounds.first < 0)
    return refuse_to(
        making, "the first value is " + std::to_string(bounds.first) + ", it must be 0 or more");
  if (bounds.stride < 1)
    return refuse_to(making,
                     "the stride is " + std::to_string(bounds.stride) + ", it must be 1 or more");
  if (bounds.last > largest_last(bounds.stride))
    return refuse_to(making, "the last value is " + std::to_string(bounds.last) +
                                 ", the largest possible is " +
                                 std::to_string(largest_last(bounds.stride)));
  if (bounds.first > bounds.last)
    return refuse_to(making, "the first value, " + std::to_string(bounds.first) +
                                 ", is above the last, " + std::to_string(bounds.last));
  return {};
}

// What would not come back from its text as it is has a character, or a length, that none may have.
Result<void> check_adopted(std::string_view name, const CounterBounds& bounds,
                           const AdoptedRecord& adopted) {
  const std::string making = "cannot make counter " + shown(name);
  const Result<AdoptedRecord> read = adopted_from_text(to_text(adopted));
  if (!read) return refuse_to(making, read.error().message);
  if (*read != adopted)
    return refuse_to(making, "no document is adopted as " + shown(to_text(adopted)) +
                                 ": a collection has no /, a field only A-Z a-z 0-9 _ -");
  if (adopted.holds_last && bounds.first == 0)
    return refuse_to(making, "it would begin at 0, and " + adopted.field +
                                 " holds the value before the next: begin at 1 or above");
  return {};
}

}  // namespace

Result<void> check_new_counters(std::span<const NewCounter> counters, bool may_adopt) {
  if (counters.size() > CounterStore::kMaxCounters)
    return refuse_to("cannot make " + std::to_string(counters.size()) + " counters at once",
                     std::to_string(CounterStore::kMaxCounters) + " are allowed");
  for (const auto& [name, bounds, adopted] : counters) {
    if (Result<void> ok = check_new_counter(name, bounds); !ok) return ok;
    if (!adopted) continue;
    if (may_adopt) {
      if (Result<void> ok = check_adopted(name, bounds, *adopted); !ok) return ok;
      continue;
    }
    return std::unexpected(
        Error{Code::kUnimplemented, "cannot make counter " + shown(name) +
                                        ": this store adopts no documents of other programs; use "
                                        "the mongodb: store of the database that has them"});
  }
  return {};
}

Result<void> check_counters(std::size_t count) {
  if (count <= CounterStore::kMaxCounters) return {};
  return refuse_to("cannot change " + std::to_string(count) + " counters at once",
                   std::to_string(CounterStore::kMaxCounters) + " are allowed");
}

Result<void> check_new_space(std::string_view space) {
  return check_name("cannot make the space of claims " + shown(space), space);
}

Result<void> check_keys(std::string_view space, std::size_t count) {
  if (count >= 1 && count <= UniqueIndex::kMaxKeys) return {};
  return refuse_to("cannot claim " + std::to_string(count) + " numbers of " + shown(space),
                   "ask for 1 to " + std::to_string(UniqueIndex::kMaxKeys));
}

Result<void> check_stored(const Definition& definition) {
  if (Result<void> ok = validate(definition); !ok) return ok;
  if (const auto* const sequence = std::get_if<SequenceDefinition>(&definition);
      sequence != nullptr && sequence->strategy == Strategy::kPermuted && sequence->key.empty())
    return refuse_to("cannot store sequence " + sequence->name, "its key is missing");
  if (const auto* const pool = std::get_if<PoolDefinition>(&definition);
      pool != nullptr && pool->workers == 0)
    return refuse_to("cannot store pool " + pool->name, "its number of worker ids is missing");
  return {};
}

Result<void> check_replacement(const Definition& old, const Definition& updated) {
  if (name(old) != name(updated))
    return refuse_to("cannot replace the definition of " + shown(name(old)),
                     "the new one is of " + shown(name(updated)));
  return check_stored(updated);
}

Result<void> check_count(std::string_view counter, std::int64_t count) {
  if (count >= 1) return {};
  return std::unexpected(Error{Code::kInvalidArgument, "cannot take " + std::to_string(count) +
                                                           " values from counter " +
                                                           shown(counter) + ": ask for 1 or more"});
}

Result<void> check_field(std::string_view field) {
  const std::string the = "the field " + shown(field) + " ";
  if (field.empty()) return refuse("the field has no name: give one, such as _id");
  if (field.size() > 255) return refuse(the + "has a name of more than 255 bytes");
  if (field.find('\0') != std::string_view::npos) return refuse(the + "has a NUL in its name");
  if (field.contains('.'))
    return refuse(the +
                  "has a dot in its name, which means a field of a field: give one at the "
                  "top of the document");
  if (field.starts_with('$'))
    return refuse(the + "begins with a dollar sign, which MongoDB keeps for its operators");
  if (!is_utf8(field)) return refuse(the + "is not UTF-8");
  return {};
}

bool is_database_name(std::string_view name) {
  using namespace std::string_view_literals;
  return name.find_first_of("/\\. \"$*<>:|?\0"sv) == std::string_view::npos && name.size() <= 63 &&
         is_utf8(name);
}

Result<void> check_collection(std::string_view name) {
  const std::string the = "the collection " + shown(name) + " ";
  if (name.empty())
    return refuse("the collection has no name: give DATABASE.COLLECTION, such as app.accounts");
  if (name.find('\0') != std::string_view::npos) return refuse(the + "has a NUL in its name");
  if (name.contains('$')) return refuse(the + "has a dollar sign in its name");
  if (name.starts_with('.') || name.ends_with('.') || name.contains(".."))
    return refuse(the + "has an empty part in its name");
  if (name.starts_with("system.")) return refuse(the + "is one of MongoDB's own");
  if (name.starts_with("idmint."))
    return refuse(the + "is one of idmint's own, where no documents of others belong");
  if (name.size() > 200) return refuse(the + "has a name of more than 200 bytes");
  if (!is_utf8(name)) return refuse(the + "is not UTF-8");
  return {};
}

Result<NumberField> number_field(std::string_view collection, std::string_view field) {
  const std::size_t dot = collection.find('.');
  const std::string_view database = collection.substr(0, dot);
  const std::string_view rest =
      dot == std::string_view::npos ? std::string_view() : collection.substr(dot + 1);
  if (database.empty() || rest.empty())
    return refuse("not a collection: " + shown(collection) +
                  "; give DATABASE.COLLECTION, such as app.invoices");
  if (database == "admin" || database == "config" || database == "local" ||
      !is_database_name(database))
    return refuse("MongoDB allows no documents in a database of that name: " + shown(database) +
                  "; give another");
  if (Result<void> ok = check_collection(rest); !ok) return std::unexpected(std::move(ok.error()));
  if (Result<void> ok = check_field(field); !ok) return std::unexpected(std::move(ok.error()));
  return NumberField{std::string(database), std::string(rest), std::string(field)};
}

Error other_bounds(const CounterState& there, const CounterBounds& wanted) {
  const auto text = [](const CounterBounds& b) {
    const std::string ends = std::to_string(b.first) + " to " + std::to_string(b.last);
    return b.stride == 1 ? ends : ends + " in steps of " + std::to_string(b.stride);
  };
  return {Code::kAlreadyExists, "counter " + shown(there.name) + " exists and runs from " +
                                    text(there.bounds) + ", not from " + text(wanted) +
                                    "; use those bounds or another name"};
}

Error refused_advance(const CounterState& counter, std::int64_t count) {
  if (counter.closed)
    return {Code::kFailedPrecondition,
            "counter " + shown(counter.name) + " is closed and hands out nothing any more"};
  return {Code::kOutOfRange, "counter " + shown(counter.name) + " ends at " +
                                 std::to_string(counter.bounds.last) + ": " +
                                 std::to_string(count) + " wanted, " +
                                 std::to_string(counter.left()) + " left"};
}

Error too_large_an_end(std::string_view counter, std::int64_t last, std::int64_t stride) {
  return {Code::kInvalidArgument, "cannot extend counter " + shown(counter) + " to " +
                                      std::to_string(last) + ": the largest possible is " +
                                      std::to_string(largest_last(stride))};
}

Error no_space(std::string_view space, std::string_view url) {
  return {Code::kNotFound, "no space of claims " + shown(space) + " in " + std::string(url)};
}

Error closed_space(std::string_view space) {
  return {Code::kFailedPrecondition,
          "the space of claims " + shown(space) + " is closed: nothing more is claimed in it"};
}

Error no_counter(std::string_view counter, std::string_view url) {
  return {Code::kNotFound, "no counter " + shown(counter) + " in " + std::string(url)};
}

Error no_definition(std::string_view name, std::string_view url) {
  return {Code::kNotFound, "no definition of " + shown(name) + " in " + std::string(url)};
}

Error read_only_handle(std::string_view what) {
  return {Code::kPermissionDenied,
          std::string(what) + " was opened to read only; open it to write (StoreOptions::access)"};
}

Error inherited_handle(std::string_view url) {
  return {Code::kFailedPrecondition,
          "the handle of " + std::string(url) +
              " was inherited through fork(); open stores after the fork, not before"};
}

}  // namespace stores
}  // namespace idmint
