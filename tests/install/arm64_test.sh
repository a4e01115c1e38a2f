#!/usr/bin/env bash
# Builds for arm64 what needs no server, and runs by qemu-user the tests of base, ids and sequences: with the vectors that hold
# for every processor. Then both architectures print the numbers of one permuted sequence, in bulk and one by one.
#
#   arm64_test.sh SOURCE_DIR BUILD_DIR      BUILD_DIR has the idmint of this machine
set -euo pipefail
source=$(realpath -- "$1") build=$(realpath -- "$2") # a data folder has an absolute path
# shellcheck source=tests/fresh/machine.sh
. "$source/tests/fresh/machine.sh"
machine_require "$@" # for the image

"$source/scripts/setup" arm64
cd "$source"
cmake --preset arm64
tests=(base_test clock_test entropy_test fork_wiped_by_hand_test ids_test sequences_test)
cmake --build --preset arm64 --target "${tests[@]}" idmint_cli
# In a child of a process with threads qemu-user may hang. It does nothing for a child of a bare clone(), reports no mount
# points, and has its own memory and time.
left_out=$(paste -sd : tests/install/arm64_left_out)
for test in "${tests[@]}"; do
  echo "== $test"
  timeout 1200 qemu-aarch64-static "build/arm64/bin/$test" --gtest_brief=1 --gtest_filter="-$left_out" ||
    fail "$test failed"
done

work=$build/arm64_test
rm -rf "$work"
mkdir -p "$work"
printf '[sequence.cards]\ndigits = 12\nstrategy = "permuted"\ncheck = "damm"\nkey = "%s"\n' 00112233445566778899aabbccddeeff >"$work/cards.toml"
XDG_DATA_HOME=$work/x86 "$build/bin/idmint" apply "$work/cards.toml" --store "sqlite:$work/x86.db"
XDG_DATA_HOME=$work/arm qemu-aarch64-static build/arm64/bin/idmint apply "$work/cards.toml" --store "sqlite:$work/arm.db"
for take in 10000 1 7 4096; do
  XDG_DATA_HOME=$work/x86 "$build/bin/idmint" next cards -n "$take" --store "sqlite:$work/x86.db" >"$work/here"
  XDG_DATA_HOME=$work/arm qemu-aarch64-static build/arm64/bin/idmint next cards -n "$take" --store "sqlite:$work/arm.db" >"$work/there"
  [[ $(wc -l <"$work/here") == "$take" ]] || fail "not $take numbers"
  cmp "$work/here" "$work/there" || fail "the architectures give other numbers"
done
for id in 01a229e9-7757-74ff-9041-572e06279246 01JDXW2R5M8Q3V7T9K1N4P6S0Z 454947766275222906; do
  "$build/bin/idmint" inspect $id --json >"$work/here"
  qemu-aarch64-static build/arm64/bin/idmint inspect $id --json >"$work/there"
  cmp "$work/here" "$work/there" || fail "the architectures read $id otherwise"
done

# What is installed for arm64: the image has the packages, which apt of arm64 installed.
scripts/package image --arch arm64 --to "$work/packages"
machine_unpack "$work"/packages/idmintd-*-arm64.oci.tar "$work/bundle"
for program in idmint idmintd; do
  readelf --file-header "$work/bundle/rootfs/usr/bin/$program" | grep -q AArch64 || fail "$program is for another processor"
  [[ $(chroot "$work/bundle/rootfs" "/usr/bin/$program" --version) == "$program "* ]] || fail "$program does not start"
done
echo "arm64 gives what this machine gives"
