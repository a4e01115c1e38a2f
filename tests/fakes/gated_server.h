// For tests of the daemon: what a server over a store is made of whose calls a test holds up.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "idmint/sequence.h"
#include "server/server.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/running_server.h"

namespace idmint::fakes {

class GatedServer : public testing::Test {
 protected:
  GatedServer() { EXPECT_TRUE(create_sequence(*store_, {.name = "orders"})); }
  // Nothing ends by the clock.
  [[nodiscard]] server::ServerOptions options() const {
    server::ServerOptions options;
    options.stores.push_back({.store = store_});
    options.stores.back().mint.store_options.deadline = server::kNever;
    options.drain = server::kNever;
    return options;
  }

  const std::shared_ptr<GatedStore> store_ = std::make_shared<GatedStore>();
};

}  // namespace idmint::fakes
