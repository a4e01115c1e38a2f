// Analyses the operations of an oplog and finds likely mistakes. Uses about 30 MB for an oplog of
// any length.
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

  // Takes all entries in the order of the oplog, including those outside the span: they show
  // earlier values, and consequences. Messages do not say where the entry is. kDataLoss: an
  // applyOps is damaged.
  [[nodiscard]] Result<void> add(const Entry& entry);
  // At the end, once.
  [[nodiscard]] OplogAnswer finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace idmint::restore
