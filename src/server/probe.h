// Asks a running daemon on this host whether it is ready, for a container or a load balancer that
// wants a program's exit status.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "idmint/result.h"
#include "server/settings.h"

namespace idmint::server {

// The address at which a daemon of these settings is asked: its first one for HTTP without TLS,
// else its first one for HTTP. kFailedPrecondition: the daemon serves no HTTP.
[[nodiscard]] Result<std::string> address_to_probe(const Settings& settings);

// GET `path`, which is /readyz or /healthz, of the daemon at `at`. An address that stands for all
// of the host's is asked at the loopback one. The certificate of an address behind "tls:" is not
// verified: nothing secret is sent, and its name need not be that of an address.
//
// - kInvalidArgument: `at` is no address.
// - kUnavailable: nobody listens there, the daemon is not ready, or has not answered in this time.
//   The message has the daemon's own.
[[nodiscard]] Result<void> probe(std::string_view at, std::string_view path,
                                 std::chrono::milliseconds patience);

}  // namespace idmint::server
