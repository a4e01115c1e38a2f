#!/usr/bin/env bash
# Builds the commands once without each store that a build may leave out. A URL of it is refused by name; all others,
# and the formats, work.
#
#   options_test.sh SOURCE_DIR WORK_DIR CXX
set -euo pipefail
source=$1 work=$2 cxx=$3

fail() {
  echo "options_test: $*" >&2
  exit 1
}

export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
export XDG_DATA_HOME=$work/data # what this host remembers of stores
for option in POSTGRESQL=postgresql://h/d MARIADB=mysql://u@h/d MONGODB=mongodb://h/d REDIS=redis://h ETCD=etcd://h ZOOKEEPER=zookeeper://h; do
  store=${option%%=*} url=${option#*=}
  cmake -S "$source" -B "$work" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO='-O1 -g1' -DIDMINT_TESTS=OFF -DIDMINT_RESTORE=OFF -DIDMINT_{POSTGRESQL,MARIADB,MONGODB,REDIS,ETCD,ZOOKEEPER}=ON \
    "-DIDMINT_$store=OFF" >"$work/configure.log" || {
    cat "$work/configure.log"
    fail "without $store: configuring failed"
  }
  cmake --build "$work" || fail "without $store: building failed"
  said=$("$work/bin/idmint" list --store "$url" 2>&1) && fail "without $store: $url opened"
  [[ $said == *"IDMINT_$store"* ]] || fail "without $store: $url is refused with: $said"
  rm -rf "$work/ids.db"* "$XDG_DATA_HOME"
  "$work/bin/idmint" create orders --store "sqlite:$work/ids.db"
  [[ $("$work/bin/idmint" next orders --store "sqlite:$work/ids.db") == 1 ]] || fail "without $store: no number"
  "$work/bin/idmintd" --check --store "sqlite:$work/ids.db" || fail "without $store: idmintd does not begin"
done
