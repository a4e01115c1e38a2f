// The meaning of Redis's error replies for a call.
#pragma once

#include <cstdint>
#include <string_view>

#include "idmint/result.h"
#include "store/sessions.h"

namespace idmint::stores::redis {

// The failure of a command that the server refused, or of a login. `error` begins with the word by
// which Redis names the error, which becomes the reason of the Failure. A script that a right ended
// has `begun`, also one that reads.
[[nodiscard]] Failure failure_of(std::string_view error);

// Whether the server that answered so has to be looked at again: it became a replica, or is not
// ready.
[[nodiscard]] bool is_another_state(const Failure& failure);

}  // namespace idmint::stores::redis
