
#include "engines/sqlite/tables.h"
#include "engines/sqlite/trust.h"
#include "ids/lease_table.h"
#include "store/backend.h"
#include "store/catalog.h"
#include "store/counter_store.h"
#include "store/unique_index.h"

namespace idmint::stores {
namespace sqlite {
namespace {

class SqliteStore final : public Store {
 public:
  SqliteStore(std::string url, SqliteUrl parsed, const StoreOptions& options, Entropy& entropy)
      : file_(std::move(url), std::move(parsed), options, entropy) {}

  Result<void> open() { return file_.open(); }

  const Uuid& id() const noexcept override { return file_.id(); }
  std::string_view url() const noexcept override { return file_.url(); }
  std::chrono::milliseconds deadline() const noexcept override { return file_.options().deadline; }
  CounterStore* counters() noexcept override { return counters_.get(); }
  Catalog* catalog() noexcept override { return catalog_.get(); }
  UniqueIndex* unique_index() noexcept override { return claims_.get(); }
  LeaseTable* leases() noexcept override { return workers_.get(); }
  std::optional<Error> doubt(SteadyTime until) override { return file_.doubt(until); }
  std::optional<Error> unrecorded() override { return file_.unrecorded(); }
  Result<void> settle(Settle how) override { return file_.settle(how); }
  std::int64_t settle_count() const noexcept override { return file_.settle_count(); }
  Result<std::int64_t> read_settle_count(SteadyTime until) override {
    return file_.read_settle_count(until);
  }
  Result<void> mark_gone_back(std::string_view why, std::int64_t settled,
                              SteadyTime until) override {
    return file_.mark_gone_back(why, settled, until);
  }

 private:
  TrustedFile file_;
  const std::shared_ptr<CounterStore> counters_ = counters_of(file_);
  const std::shared_ptr<Catalog> catalog_ = catalog_of(file_);
  const std::shared_ptr<UniqueIndex> claims_ = claims_of(file_);
  const std::shared_ptr<LeaseTable> workers_ = workers_of(file_);
};

}  // namespace
}  // namespace sqlite

namespace {

Result<std::unique_ptr<Store>> open_sqlite(std::string_view whole, const StoreOptions& options,
                                           Entropy& entropy) {
  const std::string url(whole);
  Result<SqliteUrl> parsed = parse_sqlite_url(whole);
  if (!parsed) return std::unexpected(std::move(parsed.error()));
  // SQLite tracks the locks of each file for the whole process. A child of fork() inherits this
  // record without the locks. A handle opened there would write to a file that others consider
  // unused, and remove or restart its log: acknowledged values would be lost.
  if (!sqlite::may_connect())
    return std::unexpected(Error{Code::kFailedPrecondition,
                                 "cannot open " + url +
                                     ": this process was forked from one that had an SQLite store "
                                     "open; open stores after the fork only, or call exec"});
  auto store = std::make_unique<sqlite::SqliteStore>(url, *std::move(parsed), options, entropy);
  if (Result<void> ok = store->open(); !ok) return std::unexpected(ok.error());
  return store;
}

// A copy has another place.
std::string name_with_place(const Uuid& id, std::string_view url) {
  std::optional<sqlite::Place> place;
  if (const Result<SqliteUrl> file = parse_sqlite_url(url)) place = sqlite::place_of(file->path);
  return place ? sqlite::name_of(id, *place) : id.to_string();
}

}  // namespace

extern const Backend kSqlite;
constinit const Backend kSqlite{
    .kind = {.scheme = "sqlite",
             .example = "sqlite:ids.db",
             .about = "one file, no server, any number of processes of one host; durable",
             .durability = "every value is synced before it is handed out (WAL, synchronous=FULL)",
             .is_file = true},
    .open = open_sqlite,
    .name_on_host = name_with_place};

}  // namespace idmint::stores
