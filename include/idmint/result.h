// Errors are values. Every call that can fail returns a Result. No exception crosses a public
// header, except std::bad_alloc.
#pragma once

#if __cplusplus <= 202002L
#error "idmint needs C++23 (-std=c++23)"
#endif

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

// Exports a symbol from the shared library; all others are hidden.
#define IDMINT_EXPORT __attribute__((visibility("default")))

namespace idmint {

// Each code tells the caller what to do. Names and numbers follow google.rpc.Code.
enum class Code : int {
  kUnknown = 2,  // The call may have been applied. Treat its values as taken; a repeated request
                 // costs at most a gap.
  kInvalidArgument = 3,     // The request is wrong in any state of the system: correct it.
  kDeadlineExceeded = 4,    // Out of time. The call may have been applied, as with kUnknown.
  kNotFound = 5,            // The source, sequence or counter does not exist: create it first.
  kAlreadyExists = 6,       // The key is taken. Another definition of a name: kFailedPrecondition.
  kPermissionDenied = 7,    // The caller lacks the permission; a repeated call does not help.
  kResourceExhausted = 8,   // Out of disk, queue places or attempts. Not applied, as with
                            // kUnavailable: free some, then repeat the call.
  kFailedPrecondition = 9,  // The state of the system forbids the call until somebody changes that
                            // state.
  kOutOfRange = 11,     // Past the last value, or a time or number that cannot be represented. A
                        // source never wraps round.
  kUnimplemented = 12,  // The function is not in this build, or the store does not offer it.
  kInternal = 13,       // A bug in idmint. Please report it.
  kUnavailable = 14,  // Not applied, or only in part (sequence.h). The same call may succeed later.
  kDataLoss =
      15,  // Stored state is damaged or missing, or has gone back. Stop, and examine the store.
  kUnauthenticated = 16,  // No valid credentials.
};

// The google.rpc name, such as "OUT_OF_RANGE".
[[nodiscard]] IDMINT_EXPORT std::string_view name(Code code) noexcept;

// The next step after an error, if one call, option or command is enough. Its arguments are in
// `subject` and `values` of the Advice.
enum class Remedy : std::uint8_t {
  kNone,
  kCreateSequence,   // create_sequence(); subject: its name; values: its strategy, if one is needed
  kCreateAbove,      // create_sequence() above every existing value; values: its strategy
  kCreatePool,       // create_pool(); subject: its name
  kCreateSource,     // create_sequence() or create_pool(); subject: its name
  kCreateStore,      // Store::open() with StoreOptions::create; subject: its URL
  kAlterSequence,    // alter_sequence(); subject: its name; values: the new last value, if known
  kRetireSequence,   // retire_sequence(); subject: its name
  kRaiseSequence,    // raise_sequence(); subject: its name; values: the value to pass, if known
  kRaiseEach,        // raise_sequence() of single blocks; subject: its name; values: if known
  kRaisePastField,   // raise_sequence() past a field; subject: its name; values: collection, field
  kRaisePool,        // raise_pool(); subject: its name; values: the time to pass, if known
  kRaiseStore,       // raise_all(); subject: the URL; values: "moved" if settle(kOnlyMoved) may do
  kInsertDocuments,  // GaplessInserter::insert(); subject: the sequence
  kMendDocument,     // correct the document; subject: its number within the call, from 1
  kCompare,          // peek_sequence() in both stores; subject: the sequence
  kFollowMove,       // ask the store to which the sequence was moved (MintOptions::also); subject:
                     // its name; values: the URL of that store, without passwords
  kFinishMove,       // move_sequence(), which completes it; subject: the sequence; values: the URLs
                     // of the source and the target
  kListWorkers,      // list_workers(); subject: the pool
  kPlanPool,         // plan a pool that never repeats this one's ids; subject: the pool
  kListSources,      // Mint::formats() and list_sequences()
  kListSequences,    // list_sequences()
  kListFormats,      // Mint::formats()
  kNameUuid,         // uuid3() or uuid5(); values: the version
  kMintSnowflake,    // take the format snowflake; values: its layout
  kInspect,          // inspect(); it also reads formats that idmint does not mint
  kSetOption,        // values: members of an options struct, one of which is to be set or cleared,
                     // or "member=value" for each to be set; subject: words that introduce them in
                     // a message
};

struct Advice {
  Remedy remedy = Remedy::kNone;
  std::string subject{};
  std::vector<std::string> values{};

  friend bool operator==(const Advice&, const Advice&) = default;
};

// The parts are clauses in one line, without a full stop at their end. A part that does not apply
// is empty. Copies are values; no member refers to another object.
struct Error {
  Code code = Code::kUnknown;
  // The failure, its cause, and the next step in general terms.
  std::string what{};
  // The same next step for a front end, which words it as its own call: the command idmint as a
  // command, a service as a request.
  Advice advice{};
  // The thing that the caller named: "sequence orders", "pool web". If it is there, `what` and
  // `outcome` name no server, path or URL, so a service may show them to its clients.
  std::string subject{};
  // The store or file in which the subject is, as a URL without passwords or a path.
  std::string place{};
  // The state after the failure, if `code` does not say it all, and the next step in that state.
  std::string outcome{};

  // "SUBJECT in PLACE: WHAT; OUTCOME".
  [[nodiscard]] IDMINT_EXPORT std::string message() const;

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;

}  // namespace idmint
