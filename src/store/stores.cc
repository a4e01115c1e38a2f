#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/host_facts.h"
#include "base/outcome.h"
#include "base/text.h"
#include "base/url.h"
#include "idmint/store.h"
#include "store/backend.h"
#include "store/counter_store.h"
#include "store/name_on_host.h"
#include "store/unique_index.h"

namespace idmint {
namespace stores {

extern const Backend kSqlite;
extern const Backend kMemory;
extern const Backend kMongodb;
extern const Backend kPostgresql;
extern const Backend kMariadb;
extern const Backend kRedis;
extern const Backend kEtcd;
extern const Backend kZookeeper;

}  // namespace stores

namespace {

constexpr std::array kBackends = {
    &stores::kSqlite,     &stores::kMemory,
#ifdef IDMINT_MONGODB
    &stores::kMongodb,
#endif
#ifdef IDMINT_POSTGRESQL
    &stores::kPostgresql,
#endif
#ifdef IDMINT_MARIADB
    &stores::kMariadb,
#endif
#ifdef IDMINT_REDIS
    &stores::kRedis,
#endif
#ifdef IDMINT_ETCD
    &stores::kEtcd,
#endif
#ifdef IDMINT_ZOOKEEPER
    &stores::kZookeeper,
#endif
};

// The optional backends, and the build options that include them.
struct Optional {
  std::string_view scheme;
  std::string_view option;
};
constexpr std::array kOptional = {Optional{"mongodb", "-DIDMINT_MONGODB=ON"},
                                  Optional{"postgresql", "-DIDMINT_POSTGRESQL=ON"},
                                  Optional{"postgres", "-DIDMINT_POSTGRESQL=ON"},
                                  Optional{"mysql", "-DIDMINT_MARIADB=ON"},
                                  Optional{"mariadb", "-DIDMINT_MARIADB=ON"},
                                  Optional{"redis", "-DIDMINT_REDIS=ON"},
                                  Optional{"rediss", "-DIDMINT_REDIS=ON"},
                                  Optional{"etcd", "-DIDMINT_ETCD=ON"},
                                  Optional{"zookeeper", "-DIDMINT_ZOOKEEPER=ON"}};

// Null: the URL is of no known kind.
const stores::Backend* backend_of(std::string_view url) {
  const std::size_t colon = url.find(':');
  if (colon == std::string_view::npos || colon == 0) return nullptr;
  const std::string_view scheme = url.substr(0, colon);
  const auto* const found = std::ranges::find_if(kBackends, [&](const stores::Backend* backend) {
    return scheme == backend->kind.scheme || scheme == backend->other_scheme;
  });
  return found == kBackends.end() ? nullptr : *found;
}

// A word that users write in place of a scheme.
struct Alias {
  std::string_view word;
  std::string_view scheme;
};
constexpr std::array kAliases = {
    Alias{"maria", "mariadb"},    Alias{"mongo", "mongodb"},   Alias{"pg", "postgresql"},
    Alias{"pgsql", "postgresql"}, Alias{"psql", "postgresql"}, Alias{"sqlite3", "sqlite"},
    Alias{"zk", "zookeeper"},
};

// The URL that is meant. Empty: not known.
std::string meant_by(std::string_view url) {
  const std::size_t colon = url.find(':');
  if (colon == std::string_view::npos) {
    const bool is_path = url.contains('/') || url.ends_with(".db") || url.ends_with(".sqlite") ||
                         url.ends_with(".sqlite3");
    if (!is_path) return {};
    return "sqlite:" + (redacted(url) == url ? std::string(url) : "PATH");
  }
  std::string scheme = lower_case(url.substr(0, colon));
  if (const auto* const alias = std::ranges::find(kAliases, scheme, &Alias::word);
      alias != kAliases.end())
    scheme = alias->scheme;
  std::string meant = scheme.append(url.substr(colon));
  return meant != url && backend_of(meant) != nullptr ? meant : std::string();
}

Error no_such_store(std::string_view url) {
  const std::string_view scheme = url.substr(0, url.find(':'));
  if (const auto* const left_out = std::ranges::find(kOptional, scheme, &Optional::scheme);
      scheme.size() < url.size() && left_out != kOptional.end()) {
    return {Code::kUnimplemented, "this build of idmint left out the stores of " +
                                      std::string(scheme) + ":; configure it with " +
                                      std::string(left_out->option)};
  }
  std::string message = "not the URL of a store: " + stores::shown(redacted(url));
  if (const std::string meant = meant_by(url); !meant.empty())
    return {Code::kInvalidArgument, message + ": did you mean " + redacted(meant) + "?"};
  message += "; give one such as ";
  for (const stores::Backend* const each : kBackends) {
    if (each != kBackends.front()) message += " or ";
    message += each->kind.example;
  }
  return {Code::kInvalidArgument, std::move(message)};
}

}  // namespace

std::span<const StoreKind> store_kinds() noexcept {
  static const auto kinds = [] {
    std::array<StoreKind, kBackends.size()> all{};
    std::ranges::transform(kBackends, all.begin(), [](const auto* each) { return each->kind; });
    return all;
  }();
  return kinds;
}

const StoreKind* store_kind(std::string_view url) noexcept {
  const stores::Backend* const backend = backend_of(url);
  return backend != nullptr ? &backend->kind : nullptr;
}

Result<std::unique_ptr<Store>> Store::open(std::string_view url, const StoreOptions& options,
                                           Entropy& entropy) {
  const stores::Backend* const backend = backend_of(url);
  if (backend == nullptr) return std::unexpected(no_such_store(url));
  Result<std::unique_ptr<Store>> opened = backend->open(url, options, entropy);
  // Now, since a file may be renamed later, and the process may change its working directory.
  if (opened) (*opened)->name_on_host_ = (*opened)->name_on_host();
  return opened;
}

std::string Store::name_on_host() const {
  return name_on_host_.empty() ? stores::name_on_host(id(), url(), server()) : name_on_host_;
}

Result<std::unique_ptr<ExistingValues>> ExistingValues::open(std::string_view url,
                                                             std::string_view collection,
                                                             std::string_view field,
                                                             const ExistingForm& form,
                                                             std::chrono::milliseconds deadline) {
  const stores::Backend* const backend = backend_of(url);
  if (backend == nullptr) return std::unexpected(no_such_store(url));
  if (backend->existing_values == nullptr) {
    return std::unexpected(
        Error{Code::kInvalidArgument,
              "values in use are read from MongoDB, PostgreSQL or MariaDB, and this is the "
              "URL of another kind of store; say where they are",
              {.remedy = Remedy::kSetOption, .values = {"uri"}}});
  }
  return backend->existing_values(url, collection, field, form, deadline);
}

std::optional<Error> Store::doubt(SteadyTime) { return std::nullopt; }

Result<std::optional<Instant>> Store::time(SteadyTime) { return std::nullopt; }

Result<void> Store::settle(Settle) { return {}; }

// A doubt is judged by what the store says now.
Result<std::int64_t> Store::read_settle_count(SteadyTime until) {
  static_cast<void>(doubt(until));
  return settle_count();
}

Result<void> Store::mark_gone_back(std::string_view, std::int64_t, SteadyTime) { return {}; }

namespace stores {

const Adoption* adoption_of(std::string_view url) noexcept {
  const Backend* const backend = backend_of(url);
  return backend != nullptr ? backend->adoption : nullptr;
}

std::string name_on_host(const Uuid& id, std::string_view url, std::string_view server) {
  const Backend* const backend = backend_of(url);
  if (backend != nullptr && backend->name_on_host != nullptr) return backend->name_on_host(id, url);
  std::array<char, 12> place{};
  std::snprintf(place.data(), place.size(), "-%08x",
                detail::crc32(place_of(url) + std::string(server)));
  return id.to_string() + place.data();
}

Uuid draw_store_id(Entropy& entropy) { return Uuid4Generator(entropy).next(); }

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

Error other_record(std::string_view counter, const std::string& there, const std::string& wanted) {
  const auto in = [](const std::string& text) {
    return text.empty() ? std::string("idmint's own") : "in " + text;
  };
  return {Code::kAlreadyExists, "counter " + shown(counter) + " exists and is " + in(there) +
                                    ", not " + in(wanted) + "; use that or another name"};
}

Error refused_advance(const CounterState& counter, std::int64_t count) {
  if (counter.closed)
    return about("counter " + shown(counter.name),
                 {Code::kFailedPrecondition,
                  "it is closed and hands out nothing; if idmint-restore promotes or fences now, "
                  "ask again in a minute"});
  return about("counter " + shown(counter.name),
               {Code::kOutOfRange, "it ends at " + std::to_string(counter.bounds.last) + ": " +
                                       std::to_string(count) + " wanted, " +
                                       std::to_string(counter.left()) + " left"});
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
  return about("the space of claims " + shown(space),
               {Code::kFailedPrecondition, "it is closed: nothing more is claimed in it"});
}

Error no_counter(std::string_view counter, std::string_view url) {
  return {Code::kNotFound, "no counter " + shown(counter) + " in " + std::string(url)};
}

Error no_definition(std::string_view name, std::string_view url) {
  return {Code::kNotFound, "no definition of " + shown(name) + " in " + std::string(url)};
}

Error with_other_outcome(Error error, std::string_view outcome) {
  if (error.outcome == kNothingChanged) error.outcome = outcome;
  return error;
}

Error after_a_write(Error error) {
  if (!was_not_applied(error.code)) return error;
  constexpr std::string_view kPart = "a part of it may have been done";
  if (error.code != Code::kPermissionDenied) error.code = Code::kUnknown;
  if (error.outcome == kNothingChanged)
    error.outcome = kPart;
  else if (error.outcome != kPart)
    add_outcome(error, kPart);
  return error;
}

std::int64_t next_settle_count(std::int64_t count) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(system_clock().now());
  return std::max<std::int64_t>(count + 1, seconds.time_since_epoch().count());
}

Error in_doubt(std::string_view url, const std::string& why) {
  return at_place(
      url,
      {Code::kFailedPrecondition,
       why + "; what was handed out last may be missing in it; it can be read, and gives no value "
             "until it is raised past every value in use",
       {Remedy::kRaiseStore, std::string(url), {"moved"}}});
}

Error newer_schema(std::string_view url, std::int64_t there, std::int64_t known) {
  return at_place(url, {Code::kFailedPrecondition,
                        "it has schema version " + std::to_string(there) +
                            ", and this idmint knows versions up to " + std::to_string(known) +
                            "; it was left as it is: use a newer idmint"});
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
