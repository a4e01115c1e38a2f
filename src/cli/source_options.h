// What the options of `next` and `create` say of a format or a sequence.
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

// As given; what is empty was not.
struct FormTexts {
  std::optional<std::string> prefix{};
  std::optional<std::string> encoding{};
  std::optional<std::string> check{};
  std::optional<std::string> digits{};
  std::optional<std::string> width{};  // of sequences only
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
  std::optional<std::string> stripes{};
  std::optional<std::string> step{};
  std::optional<std::string> largest_count{};
  std::optional<std::string> adopt{};
  bool validator = false;
};

// The layout that --layout names or spells. kInvalidArgument: there is no such.
[[nodiscard]] Result<SnowflakeLayout> layout_option(std::string_view text);

// As advice/words.h has them.
using advice::kMostWidth;
using advice::time_option;
using advice::whole_number;

// --timeout; `usual`: what it is where it is not given, in words and as a value.
void add_timeout(CLI::App& command, std::optional<std::string>& timeout, const std::string& usual);
[[nodiscard]] Result<std::chrono::milliseconds> timeout_option(
    const std::optional<std::string>& given, std::chrono::milliseconds usual);

// Here and below: kInvalidArgument, naming the option and what it takes. Whether the format takes
// the option at all is for Mint::source() to say. The worker id of a snowflake is IDMINT_WORKER
// where it is not given.
[[nodiscard]] Result<FormatOptions> format_options(std::string_view format,
                                                   const FormatTexts& given);

// What is not given follows from the rest: see mint/sequence_wish.h. `store`: its URL, or empty.
[[nodiscard]] Result<Definition> definition(std::string_view name, const SequenceTexts& given,
                                            std::string_view store = {});

// How many of the characters are decimal digits.
[[nodiscard]] std::size_t digits_in(std::string_view text);

}  // namespace idmint::cli
