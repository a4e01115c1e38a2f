// RespReader: however a stream is cut, it has the same commands and breaks at the same one; what is
// read was there, and no command is longer than it may be.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "server/resp.h"

namespace {

using idmint::fuzz::require;
using idmint::server::RespReader;

struct Read {
  std::vector<std::vector<std::string>> commands;
  bool broken = false;
  std::size_t left = 0;

  friend bool operator==(const Read&, const Read&) = default;
};

// In pieces of `step` bytes.
Read read_all(std::string_view stream, std::size_t step) {
  Read result;
  RespReader reader;
  std::string at_hand;
  while (!stream.empty() && !result.broken) {
    const std::size_t more = std::min(step, stream.size());
    at_hand += stream.substr(0, more);
    stream.remove_prefix(more);
    while (!at_hand.empty()) {
      const RespReader::State state = reader.read(at_hand);
      if (state == RespReader::State::kBroken) {
        require(!reader.problem().empty());
        result.broken = true;
        break;
      }
      if (state == RespReader::State::kIncomplete) break;
      require(reader.consumed() > 0 && reader.consumed() <= at_hand.size());
      require(reader.words().size() <= RespReader::kMostWords);
      result.commands.emplace_back(reader.words().begin(), reader.words().end());
      at_hand.erase(0, reader.consumed());
    }
  }
  result.left = result.broken ? 0 : at_hand.size();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  const Read whole = read_all(stream, stream.size());
  require(read_all(stream, 1) == whole);
  require(read_all(stream, 7) == whole);
  return 0;
}
