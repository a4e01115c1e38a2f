// Advice of the library in the words of a terminal: the commands and options of idmint.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// ": idmint create orders", to stand behind a text. Empty: there is no advice, or none that a
// command carries out. `store`: the URL that commands name with --store, without its secrets; empty
// for the default store.
[[nodiscard]] std::string in_words(const Advice& advice, std::string_view store);

// The error with its advice at the end of its message, such as ": idmint create orders", and no
// advice any more: so whatever adds to the message adds behind it. Again is fine.
[[nodiscard]] Error worded(Error error, std::string_view store);

}  // namespace idmint
