// --store: the store of a command, and the mint over it.
#pragma once

#include <cstdint>
#include <string>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "terminal/command.h"

namespace idmint::cli {

// Whether the command needs a store that outlives it.
enum class Stays : std::uint8_t { kNo, kYes };
void add_store(CLI::App& command, Stays stays = Stays::kYes);

// --also: the stores to which a sequence may have been moved.
void add_also(CLI::App& command);

// Reads --store, or else IDMINT_STORE, --also, or else IDMINT_ALSO, and every other option that
// takes a URL. Called once, after parsing; does nothing for a command without --store.
[[nodiscard]] Result<void> settle_store(CLI::App& command);

// As given; empty: the default.
[[nodiscard]] const std::string& store_given() noexcept;

// The URL, or an example if data at the URL would be gone when the command ends.
[[nodiscard]] std::string lasting_store(std::string url);

// The error with its advice in the words of this command line (terminal/advice.h). If the URL of
// the store is rejected, also says where it came from.
[[nodiscard]] Error worded(Error error);

// The mint of the command line. With kReadOnly, read permission on the store is enough.
[[nodiscard]] MintOptions mint_options(const Context& context, Access access = Access::kReadWrite);
[[nodiscard]] Mint open_mint(const Context& context, Access access = Access::kReadWrite);

}  // namespace idmint::cli
