// --store: the store that a command works on, and the mint over it.
#pragma once

#include <cstdint>
#include <string>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "terminal/command.h"

namespace idmint::cli {

// Whether the command can do with a store that is gone when it ends.
enum class Stays : std::uint8_t { kNo, kYes };
void add_store(CLI::App& command, Stays stays = Stays::kYes);

// Reads it, or IDMINT_STORE where it was not given, and every other option that takes a URL. To be
// called once, when the command line is parsed; of a command without --store it changes nothing.
[[nodiscard]] Result<void> settle_store(CLI::App& command);

// As given; empty: the default.
[[nodiscard]] const std::string& store_given() noexcept;

// The URL, or that of an example where what is made would be gone when the command ends.
[[nodiscard]] std::string lasting_store(std::string url);

// The error with its advice in the words of this command line; see terminal/advice.h. If the URL of
// the store is refused, with where it came from.
[[nodiscard]] Error worded(Error error);

// The mint that the command line asks for; with kReadOnly it can do with a store that the user may
// only read.
[[nodiscard]] MintOptions mint_options(const Context& context, Access access = Access::kReadWrite);
[[nodiscard]] Mint open_mint(const Context& context, Access access = Access::kReadWrite);

}  // namespace idmint::cli
