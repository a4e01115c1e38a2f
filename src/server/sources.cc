#include "server/sources.h"

#include <utility>

#include "base/errors.h"
#include "base/url.h"

namespace idmint::server {

using std::chrono::steady_clock;

namespace {
constexpr std::chrono::seconds kAtMostOnceIn{1};
}  // namespace

Sources::Sources(Loop& loop, std::shared_ptr<Store> store, MintOptions options)
    : loop_(loop),
      store_(redacted(options.store)),
      mint_(store != nullptr ? Mint(std::move(store), std::move(options))
                             : Mint(std::move(options))) {}

SourceHandle Sources::find(std::string_view name) const {
  const auto found = open_.find(name);
  return found != open_.end() ? found->second.source : nullptr;
}

void Sources::open(std::string_view name, std::function<void(const Result<SourceHandle>&)> then) {
  if (const auto ended = ended_.find(name); ended != ended_.end()) {
    if (steady_clock::now() - ended->second.since < kAtMostOnceIn) {
      loop_.post([then = std::move(then), why = ended->second.why] { then(std::unexpected(why)); });
      return;
    }
    ended_.erase(ended);
  }
  const auto [asked, first] = opening_.try_emplace(std::string(name));
  asked->second.push_back(std::move(then));
  if (!first) return;
  loop_.elsewhere(
      [this, name = asked->first]() -> Result<SourceHandle> {
        Result<std::unique_ptr<Source>> opened = mint_.source(name);
        if (!opened) return std::unexpected(std::move(opened.error()));
        // Closing a sequence may wait for its store: the loop, which may drop the last handle, does
        // not.
        SourceHandle source(new OpenSource{.source = *std::move(opened)},
                            [&executor = loop_.executor()](OpenSource* last) {
                              std::unique_ptr<OpenSource> owned(last);
                              // Not taken, the task is destroyed here, and the source with
                              // it.
                              [[maybe_unused]] const Result<void> posted = executor.post(
                                  [owned = std::move(owned)]() mutable { owned.reset(); });
                            });
        source->sequence = source->source->sequence();
        source->counter = dynamic_cast<CounterSequence*>(source->sequence);
        source->is_pool = source->sequence == nullptr && source->source->waits();
        return source;
      },
      [this, name = asked->first](Result<SourceHandle> opened) {
        if (closed_ && opened) {
          opened = fail(Code::kUnavailable, "this server is shutting down");
        } else if (opened) {
          open_[name] = {*opened, steady_clock::now()};
        }
        const auto waiting = std::move(opening_.extract(name).mapped());
        for (const auto& answer : waiting) answer(opened);
      });
}

void Sources::close() {
  closed_ = true;
  for (const auto& [name, entry] : open_) {
    if (entry.source->sequence != nullptr) entry.source->sequence->close();
  }
  for (const std::weak_ptr<OpenSource>& forgotten : forgotten_) {
    const SourceHandle source = forgotten.lock();
    if (source != nullptr && source->sequence != nullptr) source->sequence->close();
  }
}

void Sources::forget(const SourceHandle& source, const Error& why, bool of_one) {
  const std::string& name = source->declaration().name;
  const auto found = open_.find(name);
  if (found == open_.end() || found->second.source != source) return;
  const auto now = steady_clock::now();
  if (why.code == Code::kOutOfRange && of_one) {
    ended_.insert_or_assign(name, Ended{why, now});
  } else if (why.code == Code::kOutOfRange && now - found->second.opened < kAtMostOnceIn) {
    return;
  }
  std::erase_if(forgotten_, [](const auto& gone) { return gone.expired(); });
  forgotten_.push_back(source);
  open_.erase(found);
}

}  // namespace idmint::server
