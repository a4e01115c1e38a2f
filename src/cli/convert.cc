// convert: an id in another spelling, encoding or format of the same bits.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "advice/conversion.h"
#include "advice/read_id.h"
#include "base/errors.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "idmint/clock.h"
#include "idmint/id.h"
#include "terminal/exit_status.h"

namespace idmint::cli {

using advice::Conversion;
using advice::Words;

namespace {

struct ConvertOptions {
  std::vector<std::string> ids;
  std::string from;  // empty: not given
  advice::ConversionTexts to;
};

void add_convert(CLI::App& command, ConvertOptions& given) {
  add_texts(command, given.ids);
  command.add_option("--to", given.to.to, "An encoding, a format or a spelling: see below")
      ->required()
      ->type_name("WHAT");
  command.add_option("--from", given.from, "What the ids are: FORMAT, ENCODING or FORMAT:ENCODING")
      ->type_name("WHAT");
  command
      .add_option("--prefix", given.to.prefix,
                  "The prefix of a TypeID, or text to print before the id")
      ->type_name("P");
  command.add_option("--check", given.to.check, "Check symbols to print after the id")
      ->type_name("C");
  command
      .add_option("--width", given.to.width,
                  "For an integer in an encoding: N characters (as many as 64 bits take)")
      ->type_name("N");
}

Result<void> run_convert(Context& context, const ConvertOptions& given) {
  const auto to = Conversion::make(given.to, Words::kOptions);
  if (!to) return std::unexpected(to.error());
  const std::string& from = given.from;
  detail::Reader reader(system_clock().now());
  const auto convert = [&](std::string_view text, std::size_t line) {
    const Result<Id> id = from.empty() ? advice::read_likeliest(text, reader, Words::kOptions)
                                       : advice::read_from(text, from, Words::kOptions);
    Result<std::string> printed = id ? (*to)(text, *id) : std::unexpected(id.error());
    if (printed) {
      if (context.json) *printed = json_converted(text, *printed);
      context.out.write(*printed + "\n");
      return;
    }
    context.out.flush();
    Error& error = printed.error();
    context.status = exit_status(error.code);
    report(in_context(place_of(line) + "\"" + shortened(text) + "\"", std::move(error)),
           context.json);
  };
  return for_each_text(context, given.ids, convert);
}

}  // namespace

const Command kConvert = {"convert", "Print ids in another encoding, spelling or format",
                          with_options<ConvertOptions, add_convert, run_convert>,
                          R"(The bits stay the same. --to takes
  an encoding   canonical, decimal, hex, base32, base32-lower, base32hex,
                base36, base58, base62: they have a fixed width and keep the
                order of the ids; integers: --width N (that of 64 bits)
  a format      uuid, ulid, typeid (128 bits); nanoid (126 bits); object-id,
                xid (96 bits); integer, tsid (64 bits). A TypeID keeps its
                prefix, or gets --prefix
  a spelling    of a UUID: upper, braces, urn, bare (no dashes), microsoft (the
                first three fields in the other byte order); bson: MongoDB's
                Extended JSON, of UUIDs in subtype 4
Without --from the likeliest reading is taken if it is clear; otherwise the
readings are listed (exit status 2).

Examples:
  $ idmint convert 01890a5d-ac96-774b-bcce-b302099a8057 --to base58
  $ idmint convert 01890a5d-ac96-774b-bcce-b302099a8057 --to typeid --prefix user
  $ idmint convert 02tcRIyrxLXTR81B3dqdOx --from uuid:base62 --to uuid
  $ idmint convert 01ARZ3NDEKTSV4RRFFQ69G5FAV --to bson
  $ idmint next uuid7 -n 3 | idmint convert - --to base62
)"};

}  // namespace idmint::cli
