#!/usr/bin/env bash
# Builds the library within another project, by FetchContent and by add_subdirectory: without the programs, the tests and
# what those need.
#
#   embedded_test.sh SOURCE_DIR WORK_DIR CXX
set -euo pipefail
source=$1 work=$2 cxx=$3

fail() {
  echo "embedded_test: $*" >&2
  exit 1
}

# Quick to compile: without the stores of servers, and not optimised.
options=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)
for store in POSTGRESQL MARIADB MONGODB REDIS ETCD ZOOKEEPER; do options+=("-DIDMINT_$store=OFF"); done
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
launcher=$(command -v ccache || true)
absent=()
for package in Boost CLI11 GTest nlohmann_json rapidcheck spdlog tomlplusplus; do
  absent+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
done
rm -f "$work/ids.db"*
next=1000
for by in add_subdirectory FetchContent; do
  cmake -S "$source/tests/install/embedded" -B "$work" -G Ninja -DBY=$by -DIDMINT_SOURCES="$source" \
    -DCMAKE_CXX_COMPILER="$cxx" ${launcher:+-DCMAKE_CXX_COMPILER_LAUNCHER="$launcher"} "${absent[@]}" \
    "${options[@]}" >"$work/configure.log" || {
    cat "$work/configure.log"
    fail "$by: configuring failed"
  }
  cmake --build "$work" || fail "$by: building failed"
  said=$("$work/consumer" "$work/ids.db") || fail "$by: the consumer failed"
  [[ $said == *" $next" ]] || fail "$by: the consumer printed '$said'"
  next=$((next + 1))
done
targets=$(ninja -C "$work" -t targets all)
grep -q 'libidmint.a: ' <<<"$targets" || fail "ninja names no targets"
grep -E '(^|/)(idmintd|idmint-restore|[a-z_]+_test): ' <<<"$targets" && fail "more than the library would be built"
[[ ! -e $work/compile_commands.json ]] || fail "the settings of the project reach its host"
