// Where the servers of a ZooKeeper ensemble are, and who asks: what a URL says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "idmint/result.h"

namespace idmint::stores::zookeeper {

struct Address {
  std::string shown;                 // the URL without its password, for messages
  std::vector<std::string> servers;  // "zk1:2181", in the order of the URL
  std::string root;                  // the node of the store, such as "/ids"
  // "USER:PASSWORD" for the scheme digest; empty: none, and anyone may change the nodes.
  std::string credentials{};
  // The version of a node is a number of 32 bits that wraps, and -1 is no condition. From this one
  // on a node is made anew when it is changed, and begins with 0. No node gets there within the
  // time for which a version that was read counts.
  std::int32_t renewed_at = 1 << 30;
};

// zookeeper://[USER:PASSWORD@]HOST[:PORT],.../[PATH]; the port is 2181 and the path is idmint if
// the URL does not say. kInvalidArgument: not such a URL. The message holds no secret.
[[nodiscard]] Result<Address> parse_address(std::string_view url);

}  // namespace idmint::stores::zookeeper
