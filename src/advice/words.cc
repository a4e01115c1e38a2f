#include "advice/words.h"

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/text.h"
#include "idmint/store.h"

namespace idmint::advice {

namespace {

// The given text, unless it may be a URL with a secret. A time begins with an @.
std::string as_given(std::string_view text) {
  const std::string_view rest = text.substr(text.starts_with('@') ? 1 : 0);
  const bool may_be_url = rest.contains("://") || rest.find_first_of("@=") != rest.npos;
  return may_be_url ? " looks like a URL" : " is \"" + shortened(text) + "\"";
}

}  // namespace

std::string spelled(Words words, std::string_view name) {
  if (words == Words::kOptions) return "--" + std::string(name);
  std::string text(name);
  std::ranges::replace(text, '-', '_');
  return text;
}

Result<Instant> time_option(std::string_view option, const std::string& text) {
  Result<Instant> time = parse_time(text);
  if (!time) {
    time.error() = in_context(std::string(option) + as_given(text), std::move(time.error()));
  }
  return time;
}

Result<std::int64_t> whole_number(std::string_view option, std::string_view text,
                                  std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, why] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (why != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return refuse(std::string(option) + as_given(text) + ": give a whole number, " +
                  std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Result<SnowflakeLayout> layout_option(std::string_view option, std::string_view text) {
  Result<SnowflakeLayout> layout = parse_snowflake_layout(text);
  if (!layout) return refused(option, layout.error());
  return layout;
}

Result<int> width_of(std::string_view option, const std::optional<std::string>& given) {
  if (!given) return 0;
  const Result<std::int64_t> width = whole_number(option, *given, 1, kMostWidth);
  if (!width) return std::unexpected(width.error());
  return static_cast<int>(*width);
}

std::string store_examples() {
  std::string all;
  for (const StoreKind& kind : store_kinds())
    all += (all.empty() ? "" : ", ") + std::string(kind.example);
  return all;
}

}  // namespace idmint::advice
