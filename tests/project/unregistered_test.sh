#!/usr/bin/env bash
# A test file that no CMakeLists.txt names would never run, so it must fail the configure.
#
#   unregistered_test.sh SOURCE_DIR WORK_DIR CXX
set -euo pipefail
source=$1 work=$2 cxx=$3

rm -rf "$work"
mkdir -p "$work/copy"
tar -C "$source" --exclude=./build --exclude=./.git --exclude=./.cache -cf - . | tar -C "$work/copy" -xf -

configure() {
  cmake -S "$work/copy" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" >"$work/log" 2>&1
}

configure || {
  cat "$work/log"
  echo "unregistered_test: the copy does not configure even without the extra file" >&2
  exit 1
}
for folder in src/ids tests/e2e; do
  extra=$work/copy/$folder/forgotten_test.cc
  touch "$extra"
  if configure; then
    echo "unregistered_test: $folder/forgotten_test.cc was not noticed" >&2
    exit 1
  fi
  grep -q 'forgotten_test\.cc' "$work/log" || {
    cat "$work/log"
    echo "unregistered_test: the configure failed, but did not name forgotten_test.cc" >&2
    exit 1
  }
  rm "$extra"
done
