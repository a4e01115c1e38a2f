// read_toml() of the daemon's settings: what is wrong is told in one line each; what is right has
// tokens that are written and read again as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "server/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using idmint::fuzz::require;
  using namespace idmint::server;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Settings settings;
  const std::vector<idmint::Error> faults = read_toml("settings", text, settings);
  for (const idmint::Error& fault : faults) {
    require(fault.code == idmint::Code::kInvalidArgument);
    require(fault.message().find('\n') == std::string::npos);
  }
  const auto scope = scope_of(text);
  require(!scope || scope->verbs != 0);
  if (!faults.empty()) return 0;
  for (const TokenSettings& token : settings.tokens) {
    for (const Scope& right : token.allow) require(right.verbs != 0);
    Settings again;
    require(read_toml("again", to_toml("again", token.hash, {"next *"}), again).empty());
    require(again.tokens.size() == 1 && again.tokens.front().hash == token.hash);
  }
  return 0;
}
