// URLs of SQLite stores: sqlite:PATH?OPTIONS.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"

namespace idmint {

struct SqliteUrl {
  std::string path;                // absolute, or relative with a leading "./"
  bool local_file_system = false;  // ?filesystem=local: only this host uses the file
};

// %XX in the path is a byte. kInvalidArgument: no path, a host, a % without two hexadecimal digits,
// or an unknown option. REQUIRES: url begins with "sqlite:".
[[nodiscard]] IDMINT_EXPORT Result<SqliteUrl> parse_sqlite_url(std::string_view url);

// The URL of the file at this path.
[[nodiscard]] std::string sqlite_url(std::string_view path);

}  // namespace idmint
