// name: UUIDs of names, versions 3 and 5.
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "idmint/uuid.h"

namespace idmint::cli {

Result<void> run_name(Context& context) {
  const Arguments& arguments = context.arguments;
  if (arguments.value == 4) {
    return std::unexpected(Error{Code::kInvalidArgument,
                                 "version 4 is random and has no name: give --version 5 or 3, or "
                                 "mint one with idmint next uuid4"});
  }
  const Result<Uuid> name_space = uuid_namespace(arguments.name);
  if (!name_space) return std::unexpected(name_space.error());
  Result<void> failed;
  const Result<void> read = for_each_line(context, [&](std::string_view text, std::size_t) {
    if (!failed) return;
    const Result<Uuid> id =
        arguments.value == 3 ? uuid3(*name_space, text) : uuid5(*name_space, text);
    if (!id) {
      failed = std::unexpected(id.error());
      return;
    }
    const std::string printed = id->to_string();
    context.out.write((arguments.json ? json_converted(text, printed) : printed) + "\n");
  });
  return read ? failed : read;
}

}  // namespace idmint::cli
