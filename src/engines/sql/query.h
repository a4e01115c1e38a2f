// The statements of the SQL stores on servers, with their values; and a doubt that these stores
// share.
#pragma once

#include <string>
#include <string_view>

#include "store/backend.h"
#include "store/failure.h"

namespace idmint::stores::sql {

// A statement with the values $1, $2 and so on, prepared in a connection under its name. It is one
// transaction by itself.
struct Query {
  const char* name;  // no other query has it
  const char* sql;
  Kind kind;
  const char* rights = "";  // needed by the user, for messages; empty: the server names them
};

// The name of a counter, a space, a pool or their like: any bytes.
struct Name {
  std::string_view name;
};
// The text of a definition.
struct Json {
  std::string_view json;
};

// A repaired setting does not restore the data that was lost under it.
inline constexpr std::string_view kAfterACrash =
    "; if the host or the server stopped while it was so, raise the store past every value in use "
    "before it gives any (idmint raise --all)";

// The doubt in a store whose record has the mark `why`. It was not only moved.
[[nodiscard]] inline Error gone_back(std::string_view url, const std::string& why) {
  Error doubt = in_doubt(url, why);
  doubt.code = Code::kDataLoss;
  doubt.advice.values.clear();
  return doubt;
}

}  // namespace idmint::stores::sql
