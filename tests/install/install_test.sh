#!/usr/bin/env bash
# Builds libidmint shared or static, installs it, and uses it from outside as others would: through
# find_package and through pkg-config. The static one comes with idmint and idmintd. `restore` builds
# and installs idmint-restore without them.
#
#   install_test.sh shared|static|restore SOURCE_DIR WORK_DIR CXX
set -euo pipefail
kind=$1 source=$2 work=$3 cxx=$4

fail() {
  echo "install_test: $*" >&2
  exit 1
}

case $kind in
  shared) shared=ON cli=OFF restore=OFF ;;
  static) shared=OFF cli=ON restore=OFF ;;
  restore) shared=OFF cli=OFF restore=ON ;;
  *) fail "shared, static or restore?" ;;
esac
prefix=$work/prefix
rm -rf "$prefix" "$work/consumer" "$work/ids.db"*

# With the flags of the dev preset and as deep in the tree, so that ccache has most objects of it.
export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
cmake -S "$source" -B "$work" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO='-O1 -g1' -DBUILD_SHARED_LIBS=$shared -DIDMINT_TESTS=OFF \
  -DIDMINT_CLI=$cli -DIDMINT_RESTORE=$restore >"$work/configure.log" || {
  cat "$work/configure.log"
  fail "configuring failed"
}
cmake --build "$work"
cmake --install "$work" --prefix "$prefix" >"$work/install.log"

# installed PROGRAM: it starts, and has its manual page and its completions.
installed() {
  local file
  "$prefix/bin/$1" --version >/dev/null || fail "the installed $1 does not start"
  for file in share/man/man1/$1.1 share/bash-completion/completions/$1 \
    share/zsh/site-functions/_$1 share/fish/vendor_completions.d/$1.fish; do
    [[ -s $prefix/$file ]] || fail "$file was not installed"
  done
}

if [[ $kind == restore ]]; then
  installed idmint-restore
  [[ $(ls "$prefix/bin") == idmint-restore ]] || fail "more than idmint-restore was built: $(ls "$prefix/bin")"
  for unit in service timer; do
    [[ -s $prefix/lib/systemd/system/idmint-restore-keep@.$unit ]] || fail "the $unit was not installed"
  done
  exit 0
fi

# use WHAT COMMAND...: the consumer must mint, and its sequence must go on where the last one ended.
next=1000
use() {
  local what=$1 out
  shift
  out=$("$@" "$work/ids.db") || fail "the $what consumer failed"
  [[ $out =~ ^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\ $next$ ]] ||
    fail "the $what consumer printed '$out', not a version 7 UUID and $next"
  next=$((next + 1))
}

cmake -S "$source/tests/install/consumer" -B "$work/consumer" -G Ninja \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/consumer"
use find_package "$work/consumer/consumer"

pc_dir=$(dirname "$(find "$prefix" -name idmint.pc)")
export PKG_CONFIG_PATH=$pc_dir
lib_dir=$(pkg-config --variable=libdir idmint)
# The plain call must do, whichever library is installed; with the static one also --static.
calls=("--cflags --libs")
[[ $kind == static ]] && calls+=("--cflags --libs --static")
for call in "${calls[@]}"; do
  # shellcheck disable=SC2086  # the words of the call are wanted
  read -r -a flags <<<"$(pkg-config $call idmint)"
  "$cxx" -std=c++23 -Wall -Wextra -Werror "$source/tests/install/consumer/consumer.cc" \
    "${flags[@]}" -o "$work/pkg_config_consumer"
  use "pkg-config $call" env LD_LIBRARY_PATH="$lib_dir" "$work/pkg_config_consumer"
done

read -r -a flags <<<"$(pkg-config --cflags idmint)"
old=$("$cxx" -std=c++20 "${flags[@]}" -fsyntax-only "$source/tests/install/consumer/consumer.cc" 2>&1) &&
  fail "the headers compile as C++20: the #error can go"
grep -qF 'idmint needs C++23 (-std=c++23)' <<<"$old" || fail "C++20 is refused, but not by name: $old"

# Everything that a public header includes is the standard library's (no dot, no slash) or ours.
foreign=$(grep -rhE '^ *# *include' "$prefix/include" | grep -vE '<[a-z_0-9]+>|"idmint/[a-z_0-9]+\.h"' || true)
[[ -z $foreign ]] || fail "public headers include something foreign: $foreign"

if [[ $kind == shared ]]; then
  exported=$(nm -D --defined-only --demangle "$lib_dir/libidmint.so" | cut -d' ' -f3-)
  grep -q 'idmint::Store::open(' <<<"$exported" || fail "libidmint.so does not show Store::open"
  foreign=$(grep -vE '^((typeinfo( name)?|vtable) for )?idmint::' <<<"$exported" || true)
  [[ -z $foreign ]] || fail "libidmint.so shows what is not idmint's: $foreign"
  echo "libidmint.so shows $(wc -l <<<"$exported") names, all idmint's"
else
  "$prefix/bin/idmint" next uuid7 >/dev/null || fail "the installed command does not mint"
  installed idmint
  [[ ! -e $prefix/bin/idmint-restore ]] || fail "idmint-restore was built in spite of -DIDMINT_RESTORE=OFF"
  installed idmintd
  [[ -s $prefix/lib/sysusers.d/idmintd.conf ]] || fail "the user of idmintd was not installed"
  [[ -s $prefix/share/doc/idmint/docs/server.md ]] || fail "the documents were not installed"
  for unit in idmintd.service idmintd-redis.socket idmintd-http.socket; do
    [[ -s $prefix/lib/systemd/system/$unit ]] || fail "$unit was not installed"
  done
  [[ -s $prefix/share/doc/idmint/idmint.rules.yml ]] || fail "the alert rules were not installed"
  [[ ! -e $prefix/share/idmint ]] || fail "something was installed into what is the data folder if the prefix is ~/.local"
fi
