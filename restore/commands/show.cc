// show: entries of an oplog as extended JSON.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "base/errors.h"
#include "base/text.h"
#include "restore/commands/commands.h"
#include "restore/commands/options.h"
#include "restore/error_in.h"
#include "restore/oplog/fields.h"
#include "restore/oplog/source.h"
#include "restore/server.h"
#include "terminal/exit_status.h"
#include "terminal/progress.h"
#include "terminal/stop.h"

namespace idmint::restore {
namespace {

struct ShowOptions {
  std::string oplog;
  std::string since;
  std::string until;
  bool not_sharded = false;
};

// The value under a name that extended JSON has for it: {"$code": TEXT}.
Bson named(const char* name, std::string_view bytes) {
  const std::string text = as_utf8(bytes);
  return Bson(name, std::string_view(text));
}

std::string_view text_at(std::span<const std::uint8_t> value, std::size_t at, std::size_t size) {
  return {reinterpret_cast<const char*>(value.data()) + at, size};
}

// The data of binary data of subtype 2. The specification puts their length in front, which older
// drivers left out.
std::string_view old_binary_data(std::string_view bytes) {
  std::uint32_t length = 0;
  if (bytes.size() < sizeof length) return bytes;
  std::memcpy(&length, bytes.data(), sizeof length);
  const bool fits = BSON_UINT32_FROM_LE(length) == bytes.size() - sizeof length;
  return fits ? bytes.substr(sizeof length) : bytes;
}

// Copies all fields, with texts and keys converted to valid UTF-8, and what libbson cannot print as
// the document that extended JSON has for it.
// NOLINTNEXTLINE(misc-no-recursion): it is valid, which is to be no deeper than servers allow
void append_escaped(bson_t* to, Document from) {
  for (const Field& field : Fields(from)) {
    const std::string key = as_utf8(field.key);
    const int size = static_cast<int>(key.size());
    const auto append = [&](const Bson& value) {
      bson_append_document(to, key.c_str(), size, value.get());
    };
    bson_t child;
    switch (field.type) {
      case BSON_TYPE_UTF8: {
        const std::string text = as_utf8(field.text());
        bson_append_utf8(to, key.c_str(), size, text.data(), static_cast<int>(text.size()));
        break;
      }
      case BSON_TYPE_DOCUMENT:
        bson_append_document_begin(to, key.c_str(), size, &child);
        append_escaped(&child, field.document());
        bson_append_document_end(to, &child);
        break;
      case BSON_TYPE_ARRAY:
        bson_append_array_begin(to, key.c_str(), size, &child);
        append_escaped(&child, field.document());
        bson_append_array_end(to, &child);
        break;
      case BSON_TYPE_BINARY:
        if (field.value[4] == BSON_SUBTYPE_BINARY_DEPRECATED) {
          append(Bson("$binary",
                      Bson("base64", to_base64(old_binary_data(field.binary())), "subType", "02")));
        } else {
          append_field_as(to, key, field);
        }
        break;
      case BSON_TYPE_CODE:
        append(named("$code", text_at(field.value, 4, field.value.size() - 5)));
        break;
      case BSON_TYPE_SYMBOL:
        append(named("$symbol", text_at(field.value, 4, field.value.size() - 5)));
        break;
      case BSON_TYPE_REGEX: {
        const std::string_view both = text_at(field.value, 0, field.value.size() - 1);
        const std::size_t end = both.find('\0');
        const std::string pattern = as_utf8(both.substr(0, end));
        const std::string flags = as_utf8(both.substr(end + 1));
        append(Bson("$regularExpression", Bson("pattern", std::string_view(pattern), "options",
                                               std::string_view(flags))));
        break;
      }
      default:
        append_field_as(to, key, field);
    }
  }
}

// kDataLoss: the document is damaged, or not expressible in JSON, such as code that is not UTF-8.
Result<std::string> to_json(Document document) {
  if (Result<void> valid = validate(document); !valid) return error_in(valid);
  std::string json = to_relaxed_json(document);
  if (!json.empty()) return json;
  const Bson copy;
  append_escaped(copy.get(), document);
  json = to_relaxed_json(copy.view());
  if (json.empty()) return fail(Code::kDataLoss, "it has what JSON cannot show");
  return json;
}

void add_show(CLI::App& command, ShowOptions& given) {
  add_value(command, "--oplog", given.oplog, "OPLOG",
            "A dump of the oplog, the folder that has it, or a URI")
      ->required();
  add_value(command, "--since", given.since, "WHEN", "First entry, SECONDS:ORDINAL or a time");
  add_value(command, "--until", given.until, "WHEN", "Last entry, in the same form");
  add_not_sharded(command, given.not_sharded);
}

Result<void> run_show(Context& context, const ShowOptions& given) {
  const Result<OplogSpan> span = parse_span(given.since, given.until);
  if (!span) return error_in(span);
  const Result<std::unique_ptr<OplogSource>> oplog =
      open_oplog(given.oplog, *span, to_read(given.not_sharded));
  if (!oplog) return error_in(oplog);
  if (const std::string notice = (*oplog)->notice(); !notice.empty())
    report_notice(notice, context.json);
  Progress progress((*oplog)->unit(), (*oplog)->total());
  std::int64_t shown = 0;
  std::int64_t left_out = 0;
  const auto leave_out = [&](const std::string& why) {
    report_notice("not printed: " + why, context.json);
    ++left_out;
  };
  while ((context.stopped_by = stop_signal()) == 0 && !context.out.failed()) {
    const Result<std::optional<Entry>> next = (*oplog)->next();
    if (!next && was_stopped(next.error())) {
      context.stopped_by = stop_signal();
      break;
    }
    if (!next) {
      if (!(*oplog)->goes_on()) return error_in(next);
      leave_out(next.error().message());
      continue;
    }
    const std::optional<Entry>& entry = *next;
    if (!entry) break;
    const Result<std::string> json = to_json(entry->document);
    if (!json) {
      const std::optional<std::uint64_t> offset = (*oplog)->offset();
      leave_out((*oplog)->name() + (offset ? ", byte " + std::to_string(*offset) : "") +
                ", entry " + print_timestamp(entry->at.ts) + ": " + json.error().message());
      continue;
    }
    context.out.write(*json + "\n");
    progress.show((*oplog)->done());
    ++shown;
  }
  if (left_out != 0) context.status = exit_status(Code::kDataLoss);
  if (shown == 0 && left_out == 0 && context.stopped_by == 0)
    return fail(Code::kNotFound, "no entry in that span: the oplog in " + (*oplog)->name() +
                                     " has none between --since and --until");
  return {};
}

}  // namespace

const Command kShow = {"show", "Print entries of an oplog as extended JSON",
                       with_options<ShowOptions, add_show, run_show>,
                       R"(Examples:
  $ idmint-restore show --oplog dump --since 1795230181:14 --until 1795230181:17
)",
                       kSpanRenamed};

}  // namespace idmint::restore
