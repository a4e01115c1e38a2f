// Lists of what is in the stores, for the Redis protocol: the replies are made on another thread,
// and sent in parts. The functions are for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "idmint/result.h"
#include "idmint/sequence.h"
#include "server/integers.h"
#include "server/resp.h"
#include "server/service.h"

namespace idmint::server {

// The most bytes of a list, unless a caller says another number (`most` below).
inline constexpr std::size_t kLongestList = std::size_t{16} * 1024 * 1024;

// The names of the formats and of the sources that the caller sees and that match the pattern,
// sorted. Retired ones are left out. Errors, as of the functions below:
// - kUnavailable: the stores were not read by `until`.
// - kResourceExhausted: they have more than `most` bytes.
[[nodiscard]] Result<std::vector<std::string>> names(const AuthorizedView& view,
                                                     const std::string& pattern, SteadyTime until,
                                                     std::size_t most = kLongestList);
// The same as a reply.
[[nodiscard]] Result<std::string> names_reply(const AuthorizedView& view,
                                              const std::string& pattern, SteadyTime until,
                                              std::size_t most = kLongestList);
// The state of each source that the caller may peek at, as a reply.
[[nodiscard]] Result<std::string> states_reply(const AuthorizedView& view, Resp version,
                                               Integers integers, SteadyTime until,
                                               std::size_t most = kLongestList);

// Appends the state of a source to a reply.
void put_status(std::string& out, const SequenceStatus& status, Resp version, Integers integers);

// Appends a number that nobody loses if it cannot be read: text, if the client may round it.
void put_number(std::string& out, std::int64_t value, Integers integers);

// Whether the text matches the pattern of *, ? and [...].
[[nodiscard]] bool matches(const std::string& pattern, const std::string& text);

}  // namespace idmint::server
