// The name of a store that tells it from its copies on this host.
#pragma once

#include <string>
#include <string_view>

#include "idmint/result.h"
#include "idmint/uuid.h"

namespace idmint::stores {

// The id of the store and its place, in characters of file names. A copy has the id too, and
// another place: an SQLite file by when it was made (or its inode), a store on a server by the
// hosts and the database of the URL, and by `server` (Store::server()). A renamed file keeps its
// place.
[[nodiscard]] IDMINT_EXPORT std::string name_on_host(const Uuid& id, std::string_view url,
                                                     std::string_view server = {});

}  // namespace idmint::stores
