// The output of run and verify about the sequences and pools that a restore set back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "restore/fence/minted.h"
#include "terminal/output.h"

namespace idmint::restore {

// Prints what to do; prints nothing if there are no sources. `verify` is the command that does the
// same with another oplog: "idmint-restore verify --spare DIR".
void print_minted(Output& out, const IssuedReport& report, const std::string& verify);

// One object for each source.
[[nodiscard]] nlohmann::ordered_json json_of(const IssuedReport& report);

// A shell script of all commands, with the notes as comments.
[[nodiscard]] std::string raise_script(const IssuedReport& report);

}  // namespace idmint::restore
