// MongoDB's C driver, libmongoc 1.23 or a later 1.x. Loaded on first use and not linked: with its
// dependencies it takes many times as long to load as all the rest of a command that mints one id.
#pragma once

#include <mongoc/mongoc.h>

#include "idmint/result.h"

namespace idmint::mongo {

// Every function of the driver that the library and idmint-restore call. In their namespaces each
// name denotes the loaded function.
#define IDMINT_DRIVER(F)                                  \
  F(bcon_append)                                          \
  F(bcon_new)                                             \
  F(bson_append_array)                                    \
  F(bson_append_array_begin)                              \
  F(bson_append_array_end)                                \
  F(bson_append_binary)                                   \
  F(bson_append_bool)                                     \
  F(bson_append_date_time)                                \
  F(bson_append_document)                                 \
  F(bson_append_document_begin)                           \
  F(bson_append_document_end)                             \
  F(bson_append_double)                                   \
  F(bson_append_int32)                                    \
  F(bson_append_int64)                                    \
  F(bson_append_iter)                                     \
  F(bson_append_null)                                     \
  F(bson_append_oid)                                      \
  F(bson_append_timestamp)                                \
  F(bson_append_utf8)                                     \
  F(bson_as_canonical_extended_json)                      \
  F(bson_as_relaxed_extended_json)                        \
  F(bson_bcon_magic)                                      \
  F(bson_concat)                                          \
  F(bson_copy)                                            \
  F(bson_decimal128_to_string)                            \
  F(bson_destroy)                                         \
  F(bson_free)                                            \
  F(bson_get_data)                                        \
  F(bson_init_from_json)                                  \
  F(bson_init_static)                                     \
  F(bson_iter_array)                                      \
  F(bson_iter_as_bool)                                    \
  F(bson_iter_as_double)                                  \
  F(bson_iter_as_int64)                                   \
  F(bson_iter_binary)                                     \
  F(bson_iter_bool)                                       \
  F(bson_iter_codewscope)                                 \
  F(bson_iter_date_time)                                  \
  F(bson_iter_document)                                   \
  F(bson_iter_double)                                     \
  F(bson_iter_find)                                       \
  F(bson_iter_find_descendant)                            \
  F(bson_iter_init)                                       \
  F(bson_iter_init_find)                                  \
  F(bson_iter_init_from_data)                             \
  F(bson_iter_int64)                                      \
  F(bson_iter_key)                                        \
  F(bson_iter_key_len)                                    \
  F(bson_iter_next)                                       \
  F(bson_iter_recurse)                                    \
  F(bson_iter_timestamp)                                  \
  F(bson_iter_type)                                       \
  F(bson_iter_utf8)                                       \
  F(bson_new)                                             \
  F(bson_new_from_data)                                   \
  F(bson_new_from_json)                                   \
  F(bson_oid_init)                                        \
  F(bson_oid_to_string)                                   \
  F(bson_sized_new)                                       \
  F(bson_uint32_to_string)                                \
  F(bson_utf8_validate)                                   \
  F(bson_validate_with_error)                             \
  F(mongoc_apm_callbacks_destroy)                         \
  F(mongoc_apm_callbacks_new)                             \
  F(mongoc_apm_command_failed_get_command_name)           \
  F(mongoc_apm_command_failed_get_context)                \
  F(mongoc_apm_command_succeeded_get_command_name)        \
  F(mongoc_apm_command_succeeded_get_context)             \
  F(mongoc_apm_server_heartbeat_failed_get_context)       \
  F(mongoc_apm_server_heartbeat_failed_get_error)         \
  F(mongoc_apm_server_heartbeat_failed_get_host)          \
  F(mongoc_apm_server_heartbeat_succeeded_get_context)    \
  F(mongoc_apm_server_heartbeat_succeeded_get_host)       \
  F(mongoc_apm_server_heartbeat_succeeded_get_reply)      \
  F(mongoc_apm_set_command_failed_cb)                     \
  F(mongoc_apm_set_command_succeeded_cb)                  \
  F(mongoc_apm_set_server_heartbeat_failed_cb)            \
  F(mongoc_apm_set_server_heartbeat_succeeded_cb)         \
  F(mongoc_bulk_operation_destroy)                        \
  F(mongoc_bulk_operation_execute)                        \
  F(mongoc_bulk_operation_insert_with_opts)               \
  F(mongoc_bulk_operation_set_bypass_document_validation) \
  F(mongoc_client_command_with_opts)                      \
  F(mongoc_client_destroy)                                \
  F(mongoc_client_get_collection)                         \
  F(mongoc_client_get_database)                           \
  F(mongoc_client_get_read_prefs)                         \
  F(mongoc_client_get_server_descriptions)                \
  F(mongoc_client_new_from_uri_with_error)                \
  F(mongoc_client_pool_destroy)                           \
  F(mongoc_client_pool_new_with_error)                    \
  F(mongoc_client_pool_pop)                               \
  F(mongoc_client_pool_push)                              \
  F(mongoc_client_pool_set_apm_callbacks)                 \
  F(mongoc_client_pool_set_error_api)                     \
  F(mongoc_client_select_server)                          \
  F(mongoc_client_session_append)                         \
  F(mongoc_client_session_destroy)                        \
  F(mongoc_client_set_error_api)                          \
  F(mongoc_client_start_session)                          \
  F(mongoc_client_write_command_with_opts)                \
  F(mongoc_collection_create_bulk_operation_with_opts)    \
  F(mongoc_collection_destroy)                            \
  F(mongoc_collection_find_indexes_with_opts)             \
  F(mongoc_collection_find_with_opts)                     \
  F(mongoc_cursor_destroy)                                \
  F(mongoc_cursor_error)                                  \
  F(mongoc_cursor_next)                                   \
  F(mongoc_database_destroy)                              \
  F(mongoc_database_find_collections_with_opts)           \
  F(mongoc_init)                                          \
  F(mongoc_log_set_handler)                               \
  F(mongoc_read_prefs_copy)                               \
  F(mongoc_read_prefs_destroy)                            \
  F(mongoc_read_prefs_get_mode)                           \
  F(mongoc_read_prefs_new)                                \
  F(mongoc_server_description_destroy)                    \
  F(mongoc_server_description_host)                       \
  F(mongoc_server_description_id)                         \
  F(mongoc_server_description_type)                       \
  F(mongoc_server_descriptions_destroy_all)               \
  F(mongoc_uri_destroy)                                   \
  F(mongoc_uri_get_database)                              \
  F(mongoc_uri_get_hosts)                                 \
  F(mongoc_uri_get_option_as_bool)                        \
  F(mongoc_uri_get_option_as_int32)                       \
  F(mongoc_uri_get_replica_set)                           \
  F(mongoc_uri_get_srv_hostname)                          \
  F(mongoc_uri_get_tls)                                   \
  F(mongoc_uri_new_with_error)                            \
  F(mongoc_uri_set_appname)                               \
  F(mongoc_uri_set_option_as_bool)                        \
  F(mongoc_uri_set_option_as_int32)

// Pointers to the functions of the library, which hide the names of the headers.
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared cannot stand in parentheses.
#define IDMINT_DECLARE(name) extern decltype(&::name) name;
IDMINT_DRIVER(IDMINT_DECLARE)
#undef IDMINT_DECLARE
// NOLINTEND(bugprone-macro-parentheses)

// Must be called before any of them; repeated calls cost nothing. Never unloaded, since it has
// threads. kUnimplemented: this host lacks the library.
[[nodiscard]] Result<void> load_driver();

}  // namespace idmint::mongo

// The namespaces that call them. A using-declaration hides the header's name; a using-directive
// would not.
#define IDMINT_USE(name) using mongo::name;
namespace idmint::stores::mongodb {
using namespace mongo;
IDMINT_DRIVER(IDMINT_USE)
}  // namespace idmint::stores::mongodb
namespace idmint::restore {
using namespace mongo;
IDMINT_DRIVER(IDMINT_USE)
}  // namespace idmint::restore
#undef IDMINT_USE
