// verify: whether a restored server has the expected contents.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "base/url.h"
#include "idmint/clock.h"
#include "restore/commands/commands.h"
#include "restore/commands/minted_report.h"
#include "restore/commands/on_terminal.h"
#include "restore/commands/options.h"
#include "restore/error_in.h"
#include "restore/namespaces.h"
#include "restore/replay/expectation.h"
#include "restore/replay/first_differences.h"
#include "restore/replay/left_out.h"
#include "restore/replay/record.h"
#include "restore/replay/report.h"
#include "restore/replay/spare.h"
#include "restore/replay/state.h"
#include "restore/server.h"
#include "restore/timestamp.h"
#include "terminal/chart.h"
#include "terminal/exit_status.h"
#include "terminal/progress.h"
#include "terminal/report_file.h"

namespace idmint::restore {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyOptions {
  std::string target;
  std::string spare;
  std::string mongod;
  std::string against;
  std::string expected;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::string html;
  std::string save;
  std::string oplog;
  std::string raise;
  std::string restore_report;
  bool forget = false;
  bool not_sharded = false;
};

void add_verify(CLI::App& command, VerifyOptions& given) {
  CLI::Option* const target =
      add_value(command, "--target", given.target, "URI", "The restored server");
  add_value(command, "--spare", given.spare, "DIR",
            "Instead: the folder of the spare, or of a data copy")
      ->excludes(target);
  add_value(command, "--mongod", given.mongod, "PATH",
            "The mongod to start if the spare does not run")
      ->excludes(target);
  CLI::Option* const against =
      add_value(command, "--against", given.against, "URI", "Compare with what this server has");
  add_value(command, "--expected", given.expected, "FILE",
            "Compare with this file, written by --save")
      ->excludes(against);
  add_not_sharded(command, given.not_sharded);
  add_value(command, "--include", given.include, "NS",
            "Compare these alone: DATABASE, DATABASE.COLLECTION, with * for any text; may be "
            "repeated");
  add_value(command, "--exclude", given.exclude, "NS", "Compare all but these; may be repeated");
  add_value(command, "--html", given.html, "FILE", "Write the report as a page, too");
  add_value(command, "--save", given.save, "FILE", "Write what the server has, for --expected");
  CLI::Option* const oplog =
      add_value(command, "--oplog", given.oplog, "OPLOG",
                "Read how far production came, and print the commands that pass it");
  add_value(command, "--raise", given.raise, "FILE", "Write these commands as a shell script")
      ->needs(oplog);
  add_value(command, "--restore-report", given.restore_report, "FILE",
            "The report of run (that beside the folder of the server's data)");
  command.add_flag("--forget", given.forget,
                   "If nothing differs, delete the report of run and an old record on the server");
}

// The most documents named per differing collection.
constexpr std::size_t kMostDocuments = 5;

struct Report {
  std::string server;
  std::string limit{};  // of the restore; empty: none was recorded
  std::string base{};   // of the restore, in words; likewise `oplog`
  std::string oplog{};
  std::string with{};  // the object of the comparison, in words
  bool whole = false;  // compared with a whole server or file
  State is{};
  std::map<std::string, Expected> counts{};
  std::vector<Difference> differences{};
  std::string other{};  // the server compared with; empty: none
  // The first different documents, by namespace; only for a comparison with another server.
  std::map<std::string, std::vector<Difference>> documents_first{};
  IssuedReport minted{};
  std::uint64_t documents = 0;
  std::vector<std::string> left_out{};  // indexes that the server refused, in words
  std::string restore_report{};         // the file with the record; empty: none
};

Result<State> state_of(Server& server, const NamespaceFilter& filter, bool hashes) {
  Progress progress("documents read", std::nullopt, Results::kAtEnd);
  return read_state(server, {.hashes = hashes,
                             .users = filter.users(),
                             .wanted = [&](std::string_view ns) { return filter.includes(ns); },
                             .progress =
                                 [&](std::uint64_t documents) {
                                   progress.show(static_cast<std::int64_t>(documents));
                                   return unless_stopped();
                                 }});
}

// Keeps only what the filter includes.
State narrowed(State state, const NamespaceFilter& filter) {
  std::erase_if(state, [&](const auto& each) { return !filter.includes(each.first); });
  return state;
}

// Adds users and roles to the filter if they were restored, and --include names no others.
Result<Report> compare(Server& server, const VerifyOptions& given, NamespaceFilter& filter) {
  Report report{.server = server.shown_uri()};
  Result<std::optional<FoundRecord>> read = find_record(server, given.restore_report);
  if (!read) return error_in(read);
  std::optional<Record> record;
  if (std::optional<FoundRecord>& found = *read) {
    record = std::move(found->record);
    report.restore_report = std::move(found->report);
  }
  if (!record && given.against.empty() && given.expected.empty() && given.save.empty())
    return fail(Code::kNotFound, server.shown_uri() +
                                     " has no record of a restore, and its report is not where run "
                                     "writes it: give --restore-report FILE, or --against URI or "
                                     "--expected FILE to compare it with");
  if (record) {
    Result<std::map<std::string, Expected>> counts = expected_documents(*record);
    if (!counts) return error_in(counts);
    report.counts = std::move(*counts);
    const Result<std::uint64_t> missed = missed_updates(*record);
    if (!missed) return error_in(missed);
    if (*missed != 0)
      report.differences.push_back(
          {"the oplog", "updates that found no document", std::to_string(*missed), "0"});
    Result<std::vector<std::string>> left_out = left_out_in_words(*record);
    if (!left_out) return error_in(left_out);
    report.left_out = std::move(*left_out);
    if (record->users() && given.include.empty()) filter.include_users();
    std::erase_if(report.counts, [&](const auto& each) { return !filter.includes(each.first); });
    const Document fingerprint = record->fingerprint();
    report.limit = fingerprint.text("limit");
    const std::string after = text_of(fingerprint, "after");
    report.base = text_of(fingerprint, "base") == "data copy" ? "a data copy" : "a dump";
    if (!after.empty() && after != "unknown") report.base += " as of " + after;
    if (const Document oplog = fingerprint.document("oplog"))
      report.oplog = text_of(oplog, "first") + " to " + text_of(oplog, "last");
  }
  // Without another side, hashes are only useful for --save.
  const bool hashes = !given.against.empty() || !given.expected.empty() || !given.save.empty();
  Result<State> is = state_of(server, filter, hashes);
  if (!is) return error_in(is);
  report.is = std::move(*is);
  for (const auto& [ns, each] : report.is) report.documents += each.count.value_or(0);

  for (const auto& [ns, expected] : report.counts) {
    const auto there = report.is.find(ns);
    const std::string should =
        std::to_string(expected.documents()) + " = " + std::to_string(expected.base) + " + " +
        std::to_string(expected.inserts) + " - " + std::to_string(expected.deletes);
    if (there == report.is.end()) {
      report.differences.push_back({ns, "collection", "missing", should + " documents"});
    } else if (const auto& count = there->second.count;
               count && std::cmp_not_equal(*count, expected.documents())) {
      report.differences.push_back({ns, "count by the oplog", std::to_string(*count), should});
    }
  }
  if (!report.counts.empty()) report.with = "base + inserts - deletes";
  if (given.against.empty() && given.expected.empty()) return report;

  State should;
  std::optional<Server> against;
  if (!given.expected.empty()) {
    Result<State> read = read_state_file(given.expected);
    if (!read) return error_in(read);
    should = narrowed(std::move(*read), filter);
  } else {
    Result<Server> other = Server::connect(given.against, watched(given.not_sharded));
    if (!other) return error_in(other);
    Result<State> read = state_of(*other, filter, true);
    if (!read) return error_in(read);
    should = std::move(*read);
    against = *std::move(other);
    report.other = against->shown_uri();
  }
  report.whole = true;
  report.with += (report.with.empty() ? "" : "; ") +
                 std::string("documents, options and indexes of ") +
                 (given.expected.empty() ? redacted(given.against) : given.expected);
  for (Difference& difference : differences(report.is, should)) {
    const std::string ns = difference.ns;
    const bool of_documents = difference.what == "documents";
    report.differences.push_back(std::move(difference));
    if (!of_documents || !against) continue;
    Result<std::vector<Difference>> first = first_differences(server, *against, ns, kMostDocuments);
    if (!first) return error_in(first);
    report.documents_first[ns] = *std::move(first);
  }
  return report;
}

std::string number(std::uint64_t value) { return print_count(static_cast<double>(value)); }

// The expected number of documents as a sum, for a row of the table.
std::string arithmetic(const Report& report, const std::string& ns) {
  const auto expected = report.counts.find(ns);
  if (expected == report.counts.end()) return {};
  return number(expected->second.base) + " + " + number(expected->second.inserts) + " - " +
         number(expected->second.deletes);
}

bool differs(const Report& report, const std::string& ns) {
  return std::ranges::find(report.differences, ns, &Difference::ns) != report.differences.end();
}

// False for a view, and for an untouched collection of a data copy, unless everything is compared.
bool compared(const Report& report, const std::string& ns) {
  return report.whole || report.counts.contains(ns);
}

std::string state(const Report& report, const std::string& ns) {
  if (differs(report, ns)) return "differs";
  if (!compared(report, ns)) return "not compared";
  return report.whole ? "same" : "same count";
}

std::string verdict(const Report& report) {
  if (report.with.empty()) return "Nothing was compared: give --against URI or --expected FILE.";
  const std::size_t found = report.differences.size();
  std::string text = found == 1 ? "1 difference." : std::to_string(found) + " differences.";
  // Equal counts prove nothing about values.
  if (found == 0)
    text = report.whole ? "No difference." : "Counts agree; documents were not compared.";
  const auto left_out = std::ranges::count_if(
      report.is, [&](const auto& each) { return state(report, each.first) == "not compared"; });
  if (left_out != 0)
    text += " Of " + number(report.is.size()) + " collections and views " +
            number(static_cast<std::uint64_t>(left_out)) + " not compared.";
  return text;
}

std::span<const Difference> first_documents(const Report& report, const std::string& ns) {
  const auto found = report.documents_first.find(ns);
  return found != report.documents_first.end() ? std::span<const Difference>(found->second)
                                               : std::span<const Difference>();
}

void print_difference(Output& out, const Difference& difference) {
  out.write_line(difference.ns + ": " + difference.what);
  out.write_line("  is         " + difference.is);
  out.write_line("  should be  " + difference.should_be);
}

void print_report(Output& out, const VerifyOptions& given, const Report& report) {
  print_fact(out, "server", report.server);
  if (!report.base.empty()) print_fact(out, "base", report.base);
  if (!report.oplog.empty()) print_fact(out, "oplog", report.oplog);
  if (!report.limit.empty()) print_fact(out, "limit", report.limit);
  print_fact(out, "compared", report.with.empty() ? "with nothing" : "with " + report.with);
  for (const std::string& each : report.left_out) print_fact(out, "left out", each);
  // Written already.
  const std::array<std::pair<std::string_view, const std::string&>, 3> files = {
      {{"page", given.html}, {"state", given.save}, {"commands", given.raise}}};
  for (const auto& [label, path] : files)
    if (!path.empty()) print_fact(out, label, "written to " + path);
  out.write("\n");
  std::vector<Row> rows;
  for (const auto& [ns, each] : report.is) {
    rows.push_back({ns, each.type, each.count ? number(*each.count) : "", arithmetic(report, ns),
                    std::to_string(each.indexes.size()),
                    differs(report, ns) ? "DIFFERS" : state(report, ns)});
  }
  print_table(out,
              {{"NAMESPACE"},
               {"TYPE"},
               {"DOCUMENTS", Align::kRight},
               {"BASE + INSERTS - DELETES", Align::kRight},
               {"INDEXES", Align::kRight},
               {"STATE"}},
              rows);
  out.write("\n");
  if (!report.differences.empty() && !report.other.empty()) {
    print_fact(out, "is", "on " + report.server);
    print_fact(out, "should be", "on " + report.other);
    out.write("\n");
  }
  for (const Difference& each : report.differences) {
    print_difference(out, each);
    if (each.what != "documents") continue;
    for (const Difference& document : first_documents(report, each.ns))
      print_difference(out, document);
  }
  out.write(verdict(report) + "\n");
  if (report.differences.empty() && !report.with.empty())
    out.write(
        "Before programs use it, bring it past every id that production has handed out:\n"
        "  idmint-restore fence --target " +
        shell_word(report.server) + " --live URI_OF_PRODUCTION\n");
  print_minted(
      out, report.minted,
      "idmint-restore verify " + (given.spare.empty() ? "--target " + shell_word(report.server)
                                                      : "--spare " + shell_word(given.spare)));
}

Json json_of(const Report& report) {
  Json json = {{"server", report.server},
               {"limit", report.limit},
               {"compared_with", report.with},
               {"differs", !report.differences.empty()},
               {"documents", report.documents}};
  json["collections"] = Json::array();
  for (const auto& [ns, each] : report.is) {
    Json row = {{"ns", ns}, {"type", each.type}, {"state", state(report, ns)}};
    if (each.count) row["count"] = *each.count;
    if (!each.sha256.empty()) row["sha256_sorted_by_id"] = each.sha256;
    if (const auto expected = report.counts.find(ns); expected != report.counts.end())
      row["expected"] = {{"base", expected->second.base},
                         {"inserts", expected->second.inserts},
                         {"deletes", expected->second.deletes}};
    row["indexes"] = each.indexes.size();
    json["collections"].push_back(std::move(row));
  }
  const auto json_of = [](const Difference& each) {
    return Json{
        {"ns", each.ns}, {"what", each.what}, {"is", each.is}, {"should_be", each.should_be}};
  };
  json["left_out"] = report.left_out;
  json["differences"] = Json::array();
  for (const Difference& each : report.differences) json["differences"].push_back(json_of(each));
  json["first_documents"] = Json::array();
  for (const auto& [ns, documents] : report.documents_first)
    for (const Difference& each : documents) json["first_documents"].push_back(json_of(each));
  json["raise"] = restore::json_of(report.minted);
  return json;
}

std::string html_row(const std::vector<std::string>& cells, const char* tag,
                     const std::string& row_class = {}) {
  std::string html = row_class.empty() ? "<tr>" : "<tr class=\"" + row_class + "\">";
  for (const std::string& cell : cells)
    html += std::string("<") + tag + ">" + xml_text(cell) + "</" + tag + ">";
  return html + "</tr>\n";
}

// A complete document, readable in light and dark mode.
std::string html_of(const Report& report, Instant written) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
      "<title>idmint-restore verify</title>\n<style>\n"
      ":root{color-scheme:light dark}\n"
      "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\n"
      "table{border-collapse:collapse;width:100%}\n"
      "th,td{text-align:left;padding:.3em .6em;border-bottom:1px solid #8886;"
      "overflow-wrap:anywhere;vertical-align:top}\nth{overflow-wrap:normal}\n"
      ".same{color:#1a7f37}.differs{color:#cf222e}\n</style>\n"
      "<h1>What was restored</h1>\n";
  html += std::string("<p class=\"") +
          (!report.differences.empty() ? "differs"
           : report.whole              ? "same"
                                       : "") +
          "\"><strong>" + verdict(report) + "</strong></p>\n";
  html +=
      "<table>\n" + html_row({"Written", format_time(written)}, "td") +
      html_row({"Server", report.server}, "td") +
      (report.base.empty() ? "" : html_row({"Base", report.base}, "td")) +
      (report.oplog.empty() ? "" : html_row({"Oplog", report.oplog}, "td")) +
      (report.limit.empty() ? "" : html_row({"Limit", report.limit}, "td")) +
      html_row({"Compared with", report.with.empty() ? "nothing" : report.with}, "td") +
      "</table>\n<table>\n" +
      html_row({"Namespace", "Type", "Documents", "Base + inserts - deletes", "Indexes", "State"},
               "th");
  for (const auto& [ns, each] : report.is)
    html += html_row({ns, each.type, each.count ? number(*each.count) : "", arithmetic(report, ns),
                      std::to_string(each.indexes.size()), state(report, ns)},
                     "td",
                     differs(report, ns)                    ? "differs"
                     : compared(report, ns) && report.whole ? "same"
                                                            : "");
  html += "</table>\n";
  if (!report.differences.empty()) {
    const bool of_servers = !report.other.empty();
    html += "<h2>Differences</h2>\n<table>\n" +
            html_row({"Namespace", "What", of_servers ? "Is, on " + report.server : "Is",
                      of_servers ? "Should be, on " + report.other : "Should be"},
                     "th");
    for (const Difference& each : report.differences) {
      html += html_row({each.ns, each.what, each.is, each.should_be}, "td", "differs");
      if (each.what != "documents") continue;
      for (const Difference& document : first_documents(report, each.ns))
        html += html_row({document.ns, document.what, document.is, document.should_be}, "td");
    }
    html += "</table>\n";
  }
  if (!report.minted.sources.empty()) {
    html +=
        "<h2>Sequences and pools that went back</h2>\n<p>Before clients return, bring each past "
        "everything that production has handed out.</p>\n<table>\n" +
        html_row({"Database", "Name", "Kind", "Commands", "Note"}, "th");
    for (const IssuedValues& each : report.minted.sources) {
      std::string commands;
      for (const std::string& command : each.commands) commands += command + "\n";
      html += html_row({each.database, each.name, each.strategy, commands, each.note}, "td");
    }
    html += "</table>\n";
  }
  return html + "</html>\n";
}

Result<void> write_file(const std::string& path, const std::string& text) {
  Result<ReportFile> file = ReportFile::open(path);
  if (!file) return error_in(file);
  return file->finish(text);
}

Result<void> verify(Context& context, const VerifyOptions& given, Server& server) {
  Result<NamespaceFilter> filter = NamespaceFilter::of(given.include, given.exclude);
  if (!filter) return error_in(filter);
  Result<Report> report = compare(server, given, *filter);
  if (!report) return error_in(report);
  Timestamp limit{};
  if (report->limit == "none") {
    limit = kNoLimit;
  } else if (!report->limit.empty()) {
    const Result<Timestamp> recorded = parse_timestamp(report->limit);
    if (!recorded) return error_in(recorded);
    limit = *recorded;
  }
  Result<IssuedReport> minted = find_minted(server, *filter, given.oplog, {}, limit);
  if (!minted) return error_in(minted);
  report->minted = std::move(*minted);
  if (!given.raise.empty()) {
    if (Result<void> written = write_file(given.raise, raise_script(report->minted)); !written)
      return written;
  }
  if (!given.save.empty()) {
    Result<void> written = write_file(given.save, state_file(report->is));
    if (!written) return written;
  }
  if (!given.html.empty()) {
    if (Result<void> written = write_file(given.html, html_of(*report, system_clock().now()));
        !written)
      return written;
  }
  if (context.json) {
    context.out.write(json_of(*report).dump() + "\n");
  } else {
    print_report(context.out, given, *report);
  }
  if (!report->differences.empty()) {
    context.status = exit_status(Code::kDataLoss);
    return {};
  }
  if (!given.forget) return {};
  std::error_code ignored;
  if (!report->restore_report.empty()) std::filesystem::remove(report->restore_report, ignored);
  return Record::forget(server);
}

Result<void> run_verify(Context& context, const VerifyOptions& given) {
  if (given.target.empty() == given.spare.empty())
    return fail(Code::kInvalidArgument,
                "give --spare DIR, the folder of the spare server, or --target URI");
  std::string uri = given.target;
  std::optional<Spare> started;
  if (uri.empty()) {
    const Result<SpareFolder> folder = look_at(given.spare);
    if (!folder) return error_in(folder);
    if (!folder->ours)
      return fail(Code::kNotFound,
                  shell_word(given.spare) + " is no folder that idmint-restore run has made");
    if (folder->port != 0 && is_running(given.spare, folder->port)) {
      uri = Spare{.folder = given.spare, .program = {}, .port = folder->port}.uri();
    } else {
      const Result<std::string> program = find_mongod(given.mongod);
      if (!program) return error_in(program);
      Result<Spare> spare =
          start_spare(given.spare, {*program}, [](std::uint64_t) { return unless_stopped(); });
      if (!spare) return error_in(spare);
      uri = spare->uri();
      started = std::move(*spare);
    }
  }
  Result<Server> server = Server::connect(uri, watched());
  Result<void> done = server ? verify(context, given, *server) : Result<void>(error_in(server));
  if (started) {
    Result<void> ended = stop_spare(*started, [](std::uint64_t) { return unless_stopped(); });
    if (done) done = std::move(ended);
  }
  return or_stopped(std::move(done), context, "");
}

}  // namespace

const Command kVerify = {
    "verify", "Compare what was restored with what should be there",
    with_options<VerifyOptions, add_verify, run_verify>,
    R"(The number of documents of each collection is compared with what the base had,
plus inserts, minus deletes, as run recorded them. With --against or --expected
documents (SHA-256 in the order of _id), options and indexes are compared too.
Exit status 10: something differs.

Examples:
  $ idmint-restore verify --spare /var/lib/spare --against mongodb://db1/ \
      --exclude shop.sessions --html report.html
)"};

}  // namespace idmint::restore
