// Which namespaces are restored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::restore {

// Databases that no restore touches: admin, config, local, the record of progress, and what
// MongoDB keeps for itself (__mdb_internal...).
[[nodiscard]] bool is_own_database(std::string_view database);
// Of the collection of a time-series collection's documents.
inline constexpr std::string_view kBuckets = "system.buckets.";
// X of system.buckets.X, the documents of a time-series collection; else the name as it is.
[[nodiscard]] std::string_view without_buckets(std::string_view collection);

// `*` stands for any text.
[[nodiscard]] bool matches_glob(std::string_view pattern, std::string_view text);

// All but those databases, unless patterns say less.
class NamespaceFilter {
 public:
  NamespaceFilter() = default;
  // Patterns are DATABASE, DATABASE.COLLECTION, or either with * for any text within its
  // part. An empty `include` includes all; `exclude` takes from that. kInvalidArgument: an empty
  // pattern.
  [[nodiscard]] static Result<NamespaceFilter> of(std::vector<std::string> include,
                                                  std::vector<std::string> exclude);

  // Takes these from it, too. kInvalidArgument: as of().
  [[nodiscard]] Result<void> exclude(const std::vector<std::string>& patterns);

  // Of a collection. system.buckets.X goes with X.
  [[nodiscard]] bool includes(std::string_view ns) const;
  // One of its collections may be included.
  [[nodiscard]] bool includes_database(std::string_view database) const;
  // There are patterns.
  [[nodiscard]] bool narrows() const { return !include_.empty() || !exclude_.empty(); }
  // One line, the same for the same patterns: for the fingerprint of a run.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> include_;
  std::vector<std::string> exclude_;
};

}  // namespace idmint::restore
