#include "server/redis_session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/outcome.h"
#include "base/text.h"
#include "idmint/form.h"
#include "idmint/snowflake.h"
#include "server/redis_commands.h"

namespace idmint::server {

namespace {

// To a client that is not known to hold the next values of a source. `outcome`: what became of
// them.
std::string beyond(const std::string& name, std::string_view outcome) {
  return name +
         " gives values above 2^53-1, which some clients round to others, and this one is not "
         "known "
         "to hold them; " +
         std::string(outcome) + ". Ask with ID.NEXT " + name +
         ", which answers text; or set integers = \"64-bit\" in the settings of idmintd, if all "
         "its clients hold integers of 64 bits";
}

// Whether a browser sent this line: the first line of an HTTP request, or its Host header.
bool is_http(std::span<const std::string_view> words, bool is_inline) {
  const std::string_view first = words.front();
  const std::string_view last = words.back();
  constexpr std::string_view version = "HTTP/";
  if (is_inline && words.size() >= 3 && last.starts_with(version) && last.size() > version.size() &&
      last[version.size()] >= '0' && last[version.size()] <= '9')
    return true;
  constexpr std::size_t longest = 5;
  if (first.size() > longest) return false;
  const std::string upper = upper_case(first);
  return upper == "POST" || upper == "HOST:";
}

}  // namespace

RedisSession::RedisSession(Connection& connection, Service& service)
    : connection_(connection),
      service_(service),
      number_(service.connections),
      caller_(service.access.anybody()) {}

RedisSession::~RedisSession() = default;

bool RedisSession::held() const noexcept {
  return held_ || barrier_ || ended_ || pending_ >= kMostPending || pending_ids_ >= kMostPendingIds;
}

bool RedisSession::waits() const noexcept {
  return held_ || pending_ != 0 || ((!replay_.empty() || !list_.empty()) && !ended_);
}

bool RedisSession::is_known() const {
  return service_.access.is_open() || (caller_ != nullptr && !caller_->is_revoked());
}

void RedisSession::too_slow() {
  put_error(reply(), "ERR", "Protocol error: the rest of the command did not come in time");
}

// ---- commands

std::size_t RedisSession::take(std::string_view input) {
  std::size_t taken = 0;
  begun_ = {};
  while (!held() && connection_.has_room()) {
    if (!list_.empty()) {
      put_part_of_list();
      continue;
    }
    if (caller_ != nullptr && caller_->is_revoked()) {
      if (pending_ != 0) {  // they are logged as asked by whom they were
        barrier_ = true;
        break;
      }
      caller_ = service_.access.anybody();
    }
    reader_.restrain(caller_ == nullptr);
    if (!replay_.empty()) {
      const Owned& owned = replay_.front();
      const std::vector<std::string_view> words(owned.begin(), owned.end());
      const Command* const command = command_named(words.front());
      if (command->waits(false) && pending_ != 0) {
        wait_for_answers();
        break;
      }
      // The command may hold the session, and is run again then: from a copy of its own.
      const Owned kept = std::move(replay_.front());
      replay_.pop_front();
      if (replay_.empty()) connection_.set_queued(0);
      const std::vector<std::string_view> kept_words(kept.begin(), kept.end());
      counted_as_ = command->counted_as();
      if (may(*command, kept_words)) (this->*command->run)(kept_words);
      barrier_due_.reset();
      count_behind();
      continue;
    }
    const RespReader::State state = reader_.read(input.substr(taken));
    if (state == RespReader::State::kIncomplete) break;
    if (state == RespReader::State::kBroken) {
      put_error(reply(), "ERR", reader_.problem());
      service_.count_error(Code::kInvalidArgument);
      ended_ = true;
      taken = input.size();
      connection_.close_when_sent();
      break;
    }
    const Words words = reader_.words();
    if (words.empty()) {  // Redis passes over it, too
      taken += reader_.consumed();
      continue;
    }
    const Command* const command = command_of(words);
    if (command != nullptr && command->waits(queueing_) && pending_ != 0) {
      wait_for_answers();  // it is read again when they are there
      break;
    }
    taken += reader_.consumed();
    ++service_.requests;
    counted_as_ = command != nullptr ? command->counted_as() : std::nullopt;
    ++service_.counts.redis.calls[CallCounts::index(counted_as_)];
    // A page of the web can have a browser send this here, with commands in the body.
    if ((command == nullptr || reader_.is_inline()) && is_http(words, reader_.is_inline())) {
      service_.count_error(Code::kInvalidArgument);
      ended_ = true;
      taken = input.size();
      connection_.close_when_sent();
      break;
    }
    if (service_.draining) {
      fail(Error{Code::kUnavailable,
                 "this server is shutting down and has taken nothing; ask another one"});
      count_behind();
      continue;
    }
    run(command, words);
    barrier_due_.reset();
    count_behind();
  }
  submit_batch();
  reader_.trim();
  return taken;
}

void RedisSession::wait_for_answers() {
  barrier_ = true;
  barrier_due_ = service_.loop.due();
}

const RedisSession::Command* RedisSession::command_of(Words words) {
  if (last_command_ == nullptr || last_command_->name != words.front())
    last_command_ = command_named(words.front());
  return last_command_;
}

void RedisSession::run(const Command* command, Words words) {
  if (command == nullptr && caller_ == nullptr) return refuse_unauthenticated();
  if (command == nullptr) {
    if (queueing_) queue_broken_ = true;
    return refuse_unknown(words);
  }
  const auto given = static_cast<int>(words.size());
  if (given < command->least || (command->most != 0 && given > command->most)) {
    if (queueing_) queue_broken_ = true;
    return fail("wrong number of arguments for '" + lower_case(command->name) + "' command");
  }
  if (!may(*command, words)) {
    if (queueing_) queue_broken_ = true;
    return;
  }
  if (queueing_ && command->is_queued()) return queue(words);
  (this->*command->run)(words);
}

bool RedisSession::may(const Command& command, Words words) {
  if (command.open) return true;
  if (caller_ == nullptr || caller_->is_revoked()) {
    refuse_unauthenticated();
    return false;
  }
  if (command.first_key == 0) return true;
  const std::size_t last =
      command.last_key < 0 ? words.size() - 1 : static_cast<std::size_t>(command.last_key);
  for (auto i = static_cast<std::size_t>(command.first_key); i <= last; ++i) {
    if (const Result<void> right = caller_->check(command.verb, words[i]); !right) {
      fail(right.error());
      return false;
    }
  }
  return true;
}

void RedisSession::refuse_unauthenticated() {
  service_.count_error(Code::kUnauthenticated);
  put_error(reply(), "NOAUTH", "Authentication required: AUTH TOKEN");
}

bool RedisSession::admit() {
  const Result<void> admitted = service_.admit();
  if (!admitted) fail(admitted.error());
  return admitted.has_value();
}

bool RedisSession::charge(std::int64_t count) {
  if (!caller_->has_limits()) return true;  // no clock is read for each command
  const auto excess = caller_->charge(count, service_.loop.now());
  if (!excess) return true;
  fail(excess->error);
  return false;
}

void RedisSession::queue(Words words) {
  std::size_t bytes = 0;
  for (const std::string_view word : words) bytes += word.size() + sizeof(std::string);
  if (queued_.size() == kMostQueued || queued_bytes_ + bytes > kMostQueuedBytes) {
    queue_broken_ = true;
    return fail("a transaction takes at most " + std::to_string(kMostQueued) + " commands and " +
                std::to_string(kMostQueuedBytes) + " bytes: send EXEC earlier");
  }
  queued_bytes_ += bytes;
  connection_.set_queued(queued_bytes_);
  queued_.emplace_back(words.begin(), words.end());
  put_simple(reply(), "QUEUED");
}

void RedisSession::multi(Words /*words*/) {
  if (queueing_) return fail("MULTI calls can not be nested");
  queueing_ = true;
  put_simple(reply(), "OK");
}

void RedisSession::exec(Words /*words*/) {
  if (!queueing_) return fail("EXEC without MULTI");
  queueing_ = false;
  queued_bytes_ = 0;
  std::list<Owned> queued = std::exchange(queued_, {});
  if (std::exchange(queue_broken_, false)) {
    connection_.set_queued(0);
    put_error(reply(), "EXECABORT", "Transaction discarded because of previous errors.");
    return;
  }
  put_array(reply(), queued.size());
  replay_ = std::move(queued);
}

void RedisSession::discard(Words /*words*/) {
  if (!queueing_) return fail("DISCARD without MULTI");
  queueing_ = queue_broken_ = false;
  queued_.clear();
  queued_bytes_ = 0;
  connection_.set_queued(0);
  put_simple(reply(), "OK");
}

// ---- replies

std::string& RedisSession::reply() {
  if (replies_.empty()) return connection_.out();
  if (replies_.back().kind != Reply::kText || !replies_.back().ready)
    replies_.emplace_back().rest = std::make_unique<Reply::Rest>();
  return replies_.back().rest->text;
}

void RedisSession::fail(const Error& error) {
  service_.count_error(error.code);
  put_error(reply(), resp_prefix(error.code), error.message());
}

void RedisSession::fail(std::string_view message) {
  service_.count_error(Code::kInvalidArgument);
  put_error(reply(), "ERR", message);
}

void RedisSession::put_list(std::string list) {
  list_ = std::move(list);
  of_list_sent_ = 0;
  put_part_of_list();
}

void RedisSession::put_part_of_list() {
  constexpr std::size_t part = std::size_t{64} * 1024;
  reply() += std::string_view(list_).substr(of_list_sent_, part);
  of_list_sent_ += part;
  if (of_list_sent_ >= list_.size()) std::string().swap(list_);
  connection_.set_queued(queued_bytes_ + list_.size());
}

void RedisSession::count_behind() {
  if (replies_.empty()) return;
  if (Reply& last = replies_.back(); last.kind == Reply::kText) {  // the only one that grows
    const auto now = static_cast<std::uint32_t>(sizeof(Reply) + last.rest->text.size());
    behind_ += now - last.counted;
    last.counted = now;
  }
  connection_.set_behind(behind_);
}

RedisSession::Reply& RedisSession::add_pending(Reply::Kind kind, SourceHandle source) {
  submit_batch();
  count_behind();
  Reply& reply = replies_.emplace_back();
  reply.session = this;
  reply.kind = kind;
  if (kind != Reply::kInteger && kind != Reply::kId) reply.rest = std::make_unique<Reply::Rest>();
  reply.ready = false;
  reply.source = std::move(source);
  reply.integers = integers();
  // It may have waited before, for its source to be opened.
  reply.begun = held_since_ != SteadyTime{} ? std::exchange(held_since_, {}) : begun();
  ++service_.waiting_calls;
  if (pending_++ == 0 && !held_) kept_ = connection_.shared_from_this();
  return reply;
}

SteadyTime RedisSession::begun() {
  if (begun_ == SteadyTime{}) begun_ = std::chrono::steady_clock::now();
  return begun_;
}

void RedisSession::take_one(Reply::Kind kind, SourceHandle source) {
  source->height.ask(1);
  if (batch_ != nullptr && batch_ == &replies_.back() && batch_->kind == kind &&
      batch_->source == source) {
    ++batch_->calls;
    ++pending_;
    ++service_.waiting_calls;
  } else {
    batch_ = &add_pending(kind, std::move(source));
  }
}

void RedisSession::submit_batch() {
  if (batch_ == nullptr) return;
  Reply& reply = *std::exchange(batch_, nullptr);
  if (reply.calls > 1) {
    reply.rest = std::make_unique<Reply::Rest>();
    reply.rest->values.resize(reply.calls);
    pending_ids_ += reply.calls;
  }
  CounterSequence& counter = *reply.source->counter;
  wait_for(reply, counter.submit_each(reply.ones(), [&reply](CounterSequence::Served served) {
    reply.served = static_cast<std::uint32_t>(served.callers);
    if (served.error) reply.error = std::make_unique<Error>(*std::move(served.error));
    reply.session->service_.loop.deliver(reply);
  }));
}

void RedisSession::wait_for(Reply& reply, Result<void> submitted) {
  if (submitted) return;
  reply.error = std::make_unique<Error>(std::move(submitted.error()));
  service_.loop.deliver(reply);
}

void RedisSession::answered(Reply& reply) {
  reply.ready = true;
  reply.source->height.got(reply.calls * reply.wanted(), reply.highest());
  pending_ -= reply.calls;
  service_.waiting_calls -= reply.calls;
  std::size_t bytes = sizeof(Reply) * reply.calls;
  if (reply.rest != nullptr) {
    pending_ids_ -= reply.rest->values.size();
    bytes += reply.rest->values.size() * sizeof(std::int64_t);
  }
  if (reply.error) bytes += reply.calls * reply.error->message().size();
  reply.counted = static_cast<std::uint32_t>(bytes);
  behind_ += bytes;
  if (settling_) return;
  settling_ = true;
  service_.settling.push_back(this);
}

std::int64_t RedisSession::Reply::highest() noexcept {
  if (is_of_ones()) return served != 0 ? std::ranges::max(ones().first(served)) : 0;
  if (error) return 0;
  return kind == kIds ? std::ranges::max(rest->values) : rest->range.last();
}

void RedisSession::settle() {
  settling_ = false;
  // The reply may hold the last handle of the connection, and of this session.
  const std::shared_ptr<Connection> stays =
      pending_ == 0 && !held_ ? std::move(kept_) : connection_.shared_from_this();
  std::string& out = connection_.out();
  while (!replies_.empty() && replies_.front().ready) {
    if (!connection_.is_closed()) finish(replies_.front(), out);
    behind_ -= replies_.front().counted;
    replies_.pop_front();
  }
  connection_.set_behind(behind_);
  if (connection_.is_closed()) return;
  if (pending_ == 0) barrier_ = false;
  connection_.resume();
}

void RedisSession::count_taken(const OpenSource& source, std::int64_t first, std::int64_t last,
                               std::size_t count) {
  service_.count_ids(source, count);
  service_.log_taken(caller_.get(), connection_, source, first, last,
                     static_cast<std::int64_t>(count));
}

// The error of one command.
void RedisSession::put_failure(const Reply& reply, std::string& out) {
  const Code code = reply.error->code;
  service_.count_error(*reply.source, code);
  // The caller is the one who asked: AUTH and HELLO wait for this reply.
  if (!outcome_unknown(code)) caller_->refund(reply.wanted());
  const Error told = service_.for_client(*reply.error, reply.source->name);
  put_error(out, resp_prefix(told.code), told.message());
  if (code == Code::kOutOfRange || code == Code::kFailedPrecondition)
    service_.sources.forget(reply.source, *reply.error, reply.is_of_ones());
}

void RedisSession::finish(Reply& reply, std::string& out) {
  if (reply.kind == Reply::kText) {
    out += reply.rest->text;
    return;
  }
  service_.counts.redis.waits[CallCounts::index(Verb::kNext)].add(
      service_.answered_at - reply.begun, reply.calls);
  const auto put_id = [&](std::int64_t value) {
    std::array<char, kMaxFormChars> text;
    const char* const end = to_chars(Id(value), reply.source->declaration().form, text.data());
    put_bulk(out, {text.data(), end});
  };
  const auto log = [&](std::int64_t first, std::int64_t last, std::size_t count) {
    count_taken(*reply.source, first, last, count);
  };
  if (reply.is_of_ones()) {
    for (const std::int64_t value : reply.ones().first(reply.served)) {
      log(value, value, 1);
      reply.kind == Reply::kInteger ? put_value(out, value, reply.integers, *reply.source)
                                    : put_id(value);
    }
    for (std::uint32_t i = reply.served; i < reply.calls; ++i) put_failure(reply, out);
    return;
  }
  if (reply.error) return put_failure(reply, out);
  using enum Integers;
  switch (reply.kind) {
    case Reply::kText:
    case Reply::kInteger:
    case Reply::kId:
      break;
    case Reply::kIds: {
      const std::vector<std::int64_t>& values = reply.rest->values;
      log(values.front(), values.back(), values.size());
      put_array(out, values.size());
      for (const std::int64_t value : values) put_id(value);
      break;
    }
    case Reply::kLast:
    case Reply::kRange: {
      const Range& range = reply.rest->range;
      log(range.first, range.last(), static_cast<std::size_t>(range.count));
      // Both values, or one error.
      if (reply.kind == Reply::kRange && (is_exact(range.last()) || reply.integers != kUnknown)) {
        put_array(out, 2);
        put_value(out, range.first, reply.integers, *reply.source);
      }
      put_value(out, range.last(), reply.integers, *reply.source);
      break;
    }
  }
}

// ---- what is done elsewhere

void RedisSession::hold() {
  submit_batch();
  held_ = true;
  if (held_since_ == SteadyTime{}) {
    held_since_ = begun();
    held_as_ = counted_as_;
  }
  if (!kept_) kept_ = connection_.shared_from_this();
}

void RedisSession::go_on() {
  held_ = false;
  submit_batch();
  if (held_since_ != SteadyTime{})
    service_.counts.redis.waits[CallCounts::index(held_as_)].add(std::chrono::steady_clock::now() -
                                                                 std::exchange(held_since_, {}));
  const std::shared_ptr<Connection> stays =
      pending_ == 0 ? std::move(kept_) : connection_.shared_from_this();
  count_behind();
  if (!connection_.is_closed()) connection_.resume();
}

SourceHandle RedisSession::source_of(Words words, std::string_view name) {
  if (SourceHandle source = service_.sources.find(name, last_source_)) return source;
  if (const auto opened = std::exchange(opened_, std::nullopt)) {
    if (*opened) return **opened;
    fail(service_.for_client(opened->error(), name));
    return nullptr;
  }
  hold();
  service_.sources.open(
      name, [this, owned = Owned(words.begin(), words.end())](const Result<SourceHandle>& opened) {
        held_ = false;  // the command may hold the session again, for a pool
        if (connection_.is_closed()) return go_on();  // nobody waits for it: nothing is taken
        opened_ = opened;
        run_again(owned);
        opened_.reset();
        if (!held_) go_on();
      });
  return nullptr;
}

void RedisSession::run_again(const Owned& words) {
  const std::vector<std::string_view> again(words.begin(), words.end());
  const Command& same = *command_named(again.front());
  if (may(same, again)) (this->*same.run)(again);  // its token may be gone since
}

bool RedisSession::holds(const SourceHandle& source, std::int64_t count, Words words) {
  if (integers() != Integers::kUnknown) return true;
  Height& height = source->height;
  if (!height.is_unseen()) {
    if (!height.may_pass(count)) return true;
    fail(beyond(source->name, "nothing was taken"));
    return false;
  }
  hold();
  service_.loop.elsewhere(
      service_.bulkhead_of(source->name), service_.loop.due(),
      [&sources = service_.sources, name = source->name](SteadyTime until) {
        return sources.peek(name, until);
      },
      [this, source, owned = Owned(words.begin(), words.end())](Result<SequenceStatus> status) {
        held_ = false;  // as in source_of()
        if (connection_.is_closed()) return go_on();
        Result<void> seen = status ? source->height.look(*status)
                                   : Result<void>(std::unexpected(std::move(status.error())));
        if (seen) {
          run_again(owned);
        } else {
          fail(service_.for_client(std::move(seen.error()), source->name));
        }
        if (!held_) go_on();
      });
  return false;
}

void RedisSession::put_value(std::string& out, std::int64_t value, Integers integers,
                             const OpenSource& source) {
  if (integers == Integers::kWhole || is_exact(value)) return put_integer(out, value);
  if (integers == Integers::kText) return put_bulk(out, std::to_string(value));
  service_.count_error(source, Code::kOutOfRange);
  put_error(out, resp_prefix(Code::kOutOfRange), beyond(source.name, "its value was skipped"));
}

void RedisSession::take_values(Words words, SourceHandle source, std::int64_t count,
                               bool as_integer, bool as_array) {
  if (as_integer && !holds(source, count, words)) return;
  // Captured by value: for a pool it is called after this function has returned.
  const auto put = [this, &its = *source, as_integer, client = integers()](std::string& out,
                                                                           const Id& id) {
    if (as_integer) {
      const auto* const integer = std::get_if<std::int64_t>(&id);
      const std::uint64_t value = integer != nullptr ? static_cast<std::uint64_t>(*integer)
                                                     : std::get<Snowflake>(id).value();
      // Beyond 2^63-1 there is no integer.
      if (static_cast<std::int64_t>(value) < 0) return put_unsigned(out, value);
      return put_value(out, static_cast<std::int64_t>(value), client, its);
    }
    std::array<char, kMaxFormChars> text;
    const char* const end = to_chars(id, its.declaration().form, text.data());
    put_bulk(out, {text.data(), end});
  };
  if (const std::int64_t most = source->declaration().largest_count; most != 0 && count > most)
    return fail(source->name + ": ask for at most " + std::to_string(most) + " ids in one call");
  if (const Result<void> fits = service_.admit_whole(count, connection_); !fits)
    return fail(fits.error());
  if (!source->is_format() && !admit()) return;  // a format does not wait
  if (!charge(count)) return;
  const auto size = static_cast<std::size_t>(count);
  if (source->is_format()) {
    Id one;
    std::vector<Id> many(as_array ? size : 0);
    const std::span<Id> ids = as_array ? std::span(many) : std::span(&one, 1);
    if (const Result<void> filled = source->source->next(ids); !filled) {
      ++source->counts->errors;
      caller_->refund(count);
      return fail(service_.for_client(filled.error(), source->name));
    }
    service_.count_ids(*source, size);
    std::string& out = reply();
    if (as_array) put_array(out, size);
    for (const Id& id : ids) put(out, id);
    return;
  }
  if (source->is_pool()) {
    // Its ids increase in the order of the calls, so there is one at a time.
    hold();
    service_.loop.elsewhere(
        service_.bulkhead_of(source->name), service_.loop.due(),
        [source, size](SteadyTime until) -> Result<std::vector<Id>> {
          std::vector<Id> ids(size);
          if (Result<void> filled = source->source->next(ids, until); !filled)
            return std::unexpected(std::move(filled.error()));
          return ids;
        },
        [this, source, put, as_array, count](const Result<std::vector<Id>>& ids) {
          if (ids) {
            service_.count_ids(*source, ids->size());
            std::string& out = reply();
            if (as_array) put_array(out, ids->size());
            for (const Id& id : *ids) put(out, id);
          } else {
            ++source->counts->errors;
            if (!outcome_unknown(ids.error().code)) caller_->refund(count);
            fail(service_.for_client(ids.error(), source->name));
            if (ids.error().code == Code::kFailedPrecondition)
              service_.sources.forget(source, ids.error(), false);
          }
          go_on();
        });
    return;
  }
  const Reply::Kind one_as = as_integer ? Reply::kInteger : Reply::kId;
  if (source->counter != nullptr && !as_array) return take_one(one_as, std::move(source));
  std::int64_t one = 0;
  std::vector<std::int64_t> many(as_array ? size : 0);
  if (const std::span<std::int64_t> held = as_array ? std::span(many) : std::span(&one, 1);
      source->sequence->try_next(held)) {
    source->height.got(0, std::ranges::max(held));
    count_taken(*source, held.front(), held.back(), size);
    std::string& out = reply();
    if (as_array) put_array(out, size);
    for (const std::int64_t value : held) put(out, Id(value));
    return;
  }
  Sequence& sequence = *source->sequence;
  source->height.ask(count);
  Reply& reply = add_pending(as_array ? Reply::kIds : one_as, std::move(source));
  std::span<std::int64_t> out(&reply.value, 1);
  if (as_array) {
    reply.rest->values = std::move(many);
    pending_ids_ += size;
    out = reply.rest->values;
  }
  wait_for(reply, sequence.submit(out, [&reply](Result<void> filled) {
    reply.served = filled ? reply.calls : 0;
    if (!filled) reply.error = std::make_unique<Error>(std::move(filled.error()));
    reply.session->service_.loop.deliver(reply);
  }));
}

}  // namespace idmint::server
