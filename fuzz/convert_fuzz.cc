// What convert takes for an id is printed as something that it takes for the same id.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "advice/bson.h"
#include "cli/read_id.h"
#include "fuzz/require.h"
#include "idmint/id.h"
#include "ids/readings.h"

// The input is what --from has, a line feed, and the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace idmint;
  using fuzz::require;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\n');
  const std::string_view from = input.substr(0, end);
  const std::string_view text = end == std::string_view::npos ? "" : input.substr(end + 1);
  detail::Reader reader(Instant{std::chrono::seconds{1'800'000'000}});
  for (const Result<Id>& id :
       {from.empty() ? cli::read_likeliest(text, reader) : cli::read_from(text, from),
        cli::id_from_bson(text)}) {
    if (!id) {
      require(!id.error().message.empty());
      continue;
    }
    const Result<Id> again = cli::read_from(to_string(*id), format_of(*id));
    require(again && *again == *id);
    if (const std::optional<std::string> bson = cli::bson(*id)) {
      const Result<Id> back = cli::id_from_bson(*bson);
      require(back && cli::bson(*back) == bson);
    }
  }
  return 0;
}
