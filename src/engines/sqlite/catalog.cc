#include "store/catalog.h"

#include <algorithm>
#include <iterator>

#include "engines/sqlite/tables.h"
#include "store/backend.h"

namespace idmint::stores::sqlite {
namespace {

class Definitions final : public Catalog {
 public:
  explicit Definitions(TrustedFile& file) : file_(file) {}

  Result<Definition> do_define(const Definition& definition) override {
    const auto lock = file_.enter();
    if (!lock) return std::unexpected(lock.error());
    const std::string json = to_json(definition);
    const Call call{"write a definition into"};
    const Result<void> done = file_.atomically(
        call, [&] { return Statement(file_, define_, call.doing, name(definition), json).end(); });
    if (!done) return std::unexpected(done.error());
    return read(name(definition));
  }

  // Replaces the text that was read, and no other.
  Result<Definition> do_replace(const Definition& old, const Definition& updated) override {
    const auto lock = file_.enter();
    if (!lock) return std::unexpected(lock.error());
    std::string json;
    Result<Definition> there = read(name(old), &json);
    if (!there || *there != old) return there;
    const std::string updated_json = to_json(updated);
    const Call call{.doing = "replace a definition in", .needs = Needs::kNothing};
    const Result<void> done = file_.atomically(call, [&] {
      return Statement(file_, replace_, call.doing, name(old), json, updated_json).end();
    });
    if (!done) return std::unexpected(done.error());
    return read(name(old));
  }

  Result<Definition> do_find(std::string_view name, SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    return read(name);
  }

  Result<std::vector<CatalogEntry>> do_list_all(SteadyTime until) override {
    constexpr std::size_t kPart = 1000;  // each has the deadline of a call, and others come between
    std::vector<CatalogEntry> all;
    for (std::size_t found = kPart; found == kPart;) {
      const std::string after = all.empty() ? std::string() : all.back().name;
      Result<std::vector<CatalogEntry>> part = do_list_after(after, kPart, until);
      if (!part) return part;
      found = part->size();
      std::ranges::move(*part, std::back_inserter(all));
    }
    return all;
  }

  Result<std::vector<CatalogEntry>> do_list_after(std::string_view after, std::size_t most,
                                                  SteadyTime until) override {
    const auto lock = file_.enter(until);
    if (!lock) return std::unexpected(lock.error());
    Statement row(file_, list_, "read", after);
    std::vector<CatalogEntry> all;
    while (all.size() < most && row.next()) {
      if (file_.is_late()) return std::unexpected(file_.too_long_a_list(all.size()));
      all.push_back({std::string(row.bytes(0)), definition_of(row)});
    }
    if (all.size() < most && !row.is_done()) return std::unexpected(row.failure());
    return all;
  }

 private:
  [[nodiscard]] Result<Definition> definition_of(const Statement& row) const {
    return under_name(row.bytes(0), definition_from_json(row.bytes(1)), file_.path(),
                      [&](const std::string& why) { return file_.damaged(why); });
  }

  // `json`: gets the text as it is stored.
  Result<Definition> read(std::string_view name, std::string* json = nullptr) {
    Statement row(file_, find_, "read", name);
    if (!row.next())
      return std::unexpected(row.is_done() ? no_definition(name, file_.url()) : row.failure());
    if (json != nullptr) *json = row.bytes(1);
    return definition_of(row);
  }

  TrustedFile& file_;
  Query define_{"INSERT INTO definitions (name, json) VALUES (?1, ?2) ON CONFLICT DO NOTHING"};
  Query replace_{"UPDATE definitions SET json = ?3 WHERE name = ?1 AND json = ?2"};
  Query find_{"SELECT name, json FROM definitions WHERE name = ?1"};
  Query list_{"SELECT name, json FROM definitions WHERE name > ?1 ORDER BY name"};
};

}  // namespace

std::shared_ptr<Catalog> catalog_of(TrustedFile& file) {
  return std::make_shared<Definitions>(file);
}

}  // namespace idmint::stores::sqlite
