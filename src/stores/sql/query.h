// What the SQL stores on servers say to their databases: statements and their values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace idmint::stores::sql {

enum class Kind : std::uint8_t {
  kRead,     // it changes nothing: after a failure it may be sent again
  kWrite,    // allowed in a store in doubt too
  kHandOut,  // hands out or makes something: refused in a store in doubt
};

// A statement with the values $1, $2 and so on, prepared in a connection under its name. It is one
// transaction by itself.
struct Query {
  const char* name;  // no other query has it
  const char* sql;
  Kind kind;
  const char* rights = "";  // that the user needs, for messages; empty: the server names them
};

// The name of a counter, a space, a pool or their like: any bytes.
struct Name {
  std::string_view name;
};
// The text of a definition.
struct Json {
  std::string_view json;
};

}  // namespace idmint::stores::sql
