// The commands of idmint-restore, and what each is given.
#pragma once

#include "idmint/result.h"
#include "terminal/output.h"

namespace CLI {
class App;
}

namespace idmint::restore {

struct Context {
  Output& out;
  bool json = false;
  int status = 0;      // to exit with where nothing failed
  int stopped_by = 0;  // the signal that ended it early
};

// A row of the table in main.cc. `add` declares the options, into a static of its file; `run` is
// called when they are parsed.
struct Command {
  const char* name;
  const char* summary;
  void (*add)(CLI::App& command);
  Result<void> (*run)(Context& context);
  const char* footer;  // what the options do not say, and examples
};

extern const Command kCompletion;
extern const Command kDump;
extern const Command kFind;
extern const Command kOplogCopy;
extern const Command kReady;
extern const Command kRun;
extern const Command kShow;
extern const Command kVerify;
extern const Command kVersion;

}  // namespace idmint::restore
