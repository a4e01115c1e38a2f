// The library's advice in the words of a terminal: the commands and options of idmint.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

// ": idmint create orders", to follow a text. Empty: there is no advice, or no command for it.
// `store` is the argument of --store in commands, without secrets; empty: they have no --store.
// Advice whose subject is a store names that one, or `store` if the subject is empty.
[[nodiscard]] std::string in_words(const Advice& advice, std::string_view store);

// The error with its advice moved to the end of its message, such as ": idmint create orders". The
// advice is cleared, so later additions follow it, and the call can be repeated.
[[nodiscard]] Error worded(Error error, std::string_view store);

}  // namespace idmint
