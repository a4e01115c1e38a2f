#include "restore/find/namespace_counts.h"

#include <algorithm>
#include <cctype>

#include "restore/oplog/operation_text.h"

namespace idmint::restore {
namespace {

constexpr std::size_t kGenerated = 6;  // digits

bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool is_decimal(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string name_pattern(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  if (dot == std::string_view::npos) return std::string(ns);
  std::string pattern(ns.substr(0, dot + 1));
  const std::string_view name = ns.substr(dot + 1);
  if (is_temporary_name(name)) {
    const std::size_t end = name.starts_with("tmp.") ? name.find('.', 4) + 1 : 3;
    pattern += name.substr(0, end);
    pattern += '*';
    if (end == 3) pattern += name.substr(name.find('.'));
    return pattern;
  }
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && is_hex(name[end])) ++end;
    const std::string_view digits = name.substr(at, end - at);
    // The digits of a UUID are in groups; the short ones follow "*-".
    const bool goes_on = pattern.ends_with("*-") && digits.size() >= 4;
    if ((digits.size() >= kGenerated || goes_on) && std::ranges::any_of(digits, is_decimal)) {
      if (goes_on) {
        pattern.pop_back();
      } else {
        pattern += '*';
      }
      at = end;
    } else {
      end = std::max(end, at + 1);
      pattern += name.substr(at, end - at);
      at = end;
    }
  }
  return pattern;
}

std::uint16_t NamespaceCounts::find_row(std::string_view ns) {
  if (ns == last_ns_) return last_row_;
  const std::string pattern = name_pattern(ns);
  std::uint16_t row = 0;
  if (const auto found = index_.find(pattern); found != index_.end()) {
    row = found->second;
  } else if (rows_.size() < kRows) {
    row = static_cast<std::uint16_t>(rows_.size());
    rows_.push_back({.ns = pattern, .counts = {}, .generated = pattern != ns});
    index_.emplace(pattern, row);
  }
  if (row != 0 && !rows_[row].generated) {
    cache_[hash_of(ns, 0) % cache_.size()] = row;
  } else {
    last_ns_ = ns;
    last_row_ = row;
  }
  return row;
}

NamespaceCounts::Earlier NamespaceCounts::at(std::uint64_t operations) const {
  Earlier earlier;
  earlier.counts.reserve(rows_.size());
  for (const Row& row : rows_) earlier.counts.push_back(row.counts);
  const std::uint64_t oldest = operations_ - std::min<std::uint64_t>(operations_, kRecent);
  earlier.exact = operations >= oldest;
  for (std::uint64_t i = std::max(operations, oldest); i < operations_; ++i) {
    const std::uint16_t each = recent_[i % kRecent];
    --earlier.counts[each >> 2][each & 3];
  }
  return earlier;
}

}  // namespace idmint::restore
