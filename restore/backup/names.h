// Names of databases, of collections, and of their files in a backup.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idmint::restore {

// Why no server can have a database or collection with this name; nullopt: it can. An accepted name
// is safe in a path: it is not empty, has no NUL and, for a database, no "/".
[[nodiscard]] std::optional<std::string> wrong_database_name(std::string_view name);
[[nodiscard]] std::optional<std::string> wrong_collection_name(std::string_view database,
                                                               std::string_view name);

// The name of a collection's files without extensions, escaped as by Go's url.QueryEscape. If that
// is longer than 238 bytes: its first 208, "%24", and the SHA-1 of the name in base64url. File
// systems allow 255 bytes.
[[nodiscard]] std::string file_stem(std::string_view collection);
// The inverse. nullopt: the stem is not such an escape.
[[nodiscard]] std::optional<std::string> unescape_stem(std::string_view stem);
// The name for metadata that lacks it. The tools up to 4.2 escaped as url.PathEscape does, which
// leaves a +. nullopt: no tool writes such a stem.
[[nodiscard]] std::optional<std::string> name_of_stem(std::string_view stem);
// Whether the stem was cut, so that only the metadata has the name.
[[nodiscard]] bool is_cut_stem(std::string_view stem);

// Whether a restore leaves the collection out:
// - admin, config and local: their contents belong to the cluster that was backed up.
// - system.profile and system.views: only the server writes them.
// - $admin.system.users and the like: they belong to the dump of a single database.
[[nodiscard]] bool is_left_out(std::string_view database, std::string_view collection);

}  // namespace idmint::restore
