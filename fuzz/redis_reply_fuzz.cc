// ReplyReader: however a stream is cut, it has the same replies and breaks at the same one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engines/redis/reply.h"
#include "fuzz/require.h"

namespace {

using idmint::fuzz::require;
using idmint::stores::redis::Reply;
using idmint::stores::redis::ReplyReader;

void print(const Reply& reply, std::string* to) {
  *to += static_cast<char>('0' + static_cast<int>(reply.kind));
  *to += reply.text + "(";
  for (const Reply& item : reply.items) print(item, to);
  *to += ")";
}

// In pieces of `step` bytes.
std::string read_all(std::string_view stream, std::size_t step) {
  std::string all;
  ReplyReader reader;
  while (!stream.empty()) {
    const std::size_t more = std::min(step, stream.size());
    reader.add(stream.substr(0, more));
    stream.remove_prefix(more);
    ReplyReader::State state = reader.read();
    for (; state == ReplyReader::State::kReply; state = reader.read()) {
      print(reader.reply(), &all);
      all += '\n';
    }
    if (state == ReplyReader::State::kBroken) return all + "broken";
  }
  return all + (reader.has_more() ? "more" : "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_all(stream, stream.size());
  require(read_all(stream, 1) == whole);
  require(read_all(stream, 7) == whole);
  return 0;
}
