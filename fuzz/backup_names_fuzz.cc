// The files of a collection have names that lead nowhere else, and tell the name of the collection.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "restore/backup/names.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace idmint;
  using fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string stem = restore::file_stem(text);
  require(stem.size() <= 238 && stem.find('/') == std::string::npos &&
          stem.find('\0') == std::string::npos);
  if (!restore::wrong_collection_name("d", text)) {
    require(!stem.empty() && !stem.starts_with('.'));
    require(restore::is_cut_stem(stem) || restore::unescape_stem(stem) == text);
  }
  if (!restore::wrong_database_name(text)) {
    require(text != ".." && text != "." && text.find('/') == std::string_view::npos &&
            text.find('\0') == std::string_view::npos);
  }
  const auto name = restore::unescape_stem(text);
  require(!name || name->size() <= text.size());
  static_cast<void>(restore::is_left_out(text, text));
  return 0;
}
