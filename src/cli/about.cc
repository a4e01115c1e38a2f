// formats, completion, version: information about idmint.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json.h"
#include "terminal/completion_scripts.h"

namespace idmint::cli {

namespace {

void add_formats(CLI::App& command, bool& layouts) {
  command.add_flag("--layouts", layouts, "List the layouts of snowflake instead");
}

void add_completion(CLI::App& command, std::string& shell) {
  command.add_option("SHELL", shell, "bash, zsh or fish")->required()->type_name("");
}

void print_layouts(Context& context) {
  if (context.json) {
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

Result<void> run_formats(Context& context, const bool& layouts) {
  if (layouts) {
    print_layouts(context);
    return {};
  }
  const std::vector<Declaration> formats = Mint::formats();
  if (context.json) {
    context.out.write(json_formats(formats) + "\n");
    return {};
  }
  std::vector<Row> rows;
  for (const Declaration& format : formats) {
    rows.push_back({format.name, std::string(name(format.guarantee)),
                    std::string(name(format.order)), format.notes});
  }
  print_table(context.out, {{"FORMAT"}, {"GUARANTEE"}, {"ORDER"}, {"NOTES"}}, rows);
  return {};
}

Result<void> run_completion(Context& context, const std::string& shell) {
  const Result<std::string_view> script = completion_for(shell, kCompletionScripts);
  if (!script) return std::unexpected(script.error());
  context.out.write(*script);
  return {};
}

Result<void> run_version(Context& context) {
  context.out.write(context.json ? json_version(IDMINT_VERSION) + "\n"
                                 : "idmint " IDMINT_VERSION "\n");
  return {};
}

Work add_version(CLI::App&) { return run_version; }

}  // namespace

const Command kFormats = {"formats", "List the formats and what each guarantees",
                          with_options<bool, add_formats, run_formats>,
                          R"(Examples:
  $ idmint formats
  $ idmint formats --layouts
)"};

const Command kCompletion = {"completion", "Print the completion script of a shell",
                             with_options<std::string, add_completion, run_completion>,
                             R"(Examples:
  $ idmint completion bash
)"};

const Command kVersion = {"version", "Print the version", add_version,
                          R"(Examples:
  $ idmint version
)"};

}  // namespace idmint::cli
