#include "base/similar.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/text.h"

namespace idmint {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string close_matches(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 120;  // the longest name of a sequence
  std::string matches;
  if (name.size() > longest) return matches;
  std::size_t nearest = 1 + name.size() / 4;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(lower_case(name), lower_case(candidate));
    if (distance > nearest || distance >= candidate.size()) continue;
    if (distance < nearest) matches.clear();
    nearest = distance;
    matches += (matches.empty() ? "" : " or ") + candidate;
  }
  return matches;
}

}  // namespace idmint
