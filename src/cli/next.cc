#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/json.h"
#include "idmint/clock.h"
#include "idmint/snowflake.h"
#include "mint/formats.h"
#include "mint/seen.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::cli {

namespace {

// Of a local generator: small enough to stay in the processor's cache.
constexpr std::int64_t kBatch = 1024;
// Of a sequence, where each batch is one durable step.
constexpr std::int64_t kLargestTake = 1'000'000;

std::int64_t largest_batch(const Declaration& declaration) {
  if (declaration.guarantee >= Guarantee::kUnique && declaration.format != "snowflake")
    return kLargestTake;
  // There are 64 in 7 minutes, each a durable step of its own: those that there were are printed.
  return declaration.name == "uuid2" ? 1 : kBatch;
}

void print_text(Output& out, std::span<const Id> ids, const Form& form) {
  // Apart, as the plain texts are printed tens of millions a second.
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

// The characters of ids and of names need no escape in JSON, nor do those of prefixes.
void print_json(Output& out, std::span<const Id> ids, const std::string& source, const Form& form) {
  constexpr std::string_view start = R"({"id":)";
  const std::string finish = R"(,"source":")" + source + "\"}\n";
  const bool plain = form == Form{};
  for (const Id& id : ids) {
    const auto* const integer = std::get_if<std::int64_t>(&id);
    const bool bare = plain && integer != nullptr && *integer <= kLargestJsonNumber;
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

}  // namespace

void note_given(Mint& mint, std::string_view source, const Id& last,
                std::string_view used_in) noexcept try {
  const auto* const integer = std::get_if<std::int64_t>(&last);
  const auto* const snowflake = std::get_if<Snowflake>(&last);
  if (is_format(source) || (integer == nullptr && snowflake == nullptr)) return;
  const Result<std::shared_ptr<Store>> store = mint.store();
  if (!store) return;
  note_seen({(*store)->id(), std::string((*store)->url())},
            {.source = std::string(source),
             .at = system_clock().now(),
             .value = integer != nullptr ? *integer : static_cast<std::int64_t>(snowflake->value()),
             .used_in = std::string(used_in)});
} catch (const std::bad_alloc&) {
  return;
}

std::vector<Seen> seen_of(const Store& store, bool in_doubt) {
  return in_doubt ? read_seen_anywhere(store.id())
                  : read_seen({store.id(), std::string(store.url())});
}

std::string given_here(const Seen& seen) {
  return "this host was given " + std::to_string(seen.value) + " at " + format_time(seen.at);
}

Result<void> run_next(Context& context) {
  const Arguments& arguments = context.arguments;
  Output& out = context.out;
  // Opening and the first ids share one deadline; each batch after it has as long again.
  SteadyTime until =
      std::chrono::steady_clock::now() + arguments.timeout.value_or(StoreOptions{}.deadline);
  MintOptions options = mint_options(arguments);
  std::optional<Progress> waiting;
  if (arguments.wait) {
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
  const Result<std::unique_ptr<Source>> source = mint.source(arguments.name, arguments.format);
  if (!source) return std::unexpected(source.error());
  const Declaration& declaration = (*source)->declaration();
  const bool durable = declaration.guarantee >= Guarantee::kUnique;
  const bool is_pool = durable && declaration.format == "snowflake";
  if (arguments.wait && !is_pool)
    return std::unexpected(
        Error{Code::kInvalidArgument, "--wait waits for a worker id of a pool, and " +
                                          arguments.name + " is none: leave it out"});

  // What is taken in one step is refused whole by the store. Ranges are not, and what this process
  // holds of them is lost when it ends.
  const bool in_ranges = declaration.order == order(Strategy::kCached);
  if (durable && (arguments.count > kLargestTake || (in_ranges && arguments.count > 1))) {
    const Result<SequenceStatus> status = mint.peek(arguments.name, until);
    if (!status) return std::unexpected(status.error());
    const bool counted = !status->definition.layout;  // of a pool, left are worker ids
    if (counted && status->left < arguments.count && status->left > 0) {
      return std::unexpected(
          Error{Code::kOutOfRange, std::to_string(arguments.count) + " values of \"" +
                                       arguments.name + "\" were asked for, " +
                                       are_left(status->left) + ": none was taken"});
    }
  }

  std::vector<Id> batch(
      static_cast<std::size_t>(std::min(arguments.count, largest_batch(declaration))));
  Progress progress("ids", arguments.count);
  stop_at_signals();
  std::int64_t done = 0;
  while (done < arguments.count && !out.failed()) {
    if (const int signal = stop_signal(); signal != 0) {
      context.stopped_by = signal;
      break;
    }
    const std::span<Id> ids = std::span(batch).first(static_cast<std::size_t>(
        std::min(arguments.count - done, static_cast<std::int64_t>(batch.size()))));
    Result<void> filled = (*source)->next(ids, std::exchange(until, SteadyTime::max()));
    waiting.reset();
    if (!filled) {
      if (arguments.wait && stop_signal() != 0) continue;  // it ended the waiting
      Error error = std::move(filled.error());
      if (error.code == Code::kOutOfRange && arguments.count > 1 && done == 0) {
        if (const auto status = mint.peek(arguments.name);
            status && status->left > 0 && !status->definition.layout)
          error.message += "; " + are_left(status->left);
      }
      if (done != 0) error.message += "; " + std::to_string(done) + " ids were printed before";
      return std::unexpected(std::move(error));
    }
    if (arguments.json) {
      print_json(out, ids, arguments.name, declaration.form);
    } else {
      print_text(out, ids, declaration.form);
    }
    if (durable) {
      out.flush();
      note_given(mint, arguments.name, ids.back());
    }
    done += static_cast<std::int64_t>(ids.size());
    progress.show(done);
  }
  return {};
}

}  // namespace idmint::cli
