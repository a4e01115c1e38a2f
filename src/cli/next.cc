#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "cli/commands.h"
#include "cli/given.h"
#include "cli/numbers_option.h"
#include "cli/source_options.h"
#include "cli/store_option.h"
#include "mint/sequence_facts.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

struct NextOptions {
  std::string source;
  std::string count = "1";
  FormatTexts format;
  std::optional<std::string> timeout;
  bool wait = false;  // for a worker id
  bool numbers = false;
};

constexpr std::array kMeantByNext = {Meant{"--number", "-n"}, Meant{"--num", "-n"},
                                     Meant{"--amount", "-n"}, Meant{"-c", "-n"}};

void add_next(CLI::App& command, NextOptions& given) {
  std::string formats;
  for (const Declaration& format : Mint::formats()) {
    formats += (formats.empty() ? "" : ", ") + format.name;
  }
  command.add_option("SOURCE", given.source, "A format (" + formats + "), a sequence or a pool")
      ->required()
      ->type_name("");
  command.add_option("-n,--count", given.count, "How many ids (1)")->type_name("N");
  add_form(command, given.format.form);
  add_snowflake(command, given.format);
  command
      .add_option("--window", given.format.window,
                  "a pool: how far ahead of the clock its lease is kept, and so how long ids are "
                  "minted while the store does not answer (15s); at least two units of its layout, "
                  "at most 1h")
      ->type_name("T");
  command.add_flag(
      "--wait", given.wait,
      "a pool: if every worker id is owned, wait until the first one is no longer held "
      "(at most 15s after its owner was killed), instead of --timeout");
  command
      .add_option(
          "--node", given.format.node,
          "uuid1, uuid2: mac (default for uuid2), random (only uuid1, its default) or 12 hex "
          "digits")
      ->type_name("NODE");
  command.add_option("--domain", given.format.domain, "uuid2: person, group or org")
      ->type_name("D");
  command
      .add_option("--local-id", given.format.local_id,
                  "uuid2: the id within the domain, such as a user id")
      ->type_name("N");
  add_timeout(command, given.timeout, "5s");
  add_numbers(command, given.numbers);
  add_over(command);
  add_store(command, Stays::kNo);
  add_also(command);
}

// The batch of a local generator: small enough for the processor's cache.
constexpr std::int64_t kBatch = 1024;
// The batch of a sequence, where each batch is one durable step.
constexpr std::int64_t kLargestTake = 1'000'000;
// The first step of a count that takes several. Each is twice as large as the one before, so that a
// reader that wants few, as in "| head -1", loses few.
constexpr std::int64_t kFirstTake = 1000;

std::int64_t largest_batch(const Declaration& declaration) {
  if (declaration.guarantee >= Guarantee::kUnique && declaration.format != "snowflake")
    return kLargestTake;
  // There are 64 ids in 7 minutes, each a durable step: those available are printed.
  return declaration.name == "uuid2" ? 1 : kBatch;
}

void print_text(Output& out, std::span<const Id> ids, const Form& form) {
  // Separate, because plain texts are printed at tens of millions a second.
  if (form == Form{}) {
    for (const Id& id : ids) {
      char* end = to_chars(id, out.reserve(kMaxIdChars + 1));
      *end++ = '\n';
      out.commit(end);
    }
    return;
  }
  for (const Id& id : ids) {
    char* end = to_chars(id, form, out.reserve(kMaxFormChars + 1));
    *end++ = '\n';
    out.commit(end);
  }
}

// The characters of ids, names and prefixes need no escape in JSON.
void print_json(Output& out, std::span<const Id> ids, const std::string& source, const Form& form,
                bool numbers) {
  constexpr std::string_view start = R"({"id":)";
  const std::string finish = R"(,"source":")" + source + "\"}\n";
  const bool plain = form == Form{};
  for (const Id& id : ids) {
    const bool bare = numbers && plain && is_integer(id);
    char* end = out.reserve(start.size() + kMaxFormChars + 2 + finish.size());
    end = std::ranges::copy(start, end).out;
    if (!bare) *end++ = '"';
    end = plain ? to_chars(id, end) : to_chars(id, form, end);
    if (!bare) *end++ = '"';
    end = std::ranges::copy(finish, end).out;
    out.commit(end);
  }
}

std::string are_left(std::int64_t values) {
  return std::to_string(values) + (values == 1 ? " is left" : " are left");
}

Result<void> run_next(Context& context, const NextOptions& wanted) {
  const Result<FormatOptions> format = format_options(wanted.source, wanted.format);
  if (!format) return std::unexpected(format.error());
  const Result<std::int64_t> count_given =
      whole_number("-n", wanted.count, 1, std::numeric_limits<std::int64_t>::max());
  if (!count_given) return std::unexpected(count_given.error());
  const std::int64_t count = *count_given;
  MintOptions options = mint_options(context);
  const auto timeout = timeout_option(wanted.timeout, options.store_options.deadline);
  if (!timeout) return std::unexpected(timeout.error());
  options.store_options.deadline = *timeout;
  context.prints_ids = true;
  Output& out = context.out;
  // Opening and the first ids share one deadline; each later batch has its own.
  SteadyTime until = std::chrono::steady_clock::now() + *timeout;
  std::optional<Progress> waiting;
  if (wanted.wait) {
    options.wait_on = [&waiting](std::chrono::milliseconds waited, std::chrono::milliseconds of) {
      using std::chrono::ceil;
      using std::chrono::seconds;
      if (!waiting)
        waiting.emplace("s of waiting for a worker id", ceil<seconds>(of).count(), Results::kAtEnd);
      waiting->show(std::chrono::floor<seconds>(waited).count());
      return stop_signal() == 0;
    };
  }
  Mint mint(std::move(options));
  const Result<std::unique_ptr<Source>> source = mint.source(wanted.source, *format);
  if (!source) return std::unexpected(with_given_before(source.error(), mint, wanted.source));
  const Declaration& declaration = (*source)->declaration();
  const bool durable = declaration.guarantee >= Guarantee::kUnique;
  const bool is_pool = declaration.kind == SourceKind::kPool;
  if (wanted.wait && !is_pool)
    return std::unexpected(Error{
        Code::kInvalidArgument,
        "--wait waits for a worker id of a pool, and " + wanted.source + " is none: leave it out"});

  // The store refuses one step as a whole. Ranges are not, and the values of them that this process
  // holds are lost when it ends.
  const bool in_ranges = declaration.order == Order::kPerThread;
  if (durable && (count > kLargestTake || (in_ranges && count > 1))) {
    const Result<SequenceStatus> status = mint.peek(wanted.source, until);
    if (!status) return std::unexpected(status.error());
    const bool counted = !idmint::is_pool(*status);  // for a pool, `left` counts worker ids
    if (counted && status->left < count && status->left > 0) {
      return std::unexpected(Error{Code::kOutOfRange, std::to_string(count) + " values of \"" +
                                                          wanted.source + "\" were asked for, " +
                                                          are_left(status->left) +
                                                          ": none was taken"});
    }
  }

  std::vector<Id> batch(static_cast<std::size_t>(std::min(count, largest_batch(declaration))));
  Progress progress("ids", count);
  stop_at_signals();
  std::int64_t done = 0;
  std::int64_t step = durable && count > kLargestTake ? kFirstTake : kLargestTake;
  while (done < count && !out.failed()) {
    if (const int signal = stop_signal(); signal != 0) {
      context.stopped_by = signal;
      break;
    }
    const std::span<Id> ids = std::span(batch).first(static_cast<std::size_t>(
        std::min({count - done, step, static_cast<std::int64_t>(batch.size())})));
    step = std::min(2 * step, kLargestTake);
    Result<void> filled = (*source)->next(ids, std::exchange(until, SteadyTime::max()));
    waiting.reset();
    if (!filled) {
      if (wanted.wait && stop_signal() != 0) continue;  // the signal ended the wait
      Error error = worded(std::move(filled.error()));
      if (error.code == Code::kOutOfRange && count > 1 && done == 0) {
        if (const auto status = mint.peek(wanted.source);
            status && status->left > 0 && !idmint::is_pool(*status))
          add_outcome(error, are_left(status->left));
      }
      if (done != 0) add_outcome(error, std::to_string(done) + " ids were printed before");
      return std::unexpected(std::move(error));
    }
    if (context.json) {
      print_json(out, ids, wanted.source, declaration.form, wanted.numbers);
    } else {
      print_text(out, ids, declaration.form);
    }
    if (durable) {
      out.flush();
      note_given(mint, wanted.source, ids.back());
    }
    done += static_cast<std::int64_t>(ids.size());
    progress.show(done);
  }
  return {};
}

}  // namespace

const Command kNext = {"next",
                       "Print new ids, one a line",
                       with_options<NextOptions, add_next, run_next>,
                       R"(Ids of a sequence are taken from its store before they are printed, up to
1000000 in one step: all or none (exit status 6). A larger N takes steps of
1000, 2000, 4000 and so on up to 1000000. If fewer than N are left, nothing is
taken, unless another process takes at the same time. Ids that were taken and
could not be printed are lost; they never come again.
With --json each id is one line {"id":...,"source":...}. Ids are strings. With
--numbers integers without a form (prefix, digits, encoding, check) are numbers.

Opening the store and taking the first ids together take --timeout at most; each
further step may take as long again. Exit status 7: nothing more was taken; 11:
ids may have been taken, which are lost. A format that keeps a state file waits
as long for its holder.

The ids of a pool are Snowflake ids of a worker id that this process leases. If
all are owned, it waits --timeout for one, then ends with exit status 8 and says
until when the first one is held. With --wait it waits until then.

Examples:
  $ idmint next uuid7
  $ idmint next uuid7 -n 3
  $ idmint create web --kind pool --layout sequence-generator
  $ idmint next web
  $ idmint next snowflake --worker 5
  $ idmint next snowflake --layout twitter --worker mac
  $ POD=7 idmint next snowflake --worker env:POD
  $ idmint next typeid --prefix user
  $ idmint next digits --digits 16 --prefix 4 --check luhn
  $ idmint next uuid7 --encoding base58
  $ idmint create orders --start 1000
  $ idmint next orders -n 5 --json
)",
                       {},
                       kMeantByNext,
                       "-n"};

}  // namespace idmint::cli
