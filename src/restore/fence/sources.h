// The fence of idmint's own sequences and pools: by the operations of their store, each past what
// production handed out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idmint/definition.h"
#include "idmint/mongodb.h"
#include "idmint/result.h"
#include "idmint/store.h"
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
// SOURCE=DATABASE.COLLECTION:FIELD. kInvalidArgument: no such text.
[[nodiscard]] Result<UsedIn> parse_used_in(std::string_view text);

struct SourceFenceOptions {
  std::string target{};  // the URIs, with passwords
  std::string live{};    // empty: there is none
  bool leave_gap = false;
  bool reopen = false;  // what production retired stays open
  std::vector<UsedIn> used_in{};
  std::vector<std::string> exclude{};
  std::chrono::milliseconds deadline = std::chrono::seconds{60};  // of a call of a store
  // Production's own values between the limit and the oplog are unknown, so what neither the oplog
  // nor the live server has is refused.
  bool must_be_seen = false;
};

// The stores of a target. For one thread; the servers and what was handed out outlive it.
class SourceFence {
 public:
  // `there`: what the target has. `handed_out`: of the oplog and the live server together; `seen`
  // has what either knows by name. `live`: null, where there is none.
  SourceFence(SourceFenceOptions options, Server& target, Server* live,
              const HandedOutStores& there, const HandedOutStores& handed_out);
  ~SourceFence();
  SourceFence(const SourceFence&) = delete;
  SourceFence& operator=(const SourceFence&) = delete;

  // A row for each source, by database and name, with what is to be done. Writes nothing. An error
  // is of a server that does not answer; what is wrong with a source is in its row.
  [[nodiscard]] Result<std::vector<FencedSource>> plan();

  // Does what the row of this position says, and fills in what came of it. Each step is one atomic
  // max or an insert of what is missing, so that the same again finishes what was cut off and never
  // lowers anything. REQUIRES: plan() gave the row, and it is not refused.
  [[nodiscard]] Result<void> carry_out(std::size_t position, FencedSource& row);

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
