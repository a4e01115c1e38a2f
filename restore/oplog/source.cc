#include "restore/oplog/source.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/url.h"
#include "restore/oplog/reader.h"
#include "restore/server.h"

namespace idmint::restore {
namespace {

class Dump final : public OplogSource {
 public:
  Dump(OplogReader reader, OplogSpan span) : reader_(std::move(reader)), span_(span) {}

  Result<std::optional<Entry>> next() override {
    for (;;) {
      Result<std::optional<Entry>> next = reader_.next();
      if (!next) return next;
      const std::optional<Entry>& entry = *next;
      if (entry && entry->at.ts < span_.from) continue;
      if (entry && entry->at.ts > span_.to) return std::nullopt;
      return next;
    }
  }
  bool goes_on() const override { return reader_.goes_on(); }
  const std::string& name() const override { return reader_.path(); }
  std::optional<std::uint64_t> offset() const override { return reader_.offset(); }
  std::string_view unit() const override { return "MB"; }
  std::int64_t done() const override { return static_cast<std::int64_t>(reader_.consumed() >> 20); }
  std::int64_t total() const override { return static_cast<std::int64_t>(reader_.size() >> 20); }

 private:
  OplogReader reader_;
  const OplogSpan span_;
};

class Live final : public OplogSource {
 public:
  Live(std::string name, std::unique_ptr<Member> member, OplogSpan span, std::string notice)
      : name_(std::move(name)),
        notice_(std::move(notice)),
        member_(std::move(member)),
        span_(span),
        at_(span.from),
        oplog_(*member_, span, false) {}

  Result<std::optional<Entry>> next() override {
    const Result<std::optional<Document>> next = oplog_.next();
    goes_on_ = next.has_value();
    if (!next) return error_in(next);
    const std::optional<Document>& document = *next;
    if (!document) return std::nullopt;
    Result<Entry> entry = parse_entry(*document);
    if (!entry)
      return fail(entry.error().code,
                  name() + ", after " + print_timestamp(at_) + ": " + entry.error().message());
    at_ = entry->at.ts;
    return *std::move(entry);
  }
  bool goes_on() const override { return goes_on_; }
  const std::string& name() const override { return name_; }
  std::string notice() const override { return notice_; }
  std::optional<std::uint64_t> offset() const override { return std::nullopt; }
  std::string_view unit() const override { return "s of oplog"; }
  std::int64_t done() const override {
    return std::int64_t{at_.seconds} - std::int64_t{span_.from.seconds};
  }
  std::int64_t total() const override {
    return std::int64_t{span_.to.seconds} - std::int64_t{span_.from.seconds};
  }

 private:
  const std::string name_;
  const std::string notice_;
  const std::unique_ptr<Member> member_;  // gives the member a stable address when this moves
  const OplogSpan span_;
  Timestamp at_;
  bool goes_on_ = false;
  LiveOplog oplog_;
};

}  // namespace

bool is_uri(std::string_view where) {
  return where.starts_with("mongodb://") || where.starts_with("mongodb+srv://");
}

Result<OplogSpan> parse_span(std::string_view since, std::string_view until) {
  OplogSpan span;
  for (const auto& [text, moment] : {std::pair{since, &span.from}, std::pair{until, &span.to}}) {
    if (text.empty()) continue;
    const Result<Timestamp> parsed = parse_moment(text);
    if (!parsed) return error_in(parsed);
    *moment = *parsed;
  }
  if (span.to < span.from)
    return fail(Code::kInvalidArgument,
                "--until " + std::string(until) + " is before --since " + std::string(since));
  return span;
}

Result<std::unique_ptr<OplogSource>> open_oplog(const std::string& where, OplogSpan span,
                                                const ConnectOptions& options) {
  if (!is_uri(where)) {
    Result<OplogReader> reader = OplogReader::open(where, {.span = span});
    if (!reader) return error_in(reader);
    return std::make_unique<Dump>(std::move(*reader), span);
  }
  Result<Member> member = connect_to_oplog(where, options);
  if (!member) return error_in(member);
  const Result<OplogWindow> window = oplog_window(*member);
  if (!window) return error_in(window);
  std::string notice;
  if (span.from != Timestamp{} && span.from < window->first)
    notice = "the oplog of " + member->host() + " begins at " + print_timestamp(window->first) +
             " (" + print_seconds(window->first) + "), after --since: what was before is gone";
  span.from = std::max(span.from, window->first);
  span.to = std::min(span.to, window->last);
  return std::make_unique<Live>(redacted(where), std::make_unique<Member>(*std::move(member)), span,
                                std::move(notice));
}

}  // namespace idmint::restore
