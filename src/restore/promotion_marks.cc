#include "restore/promotion_marks.h"

#include <algorithm>
#include <cctype>

namespace idmint::restore {
namespace {

constexpr std::string_view kRefusedBy = "idmint-restore promote ";
constexpr std::string_view kRefused = ": no writes now";

}  // namespace

bool is_promotion_id(std::string_view text) {
  constexpr std::string_view form = "00000000-000000";
  return std::ranges::equal(text, form, [](unsigned char c, char of_form) {
    return of_form == '-' ? c == '-' : std::isdigit(c) != 0;
  });
}

Bson refusing_validator(const std::string& id) {
  return Bson("$comment", std::string(kRefusedBy) + id + std::string(kRefused), "$expr", false);
}

std::string refused_by(Document validator) {
  if (!validator) return {};
  std::string comment = text_of(validator, "$comment");
  if (!comment.starts_with(kRefusedBy) || !comment.ends_with(kRefused)) return {};
  std::string id = comment.substr(kRefusedBy.size());
  id.resize(id.size() - std::min(id.size(), kRefused.size()));
  const bool exact = is_promotion_id(id) && validator == refusing_validator(id).view();
  return exact ? id : std::string();
}

}  // namespace idmint::restore
