// The fence of idmint's own sequences and pools: raises each past what production handed out,
// through its store.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "idmint/definition.h"
#include "idmint/mongodb.h"
#include "idmint/store.h"
#include "restore/error_in.h"
#include "restore/fence/handed_out.h"
#include "restore/fence/report.h"
#include "restore/server.h"

namespace idmint::restore {

// A field of a collection that holds ids of a source.
struct UsedIn {
  std::string source{};      // DATABASE/NAME
  std::string collection{};  // DATABASE.COLLECTION
  std::string field{};
};
// Parses SOURCE=DATABASE.COLLECTION:FIELD. kInvalidArgument: the text has another form.
[[nodiscard]] Result<UsedIn> parse_used_in(std::string_view text);

struct SourceFenceOptions {
  std::string target{};  // the URIs, with passwords
  std::string live{};    // empty: none
  bool leave_gap = false;
  bool reopen = false;  // sources that production retired stay open
  std::vector<UsedIn> used_in{};
  std::vector<std::string> exclude{};
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  // for one call of a store
  // Production's values between the limit and the oplog are unknown, so sources that are neither in
  // the oplog nor on the live server are refused.
  bool must_be_seen = false;
};

// The stores of a target. For one thread. The servers and `handed_out` must outlive it.
class SourceFence {
 public:
  // `there`: the state of the target. `handed_out`: from the oplog and the live server together.
  // `live` is null without a live server.
  SourceFence(SourceFenceOptions options, Server& target, Server* live,
              const HandedOutStores& there, const HandedOutStores& handed_out);
  ~SourceFence();
  SourceFence(const SourceFence&) = delete;
  SourceFence& operator=(const SourceFence&) = delete;

  // One row for each source with the planned action, sorted by database and name. Writes nothing.
  // Fails only if a server does not answer; faults of a source are in its row.
  [[nodiscard]] Result<std::vector<FencedSource>> plan();

  // Carries out the row at this position and records the outcome in it. Each step is one atomic max
  // or an insert of a missing document, so a second call completes an interrupted one and never
  // lowers anything. REQUIRES: plan() gave the row, and it is not refused.
  [[nodiscard]] Result<void> carry_out(std::size_t position, FencedSource& row);

  // Counts in each store, all of whose rows were carried out, that all was raised: what hosts know
  // of values of an older state ends (Store::settle_count()).
  [[nodiscard]] Result<void> settle(std::span<const FencedSource> rows);

 private:
  struct Planned;
  [[nodiscard]] Result<Store*> store_of(const std::string& database, bool create);
  [[nodiscard]] Result<void> plan_source(const std::string& database, const std::string& name,
                                         Planned& planned);
  [[nodiscard]] Result<void> plan_sequence(const SequenceDefinition& wanted, Planned& planned);
  [[nodiscard]] Result<void> plan_gapless(const SequenceDefinition& wanted, Planned& planned);
  [[nodiscard]] Result<void> plan_claims(const SequenceDefinition& wanted, Planned& planned);
  [[nodiscard]] Result<void> plan_pool(const PoolDefinition& wanted, Planned& planned);
  [[nodiscard]] Result<void> plan_used_in(const SequenceDefinition& wanted, Planned& planned);
  [[nodiscard]] Result<void> unite_claims(Store& store, const std::string& name, FencedSource& row);

  const SourceFenceOptions options_;
  Server& target_;
  Server* const live_;
  const HandedOutStores& there_;
  const HandedOutStores& handed_out_;
  std::map<std::string, std::unique_ptr<Store>> stores_;
  std::vector<Planned> planned_;
};

}  // namespace idmint::restore
