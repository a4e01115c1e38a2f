// Metrics: the page that Prometheus reads, in its text format, version 0.0.4.
#pragma once

#include <string>

#include "idmint/clock.h"
#include "server/access.h"
#include "server/service.h"

namespace idmint::server {

// The counts, and the results of the latest probe, at `now`. Sources on which the caller has no
// right have no series; neither has a store without visible sources. Call it on the loop.
[[nodiscard]] std::string metrics_page(Service& service, const Caller& caller, Instant now);

}  // namespace idmint::server
