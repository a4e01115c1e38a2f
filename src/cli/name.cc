// name: UUIDs of names, versions 3 and 5.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/source_options.h"
#include "idmint/uuid.h"

namespace idmint::cli {
namespace {

struct NameOptions {
  std::string name_space;
  std::vector<std::string> names;
  std::string version = "5";
};

void add_name(CLI::App& command, NameOptions& given) {
  command.add_option("NAMESPACE", given.name_space, "dns, url, oid, x500 or a UUID")
      ->required()
      ->type_name("");
  command.add_option("TEXT", given.names, "Names; - reads them from standard input, one a line")
      ->required()
      ->type_name("");
  command.add_option("--version", given.version, "The version of the UUID: 5 (SHA-1) or 3 (MD5)")
      ->type_name("V");
}

Result<void> run_name(Context& context, const NameOptions& given) {
  const Result<std::int64_t> version = whole_number("--version", given.version, 3, 5);
  if (!version) return std::unexpected(version.error());
  if (*version == 4) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "version 4 is random and has no name: give --version 5 or 3, or "
                                 "mint one with idmint next uuid4"});
  }
  const Result<Uuid> name_space = uuid_namespace(given.name_space);
  if (!name_space) return std::unexpected(name_space.error());
  Result<void> failed;
  const Result<void> read =
      for_each_line(context, given.names, kLongestName, [&](std::string_view text, std::size_t) {
        if (!failed) return;
        const Result<Uuid> id = *version == 3 ? uuid3(*name_space, text) : uuid5(*name_space, text);
        if (!id) {
          failed = std::unexpected(id.error());
          return;
        }
        const std::string printed = id->to_string();
        context.out.write((context.json ? json_converted(text, printed) : printed) + "\n");
      });
  return read ? failed : read;
}

}  // namespace

const Command kName = {"name", "Print the UUIDs of names",
                       with_options<NameOptions, add_name, run_name>,
                       R"(The same namespace and name give the same UUID everywhere: version 5, or
--version 3. Nothing is minted, and the name is not hidden: a guess can be
checked. Each line of standard input is a name, blanks included.

Examples:
  $ idmint name dns www.example.com
  $ idmint name url https://example.com/ --version 3
  $ printf 'anna\nbert\n' | idmint name 6ba7b810-9dad-11d1-80b4-00c04fd430c8 -
)"};

}  // namespace idmint::cli
