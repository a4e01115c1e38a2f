// The command line, parsed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/catalog.h"
#include "idmint/mint.h"
#include "idmint/result.h"

namespace idmint::cli {

// As given; plan reads them itself. Empty: not given.
struct PlanArguments {
  std::string digits{};
  std::string bits{};
  std::string count = "1e9";
  std::string hosts = "1";
  std::string rate = "1000/s";
  std::string order = "none";
  std::string database = "none";
  std::string round_trip{};
  bool unguessable = false;
  bool shared_store = false;
};

// Likewise, of plan-change.
struct ChangeArguments {
  std::string from{};
  std::string to{};
  std::string from_workers{};
  std::string to_workers{};
  std::string at{};
  std::string since{};
  std::string drift = "20s";
  std::string clock_error = "1s";
};

struct BenchArguments {
  int threads = 1;
  int batch = 1;
  double seconds = 1;  // for each source
  std::string svg{};   // a file
};

// Of inspect, bounds, convert and check, as given; they read them themselves. Empty: not given.
struct IdArguments {
  std::string at{};
  std::string until{};
  std::string layout{};
  std::string to{};
  std::string from{};
  std::string as{};
  std::optional<std::string> prefix{};
  std::string encoding{};
  std::string check{};
  int digits = 0;
  int width = 0;
};

// As given; doctor reads them itself.
struct DoctorArguments {
  std::string warn_below = "10%";
  std::string horizon = "90d";
  std::vector<std::string> rates{};    // NAME=RATE
  std::vector<std::string> used_in{};  // NAME=DATABASE.COLLECTION:FIELD
  bool all = false;                    // layouts that nothing uses too
};

// Of insert and sweep.
struct InsertArguments {
  std::string collection{};
  std::string field = "_id";
  std::string proxy{};  // a collection; empty: not given
  std::string stored_as = "usual";
  std::string older_than = "1h";  // of sweep
  int attempts = 10;
  bool create_index = false;
  bool heal = false;

  friend bool operator==(const InsertArguments&, const InsertArguments&) = default;
};

// As given; workers reads them itself. The pool is Arguments::name.
struct WorkersArguments {
  std::string action{};
  std::string worker{};  // empty: not given
  std::string past{};    // likewise
  bool all = false;
};

// Of raise, as given; it reads them itself. Empty: not given.
struct RaiseArguments {
  std::string past{};             // a number
  std::string past_each{};        // V,V,...
  std::string past_from{};        // the URL of a store
  std::string from_collection{};  // DATABASE.COLLECTION:FIELD
  std::string from_field{};       // in it; empty: part of from_collection
  std::string from{};             // the URL of its servers; empty: the store's
  bool all = false;
  bool moved = false;
};

struct Context;

struct Arguments {
  std::string command;  // "next"; "help" when `text` is to be printed
  Result<void> (*run)(Context& context) = nullptr;
  std::string text;
  bool json = false;
  std::string store;  // empty: the default
  bool store_is_from_environment = false;
  std::string name;  // of a source, a sequence, a shell
  std::int64_t count = 1;
  std::optional<std::chrono::milliseconds> timeout{};  // of next and insert; nothing: the usual one
  bool wait = false;                                   // of next: for a worker id
  FormatOptions format;                                // of next
  Definition definition;                               // of create
  bool usual_layout = false;  // of create: nobody gave the layout of the pool
  std::int64_t value = 0;     // of alter: --max; of name: --version
  bool layouts = false;       // of formats
  std::vector<std::string> texts;
  PlanArguments plan;
  ChangeArguments change;
  BenchArguments bench;
  bool dry_run = false;  // of apply, raise
  bool yes = false;      // of raise, retire: do not ask
  bool toml = false;     // of list
  IdArguments ids;
  DoctorArguments doctor;
  InsertArguments insert;
  WorkersArguments workers;
  RaiseArguments raise;
};

// Options win over the environment (IDMINT_STORE; IDMINT_WORKER, read only for snowflake).
// kInvalidArgument: not a command line of idmint; the message has what to read.
[[nodiscard]] Result<Arguments> parse(int argc, const char* const* argv);

}  // namespace idmint::cli
