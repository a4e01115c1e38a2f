// How databases and collections are called, and the files of a backup for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idmint::restore {

// Why a server has no database or collection of that name; nothing: it may have. What passes is
// no path: not empty, no "/" in a database's name, no NUL.
[[nodiscard]] std::optional<std::string> wrong_database_name(std::string_view name);
[[nodiscard]] std::optional<std::string> wrong_collection_name(std::string_view database,
                                                               std::string_view name);

// The name of a collection's files, without their extensions: escaped as Go's url.QueryEscape
// does; if that is longer than 238 bytes, its first 208, "%24", and the SHA-1 of the name in
// base64url. A file system takes 255 bytes.
[[nodiscard]] std::string file_stem(std::string_view collection);
// The other way. Nothing: it is no such escape.
[[nodiscard]] std::optional<std::string> unescape_stem(std::string_view stem);
// Whether it was cut, so that only the metadata tells the name.
[[nodiscard]] bool is_cut_stem(std::string_view stem);

// What a restore leaves out: admin, config and local, whose contents belong to the cluster that
// was backed up; what only the server writes (system.profile, system.views); $admin.system.users
// and the like, which is of one database's dump.
[[nodiscard]] bool is_left_out(std::string_view database, std::string_view collection);

}  // namespace idmint::restore
