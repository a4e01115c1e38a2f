// Values that are in use already, in a collection of MongoDB: what a sequence is to be raised past.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "idmint/definition.h"
#include "idmint/export.h"
#include "idmint/form.h"
#include "idmint/result.h"

namespace idmint {

// As a sequence's definition has them: texts of this form are read as its values.
struct ExistingForm {
  Form form{};
  std::int64_t first = 0;
  std::int64_t last = kLargestValue;
};

// Any thread may call it at any time.
class IDMINT_EXPORT ExistingValues {
 public:
  virtual ~ExistingValues() = default;

  // The largest of the values from `from` to `to`, both included, on the primary, whether or not a
  // majority has it; nothing where there is none. kFailedPrecondition: the field holds what cannot
  // be told apart from a value: an array, or text where the form does not give all values one
  // width. kUnavailable: no answer. kPermissionDenied: may not be read.
  [[nodiscard]] virtual Result<std::optional<std::int64_t>> largest(std::int64_t from,
                                                                    std::int64_t to) = 0;
};

// The field `field` of the documents in `collection` ("DATABASE.COLLECTION"), on the servers of
// `url`, whose path need not be a store. Values are int32, int64, doubles (their fraction is
// cut off) and texts as `form` prints them; anything else is passed over. An index on the field
// makes it quick. `deadline`: of each call. kInvalidArgument: no such URL or name is possible.
// kNotFound: there is no such collection, or it has documents and none of them has the field; an
// empty one is fine. As for largest(): kUnavailable, kPermissionDenied.
[[nodiscard]] IDMINT_EXPORT Result<std::unique_ptr<ExistingValues>> open_existing_values(
    std::string_view url, std::string_view collection, std::string_view field,
    const ExistingForm& form, std::chrono::milliseconds deadline = std::chrono::seconds{5});

}  // namespace idmint
