// A sequence of the values 1 to 6 over two stores, of which a test can fail one.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "idmint/mint.h"
#include "idmint/sequence.h"
#include "idmint/store.h"
#include "idmint/uuid.h"
#include "tests/fakes/gated_store.h"
#include "tests/fakes/temp_folder.h"

namespace idmint::fakes {

class MultiStorePair {
 public:
  MultiStorePair() {
    const auto file =
        Store::open("sqlite:" + folder_.path("b.db"), {.trust_folder = trust_}).value();
    const std::array<Store*, 2> both = {gated.get(), file.get()};
    EXPECT_TRUE(
        create_sequence(both, {.name = "tickets", .strategy = Strategy::kInterleaved, .last = 6}));
  }

  // For a mint or a server over `gated`, which opens the file at its place.
  [[nodiscard]] MintOptions options() const {
    MintOptions options;
    options.store_options.deadline = std::chrono::hours{1};
    options.store_options.trust_folder = trust_;
    return options;
  }
  // Its counter fails until it is mended.
  void fail() { gated->fail_counter("tickets", Error{Code::kUnavailable, "away"}); }
  // Nothing is in the place of the other store any more.
  void forget_file() const { std::filesystem::remove(folder_.path("b.db")); }
  void mend() { gated->fail_counter("tickets", std::nullopt); }

 private:
  TempFolder folder_;
  const std::string trust_ = folder_.path("trust");

 public:
  const std::shared_ptr<GatedStore> gated = std::make_shared<GatedStore>(
      Uuid4Generator().next(), "redis://gated-a");  // 1, 3, 5; the file has the others
};

}  // namespace idmint::fakes
