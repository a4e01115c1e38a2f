// Reads a text as an id.
#pragma once

#include <string_view>

#include "advice/words.h"
#include "idmint/form.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "ids/readings.h"

namespace idmint::advice {

// A whole number of 64 bits in this form, which is that of an integer. Id holds those of sequences
// as integers; a larger one is a Snowflake. kInvalidArgument: the text is no such number.
[[nodiscard]] Result<Id> read_integer(std::string_view text, const Form& form = {});

// `from` is a format ("uuid7" means "uuid"; also "typeid", and "microsoft" and "bson" for such
// spellings of a UUID), an encoding ("base58": the number of characters determines the number of
// bytes, and so the format), or both ("uuid:base58"). A TypeID is returned as its Uuid.
// kInvalidArgument: `from` is none of these, or the text is not such an id.
[[nodiscard]] Result<Id> read_from(std::string_view text, std::string_view from, Words words);

// Without `from`: the likeliest reading, if the next one with other bits is at most half as likely.
// kInvalidArgument: it is not; the message names both. kNotFound: no reading.
[[nodiscard]] Result<Id> read_likeliest(std::string_view text, detail::Reader& reader, Words words);

}  // namespace idmint::advice
