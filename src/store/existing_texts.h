// The largest value among texts that a sequence printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "idmint/id.h"
#include "idmint/mongodb.h"
#include "idmint/result.h"

namespace idmint::stores {

[[nodiscard]] inline std::string text_of(const ExistingForm& form, std::int64_t value) {
  return to_string(Id(value), form.form);
}
// Whether all its values are printed in one width, and so sort like their numbers.
[[nodiscard]] inline bool has_one_width(const ExistingForm& form) {
  return text_of(form, form.first).size() == text_of(form, form.last).size();
}

// page(from, below, inclusive) returns the largest texts from `from` to below `below`, or to that
// itself, in descending order of their bytes, kPageOfTexts at most. Those that are no values of the
// form are passed over. REQUIRES: has_one_width(form).
inline constexpr int kPageOfTexts = 100;
template <class Page>
[[nodiscard]] Result<std::optional<std::int64_t>> largest_text(const ExistingForm& form,
                                                               std::int64_t from, std::int64_t to,
                                                               const Page& page) {
  std::string below = text_of(form, to);
  for (bool inclusive = true;; inclusive = false) {
    Result<std::vector<std::string>> texts = page(text_of(form, from), below, inclusive);
    if (!texts) return std::unexpected(std::move(texts.error()));
    for (const std::string& text : *texts)
      if (const Result<Id> value = parse(text, "integer", form.form))
        return std::get<std::int64_t>(*value);
    if (std::cmp_less(texts->size(), kPageOfTexts)) return std::nullopt;
    below = std::move(texts->back());
  }
}

// kFailedPrecondition: a text that may be a value, among those of different widths.
// `where`: the place, for messages.
[[nodiscard]] inline Error text_of_any_width(const std::string& where, const std::string& text) {
  return {Code::kFailedPrecondition,
          where + " holds the text " + text +
              ", and the sequence prints its values in different widths, so that the largest text "
              "is not the largest value; find it yourself, and raise the sequence past it"};
}

}  // namespace idmint::stores
