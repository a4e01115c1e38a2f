#!/usr/bin/env bash
# The tarball: the programs start on Debian 11, whose glibc is the oldest that is promised, with nothing of idmint's needs
# installed; made again by another folder and without ccache it has the same bytes; and the SBOM names what is in it.
#
#   tarball_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 work=$2/tarball_test
# shellcheck source=tests/fresh/machine.sh
. "$source/tests/fresh/machine.sh"
machine_require "$@"

rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work/old" "$work/again"' EXIT
"$source/scripts/package" tarball --to "$work/made"
made=$(echo "$work"/made/idmint-*-linux-*.tar.gz)
name=$(basename "$made" .tar.gz)

# 1. The oldest system.
mmdebstrap --quiet --variant=minbase --include=iproute2 bullseye "$work/old" >"$work/old.log" 2>&1 || fail "no Debian 11: $(cat "$work/old.log")"
tar --extract --file "$made" --directory "$work/old/srv"
inside() { machine_run "$work/old" env PATH="/srv/$name/bin:$PATH" "$@"; }
for program in idmint idmintd idmint-restore; do
  [[ $(inside $program --version) == "$program "* ]] || fail "$program does not start"
done
inside idmint create orders --start 1000 >/dev/null
[[ $(inside idmint next orders -n 3 | tr '\n' ' ') == '1000 1001 1002 ' ]] || fail "no numbers"
[[ $(inside idmint next uuid7 -n 1000 | sort -u | wc -l) == 1000 ]] || fail "no UUIDs"
said=$(inside unshare --net bash -c 'ip link set lo up # the ports of another idmintd are not here
  idmintd >/srv/log 2>&1 &
  until idmintd probe >/srv/said 2>&1; do kill -0 $! || exit 1; done
  exec 3<>/dev/tcp/127.0.0.1/7379 && printf "INCR orders\r\n" >&3 && head -n 1 <&3
  kill $! && wait $!') || fail "the daemon: $(cat "$work/old/srv/log")"
[[ $said == *:1003* ]] || fail "the daemon gives $said"
said=$(inside idmint list --store postgresql://h/d 2>&1) && fail "a server is there"
[[ $said == *libpq5* ]] || fail "without libpq it says: $said"

# 2. What is in it.
jq --exit-status '.spdxVersion == "SPDX-2.3" and ([.packages[].name] | contains(["idmint", "openssl", "sqlite3", "boost1.81"]))
  and all(.packages[]; .licenseDeclared != null)
  and ([.relationships[] | .spdxElementId, .relatedSpdxElement] - [.SPDXID, .packages[].SPDXID] == [])' \
  "${made%.tar.gz}.spdx.json" >/dev/null || fail "the SBOM is not as it should be"
cmp "${made%.tar.gz}.spdx.json" "$work/old/srv/$name/"*.spdx.json || fail "the SBOM in the tarball is another one"

# 3. The same bytes, from another folder and by the compiler itself.
mkdir "$work/again"
git -C "$source" ls-files -z --cached --others --exclude-standard |
  tar --create --directory "$source" --null --files-from=- --ignore-failed-read | tar --extract --directory "$work/again"
CCACHE_DISABLE=1 "$work/again/scripts/package" tarball --to "$work/again/build/packages"
for file in "$name.tar.gz" "$name.spdx.json"; do
  cmp "$work/made/$file" "$work/again/build/packages/$file" || fail "made again, $file has other bytes"
done
echo "the tarball starts on glibc 2.31, and made twice it has the same bytes: $(stat --format=%s "$made") of them"
