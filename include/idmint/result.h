// Errors are values. Every call that can fail returns a Result; no exception crosses a public
// header (std::bad_alloc aside: out of memory is not an answer a caller can act on here).
#pragma once

#if __cplusplus <= 202002L
#error "idmint needs C++23 (-std=c++23)"
#endif

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

// Marks what the shared library shows; everything else is hidden.
#define IDMINT_EXPORT __attribute__((visibility("default")))

namespace idmint {

// What the caller should do, by the names and numbers of google.rpc.Code.
enum class Code : int {
  kUnknown =
      2,  // May have been applied. Never assume it was not; asking again costs at most a gap.
  kInvalidArgument = 3,  // The request is wrong whatever the state of the system: mend the request.
  kDeadlineExceeded = 4,  // Ran out of time. May have been applied, as kUnknown.
  kNotFound = 5,          // No such source, sequence or counter: create it first.
  kAlreadyExists = 6,     // The name is taken.
  kPermissionDenied = 7,  // The caller may not; asking again does not help.
  kResourceExhausted =
      8,  // Out of disk, of queue places, of attempts. Was not applied: free some, ask again.
  kFailedPrecondition = 9,  // The state of the system forbids it until somebody changes that state.
  kOutOfRange = 11,         // Past the last value. The source never wraps round; it stays so.
  kUnimplemented = 12,      // Not built in, or not offered by this store.
  kInternal = 13,           // A bug in idmint. Please report it.
  kUnavailable = 14,        // Was not applied. The same call may succeed later.
  kDataLoss =
      15,  // Stored state is damaged, missing or has gone back. Stop, and look at the store.
  kUnauthenticated = 16,  // No valid credentials.
};

// The google.rpc name, such as "OUT_OF_RANGE".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Code code) noexcept;

// What to do next about an error, where one call, one option or one command does it. `subject` and
// `values` of an Advice are its arguments; the functions are those of this library.
enum class Remedy : std::uint8_t {
  kNone,
  kCreateSequence,   // create_sequence(); subject: its name; values: its strategy, if one is needed
  kCreateAbove,      // create_sequence() that begins above every value in use; values: its strategy
  kCreatePool,       // create_pool(); subject: its name
  kCreateSource,     // either of the two; subject: its name
  kCreateStore,      // Store::open() with StoreOptions::create; subject: its URL
  kAlterSequence,    // alter_sequence(); subject: its name; values: the new last value, if known
  kRetireSequence,   // retire_sequence(); subject: its name
  kRaiseSequence,    // raise_sequence(); subject: its name; values: the value to pass, if known
  kRaiseEach,        // raise_sequence() past a value in each block; subject: its name; values: them
  kRaisePastField,   // raise_sequence() past a field; subject: its name; values: collection, field
  kRaisePool,        // raise_pool(); subject: its name; values: the time to pass, if known
  kRaiseStore,       // raise_all(); subject: the URL; values: "moved" if settle(kMoved) will do
  kInsertDocuments,  // GaplessInserter::insert(); subject: the sequence
  kMendDocument,     // subject: the number of a document among those of the call, from 1
  kCompare,          // peek_sequence() in both stores; subject: the sequence
  kListWorkers,      // list_workers(); subject: the pool
  kPlanPool,         // a pool whose ids never meet those of this one; subject: the pool
  kListSources,      // Mint::formats() and Catalog::list()
  kListSequences,    // Catalog::list()
  kListFormats,      // Mint::formats()
  kNameUuid,         // Uuid::of_name(); values: the version
  kMintSnowflake,    // a format; values: its layout
  kInspect,          // parse_id(); it reads what nothing mints
  kSetOption,        // values: the members of an options struct, one of which is to be set or left
};

struct Advice {
  Remedy remedy = Remedy::kNone;
  std::string subject{};
  std::vector<std::string> values{};

  friend bool operator==(const Advice&, const Advice&) = default;
};

// `message`: what failed, where, and what to do in general words; one line, no trailing full stop
// or newline. `advice`: the same next step for a front end, which words it as its own call: the
// command idmint names the command, a service its request. No program needs to read the message.
struct Error {
  Code code = Code::kUnknown;
  std::string message{};
  Advice advice{};

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;

}  // namespace idmint
