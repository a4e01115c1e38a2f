// The commands of idmint.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "idmint/id.h"
#include "idmint/mint.h"
#include "idmint/result.h"
#include "idmint/store.h"
#include "mint/seen.h"
#include "terminal/output.h"

namespace idmint::cli {

struct Context {
  const Arguments& arguments;
  Output& out;
  int stopped_by = 0;       // the signal that ended the command early, after a whole line
  int status = 0;           // when the command ends without an error of its own; told already
  std::string unwritten{};  // what to do if the output cannot be written; empty: try again
};

// Each prints to `out`; main() flushes it, and tells of its failure or of the error returned.
[[nodiscard]] Result<void> run_next(Context& context);
[[nodiscard]] Result<void> run_create(Context& context);
[[nodiscard]] Result<void> run_raise(Context& context);
[[nodiscard]] Result<void> run_alter(Context& context);
[[nodiscard]] Result<void> run_retire(Context& context);
[[nodiscard]] Result<void> run_list(Context& context);
[[nodiscard]] Result<void> run_peek(Context& context);
[[nodiscard]] Result<void> run_workers(Context& context);
[[nodiscard]] Result<void> run_inspect(Context& context);
[[nodiscard]] Result<void> run_plan(Context& context);
[[nodiscard]] Result<void> run_plan_change(Context& context);
[[nodiscard]] Result<void> run_bench(Context& context);
[[nodiscard]] Result<void> run_bounds(Context& context);
[[nodiscard]] Result<void> run_convert(Context& context);
[[nodiscard]] Result<void> run_check(Context& context);
[[nodiscard]] Result<void> run_name(Context& context);
[[nodiscard]] Result<void> run_doctor(Context& context);
[[nodiscard]] Result<void> run_apply(Context& context);
[[nodiscard]] Result<void> run_insert(Context& context);
[[nodiscard]] Result<void> run_sweep(Context& context);
[[nodiscard]] Result<void> run_formats(Context& context);
[[nodiscard]] Result<void> run_completion(Context& context);
[[nodiscard]] Result<void> run_version(Context& context);
[[nodiscard]] Result<void> run_help(Context& context);

// The mint that the command line asks for; with kReadOnly it can do with a store that the user may
// only read.
[[nodiscard]] MintOptions mint_options(const Arguments& arguments,
                                       Access access = Access::kReadWrite);
[[nodiscard]] Mint open_mint(const Arguments& arguments, Access access = Access::kReadWrite);
// Leaves behind what a sequence or a pool gave last, for doctor; `used_in`:
// "DATABASE.COLLECTION:FIELD", or empty. A format keeps nothing in a store: nothing is noted.
void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in = {}) noexcept;
// What commands of this host saw last of the store. If the store is in doubt, also what they saw of
// its copies: it may be a backup in the place of the one that gave the values.
[[nodiscard]] std::vector<Seen> seen_of(const Store& store, bool in_doubt);
// "this host was given 1740 at 2026-11-23T03:28:11Z".
[[nodiscard]] std::string given_here(const Seen& seen);
// Past those of its values that are in the field, in the MongoDB of `url`.
[[nodiscard]] Result<Raised> raise_past_field(Mint& mint, const Definition& definition,
                                              std::string_view url, std::string_view collection,
                                              std::string_view field,
                                              std::chrono::milliseconds deadline,
                                              RaiseMode mode = RaiseMode::kCarryOut);

}  // namespace idmint::cli
