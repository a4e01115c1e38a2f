// formats, completion, version, help: what idmint says of itself.
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json.h"
#include "terminal/completion_scripts.h"

namespace idmint::cli {

namespace {

void print_layouts(Context& context) {
  if (context.arguments.json) {
    context.out.write(json_layouts(snowflake_presets()) + "\n");
    return;
  }
  std::vector<Row> rows;
  for (const SnowflakePreset& preset : snowflake_presets()) {
    rows.push_back({std::string(preset.name), to_string(preset.layout),
                    std::to_string(preset.layout.max_worker()), std::string(preset.description)});
  }
  print_table(context.out, {{"LAYOUT"}, {"FIELDS"}, {"LARGEST WORKER", Align::kRight}, {"NOTES"}},
              rows);
}

}  // namespace

Result<void> run_formats(Context& context) {
  if (context.arguments.layouts) {
    print_layouts(context);
    return {};
  }
  const std::vector<Declaration> formats = Mint::formats();
  if (context.arguments.json) {
    context.out.write(json_formats(formats) + "\n");
    return {};
  }
  std::vector<Row> rows;
  for (const Declaration& format : formats) {
    rows.push_back({format.name, std::string(name(format.guarantee)), format.order, format.notes});
  }
  print_table(context.out, {{"FORMAT"}, {"GUARANTEE"}, {"ORDER"}, {"NOTES"}}, rows);
  return {};
}

Result<void> run_completion(Context& context) {
  const Result<std::string_view> script =
      completion_for(context.arguments.name, kCompletionScripts);
  if (!script) return std::unexpected(script.error());
  context.out.write(*script);
  return {};
}

Result<void> run_version(Context& context) {
  context.out.write(context.arguments.json ? json_version(IDMINT_VERSION) + "\n"
                                           : "idmint " IDMINT_VERSION "\n");
  return {};
}

Result<void> run_help(Context& context) {
  context.out.write(context.arguments.text);
  return {};
}

}  // namespace idmint::cli
