// The fence of counter documents of programs that do without idmint: the field of each is moved up
// to the largest value that production's had.
//
// That is where the programs go on without a repeat, whether the field holds the value that came
// last or the one that comes next: it is how production's own document went on.
#pragma once

#include <string>
#include <vector>

#include "idmint/mongodb.h"
#include "idmint/result.h"
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
  std::vector<CounterField> counters{};  // that are counters whatever they look like
  std::vector<UsedIn> used_in{};         // by FencedDocument::label()
  std::vector<std::string> exclude{};    // of a namespace, or of a label
};

// For one thread; the servers and what was handed out outlive it.
class DocumentFence {
 public:
  // `there`: the target. `live`: null, where there is none. Documents that an idmint sequence has
  // adopted are not for this.
  DocumentFence(DocumentFenceOptions options, Server& target, const ServerState& there,
                Server* live, const ServerState* live_there, const HandedOut& handed_out);
  ~DocumentFence();
  DocumentFence(const DocumentFence&) = delete;
  DocumentFence& operator=(const DocumentFence&) = delete;

  // A row for each counter document that production moved, by namespace and _id. Writes nothing.
  [[nodiscard]] Result<std::vector<FencedDocument>> plan();
  // What looks like a counter of the recipes and is not taken for one, a sentence each. After
  // plan().
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

// The value of the document's field is `to` or larger afterwards, in the type that it had. One
// atomic step on the document. kNotFound: the document is gone. kFailedPrecondition: the field
// cannot count to there. kUnavailable: the server is gone, or somebody else writes to it without
// end.
[[nodiscard]] Result<void> raise_field(Server& server, const CountedField& field, std::int64_t to);

}  // namespace idmint::restore
