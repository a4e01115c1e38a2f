// An id that convert reads is printed as a text that it reads as the same id.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "advice/bson.h"
#include "advice/read_id.h"
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
       {from.empty() ? advice::read_likeliest(text, reader, advice::Words::kOptions)
                     : advice::read_from(text, from, advice::Words::kOptions),
        advice::id_from_bson(text)}) {
    if (!id) {
      require(!id.error().message().empty());
      continue;
    }
    const Result<Id> again =
        advice::read_from(to_string(*id), format_of(*id), advice::Words::kOptions);
    require(again && *again == *id);
    if (const std::optional<std::string> bson = advice::bson(*id)) {
      const Result<Id> back = advice::id_from_bson(*bson);
      require(back && advice::bson(*back) == bson);
    }
  }
  return 0;
}
