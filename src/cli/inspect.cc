// inspect: every reading of every text, printed straight into the output block.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string>

#include "base/print.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lines.h"
#include "cli/source_options.h"
#include "idmint/clock.h"
#include "ids/readings.h"
#include "terminal/exit_status.h"

namespace idmint::cli {

namespace {

struct InspectOptions {
  std::vector<std::string> ids;
  std::string layout;  // empty: not given
};

void add_inspect(CLI::App& command, InspectOptions& given) {
  add_texts(command, given.ids);
  command
      .add_option("--layout", given.layout,
                  "The Snowflake layout of the ids: numbers are read in this one alone")
      ->type_name("L");
}

using detail::FoundField;
using detail::FoundReading;
using detail::FoundValue;
using detail::kMaxFields;
using detail::kMaxNameChars;
using detail::kMaxValueChars;
using detail::print_value;

// The size of one reading, as text or JSON, with words, blanks and escapes.
constexpr std::size_t kMaxReadingChars =
    200 + 2 * kMaxValueChars + kMaxFields * (2 * kMaxNameChars + kMaxValueChars + 16);

char* put(std::string_view text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

char* put_blanks(std::size_t count, char* out) {
  std::memset(out, ' ', count);
  return out + count;
}

bool is_spelled_so(const FoundReading& reading) {
  return std::holds_alternative<std::string_view>(reading.canonical);
}

// ---- text

char* put_reading(const FoundReading& reading, std::span<const FoundField> fields, char* out) {
  out = put(reading.format, put("  ", out));
  if (!fields.empty() && fields[0].name == "layout") {
    out = put(")", print_value(fields[0].value, put(" (", out)));
    fields = fields.subspan(1);
  }
  if (!is_spelled_so(reading)) out = print_value(reading.canonical, put("  ", out));
  *out++ = '\n';
  std::size_t width = 0;
  for (const FoundField& field : fields) width = std::max(width, field.name.size());
  for (const FoundField& field : fields) {
    out = put(field.name, put("    ", out));
    out = put_blanks(width - field.name.size() + 2, out);
    out = print_value(field.value, out);
    *out++ = '\n';
  }
  return out;
}

// ---- JSON; texts with a reading need escapes for " and \ only

char* put_escaped(std::string_view text, char* out) {
  for (const char c : text) {
    if (c == '"' || c == '\\') *out++ = '\\';
    *out++ = c;
  }
  return out;
}

char* put_quoted(const FoundValue& value, char* out) {
  *out++ = '"';
  if (const auto* const text = std::get_if<std::string_view>(&value)) {
    out = put_escaped(*text, out);
  } else {
    out = print_value(value, out);
  }
  *out++ = '"';
  return out;
}

char* put_json_value(const FoundValue& value, char* out) {
  if (const auto* const named = std::get_if<detail::NamedNumber>(&value)) {
    return print_value(named->number, out);
  }
  // At most 32 bits, which every reader of JSON can hold: wider values are a Hex.
  if (std::holds_alternative<std::uint64_t>(value)) return print_value(value, out);
  return put_quoted(value, out);
}

char* put_json_reading(const FoundReading& reading, std::span<const FoundField> fields, char* out) {
  out = put(reading.format, put(R"({"format":")", out));
  out = put_quoted(reading.canonical, put(R"(","canonical":)", out));
  out = put(R"(,"time":)", out);
  out = reading.time ? put_quoted(reading.time, out) : put("null", out);
  out = put(R"(,"likelihood":0.)", out);
  for (int left = reading.permille, unit = 100; left != 0; left %= unit, unit /= 10) {
    *out++ = static_cast<char>('0' + left / unit);
  }
  out = put(R"(,"fields":{)", out);
  for (const FoundField& field : fields) {
    if (&field != fields.data()) *out++ = ',';
    out = put(R"(":)", put(field.name, put("\"", out)));
    out = put_json_value(field.value, out);
  }
  return put("}}", out);
}

class Inspection {
 public:
  explicit Inspection(Context& context)
      : context_(context), coloured_(context.out.coloured()), reader_(system_clock().now()) {}

  void read_in(std::string_view name, const SnowflakeLayout& layout) {
    reader_.read_only_in(name, layout);
    layout_ = name;
  }

  // `line`: of standard input; 0 for an argument.
  void add(std::string_view text, std::size_t line = 0) {
    if (line % 1024 == 0) reader_.set_now(system_clock().now());
    const std::span<const FoundReading> readings = reader_.read(text);
    const bool json = context_.json;
    if (readings.empty()) {
      if (json) context_.out.write(R"({"text":)" + json_text(text) + ",\"readings\":[]}\n");
      refuse(text, line);
      return;
    }
    char* const room =
        context_.out.reserve(2 * text.size() + 64 + readings.size() * kMaxReadingChars);
    context_.out.commit(json ? put_json(text, readings, room) : put_text(text, readings, room));
  }

 private:
  char* put_text(std::string_view text, std::span<const FoundReading> readings, char* out) {
    if (coloured_) out = put("\x1b[1m", out);
    out = put(text, out);
    if (coloured_) out = put("\x1b[0m", out);
    *out++ = '\n';
    for (const FoundReading& reading : readings) {
      out = put_reading(reading, reader_.fields(reading), out);
    }
    return out;
  }

  char* put_json(std::string_view text, std::span<const FoundReading> readings, char* out) {
    out = put_escaped(text, put(R"({"text":")", out));
    out = put(R"(","readings":[)", out);
    for (const FoundReading& reading : readings) {
      if (&reading != readings.data()) *out++ = ',';
      out = put_json_reading(reading, reader_.fields(reading), out);
    }
    return put("]}\n", out);
  }

  void refuse(std::string_view text, std::size_t line) {
    context_.out.flush();
    context_.status = exit_status(Code::kNotFound);
    const std::string_view why =
        layout_.empty()
            ? "\" is no id of a known format: look for missing or extra characters, or if it is of "
              "a sequence, give its name: idmint check ID --as SEQUENCE"
            : "\" is no id of this layout: look for missing or extra characters, or leave --layout "
              "out for all readings";
    report({Code::kNotFound, place_of(line) + "\"" + shortened(text) + std::string(why)},
           context_.json);
  }

  Context& context_;
  const bool coloured_;
  detail::Reader reader_;
  std::string_view layout_;  // empty: any
};

Result<void> run_inspect(Context& context, const InspectOptions& given) {
  Inspection inspection(context);
  if (const std::string& text = given.layout; !text.empty()) {
    const Result<SnowflakeLayout> layout = layout_option(text);
    if (!layout) return std::unexpected(layout.error());
    inspection.read_in(text, *layout);
  }
  return for_each_text(context, given.ids, [&](std::string_view text, std::size_t line) {
    inspection.add(text, line);
  });
}

}  // namespace

const Command kInspect = {
    "inspect", "Say what ids mean: every reading, likeliest first",
    with_options<InspectOptions, add_inspect, run_inspect>,
    R"(A layout is the name of one (idmint formats), or its fields from the top:
"41t10w12s epoch 2015-01-01T00:00:00Z unit 1ms".

Examples:
  $ idmint inspect 454947766275222906
  $ idmint inspect 017f22e2-79b0-7cc3-98c4-dc0c0c07398f --json
  $ idmint inspect 180363646902239241 --layout "29t21w13s epoch 2016-09-20 unit 1s"
  $ idmint next ulid -n 2 | idmint inspect -
)"};

}  // namespace idmint::cli
