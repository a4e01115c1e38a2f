// Selects the namespaces that are restored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "restore/error_in.h"

namespace idmint::restore {

// The records of runs and of promotions.
inline constexpr const char* kRecordDatabase = "idmint_restore";

// The parts of DATABASE.COLLECTION. Without a dot, the collection is empty.
[[nodiscard]] std::string database_of(std::string_view ns);
[[nodiscard]] std::string collection_of(std::string_view ns);

// Databases that no restore touches: admin, config, local, the record of progress, and MongoDB's
// internal ones (__mdb_internal...).
[[nodiscard]] bool is_own_database(std::string_view database);
// Whether it is admin.system.users or admin.system.roles, the collections of a database that no
// restore touches that `run --users` restores.
[[nodiscard]] bool is_users(std::string_view ns);
// The prefix of the collection that holds a time-series collection's documents.
inline constexpr std::string_view kBuckets = "system.buckets.";
// X for system.buckets.X; any other name as it is.
[[nodiscard]] std::string_view without_buckets(std::string_view collection);

// The collections that a promotion keeps have the name of their collection, one of these, and the
// promotion's id.
inline constexpr std::string_view kOldSuffix = ".before-restore-";
inline constexpr std::string_view kCopySuffix = ".restored-";
inline constexpr std::string_view kPromotedSuffix = ".promoted-";
[[nodiscard]] bool is_kept_name(std::string_view ns);

// `*` in a pattern matches any text.
[[nodiscard]] bool matches_glob(std::string_view pattern, std::string_view text);

// Accepts all namespaces but those of is_own_database(), unless patterns narrow it or
// include_users() adds users and roles.
class NamespaceFilter {
 public:
  NamespaceFilter() = default;
  // A pattern is DATABASE or DATABASE.COLLECTION; * matches any text within its part. An empty
  // `include` includes everything; `exclude` is subtracted. kInvalidArgument: a pattern is empty.
  [[nodiscard]] static Result<NamespaceFilter> of(std::vector<std::string> include,
                                                  std::vector<std::string> exclude);

  // Adds patterns to exclude. kInvalidArgument: as of().
  [[nodiscard]] Result<void> exclude(const std::vector<std::string>& patterns);

  // Includes is_users() too, unless it is excluded. Patterns of `include` do not concern it.
  void include_users() { users_ = true; }
  [[nodiscard]] bool users() const { return users_; }

  // Whether the collection is included. system.buckets.X counts as X.
  [[nodiscard]] bool includes(std::string_view ns) const;
  // Whether a collection of the database may be included.
  [[nodiscard]] bool includes_database(std::string_view database) const;
  // Whether there are patterns.
  [[nodiscard]] bool narrows() const { return !include_.empty() || !exclude_.empty(); }
  // One line for the fingerprint of a run: equal for equal patterns.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> include_;
  std::vector<std::string> exclude_;
  bool users_ = false;
};

}  // namespace idmint::restore
