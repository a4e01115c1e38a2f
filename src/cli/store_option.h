// --store: the store of a command, and the mint over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "terminal/command.h"

namespace idmint::cli {

// Whether the command needs a store that outlives it.
enum class Stays : std::uint8_t { kNo, kYes };
void add_store(CLI::App& command, Stays stays = Stays::kYes);

// --over: further stores of a sequence over several.
void add_over(CLI::App& command);
// --also: the stores to which a sequence may have been moved.
void add_also(CLI::App& command);
// Whether --store is on the command line.
[[nodiscard]] bool has_store_option() noexcept;

// Reads --store, --also and --over, or else IDMINT_STORE, IDMINT_ALSO and IDMINT_OVER, and every
// other option that takes a URL. Called once, after parsing; does nothing for a command without
// --store.
[[nodiscard]] Result<void> settle_store(CLI::App& command);

// As given; empty: the default.
[[nodiscard]] const std::string& store_given() noexcept;

// The argument of --store in a command that a message names. `typed`: that of --store here, which
// stands for `url`, such as env:IDS. It is returned without secrets. Empty: --store was not given,
// and the other command finds the same store without it. If data at the URL would be gone when this
// command ends, an example of a store that stays.
[[nodiscard]] std::string store_in_hints(const std::string& typed, std::string_view url);

// " --store URL" with it, to follow such a command; or empty.
[[nodiscard]] std::string store_again();

// The advice in the words of this command line (terminal/advice.h), its commands with
// store_again().
[[nodiscard]] std::string in_words(Advice advice);

// The error with its advice in these words, which is cleared. If the URL of the store is rejected,
// also says where it came from.
[[nodiscard]] Error worded(Error error);

// The mint of the command line. With kReadOnly, read permission on the store is enough.
[[nodiscard]] MintOptions mint_options(const Context& context, Access access = Access::kReadWrite);
[[nodiscard]] Mint open_mint(const Context& context, Access access = Access::kReadWrite);

}  // namespace idmint::cli
