#!/usr/bin/env bash
# Builds for arm64 what needs no server, and runs by qemu-user the tests of base, ids and sequences: with the vectors that hold
# for every processor. Then both architectures print the numbers of one permuted sequence, in bulk and one by one.
#
#   arm64_test.sh SOURCE_DIR BUILD_DIR      BUILD_DIR has the idmint of this machine
set -euo pipefail
source=$1 build=$2

fail() {
  echo "arm64_test: $*" >&2
  exit 1
}

"$source/scripts/setup" arm64
cd "$source"
cmake --preset arm64
tests=(base_test clock_test entropy_test fork_wiped_by_hand_test ids_test sequences_test)
cmake --build --preset arm64 --target "${tests[@]}" idmint_cli
# In a child of a process with threads qemu-user may hang, and its clone() is fork() without the handlers.
for test in "${tests[@]}"; do
  echo "== $test"
  timeout 1200 qemu-aarch64-static "build/arm64/bin/$test" --gtest_brief=1 --gtest_filter="-$(paste -sd : "$source/tests/install/arm64_left_out")" ||
    fail "$test failed"
done

work=$build/arm64_test
rm -rf "$work"
mkdir -p "$work"
"$build/bin/idmint" create cards --digits 12 --strategy permuted --check damm --store "sqlite:$work/x86.db"
cp "$work/x86.db" "$work/arm.db"
for take in '-n 10000' '-n 1' '-n 7' '-n 4096'; do
  # shellcheck disable=SC2086  # two words
  cmp <(XDG_DATA_HOME=$work/x86 "$build/bin/idmint" next cards $take --store "sqlite:$work/x86.db") \
    <(XDG_DATA_HOME=$work/arm qemu-aarch64-static build/arm64/bin/idmint next cards $take --store "sqlite:$work/arm.db") ||
    fail "the architectures give other numbers ($take)"
done
for id in 01a229e9-7757-74ff-9041-572e06279246 01JDXW2R5M8Q3V7T9K1N4P6S0Z 454947766275222906; do
  cmp <("$build/bin/idmint" inspect $id --json) <(qemu-aarch64-static build/arm64/bin/idmint inspect $id --json) ||
    fail "the architectures read $id otherwise"
done
echo "arm64 gives what this machine gives"
