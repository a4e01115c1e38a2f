#include "mint/formats.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>

#include "base/data_folder.h"
#include "base/errors.h"
#include "base/text.h"
#include "idmint/digits.h"
#include "idmint/host.h"
#include "idmint/snowflake.h"
#include "idmint/uuid.h"
#include "idmint/uuid_time.h"
#include "ids/format.h"
#include "ids/snowflake_space.h"
#include "mint/submitted_ids.h"
#include "mint/worker.h"

namespace idmint {

namespace {

namespace fs = std::filesystem;

class FormatSource final : public Source {
 public:
  FormatSource(Declaration declaration, std::unique_ptr<IdGenerator> generator,
               const MadeWith& mint)
      : declaration_(std::move(declaration)),
        generator_(std::move(generator)),
        submitted_(*this, declaration_.name, mint.options.executor,
                   mint.options.store_options.deadline) {}

  const Declaration& declaration() const noexcept override { return declaration_; }

  using Source::next;
  Result<void> next(std::span<Id> out) override { return generator_->next(out); }
  Result<void> submit(std::span<Id> out, MoveOnlyFunction<void(Result<void>)> done) override {
    return submitted_.submit(out, std::move(done));
  }

 private:
  const Declaration declaration_;
  const std::unique_ptr<IdGenerator> generator_;
  SubmittedIds submitted_;
};

// ---- options

enum Option : unsigned {
  kForm = 1U << 0,
  kWorker = 1U << 1,
  kLayout = 1U << 2,
  kRunAhead = 1U << 3,
  kNode = 1U << 4,
  kDomain = 1U << 5,
  kLocalId = 1U << 6,
  kDigits = 1U << 7,
  kType = 1U << 8,
  kWindow = 1U << 9,
};

struct OptionName {
  Option option;
  std::string_view what;
  std::string_view member;  // of FormatOptions
  bool (*given)(const FormatOptions& options);
};

constexpr std::array kOptions = {
    OptionName{kForm, "a form", "form", [](const FormatOptions& o) { return o.form.has_value(); }},
    OptionName{kWorker, "a worker id", "worker",
               [](const FormatOptions& o) { return o.worker.has_value(); }},
    OptionName{kLayout, "a layout", "layout",
               [](const FormatOptions& o) { return o.layout.has_value(); }},
    OptionName{kRunAhead, "a time to run ahead", "run_ahead",
               [](const FormatOptions& o) { return o.run_ahead.has_value(); }},
    OptionName{kNode, "a node", "node", [](const FormatOptions& o) { return o.node.has_value(); }},
    OptionName{kDomain, "a domain", "domain",
               [](const FormatOptions& o) { return o.domain.has_value(); }},
    OptionName{kLocalId, "a local id", "local_id",
               [](const FormatOptions& o) { return o.local_id.has_value(); }},
    OptionName{kDigits, "digits", "digits",
               [](const FormatOptions& o) { return o.digits.has_value(); }},
    OptionName{kType, "a type", "type", [](const FormatOptions& o) { return o.type.has_value(); }},
    OptionName{kWindow, "a window", "window",
               [](const FormatOptions& o) { return o.window.has_value(); }},
};

using OpenedSource = Result<std::unique_ptr<Source>>;

// A format that takes other options than a form, and the opener of its source.
struct Opener {
  std::string_view format;
  Guarantee guarantee;
  unsigned options;
  OpenedSource (*open)(const Opener& opener, const FormatOptions& options, const MadeWith& mint);

  [[nodiscard]] Declaration declaration() const;
};

Declaration declaration_of(const Format& format, Guarantee guarantee) {
  return {.name = std::string(format.name),
          .format = std::string(format.kind),
          .guarantee = guarantee,
          .order = format.order,
          .notes = std::string(format.notes)};
}

Declaration Opener::declaration() const { return declaration_of(*find_format(format), guarantee); }

Result<void> check_options(const Format& format, unsigned taken, const FormatOptions& options) {
  for (const OptionName& row : kOptions) {
    if (!row.given(options) || (taken & row.option) != 0) continue;
    return fail(Code::kInvalidArgument,
                "\"" + std::string(format.name) + "\" does not take " + std::string(row.what) +
                    ": leave it out",
                {.remedy = Remedy::kSetOption, .values = {std::string(row.member)}});
  }
  if (!options.form) return {};
  return validate(*options.form, format.kind);
}

// Ids that are ordered by second need seconds only, and the clock that shows no more is the
// cheapest.
Clock& clock_of_seconds(const MadeWith& mint) {
  return &mint.clock == &system_clock() ? seconds_clock() : mint.clock;
}

template <class Value, class Generator>
OpenedSource source_over(Declaration declaration, const FormatOptions& options,
                         std::unique_ptr<Generator> generator, const MadeWith& mint) {
  if (options.form) declaration.form = *options.form;
  return std::make_unique<FormatSource>(std::move(declaration),
                                        generator_of<Value>(std::move(generator)), mint);
}

OpenedSource open_plain(const Format& format, const FormatOptions& options, const MadeWith& mint) {
  Declaration declaration = declaration_of(format, Guarantee::kPractical);
  if (options.form) declaration.form = *options.form;
  Clock& clock = format.order == Order::kBySecond ? clock_of_seconds(mint) : mint.clock;
  return std::make_unique<FormatSource>(std::move(declaration), format.make(clock, mint.entropy),
                                        mint);
}

OpenedSource open_type_id(const Opener& opener, const FormatOptions& options,
                          const MadeWith& mint) {
  const std::string type = options.type.value_or("");
  if (Result<void> valid = validate_type_prefix(type); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  FormatOptions as_text = options;
  as_text.form = Form{.prefix = type.empty() ? "" : type + "_", .encoding = Encoding::kBase32Lower};
  return source_over<Uuid>(
      opener.declaration(), as_text,
      std::make_unique<Uuid7Generator>(Uuid7Options{}, mint.clock, mint.entropy), mint);
}

OpenedSource open_digits(const Opener& opener, const FormatOptions& options, const MadeWith& mint) {
  const DigitsLayout layout = options.digits.value_or(DigitsLayout{});
  if (Result<void> valid = layout.validate(); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  Declaration declaration = opener.declaration();
  // The notes for the usual 12 digits are in the table.
  const auto capacity = static_cast<double>(layout.capacity());
  char odds[96];
  std::snprintf(odds, sizeof odds,
                "one of %.3g numbers; among n ids the odds of one repeat are n^2 / %.2g", capacity,
                2 * capacity);
  declaration.notes = odds;
  return source_over<Digits>(std::move(declaration), options,
                             std::make_unique<DigitsGenerator>(layout, mint.entropy), mint);
}

// ---- formats with a state file

// The folder of the state files; creates the default one.
Result<fs::path> state_folder(const MadeWith& mint) {
  if (!mint.options.state_directory.empty()) return mint.options.state_directory;
  Result<fs::path> data = data_folder();
  if (!data) return data;
  if (Result<void> made = make_folder(*data); !made) return std::unexpected(made.error());
  return data;
}

// Waits for the state file as long as for a store.
template <class Options>
void wait_as_for_a_store(Options& options, const MadeWith& mint) {
  options.lock_wait = mint.options.store_options.deadline;
  options.until = mint.options.store_options.until;
}

void tell_of(const fs::path& state_file, std::string_view keeps, const MadeWith& mint) {
  if (!mint.options.notice) return;
  mint.options.notice(
      "made the state file " + state_file.string() + ": from now on it keeps the ids of " +
      std::string(keeps) +
      " unique among all that use this file; neither copy nor remove it, and let nobody "
      "mint for the same with another one");
}

// ---- UUID versions 1 and 2

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text(encoded_width(Encoding::kHex, bytes.size()), '0');
  encode(Encoding::kHex, bytes, text.data());
  return text;
}

// Nothing: a random node.
Result<std::optional<HardwareAddress>> node_of(const UuidNode& node) {
  switch (node.from) {
    case UuidNode::From::kRandom:
      break;
    case UuidNode::From::kGiven:
      return node.address;
    case UuidNode::From::kHardware: {
      const std::optional<HardwareAddress> address = host_address();
      if (address) return address;
      return fail(Code::kFailedPrecondition,
                  "this host has no hardware address: give a node of your own, or a random one",
                  {.remedy = Remedy::kSetOption, .values = {"node"}});
    }
  }
  return std::nullopt;
}

OpenedSource open_uuid1(const Opener& opener, const FormatOptions& options, const MadeWith& mint) {
  Uuid1Options uuid1;
  const auto node = node_of(options.node.value_or(UuidNode{}));
  if (!node) return std::unexpected(node.error());
  uuid1.node = *node;
  Declaration declaration = opener.declaration();
  // A random node is new each time and has no state to keep.
  if (uuid1.node) {
    declaration.guarantee = Guarantee::kUniqueIfConfigured;
    const Result<fs::path> folder = state_folder(mint);
    if (!folder) return std::unexpected(folder.error());
    uuid1.state_file = *folder / ("uuid1-" + hex(*uuid1.node) + ".state");
  }
  wait_as_for_a_store(uuid1, mint);
  Result<std::unique_ptr<Uuid1Generator>> generator =
      Uuid1Generator::open(uuid1, mint.clock, mint.entropy);
  if (!generator) return std::unexpected(std::move(generator.error()));
  if (uuid1.node && (*generator)->made_state_file()) {
    tell_of(uuid1.state_file, "node " + hex(*uuid1.node), mint);
  }
  return source_over<Uuid>(std::move(declaration), options, *std::move(generator), mint);
}

OpenedSource open_uuid2(const Opener& opener, const FormatOptions& options, const MadeWith& mint) {
  if (!options.domain || !options.local_id) {
    return fail(Code::kInvalidArgument,
                "uuid2 is an id of a person, group or organization of this host: it needs its "
                "domain and its local id",
                {.remedy = Remedy::kSetOption, .values = {"domain", "local_id"}});
  }
  Uuid2Options uuid2{.domain = *options.domain, .local_id = *options.local_id};
  const auto node = node_of(options.node.value_or(UuidNode{.from = UuidNode::From::kHardware}));
  if (!node) return std::unexpected(node.error());
  const auto& address = *node;
  if (!address) {
    return fail(Code::kInvalidArgument,
                "uuid2 tells hosts apart by their nodes only: give that of the hardware, or an "
                "address",
                {.remedy = Remedy::kSetOption, .values = {"node"}});
  }
  uuid2.node = address;
  const Result<fs::path> folder = state_folder(mint);
  if (!folder) return std::unexpected(folder.error());
  uuid2.state_file =
      *folder / ("uuid2-" + hex(*address) + "-" + std::to_string(static_cast<int>(uuid2.domain)) +
                 "-" + std::to_string(uuid2.local_id) + ".state");
  wait_as_for_a_store(uuid2, mint);
  Result<std::unique_ptr<Uuid2Generator>> generator =
      Uuid2Generator::open(uuid2, mint.clock, mint.entropy);
  if (!generator) return std::unexpected(std::move(generator.error()));
  if ((*generator)->made_state_file()) {
    tell_of(uuid2.state_file, "local id " + std::to_string(uuid2.local_id), mint);
  }
  return source_over<Uuid>(opener.declaration(), options, *std::move(generator), mint);
}

// ---- Snowflake

std::string name_of(const SnowflakeLayout& layout) {
  for (const SnowflakePreset& preset : snowflake_presets()) {
    if (preset.layout == layout) return std::string(preset.name);
  }
  return to_string(layout);
}

OpenedSource open_snowflake(const Opener& opener, const FormatOptions& options,
                            const MadeWith& mint) {
  SnowflakeOptions snowflake;
  if (options.layout) snowflake.layout = *options.layout;
  const SnowflakeLayout& layout = snowflake.layout;
  if (Result<void> valid = layout.validate(); !valid) {
    return std::unexpected(std::move(valid.error()));
  }
  const std::string range = "0 to " + std::to_string(layout.max_worker());
  if (!options.worker) {
    return fail(
        Code::kInvalidArgument,
        "snowflake needs a worker id that no other generator uses: have one leased, from a "
        "pool",
        {.remedy = Remedy::kSetOption, .subject = ", or give one, " + range, .values = {"worker"}});
  }
  const Result<ChosenWorker> worker = choose_worker(*options.worker, layout, mint.entropy);
  if (!worker) return std::unexpected(worker.error());
  snowflake.worker = worker->id;
  Declaration declaration = opener.declaration();
  declaration.guarantee = worker->guarantee;
  declaration.notes = "layout " + name_of(layout) + ", worker " + std::to_string(worker->id) +
                      " of " + range + ": " + worker->notes;
  if (options.run_ahead) snowflake.max_run_ahead = *options.run_ahead;
  // A random worker id is new each time and has no state to keep.
  if (options.worker->from != Worker::From::kRandom) {
    const Result<fs::path> folder = state_folder(mint);
    if (!folder) return std::unexpected(folder.error());
    snowflake.state_file = *folder / ("snowflake-" + in_file_names(layout) + "-" +
                                      std::to_string(snowflake.worker) + ".state");
  }
  wait_as_for_a_store(snowflake, mint);
  snowflake.deadline = mint.options.store_options.deadline;
  Result<std::unique_ptr<SnowflakeGenerator>> generator =
      SnowflakeGenerator::open(snowflake, mint.clock, mint.entropy);
  if (!generator) return std::unexpected(std::move(generator.error()));
  if ((*generator)->made_state_file()) {
    tell_of(snowflake.state_file, "worker " + std::to_string(snowflake.worker), mint);
  }
  return source_over<Snowflake>(std::move(declaration), options, *std::move(generator), mint);
}

constexpr std::array kOpeners = {
    Opener{"uuid1", Guarantee::kPractical, kForm | kNode, open_uuid1},
    Opener{"uuid2", Guarantee::kUniqueIfConfigured, kForm | kNode | kDomain | kLocalId, open_uuid2},
    Opener{"typeid", Guarantee::kPractical, kType, open_type_id},
    Opener{"snowflake", Guarantee::kUniqueIfConfigured, kForm | kWorker | kLayout | kRunAhead,
           open_snowflake},
    Opener{"digits", Guarantee::kPractical, kForm | kDigits, open_digits},
};

const Opener* opener_of(const Format& format) noexcept {
  const auto* const found = std::ranges::find(kOpeners, format.name, &Opener::format);
  return found == kOpeners.end() ? nullptr : found;
}

// Reserved names that mint nothing, and the alternatives.
struct Reserved {
  std::string_view name;
  std::string_view what;
  std::string_view instead;
  Remedy remedy = Remedy::kNone;
  std::string_view subject{};  // of the advice
  std::string_view value{};    // of the advice
};
constexpr std::string_view kSayWhich = "say which: uuid4 (random) or uuid7 (in order of time)";
constexpr std::string_view kOneValue = "it is one value, and not minted: take uuid4 or uuid7";
constexpr std::string_view kOfTime = "it can be read, and nothing mints it";
constexpr std::array kReserved = {
    Reserved{"uuid", "of UUIDs of all versions", kSayWhich},
    Reserved{"guid", "of UUIDs of all versions", kSayWhich},
    Reserved{"uuid3", "of a version of UUID", "it is the UUID of a name", Remedy::kNameUuid, "",
             "3"},
    Reserved{"uuid5", "of a version of UUID", "it is the UUID of a name", Remedy::kNameUuid, "",
             "5"},
    Reserved{"uuid8", "of a version of UUID",
             "its bits are up to who makes it, and not minted: take uuid4 or uuid7"},
    Reserved{"nil", "of a UUID", kOneValue},
    Reserved{"max", "of a UUID", kOneValue},
    Reserved{"uuid-nil", "of a UUID", kOneValue},
    Reserved{"uuid-max", "of a UUID", kOneValue},
    Reserved{"integer", "of the values of all sequences", "make a sequence, and ask it for values",
             Remedy::kCreateSequence, "orders"},
    Reserved{"unix-seconds", "of a time", kOfTime, Remedy::kInspect},
    Reserved{"unix-milliseconds", "of a time", kOfTime, Remedy::kInspect},
    Reserved{"unix-microseconds", "of a time", kOfTime, Remedy::kInspect},
    Reserved{"unix-nanoseconds", "of a time", kOfTime, Remedy::kInspect},
};

bool is_preset(std::string_view name) {
  return std::ranges::find(snowflake_presets(), name, &SnowflakePreset::name) !=
         snowflake_presets().end();
}

}  // namespace

std::vector<Declaration> format_declarations() {
  std::vector<Declaration> declarations;
  for (const Format* const format : formats()) {
    const Opener* const opener = opener_of(*format);
    declarations.push_back(opener != nullptr ? opener->declaration()
                                             : declaration_of(*format, Guarantee::kPractical));
  }
  return declarations;
}

std::string in_file_names(const SnowflakeLayout& layout) {
  std::string text = to_string(space_of(layout));
  text.erase(0, text.find('t') + 1);  // without the width of the time
  std::ranges::replace_if(text, [](char c) { return c == ' ' || c == ':'; }, '-');
  return text;
}

bool is_format(std::string_view name) noexcept { return find_format(name) != nullptr; }

Result<void> check_sequence_name(std::string_view name) {
  const std::string lower = lower_case(name);
  const auto* const reserved = std::ranges::find(kReserved, lower, &Reserved::name);
  std::string what;
  if (is_format(lower)) {
    what = "of a format";
  } else if (is_preset(lower)) {
    what = "of a Snowflake layout";
  } else if (reserved != kReserved.end()) {
    what = reserved->what;
  } else {
    return {};
  }
  return std::unexpected(
      about("sequence " + std::string(name),
            {Code::kInvalidArgument, "it is the name " + std::string(what) +
                                         ", so no sequence can have it: choose another name"}));
}

Result<void> check_new(const Definition& definition, Instant now) {
  if (Result<void> free = check_sequence_name(name(definition)); !free) return free;
  const auto* const pool = std::get_if<PoolDefinition>(&definition);
  if (pool == nullptr) return {};
  if (Result<void> has = has_time(pool->layout, now, "give"); !has)
    return refused("pool " + pool->name + " would mint nothing", has.error());
  return {};
}

Result<void> check_made(const Definition& made, const FormatOptions& options) {
  const bool is_pool = std::holds_alternative<PoolDefinition>(made);
  for (const OptionName& row : kOptions) {
    if (!row.given(options) || (is_pool && row.option == kWindow)) continue;
    return fail(
        Code::kInvalidArgument,
        "\"" + name(made) + "\" is no format" +
            (is_pool ? ": it is a pool, which leases its worker ids, and what it prints is settled "
                       "when it is created"
                     : ", and what a sequence prints is settled when it is created") +
            ": leave out " + std::string(row.what),
        {.remedy = Remedy::kSetOption, .values = {std::string(row.member)}});
  }
  return {};
}

std::optional<Hint> hint_for(std::string_view name) {
  const std::string lower = lower_case(name);
  if (is_preset(lower))
    return Hint{"it is a layout of snowflake",
                {.remedy = Remedy::kMintSnowflake, .values = {lower}}};
  if (lower == "random" || lower == "permuted")
    return Hint{"it is a strategy: create a sequence of it",
                {.remedy = Remedy::kCreateSequence, .subject = "codes", .values = {lower}}};
  const auto* const row = std::ranges::find(kReserved, lower, &Reserved::name);
  if (row == kReserved.end()) return std::nullopt;
  Advice advice{row->remedy, std::string(row->subject)};
  if (!row->value.empty()) advice.values.emplace_back(row->value);
  return Hint{std::string(row->instead), std::move(advice)};
}

Result<std::unique_ptr<Source>> open_format(std::string_view name, const FormatOptions& options,
                                            const MadeWith& mint) {
  const Format& format = *find_format(name);
  const Opener* const opener = opener_of(format);
  const unsigned options_taken = opener != nullptr ? opener->options : kForm;
  if (Result<void> taken = check_options(format, options_taken, options); !taken) {
    return std::unexpected(std::move(taken.error()));
  }
  return opener != nullptr ? opener->open(*opener, options, mint)
                           : open_plain(format, options, mint);
}

}  // namespace idmint
