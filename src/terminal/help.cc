#include "terminal/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "base/similar.h"
#include "base/text.h"
#include "base/url.h"
#include "terminal/output.h"

namespace idmint {
namespace {

constexpr std::size_t kOptionColumn = 20;  // the column of an option's description

class HelpOnEightyColumns final : public CLI::Formatter {
  // The text of an argument that may be given as an option too is printed once.
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const bool is_both = option->get_positional() && option->nonpositional();
    if (!is_both) return CLI::Formatter::make_option(option, is_positional);
    std::string name = make_option_name(option, is_positional);
    if (!is_positional) name += make_option_opts(option);
    std::ostringstream row;
    CLI::detail::format_help(
        row, std::move(name),
        is_positional ? make_option_desc(option) : "The same, given as an option",
        get_column_width());
    return row.str();
  }
  // Such an argument may be left out.
  std::string make_option_usage(const CLI::Option* option) const override {
    const bool is_both = option->get_positional() && option->nonpositional();
    return is_both ? "[" + make_option_name(option, true) + "]"
                   : CLI::Formatter::make_option_usage(option);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), kHelpColumns - kOptionColumn);
  }
};

}  // namespace

std::string wrapped(std::string_view text, std::size_t width) {
  std::string lines;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (used != 0) lines += used + 1 + word.size() > width ? '\n' : ' ';
    used = lines.empty() || lines.back() == '\n' ? word.size() : used + 1 + word.size();
    lines += word;
  }
  return lines;
}

namespace {

// A paragraph, a row of a list, or an empty line.
struct Item {
  std::string label{};      // what stands before the text of a row
  std::size_t indent = 0;   // of the first line
  std::size_t hanging = 0;  // of the others
  std::string text{};
};

Item item_of(std::string_view line) {
  Item item;
  item.indent = std::min(line.find_first_not_of(' '), line.size());
  item.hanging = item.indent;
  const std::size_t gap = line.find("  ", item.indent);
  if (item.indent != 0 && gap != std::string_view::npos) {
    item.hanging = line.find_first_not_of(' ', gap);
    item.label = line.substr(item.indent, gap - item.indent);
  }
  item.text = line.substr(item.hanging);
  return item;
}

std::string printed(const Item& item, std::size_t columns) {
  constexpr std::size_t deeper = 4;  // where the text of a row has no room behind its label
  const bool below = !item.label.empty() && item.hanging > columns / 3;
  const std::size_t hanging = below ? item.indent + deeper : item.hanging;
  std::string out = std::string(item.indent, ' ') + item.label;
  if (!item.label.empty())
    out += below ? "\n" + std::string(hanging, ' ') : std::string(hanging - out.size(), ' ');
  for (const char c : wrapped(item.text, columns - std::min(hanging, columns - 1)))
    out += c == '\n' ? "\n" + std::string(hanging, ' ') : std::string(1, c);
  return out + "\n";
}

}  // namespace

std::string fitted(std::string_view help, std::size_t columns) {
  if (columns >= kHelpColumns) return std::string(help);
  std::string out;
  std::optional<Item> open;
  const auto end = [&] {
    if (open) out += printed(*open, columns);
    open.reset();
  };
  bool goes_on = false;  // an example, on the next line
  while (!help.empty()) {
    const std::string_view line = help.substr(0, help.find('\n'));
    help.remove_prefix(std::min(line.size() + 1, help.size()));
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (goes_on || line.empty() || line.substr(indent).starts_with("$ ")) {
      end();
      out.append(line).append("\n");
      goes_on = line.ends_with('\\');
    } else if (open && indent == open->hanging && item_of(line).label.empty() &&
               !line.starts_with("Usage:")) {
      open->text.append(" ").append(line.substr(indent));
    } else {
      end();
      open = item_of(line);
    }
  }
  end();
  return out;
}

std::string exit_status_row(int status, std::string_view meaning) {
  const std::string number = std::to_string(status);
  std::string row = std::string(4 - number.size(), ' ') + number + "  ";
  for (const char c : wrapped(meaning, kHelpColumns - 6))
    row += c == '\n' ? "\n      " : std::string(1, c);
  return row + '\n';
}

void fit_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpOnEightyColumns>());
  app.get_formatter()->column_width(kOptionColumn);
  app.get_formatter()->label("REQUIRED", "");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
}

std::optional<UnknownOption> unknown_option(const CLI::App& app,
                                            std::span<const char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") break;
    if (word.size() < 2 || word[0] != '-' || (word[1] >= '0' && word[1] <= '9')) continue;
    const std::string option(word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2));
    if (app.get_option_no_throw(option) != nullptr) continue;
    std::string_view value = word.substr(option.size());
    if (value.starts_with('=')) value.remove_prefix(1);
    if (value.empty() && i + 1 < words.size()) value = words[i + 1];
    return UnknownOption{option, std::string(value)};
  }
  return std::nullopt;
}

namespace {

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// " ACTION POOL [WORKER]": what a command takes besides options.
std::string arguments_of(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    text += option->get_required() ? " " + name : " [" + name + "]";
    if (option->get_items_expected_max() > 1) text += "...";
  }
  return text;
}

// The placeholders of options that have a word of their own.
struct Placeholder {
  std::string_view type;
  std::string_view word;
};
constexpr std::array kPlaceholders = {
    Placeholder{"ADDRESS", "address"}, Placeholder{"FILE", "file"}, Placeholder{"N", "number"},
    Placeholder{"PATH", "path"},       Placeholder{"URL", "URL"},
};

// "-n is missing its number", of the parser's "--count: 1 required N missing". Nothing: the message
// is another one.
std::optional<std::string> without_value(std::string_view message, const CLI::App& app,
                                         std::span<const char* const> words) {
  const std::string name(message.substr(0, message.find(": ")));
  if (!message.ends_with(" missing") || !message.contains(": 1 required ")) return std::nullopt;
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr) return std::nullopt;
  std::string typed = name;
  for (const std::string_view word : words)
    if (app.get_option_no_throw(std::string(word)) == option) typed = word;
  const auto* const row =
      std::ranges::find(kPlaceholders, option->get_type_name(), &Placeholder::type);
  return typed + " is missing its " +
         (row != kPlaceholders.end() ? std::string(row->word) : "value");
}

bool is_whole_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The fault without the place of the help.
std::string fault_of(std::string message, const CLI::App& app, std::span<const char* const> words,
                     std::span<const Meant> meant, std::string_view of_number) {
  if (const auto unknown = unknown_option(app, words)) {
    std::string instead(meant_by(*unknown, meant));
    if (instead.empty()) instead = close_matches(unknown->name, long_options(app));
    return "there is no option \"" + shortened(unknown->name) + "\"" +
           (instead.empty() ? "" : ": did you mean " + instead + "?");
  }
  for (const std::string_view word : words) {
    const std::string_view value = word.substr(word.starts_with('-') ? word.find('=') + 1 : 0);
    const bool may_be_url = has_secret(value) || (value.contains('@') && value.contains(':'));
    if (may_be_url && message.contains(value)) return "there is a URL where none is taken";
  }
  message.erase(message.find_last_not_of(" \n.") + 1);
  if (std::optional<std::string> lacking = without_value(message, app, words))
    return *std::move(lacking);
  constexpr std::string_view too_many = "The following argument was not expected: ";
  if (message.starts_with(too_many)) {
    const std::string word = message.substr(too_many.size());
    const bool is_meant = !of_number.empty() && is_whole_number(word);
    return "\"" + word + "\" is one word too many: " +
           (is_meant ? "did you mean " + std::string(of_number) + " " + word + "?"
                     : app.get_name() + arguments_of(app));
  }
  constexpr std::string_view several = "The following arguments were not expected: ";
  if (message.starts_with(several))
    return "\"" + message.substr(several.size()) + "\" are words too many: " + app.get_name() +
           arguments_of(app);
  constexpr std::string_view required = " is required";
  // The number that it wants, without the option.
  const auto number = std::ranges::find_if(words, is_whole_number);
  if (!of_number.empty() && number != words.end() &&
      message == std::string(of_number).append(required))
    return "\"" + std::string(*number) + "\" is one word too many: did you mean " +
           std::string(of_number) + " " + *number + "?";
  if (message.ends_with(required) && !message.starts_with('-'))
    return message.substr(0, message.size() - required.size()) + " is missing: " + app.get_name() +
           arguments_of(app);
  return message;
}

}  // namespace

std::string_view meant_by(const UnknownOption& unknown, std::span<const Meant> rows) {
  const auto row = std::ranges::find_if(rows, [&](const Meant& each) {
    return each.typed == unknown.name || each.typed == unknown.name + " " + unknown.value;
  });
  return row != rows.end() ? row->option : std::string_view();
}

std::string wrong_usage(std::string message, const CLI::App& app,
                        std::span<const char* const> words, std::string_view help,
                        std::span<const Meant> meant, std::string_view of_number) {
  const std::string fault = fault_of(std::move(message), app, words, meant, of_number);
  return fault + (fault.ends_with('?') ? " See " : ": see ") + std::string(help) + " --help";
}

Result<std::string_view> completion_for(std::string_view shell,
                                        std::span<const CompletionScript> scripts) {
  const auto script = std::ranges::find(scripts, shell, &CompletionScript::shell);
  if (script != scripts.end()) return script->text;
  return std::unexpected(
      Error{Code::kInvalidArgument,
            "there is no completion for \"" + std::string(shell) + "\": give bash, zsh or fish"});
}

}  // namespace idmint
