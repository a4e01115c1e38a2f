// libzookeeper, loaded when a store of ZooKeeper is opened and not linked: a command that does
// without it starts as fast as before.
#pragma once

#include <zookeeper/zookeeper.h>

#include "idmint/result.h"

namespace idmint::stores::zookeeper {

// Every function of libzookeeper that the store calls. In this namespace each name means the one
// that was loaded.
#define IDMINT_LIBZOOKEEPER(F)        \
  F(zerror)                           \
  F(zoo_acreate)                      \
  F(zoo_add_auth)                     \
  F(zoo_aget)                         \
  F(zoo_aget_children)                \
  F(zoo_amulti)                       \
  F(zoo_async)                        \
  F(zoo_check_op_init)                \
  F(zoo_client_id)                    \
  F(zoo_create_op_init)               \
  F(zoo_delete_op_init)               \
  F(zoo_set_op_init)                  \
  F(zoo_set_servers_resolution_delay) \
  F(zoo_state)                        \
  F(zookeeper_close)                  \
  F(zookeeper_init2)

// A name that is declared cannot stand in parentheses, and these are libzookeeper's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DECLARE(name) extern decltype(&::name) name;
IDMINT_LIBZOOKEEPER(IDMINT_DECLARE)
#undef IDMINT_DECLARE
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

// To be called before any of them; from the second time on it costs nothing. kUnimplemented: this
// host has not the library. Never unloaded.
[[nodiscard]] Result<void> load_libzookeeper();

}  // namespace idmint::stores::zookeeper
