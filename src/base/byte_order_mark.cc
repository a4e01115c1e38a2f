#include "base/byte_order_mark.h"

#include "base/errors.h"

namespace idmint {

Result<std::string_view> without_mark(std::string_view text) {
  constexpr std::string_view utf8 = "\xEF\xBB\xBF";
  static_assert(utf8.size() == kLongestMark);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return refuse("it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8");
  if (text.starts_with(utf8)) text.remove_prefix(utf8.size());
  return text;
}

}  // namespace idmint
