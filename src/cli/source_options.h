// The options of `next` and `create` for a format or a sequence.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "advice/words.h"
#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/mint.h"
#include "idmint/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library
class App;
}

namespace idmint::cli {

// As given; empty: not given.
struct FormTexts {
  std::optional<std::string> prefix{};
  std::optional<std::string> encoding{};
  std::optional<std::string> check{};
  std::optional<std::string> digits{};
  std::optional<std::string> width{};  // sequences only
  bool no_leading_zeros = false;
};

struct FormatTexts {
  FormTexts form{};
  std::optional<std::string>
      worker{};  // a number, "env:NAME", "ordinal", "address", "mac", "random"
  std::optional<std::string> layout{};
  std::optional<std::string> epoch{};
  std::optional<std::string> unit{};
  std::optional<std::string> run_ahead{};
  std::optional<std::string> node{};  // "mac", "random" or 12 hexadecimal digits
  std::optional<std::string> domain{};
  std::optional<std::string> local_id{};
  std::optional<std::string> window{};
};

void add_form(CLI::App& command, FormTexts& form);
void add_snowflake(CLI::App& command, FormatTexts& format);  // its worker id, layout and time

struct SequenceTexts {
  FormTexts form{};
  std::optional<std::string> kind{};
  std::optional<std::string> layout{};
  std::optional<std::string> workers{};
  std::optional<std::string> strategy{};
  std::optional<std::string> start{};
  std::optional<std::string> max{};
  std::optional<std::string> stride{};
  std::optional<std::string> offset{};
  std::optional<std::string> stripes{};
  std::optional<std::string> step{};
  std::optional<std::string> largest_count{};
  std::optional<std::string> adopt{};
  bool validator = false;
  bool make = false;
  std::optional<std::string> where{};
  bool over_stores = false;  // each stripe is in a store of its own
};

// The layout that --layout names or spells. kInvalidArgument: no such layout.
[[nodiscard]] Result<SnowflakeLayout> layout_option(std::string_view text);

// From advice/words.h.
using advice::kMostWidth;
using advice::time_option;
using advice::whole_number;

// --timeout; `usual` is its default, as text and as a value.
void add_timeout(CLI::App& command, std::optional<std::string>& timeout, const std::string& usual);
[[nodiscard]] Result<std::chrono::milliseconds> timeout_option(
    const std::optional<std::string>& given, std::chrono::milliseconds usual);

// Here and below: kInvalidArgument: a wrong option; the message names it and what it accepts.
// Mint::source() checks whether the format takes the option at all. IDMINT_WORKER is the default of
// a Snowflake worker id.
[[nodiscard]] Result<FormatOptions> format_options(std::string_view format,
                                                   const FormatTexts& given);

// Omitted members follow from the others: see mint/sequence_spec.h. `store` is its URL, or empty.
[[nodiscard]] Result<Definition> definition(std::string_view name, const SequenceTexts& given,
                                            std::string_view store = {});

// The number of decimal digits in the text.
[[nodiscard]] std::size_t digits_in(std::string_view text);

}  // namespace idmint::cli
