// What an oplog did, and where it looks like a mistake. Takes about 30 MB, however long the oplog.
#pragma once

#include <memory>

#include "idmint/result.h"
#include "restore/find/answer.h"
#include "restore/find/filter.h"
#include "restore/oplog/entry.h"

namespace idmint::restore {

// For one thread.
class OplogAnalysis {
 public:
  explicit OplogAnalysis(FindFilter filter);
  ~OplogAnalysis();
  OplogAnalysis(const OplogAnalysis&) = delete;
  OplogAnalysis& operator=(const OplogAnalysis&) = delete;

  // Takes the entries in the order of the oplog, with those outside of the span: they tell what
  // numbers were before it, and what follows it. The messages do not say where the entry stands.
  //   kDataLoss: an applyOps is damaged
  //   kFailedPrecondition: the oplog is of a sharded cluster
  [[nodiscard]] Result<void> add(const Entry& entry);
  // At the end, once.
  [[nodiscard]] OplogAnswer finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace idmint::restore
