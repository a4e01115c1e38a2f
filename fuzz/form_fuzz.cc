// Every text that is read in a form prints as the same text. The first four bytes choose format,
// encoding, check, and digits or for an encoding that has none the width; the prefix ends at the
// first line break.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "idmint/form.h"
#include "idmint/id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  constexpr auto formats =
      std::to_array<std::string_view>({"integer", "snowflake", "uuid", "ulid", "object-id", "ksuid",
                                       "xid", "digits", "tsid", "nanoid", "none"});
  if (size < 4) return 0;
  const std::string_view format = formats[data[0] % formats.size()];
  const std::string_view rest(reinterpret_cast<const char*>(data + 4), size - 4);
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return 0;
  idmint::Form form{.prefix = std::string(rest.substr(0, end)),
                    .encoding = static_cast<idmint::Encoding>(data[1] % 9),
                    .check = static_cast<idmint::Check>(data[2] % 7)};
  (form.encoding <= idmint::Encoding::kDecimal ? form.digits : form.width) =
      static_cast<std::int8_t>(data[3]);
  const std::string_view text = rest.substr(end + 1);
  const idmint::Result<void> valid = idmint::validate(form, format);
  const idmint::Result<idmint::Id> id = idmint::parse(text, format, form);
  if (!id) {
    require(id.error().code == idmint::Code::kInvalidArgument && !id.error().message().empty());
    return 0;
  }
  require(valid.has_value());
  require(idmint::format_of(*id) == format);
  char printed[idmint::kMaxFormChars];
  require(std::string_view(printed, idmint::to_chars(*id, form, printed)) == text);
  return 0;
}
