// doctor: examines the store, the state files, the clock and the layouts; changes nothing.
#include <sys/statfs.h>
#include <sys/timex.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "advice/diagnosis.h"
#include "base/data_folder.h"
#include "base/errors.h"
#include "base/quantity.h"
#include "base/sqlite_url.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/given.h"
#include "cli/json.h"
#include "cli/store_option.h"
#include "idmint/mongodb.h"
#include "idmint/store.h"
#include "ids/format.h"
#include "ids/state_file.h"
#include "mint/formats.h"
#include "mint/seen.h"
#include "mint/sequence_facts.h"
#include "terminal/exit_status.h"

namespace idmint::cli {

using namespace advice;

namespace {

// As given.
struct DoctorOptions {
  std::string warn_below = "10%";
  std::string horizon = "90d";
  std::vector<std::string> rates;    // NAME=RATE
  std::vector<std::string> used_in;  // NAME=DATABASE.COLLECTION:FIELD
  std::vector<std::string> ignored;  // names of kChecks
  bool all = false;                  // layouts that nothing uses too
};

// The values of --ignore: the kinds of findings, with a dash for a blank. The store is not among
// them, since the others are read from it.
constexpr std::array<std::string_view, 8> kChecks = {"disk", "data-folder", "record", "sequence",
                                                     "pool", "state-file",  "clock",  "layout"};

std::string names_of_checks() {
  std::string names;
  for (const std::string_view check : kChecks)
    names += (names.empty() ? "" : ", ") + std::string(check);
  return names;
}

void add_doctor(CLI::App& command, DoctorOptions& given) {
  command
      .add_option("--warn-below", given.warn_below,
                  "Warn of a sequence with less than this part left (10%)")
      ->type_name("P");
  command.add_option("--horizon", given.horizon, "Warn of what ends sooner (90d)")->type_name("T");
  command.add_flag("--all", given.all, "List every layout, used here or not");
  command.add_option("--rate", given.rates, "The rate of a sequence, NAME=50k/s; may be repeated")
      ->type_name("R");
  command
      .add_option("--used-in", given.used_in,
                  "A field with values in use, NAME=DATABASE.COLLECTION:FIELD; may be repeated")
      ->type_name("F");
  command
      .add_option("--ignore", given.ignored,
                  "Leave a check out: " + names_of_checks() + "; may be repeated")
      ->type_name("CHECK");
  add_over(command);
  add_store(command);
}

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Rate {
  std::string sequence;
  double per_second = 0;
};

// A field of a collection of MongoDB with values of a sequence or pool.
struct Place {
  std::string sequence;
  std::string collection;  // "DATABASE.COLLECTION"
  std::string field;

  friend bool operator==(const Place&, const Place&) = default;
};

struct Wanted {
  Limits limits;
  std::vector<Rate> rates;
  std::vector<Place> places;
};

// "DATABASE.COLLECTION:FIELD".
std::optional<Place> field_of(std::string sequence, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || sequence.empty()) return std::nullopt;
  return Place{std::move(sequence), std::string(text.substr(0, colon)),
               std::string(text.substr(colon + 1))};
}

Result<Wanted> read_wanted(const DoctorOptions& given) {
  Wanted wanted;
  const Result<double> least = parse_percent(given.warn_below);
  if (!least) {
    return std::unexpected(Error{least.error().code, "--warn-below: " + least.error().message()});
  }
  wanted.limits.least_left = *least;
  const Result<std::chrono::nanoseconds> horizon = parse_duration(given.horizon);
  if (!horizon) {
    return std::unexpected(Error{horizon.error().code, "--horizon: " + horizon.error().message()});
  }
  wanted.limits.horizon = *horizon;
  for (const std::string& text : given.rates) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return std::unexpected(
          Error{Code::kInvalidArgument, "--rate is \"" + shortened(text) + "\": give NAME=50k/s"});
    }
    const Result<double> rate = parse_rate(text.substr(equals + 1));
    if (!rate)
      return std::unexpected(Error{rate.error().code, "--rate: " + rate.error().message()});
    wanted.rates.push_back({text.substr(0, equals), *rate});
  }
  for (const std::string& text : given.used_in) {
    const std::size_t equals = text.find('=');
    auto place = equals == std::string::npos
                     ? std::optional<Place>()
                     : field_of(text.substr(0, equals), std::string_view(text).substr(equals + 1));
    if (!place) {
      return std::unexpected(
          Error{Code::kInvalidArgument,
                "--used-in is \"" + shortened(text) + "\": give NAME=DATABASE.COLLECTION:FIELD"});
    }
    wanted.places.push_back(*std::move(place));
  }
  for (const std::string& check : given.ignored) {
    if (std::ranges::find(kChecks, check) != kChecks.end()) continue;
    return refuse("--ignore: there is no check \"" + shortened(check) + "\": give one of " +
                  names_of_checks());
  }
  return wanted;
}

bool is_ignored(const Finding& finding, const std::vector<std::string>& ignored) {
  std::string check = finding.kind;
  std::ranges::replace(check, ' ', '-');
  return std::ranges::find(ignored, check) != ignored.end();
}

// `local`: the URL states that no other host uses the file system.
Finding on_disk(const fs::path& folder, bool local) {
  struct ::statfs system{};
  if (::statfs(folder.c_str(), &system) != 0) {
    return {Health::kFail, "disk", folder.string(),
            "cannot look at it (" + std::generic_category().message(errno) + ")"};
  }
  return diagnose_disk(folder.string(),
                       static_cast<double>(system.f_bavail) * static_cast<double>(system.f_bsize),
                       local ? 0 : system.f_type);
}

Finding look_at_pool(Mint& mint, SequenceStatus status, const Limits& limits, Instant now) {
  std::vector<LeaseState> workers;
  if (!is_retired(status.definition) && !status.error) {
    Result<std::vector<LeaseState>> read = mint.list_workers(name(status.definition));
    if (read) {
      workers = *std::move(read);
    } else {
      status.error = std::move(read.error());
    }
  }
  return diagnose_pool(status, workers, limits, now);
}

// Appends its advice in words; later additions follow them. Can be repeated.
void word(Finding& finding) { finding.text += in_words(std::exchange(finding.advice, {})); }

// Whether the store may hold less than it handed out.
std::optional<Finding> look_for_doubt(Mint& mint, const std::string& store) {
  const Result<std::shared_ptr<Store>> opened = mint.store();
  if (!opened) return std::nullopt;  // not made yet; mint.list() has reported other errors
  const std::optional<Error> doubt = (*opened)->doubt();
  if (!doubt) return std::nullopt;
  return Finding{Health::kFail, "store", store, doubt->message(), doubt->advice};
}

// Whether this host can record what it was given, so that an older state of a store is noticed.
std::optional<Finding> look_at_data_folder(Mint& mint) {
  const auto warning = [](const std::string& folder, std::string why) {
    return Finding{Health::kWarn, "data folder", folder, std::move(why)};
  };
  const Result<fs::path> folder = data_folder();
  const std::string name = folder ? folder->string() : "";
  const Result<std::shared_ptr<Store>> store = mint.store();
  if (store)
    if (const auto why = (*store)->unrecorded()) return warning(name, why->message());
  if (!folder)
    return warning("none",
                   "neither XDG_DATA_HOME nor HOME holds an absolute path: nothing is recorded of "
                   "what this host was given; set one");
  if (const Result<void> usable = can_keep_files(*folder); !usable)
    return warning(name, usable.error().message());
  return std::nullopt;
}

// The values that were handed out for certain: those that this host noted, and those in
// collections. Compares the store with them.
class Evidence {
 public:
  Evidence(Mint& mint, const std::string& url, std::vector<Place> places)
      : mint_(mint), url_(url), places_(std::move(places)) {
    const Result<std::shared_ptr<Store>> store = mint.store();
    if (store) seen_ = seen_of(**store, (*store)->doubt().has_value());
    for (const Seen& seen : seen_) {
      const auto place = field_of(seen.source, seen.used_in);
      if (place && std::ranges::find(places_, *place) == places_.end()) places_.push_back(*place);
    }
  }

  [[nodiscard]] Finding compare(const SequenceStatus& status, Finding finding) const {
    const Definition& definition = status.definition;
    if (is_retired(definition) || status.error) return finding;
    for (const Seen& seen : seen_) {
      if (seen.source != name(definition) || has(definition, seen.value)) continue;
      return diagnose_lost(std::move(finding), definition, seen.value, given_here(seen));
    }
    for (const Place& place : places_) {
      if (place.sequence != name(definition)) continue;
      const Result<std::optional<std::int64_t>> largest = largest_in(place, definition);
      if (!largest) {
        finding.health = std::max(finding.health, Health::kWarn);
        word(finding);
        finding.text += "; it cannot be compared with its values in use (" +
                        worded(largest.error()).message() + ")";
        continue;
      }
      const std::optional<std::int64_t> value = *largest;
      if (value && !has(definition, *value)) {
        return diagnose_lost(
            std::move(finding), definition, *value,
            place.collection + " has " + std::to_string(*value) + " in " + place.field,
            FieldInUse{place.collection, place.field});
      }
    }
    return finding;
  }

  // Reports sources that are missing from the store altogether.
  void missing(const std::vector<SequenceStatus>& all, std::vector<Finding>& findings) const {
    std::set<std::string> reported;
    for (const Seen& seen : seen_) {
      const bool there = std::ranges::any_of(all, [&](const SequenceStatus& status) {
        return name(status.definition) == seen.source;
      });
      if (there || !reported.insert(seen.source).second) continue;
      findings.push_back({Health::kFail, "sequence", seen.source,
                          given_here(seen) +
                              ", and the store has nothing of that name: an older state of it was "
                              "restored; create it to begin above every value in use, or give it "
                              "another name"});
    }
  }

 private:
  // A value that the sequence cannot have proves nothing.
  [[nodiscard]] bool has(const Definition& definition, std::int64_t value) const {
    return mint_.has_given(name(definition), value).value_or(true);
  }

  [[nodiscard]] Result<std::optional<std::int64_t>> largest_in(const Place& place,
                                                               const Definition& definition) const {
    const bool pool = std::holds_alternative<PoolDefinition>(definition);
    const auto [first, last] = pool ? Ends{0, kLargestValue} : ends_of(definition);
    const auto values =
        ExistingValues::open(url_, place.collection, place.field, {form(definition), first, last});
    if (!values) return std::unexpected(values.error());
    return (*values)->largest(first, last);
  }

  Mint& mint_;
  const std::string& url_;
  std::vector<Place> places_;
  std::vector<Seen> seen_{};
};

// Whether programs of this host can compare what they get with what was given before. REQUIRES:
// the data folder can be used.
std::optional<Finding> look_at_record(Mint& mint) {
  const Result<std::shared_ptr<Store>> opened = mint.store();
  const StoreKind* const kind = opened ? store_kind((*opened)->url()) : nullptr;
  if (kind == nullptr || !kind->lasts) return std::nullopt;
  const SeenStore store{(*opened)->name_on_host(), std::string((*opened)->url())};
  const SeenFile record = read_seen_file(store);
  const std::string lost =
      ", so what this host was given is not known, and an older state of the store is noticed by "
      "its own means alone";
  switch (record.state) {
    case SeenFile::State::kUnreadable:
      return Finding{Health::kWarn, "record", record.path,
                     "it cannot be read (" + record.why + ")" + lost +
                         ": make it a file that this user can read"};
    case SeenFile::State::kDamaged:
      return Finding{Health::kWarn, "record", record.path,
                     "some of it is damaged" + lost +
                         ": see that the store has every value in use, and remove the file"};
    case SeenFile::State::kMissing:
      return Finding{.health = Health::kOk,
                     .kind = "record",
                     .subject = record.path,
                     .text = "none yet: this host was given nothing that is known of"};
    case SeenFile::State::kRead:
      break;
  }
  return std::nullopt;
}

// Examines the store, and every sequence and pool in it.
Result<void> look_at_store(const Context& context, const Wanted& wanted, Instant now,
                           std::vector<Finding>& findings) {
  Mint mint = open_mint(context, Access::kReadOnly);
  const Result<std::string> url = mint.store_url();
  if (!url) return std::unexpected(url.error());
  const std::string& shown = *url;
  const Result<std::vector<SequenceStatus>> all = mint.list();
  if (!all) {
    if (all.error().code == Code::kInvalidArgument) return std::unexpected(all.error());
    const Error& why = all.error();
    findings.push_back({Health::kFail, "store", shown, why.message(), why.advice});
    return {};
  }
  const StoreKind* const kind = store_kind(*url);
  const bool is_file = kind != nullptr && kind->is_file;
  const SqliteUrl file = is_file ? *parse_sqlite_url(*url) : SqliteUrl();  // the store opened
  std::error_code ignored;
  const bool made = !is_file || fs::exists(file.path, ignored);
  findings.push_back(look_for_doubt(mint, shown)
                         .value_or(Finding{Health::kOk, "store", shown,
                                           !made ? "not made yet: nothing was ever created"
                                           : kind == nullptr || kind->durability.empty()
                                               ? "opens"
                                               : "opens; " + std::string(kind->durability)}));
  if (is_file && made) {
    findings.push_back(on_disk(fs::path(file.path).parent_path(), file.local_file_system));
  }
  const std::optional<Finding> no_folder = look_at_data_folder(mint);
  if (no_folder) findings.push_back(*no_folder);
  const auto check_named = [&](std::string_view option, const std::string& name) -> Result<void> {
    const bool there = std::ranges::any_of(*all, [&](const SequenceStatus& status) {
      return idmint::name(status.definition) == name;
    });
    if (there) return {};
    return std::unexpected(
        Error{Code::kNotFound, std::string(option) + ": there is no sequence \"" + shortened(name) +
                                   "\" in " + shown + ": see idmint list"});
  };
  for (const Rate& rate : wanted.rates) {
    if (Result<void> named = check_named("--rate", rate.sequence); !named) return named;
  }
  for (const Place& place : wanted.places) {
    if (Result<void> named = check_named("--used-in", place.sequence); !named) return named;
  }
  if (!all->empty() && !no_folder)
    if (std::optional<Finding> record = look_at_record(mint))
      findings.push_back(*std::move(record));
  const Evidence evidence(mint, store_given(), wanted.places);
  for (const SequenceStatus& status : *all) {
    if (is_pool(status)) {
      findings.push_back(evidence.compare(status, look_at_pool(mint, status, wanted.limits, now)));
      continue;
    }
    const auto rate = std::ranges::find(wanted.rates, name(status.definition), &Rate::sequence);
    findings.push_back(evidence.compare(
        status,
        diagnose(status,
                 rate != wanted.rates.end() ? std::optional(rate->per_second) : std::nullopt,
                 wanted.limits, now)));
  }
  evidence.missing(*all, findings);
  return {};
}

std::string as_used(int time_bits, const std::string& in_file_name) {
  return std::to_string(time_bits) + 't' + in_file_name;
}

// Examines the state files in idmint's default folder, and adds their layouts to `used`.
void look_at_state_files(const Limits& limits, Instant now, std::vector<Finding>& findings,
                         std::vector<std::string>& used) {
  const Result<std::string> store = Mint().store_url();  // sqlite:DATA/ids.db
  if (!store) return;
  const fs::path folder = fs::path(parse_sqlite_url(*store)->path).parent_path();
  std::error_code failed;
  std::vector<fs::path> files;
  for (auto entry = fs::directory_iterator(folder, failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string file = entry->path().filename().string();
    const bool known =
        file.starts_with("snowflake-") || file.starts_with("uuid1-") || file.starts_with("uuid2-");
    if (known && file.ends_with(".state")) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    constexpr std::string_view snowflake = "snowflake-";
    constexpr std::size_t prefix = snowflake.size();
    const std::string file_name = file.filename().string();
    const std::size_t dash = file_name.rfind('-');
    const Result<StateFileContent> content =
        read_state_file(file, file_name.starts_with("uuid1-")   ? "node"
                              : file_name.starts_with("uuid2-") ? "local id"
                                                                : "worker id");
    std::optional<IdSpace> space =
        content ? parse_id_space(content->id_space) : std::optional<IdSpace>();
    if (space && content->words[0] <= 62) space->time_bits = static_cast<int>(content->words[0]);
    if (space && dash > prefix) {
      used.push_back(as_used(space->time_bits, file_name.substr(prefix, dash - prefix)));
    }
    const std::optional<Finding> of_uuid =
        content ? diagnose_uuid_state(file_name, content->id_space, content->minted_until, now)
                : std::nullopt;
    if (of_uuid) {
      findings.push_back(*of_uuid);
    } else if (!content) {
      findings.push_back({Health::kFail, "state file", file_name, content.error().message()});
    } else if (!space) {
      findings.push_back({Health::kFail, "state file", file_name,
                          "it is for what this idmint does not know (" + content->id_space + ")"});
    } else {
      findings.push_back(diagnose_state(file_name, *space, content->minted_until, limits, now));
    }
  }
}

void look_at_layouts(const Limits& limits, Instant now, const std::vector<std::string>& used,
                     std::vector<Finding>& findings) {
  for (const SnowflakePreset& preset : snowflake_presets()) {
    const std::string layout = as_used(preset.layout.time_bits, in_file_names(preset.layout));
    const bool here = std::ranges::find(used, layout) != used.end();
    findings.push_back(diagnose_end("snowflake " + std::string(preset.name), end_of(preset.layout),
                                    here ? Use::kYes : Use::kNo, limits, now));
  }
  // Those that end within the years of an Instant, the first to end first.
  std::vector<std::pair<std::chrono::sys_seconds, std::string_view>> ending;
  for (const Format* const format : kinds()) {
    if (format->ends && *format->ends <= std::chrono::floor<std::chrono::seconds>(Instant::max()))
      ending.emplace_back(*format->ends, format->name);
  }
  std::ranges::sort(ending);
  for (const auto& [ends, name] : ending) {
    findings.push_back(diagnose_end(name, Instant{ends}, Use::kPerhaps, limits, now));
  }
}

Finding look_at_clock() {
  ::timex state{};
  const int answer = ::adjtimex(&state);
  if (answer < 0) {
    return {Health::kWarn, "clock", "system",
            "cannot ask the kernel (" + std::generic_category().message(errno) + ")"};
  }
  return diagnose_clock(answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0,
                        std::chrono::microseconds{state.maxerror});
}

Result<void> run_doctor(Context& context, const DoctorOptions& given) {
  const Result<Wanted> wanted = read_wanted(given);
  if (!wanted) return std::unexpected(wanted.error());
  const Instant now = system_clock().now();
  std::vector<Finding> findings;
  if (Result<void> looked = look_at_store(context, *wanted, now, findings); !looked) {
    return looked;
  }
  std::vector<std::string> used;
  look_at_state_files(wanted->limits, now, findings, used);
  findings.push_back(look_at_clock());
  look_at_layouts(wanted->limits, now, used, findings);
  std::erase_if(findings, [&](const Finding& each) { return is_ignored(each, given.ignored); });

  Health worst = Health::kOk;
  for (Finding& finding : findings) {
    word(finding);
    worst = std::max(worst, finding.health);
  }
  constexpr std::array statuses = {0, kDoctorWarned, kDoctorFailed};
  context.status = statuses[static_cast<std::size_t>(worst)];
  if (context.json) {
    context.out.write(json_findings(worst, findings) + "\n");
    return {};
  }
  constexpr std::array styles = {"32", "33", "31"};  // green, yellow, red
  std::size_t others = 0;
  for (const Finding& finding : findings) {
    if (!finding.matters && !given.all) {
      ++others;
      continue;
    }
    const std::string word(name(finding.health));
    const std::string padding(6 - word.size(), ' ');
    context.out.write_styled(styles[static_cast<std::size_t>(finding.health)], word);
    context.out.write_line(padding + finding.kind + " " + finding.subject + ": " + finding.text);
  }
  if (others != 0) {
    const std::chrono::duration<double> horizon = wanted->limits.horizon;
    context.out.write("ok    layouts: " + std::to_string(others) +
                      " more, not used here or not ending within " +
                      print_duration(horizon.count()) + " (--all lists them)\n");
  }
  return {};
}

}  // namespace

const Command kDoctor = {
    "doctor", "Say what runs out when, and what is wrong",
    with_options<DoctorOptions, add_doctor, run_doctor>,
    R"(Prints one line for the store, its disk, every sequence and pool, every state
file, the clock, and each layout that has a state file or ends within --horizon;
with --all every layout. Each line begins with ok, warn or fail. Nothing is
changed. --json lists everything.
The store is compared with the last values that programs of this host were
given, and with the largest value in each field that insert filled or --used-in
names. The record of these values in the data folder is examined too. A store
that lacks one of these values was set back, as by a restore, and would give
values again.
--ignore leaves a check out of the list and of the exit status: clock, for
example, in a container whose kernel does not tell whether the clock is
synchronised.
Exit status: 0 all ok, 20 a warning, 21 a failure; other failures as for every
command.

Examples:
  $ idmint doctor
  $ idmint create orders --max 1000000000
  $ idmint doctor --rate orders=100/s --horizon 30d
  $ idmint doctor --json --warn-below 5%
  $ idmint doctor --ignore clock --ignore disk
)"};

}  // namespace idmint::cli
