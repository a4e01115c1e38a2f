// libcurl, loaded when a store of etcd is opened and not linked: a command that does without it
// starts as fast as before.
#pragma once

#include <curl/curl.h>

#include "idmint/result.h"

namespace idmint::stores::etcd {

// Every function of libcurl that the store calls. In this namespace each name means the one that
// was loaded.
#define IDMINT_LIBCURL(F) \
  F(curl_easy_cleanup)    \
  F(curl_easy_getinfo)    \
  F(curl_easy_init)       \
  F(curl_easy_perform)    \
  F(curl_easy_setopt)     \
  F(curl_easy_strerror)   \
  F(curl_global_init)     \
  F(curl_slist_append)    \
  F(curl_slist_free_all)

// A name that is declared cannot stand in parentheses, and these are libcurl's.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming)
#define IDMINT_DECLARE(name) extern decltype(&::name) name;
IDMINT_LIBCURL(IDMINT_DECLARE)
#undef IDMINT_DECLARE
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

// To be called before any of them; from the second time on it costs nothing. kUnimplemented: this
// host has not the library. Never unloaded.
[[nodiscard]] Result<void> load_libcurl();

}  // namespace idmint::stores::etcd
