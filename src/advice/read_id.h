// What a text is an id of.
#pragma once

#include <string_view>

#include "advice/words.h"
#include "idmint/id.h"
#include "idmint/result.h"
#include "ids/readings.h"

namespace idmint::advice {

// `from`: a format ("uuid7" is as "uuid"; also "typeid", and "microsoft" and "bson" for a UUID
// spelled so), an encoding ("base58": the number of characters tells how many bytes, and so the
// format), or both ("uuid:base58"). A TypeID comes as its Uuid. kInvalidArgument: `from` is none of
// these, or the text is not such an id.
[[nodiscard]] Result<Id> read_from(std::string_view text, std::string_view from, Words words);

// Without a word on what it is: the likeliest reading, provided that the next one with other bits
// is at most half as likely; else kInvalidArgument, naming both. kNotFound: it has no reading.
[[nodiscard]] Result<Id> read_likeliest(std::string_view text, detail::Reader& reader, Words words);

}  // namespace idmint::advice
