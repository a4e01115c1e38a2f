// All of idmint except testing.h. Each header can also be included by itself.
#pragma once

#include "idmint/clock.h"
#include "idmint/definition.h"
#include "idmint/digits.h"
#include "idmint/encoding.h"
#include "idmint/entropy.h"
#include "idmint/executor.h"
#include "idmint/form.h"
#include "idmint/gapless.h"
#include "idmint/host.h"
#include "idmint/id.h"
#include "idmint/ksuid.h"
#include "idmint/mint.h"
#include "idmint/mongodb.h"
#include "idmint/nanoid.h"
#include "idmint/object_id.h"
#include "idmint/print.h"
#include "idmint/result.h"
#include "idmint/sequence.h"
#include "idmint/snowflake.h"
#include "idmint/source.h"
#include "idmint/store.h"
#include "idmint/tsid.h"
#include "idmint/ulid.h"
#include "idmint/uuid.h"
#include "idmint/uuid_time.h"
#include "idmint/worker_pool.h"
#include "idmint/xid.h"

// The version of these headers, a semantic version; IDMINT_VERSION_NUMBER is major * 1,000,000 +
// minor * 1,000 + patch, for #if. CMake reads it here.
#define IDMINT_VERSION "0.1.0"
#define IDMINT_VERSION_NUMBER 1000
