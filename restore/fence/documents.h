// The fence of counter documents of programs without idmint: raises the field of each to the
// largest value that production's field had.
//
// From there the programs continue without a repeat, whether the field holds the last value or the
// next one, because production's own document continued in the same way.
#pragma once

#include <string>
#include <vector>

#include "idmint/mongodb.h"
#include "restore/error_in.h"
#include "restore/fence/handed_out.h"
#include "restore/fence/report.h"
#include "restore/fence/server_state.h"
#include "restore/fence/shapes.h"
#include "restore/fence/sources.h"
#include "restore/server.h"

namespace idmint::restore {

struct DocumentFenceOptions {
  std::string target_uri{};  // with passwords, for used_in
  std::string live_uri{};
  std::vector<CounterField> counters{};  // fields that are counters whatever they look like
  std::vector<UsedIn> used_in{};         // by FencedDocument::label()
  std::vector<std::string> exclude{};    // patterns of a namespace, or of a label
};

// For one thread. The servers and `handed_out` must outlive it.
class DocumentFence {
 public:
  // `there`: the state of the target. `live` is null without a live server. Documents that an
  // idmint sequence has adopted are skipped.
  DocumentFence(DocumentFenceOptions options, Server& target, const ServerState& there,
                Server* live, const ServerState* live_there, const HandedOut& handed_out);
  ~DocumentFence();
  DocumentFence(const DocumentFence&) = delete;
  DocumentFence& operator=(const DocumentFence&) = delete;

  // One row for each counter document that production changed, sorted by namespace and _id. Writes
  // nothing.
  [[nodiscard]] Result<std::vector<FencedDocument>> plan();
  // After plan(): documents that resemble counters of the recipes but are not treated as counters,
  // a sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  // As SourceFence::carry_out().
  [[nodiscard]] Result<void> carry_out(std::size_t position, FencedDocument& row);

 private:
  struct Planned;
  struct Known;
  [[nodiscard]] Result<std::vector<CountedField>> candidates();
  [[nodiscard]] Result<void> plan_field(const CountedField& field, const Known& known);
  [[nodiscard]] Result<void> look_into_collections(const CountedField& field, Planned& planned);
  [[nodiscard]] bool is_named(const CountedField& field) const;
  [[nodiscard]] bool is_adopted(const CountedField& field) const;

  const DocumentFenceOptions options_;
  Server& target_;
  const ServerState& there_;
  Server* const live_;
  const ServerState* const live_there_;
  const HandedOut& handed_out_;
  std::vector<std::string> notes_;
  std::vector<Planned> planned_;
};

// Raises the field to at least `to` and keeps its type, by one atomic update of the document.
// Errors:
// - kNotFound: the document is gone.
// - kFailedPrecondition: the field cannot count to there.
// - kUnavailable: the server is gone, or others keep writing to the field.
[[nodiscard]] Result<void> raise_field(Server& server, const CountedField& field, std::int64_t to);

// The _id of {_id: ID}, as bytes: a text as it is, anything else as relaxed JSON.
[[nodiscard]] std::string id_for_people(const std::string& id);

}  // namespace idmint::restore
