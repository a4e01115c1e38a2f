// The blocks of commands of a document that no session shows, as they need servers.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace idmint::e2e {

// The blocks marked "sh" that are wanted, in the order of the page.
inline std::vector<std::string> blocks_of(const std::string& path,
                                          bool (*is_wanted)(std::string_view block)) {
  std::ifstream page(path);
  std::vector<std::string> blocks;
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```sh") {
      inside = true;
      block.clear();
    } else if (inside && line == "```") {
      inside = false;
      if (is_wanted(block)) blocks.push_back(block);
    } else if (inside) {
      block += line + "\n";
    }
  }
  return blocks;
}

}  // namespace idmint::e2e
