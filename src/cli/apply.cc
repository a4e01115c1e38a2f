// apply: creates the sequences of a TOML file unless they exist.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/text.h"
#include "cli/adopted.h"
#include "cli/applied.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/store_option.h"
#include "idmint/clock.h"
#include "idmint/form.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "mint/definitions_toml.h"
#include "mint/formats.h"
#include "mint/given_before.h"
#include "sequences/life_cycle.h"
#include "sequences/strategies.h"
#include "terminal/exit_status.h"

namespace idmint::cli {

namespace {

struct ApplyOptions {
  std::string file;
  bool dry_run = false;
  bool yes = false;
};

void add_apply(CLI::App& command, ApplyOptions& given) {
  command.add_option("FILE", given.file, "A TOML file of sequences and pools; - is standard input")
      ->required()
      ->type_name("");
  command.add_flag("--dry-run", given.dry_run, "Only say what would be done");
  command.add_flag("--yes", given.yes,
                   "Begin below what this host was given before, from a store that is gone");
  add_store(command);
}

Result<std::vector<Definition>> read_file(const std::string& path, std::string_view store) {
  struct Closed {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  const bool standard_input = path == "-";
  const std::string shown = standard_input ? "standard input" : shortened(path);
  const std::unique_ptr<std::FILE, Closed> file(standard_input ? stdin
                                                               : std::fopen(path.c_str(), "rbe"));
  std::string text(kLongestToml + 1, '\0');  // one more byte, so that the length check rejects it
  if (file) text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (!file || std::ferror(file.get()) != 0) {
    return std::unexpected(Error{errno == EACCES ? Code::kPermissionDenied : Code::kNotFound,
                                 "cannot read " + shown + " (" +
                                     std::generic_category().message(errno) +
                                     "): give a TOML file of sequences"});
  }
  Result<std::vector<Definition>> definitions = definitions_from_toml(text, store);
  if (!definitions) {
    definitions.error() = in_context(shown, std::move(definitions.error()));
  }
  return definitions;
}

// Points into its source.
using ByName = std::unordered_map<std::string_view, const SequenceStatus*>;

ByName by_name(const std::vector<SequenceStatus>& all) {
  ByName found;
  for (const SequenceStatus& status : all) found.emplace(name(status.definition), &status);
  return found;
}

// Predicts the outcome without changing anything. `there`: the existing source of that name; null:
// none. `yes`: --yes was given.
Applied judge(Mint& mint, const Definition& wanted, const SequenceStatus* there, bool yes) {
  Applied applied{.name = name(wanted)};
  const auto refuse = [&](std::string why) {
    applied.outcome = Outcome::kRefused;
    applied.text = std::move(why);
    return applied;
  };
  if (there == nullptr) {
    if (const Result<void> fit = check_new(wanted, system_clock().now()); !fit) {
      return refuse(without_subject(worded(fit.error()), wanted));
    }
    const auto repeats =
        yes ? std::nullopt
            : would_repeat(mint.store_url().value_or(""), wanted, system_clock().now());
    if (repeats)
      return refuse(repeats->why + ": give it " +
                    (repeats->last ? "a start of " + std::to_string(*repeats->last + 1) +
                                         " or more, above every value in use"
                                   : std::string("another name")) +
                    ", or apply the file with --yes if nothing keeps the old ones");
    return applied;
  }
  const std::optional<Error>& error = there->error;
  // An interrupted extension; a repeated one completes it.
  const bool cut_off = error && error->code == Code::kUnavailable;
  // Its name stands before the text.
  const auto text_of = [&](Error why) {
    return without_subject(worded(std::move(why)), there->definition);
  };
  if (error && !cut_off) return refuse(text_of(*error));
  const auto* const sequence = std::get_if<SequenceDefinition>(&there->definition);
  Definition kept = wanted;
  auto* const longer = std::get_if<SequenceDefinition>(&kept);
  if (sequence != nullptr && longer != nullptr) {
    longer->make_adopted = false;
    // The store may keep the record under another text than the file's: it compares them.
    SequenceDefinition as_long = *longer;
    as_long.last = sequence->last;
    if (longer->last > sequence->last && longer->adopted != sequence->adopted &&
        !sequence->adopted.empty() && mint.create(as_long))
      longer->adopted = sequence->adopted;
  }
  if (sequence != nullptr && longer != nullptr && (cut_off || longer->last > sequence->last) &&
      can_extend(*sequence, *longer)) {
    const std::string last = std::to_string(sequence->last);
    applied.outcome = Outcome::kExtended;
    applied.text = longer->last == sequence->last
                       ? "last: to " + last + ", as was begun before"
                       : "last: from " + last + " to " + std::to_string(longer->last);
    return applied;
  }
  // Creating an existing sequence changes nothing: it compares.
  if (auto same = mint.create(wanted); !same) return refuse(text_of(std::move(same.error())));
  applied.outcome = Outcome::kThere;
  return applied;
}

Result<Changed> carry_out(Mint& mint, const Definition& wanted, Outcome outcome) {
  if (outcome == Outcome::kCreated) return mint.create(wanted);
  if (outcome != Outcome::kExtended) return Changed{};
  const auto& sequence = std::get<SequenceDefinition>(wanted);
  return mint.alter(sequence.name, sequence.last);
}

void print_applied(Output& out, const std::vector<Applied>& all) {
  std::size_t width = name(Outcome::kThere, Stage::kDone).size();
  const auto word = [](const Applied& applied) { return name(applied.outcome, applied.stage); };
  for (const Applied& applied : all) width = std::max(width, word(applied).size());
  for (const Applied& applied : all) {
    std::string line(word(applied));
    line.resize(width + 2, ' ');
    out.write_line(line + applied.name + (applied.text.empty() ? "" : ": " + applied.text));
  }
}

Result<void> run_apply(Context& context, const ApplyOptions& given) {
  Mint mint = open_mint(context, given.dry_run ? Access::kReadOnly : Access::kReadWrite);
  const Result<std::vector<Definition>> wanted =
      read_file(given.file, mint.store_url().value_or(""));
  if (!wanted) return std::unexpected(wanted.error());
  Result<std::vector<SequenceStatus>> all = mint.list();
  if (!all) {
    if (all.error().code != Code::kNotFound) return std::unexpected(std::move(all.error()));
    all = std::vector<SequenceStatus>{};  // the store does not exist yet
  }
  std::vector<Applied> judged;
  const ByName there = by_name(*all);
  for (const Definition& definition : *wanted) {
    const auto found = there.find(name(definition));
    judged.push_back(
        judge(mint, definition, found != there.end() ? found->second : nullptr, given.yes));
  }
  const auto refused = std::ranges::count(judged, Outcome::kRefused, &Applied::outcome);
  const bool change = refused == 0 && !given.dry_run;
  Result<Changed> done;
  std::vector<SequenceStatus> statuses;
  for (std::size_t i = 0; i < judged.size() && change && done; ++i) {
    done = carry_out(mint, (*wanted)[i], judged[i].outcome);
    judged[i].stage = Stage::kDone;
    if (done) {
      // Another process may have created it meanwhile.
      if (judged[i].outcome == Outcome::kCreated && !done->made)
        judged[i].outcome = Outcome::kThere;
      statuses.push_back(std::move(done->status));
      continue;
    }
    judged[i].outcome = Outcome::kFailed;
    done.error() = worded(std::move(done.error()));
    add_outcome(done.error(), std::to_string(i) + " of " + std::to_string(judged.size()) +
                                  " sequences are as the file has them: apply it again");
  }
  if (refused == 0 && given.dry_run) {
    for (Applied& each : judged) each.stage = Stage::kWould;
  }
  if (context.json) {
    context.out.write(json_applied(judged, change && done) + "\n");
  } else {
    print_applied(context.out, judged);
  }
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const auto* const sequence = std::get_if<SequenceDefinition>(&(*wanted)[i]);
    if (judged[i].outcome == Outcome::kCreated && sequence != nullptr && !sequence->adopted.empty())
      tell_of_adopted(mint, statuses[i], sequence->make_adopted, context.json);
  }
  if (!done) return std::unexpected(std::move(done.error()));
  if (refused != 0) {
    // A definition that nobody could create is a fault of the file alone.
    bool faults = true;
    for (std::size_t i = 0; i < judged.size(); ++i) {
      faults = faults && (judged[i].outcome != Outcome::kRefused ||
                          !check_new((*wanted)[i], system_clock().now()));
    }
    return std::unexpected(
        Error{faults ? Code::kInvalidArgument : Code::kFailedPrecondition,
              (judged.size() == 1 ? std::string("the sequence is refused")
                                  : std::to_string(refused) + " of " +
                                        std::to_string(judged.size()) + " sequences are refused") +
                  ", and nothing was changed: mend the file"});
  }
  if (given.dry_run) report_notice("nothing was changed: this was a dry run", context.json);
  return {};
}

}  // namespace

std::string_view name(Outcome outcome, Stage stage) noexcept {
  using Words = std::array<std::string_view, 3>;
  constexpr std::array<Words, 5> words = {
      Words{"would create", "created", "not created"}, Words{"was there", "was there", "was there"},
      Words{"would extend", "extended", "not extended"}, Words{"refused", "refused", "refused"},
      Words{"failed", "failed", "failed"}};
  return words[static_cast<std::size_t>(outcome)][static_cast<std::size_t>(stage)];
}

const Command kApply = {
    "apply", "Make the sequences and pools of a TOML file",
    with_options<ApplyOptions, add_apply, run_apply>,
    R"(Each [sequence.NAME] of the file is created, left as it is, extended (its max
moved up) or refused, because it is defined otherwise. All are examined first:
if one is refused, nothing is changed, and the exit status is 5. The same
command again is safe.
Keys: kind ("sequence" or "pool").
Of a sequence: strategy, start, max, stride, offset, digits, width, stripes,
step, prefix, encoding, check, key, largest_count, adopt, where, make,
validator, no_leading_zeros.
Of a pool: layout, workers, prefix, encoding, check, largest_count.

Examples:
  $ printf '[sequence.invoices]\nstart = 1000\n' >sources.toml
  $ idmint apply sources.toml --dry-run
  $ idmint apply sources.toml
  $ idmint list --toml
)"};

}  // namespace idmint::cli
