#include "restore/namespaces.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors.h"
#include "base/shell.h"

namespace idmint::restore {
namespace {

// The parts of a pattern with a dot. The first dot separates database and collection; `*` does not
// match it, so a pattern never spans databases.
std::string_view database_part(std::string_view pattern) {
  return pattern.substr(0, pattern.find('.'));
}
std::string_view collection_part(std::string_view pattern) {
  return pattern.substr(pattern.find('.') + 1);
}

Result<std::vector<std::string>> whole(std::vector<std::string> patterns) {
  for (std::string& pattern : patterns) {
    if (pattern.empty() || pattern.front() == '.' || pattern.back() == '.')
      return fail(Code::kInvalidArgument,
                  shell_word(pattern) +
                      " names no namespace: give DATABASE or DATABASE.COLLECTION, "
                      "with * for any text");
    if (!pattern.contains('.')) pattern += ".*";
  }
  std::ranges::sort(patterns);
  return patterns;
}

}  // namespace

std::string database_of(std::string_view ns) { return std::string(ns.substr(0, ns.find('.'))); }

std::string collection_of(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  return dot == std::string_view::npos ? std::string() : std::string(ns.substr(dot + 1));
}

bool is_own_database(std::string_view database) {
  constexpr std::array<std::string_view, 4> own = {"admin", "config", "local", kRecordDatabase};
  return std::ranges::find(own, database) != own.end() || database.starts_with("__mdb_internal");
}

bool is_users(std::string_view ns) {
  return ns == "admin.system.users" || ns == "admin.system.roles";
}

bool is_kept_name(std::string_view ns) {
  return ns.contains(kOldSuffix) || ns.contains(kCopySuffix) || ns.contains(kPromotedSuffix);
}

std::string_view without_buckets(std::string_view collection) {
  return collection.starts_with(kBuckets) ? collection.substr(kBuckets.size()) : collection;
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Result<NamespaceFilter> NamespaceFilter::of(std::vector<std::string> include,
                                            std::vector<std::string> exclude) {
  Result<std::vector<std::string>> in = whole(std::move(include));
  if (!in) return error_in(in);
  Result<std::vector<std::string>> out = whole(std::move(exclude));
  if (!out) return error_in(out);
  NamespaceFilter filter;
  filter.include_ = *std::move(in);
  filter.exclude_ = *std::move(out);
  return filter;
}

Result<void> NamespaceFilter::exclude(const std::vector<std::string>& patterns) {
  Result<std::vector<std::string>> out = whole(patterns);
  if (!out) return error_in(out);
  for (std::string& pattern : *out) {
    if (std::ranges::find(exclude_, pattern) == exclude_.end())
      exclude_.push_back(std::move(pattern));
  }
  return {};
}

bool NamespaceFilter::includes(std::string_view ns) const {
  const std::size_t dot = ns.find('.');
  const std::string_view database = ns.substr(0, dot);
  const bool users = users_ && is_users(ns);
  if ((is_own_database(database) && !users) || dot == std::string_view::npos) return false;
  if (!narrows()) return true;
  const std::string_view collection = without_buckets(ns.substr(dot + 1));
  if (collection == "system.views") return includes_database(database);
  const auto matches = [&](const std::string& pattern) {
    return matches_glob(database_part(pattern), database) &&
           matches_glob(collection_part(pattern), collection);
  };
  return (include_.empty() || users || std::ranges::any_of(include_, matches)) &&
         std::ranges::none_of(exclude_, matches);
}

bool NamespaceFilter::includes_database(std::string_view database) const {
  if (is_own_database(database)) return false;
  const auto all_of_it = [&](const std::string& pattern) {
    return collection_part(pattern) == "*" && matches_glob(database_part(pattern), database);
  };
  const auto some_of_it = [&](const std::string& pattern) {
    return matches_glob(database_part(pattern), database);
  };
  return (include_.empty() || std::ranges::any_of(include_, some_of_it)) &&
         std::ranges::none_of(exclude_, all_of_it);
}

std::string NamespaceFilter::text() const {
  std::string text;
  for (const std::string& pattern : include_) text += (text.empty() ? "+" : " +") + pattern;
  for (const std::string& pattern : exclude_) text += (text.empty() ? "-" : " -") + pattern;
  return text;
}

}  // namespace idmint::restore
