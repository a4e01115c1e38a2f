// Metrics: the page that Prometheus reads, in its text format, version 0.0.4.
#pragma once

#include <string>

#include "idmint/clock.h"
#include "server/access.h"
#include "server/service.h"

namespace idmint::server {

// What has been counted, and what the latest survey has found, at `now`. Sources that the caller
// may do nothing with have no series, nor has a store of which it sees no source. On the loop.
[[nodiscard]] std::string metrics_page(Service& service, const Caller& caller, Instant now);

}  // namespace idmint::server
