#!/usr/bin/env bash
# The Debian packages of the programs of a build: what is in them, what lintian finds, and on a fresh Debian that each
# installs alone, works, and is removed without what must stay. lifecycle_test.sh does more, with systemd.
#
#   packages_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
# shellcheck source=tests/fresh/machine.sh
. "$source/tests/fresh/machine.sh"

machine_require "$@"
work=$(mktemp -d -t idmint-packages-XXXXXX)
machine=$work/machine
trap 'rm -rf --one-file-system "$work"' EXIT
cd "$source"

scripts/package deb --from "$build" --to "$work/debs" >"$work/said" || fail "no packages"
cat "$work/said"
(cd "$work/debs" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS are not those of the packages"
scripts/package deb --from "$build" --to "$work/again" >/dev/null || fail "no packages when they are made again"
(cd "$work/again" && sha256sum --check --quiet "$work/debs/SHA256SUMS") || fail "made again, the packages have other bytes"
rm -rf "$work/again"

# holds PACKAGE FILE...: these files are in it, and not empty.
holds() {
  local package=$1 file
  shift
  dpkg-deb --extract "$work/debs/${package}_"*.deb "$work/$package"
  for file in "$@"; do [[ -s $work/$package/$file ]] || fail "$package has no $file"; done
}
for program in idmint idmintd idmint-restore; do
  holds $program usr/bin/$program usr/share/man/man1/$program.1.gz usr/share/bash-completion/completions/$program \
    usr/share/zsh/vendor-completions/_$program usr/share/fish/vendor_completions.d/$program.fish \
    usr/share/doc/$program/{README.md,copyright,docs/upgrading.md}
  [[ $(ls "$work/$program/usr/bin") == "$program" ]] || fail "$program has other programs"
  zcat "$work/$program/usr/share/man/man1/$program.1.gz" | grep -i 'source tree' &&
    fail "the manual page of $program sends readers to the source tree"
  depends=$(dpkg-deb --field "$work/debs/${program}_"*.deb Depends)
  [[ ! $depends =~ idmint ]] || fail "$program depends on a package of ours: $depends"
done
holds idmint usr/lib/nagios/plugins/check_idmint usr/share/doc/idmint/examples/sources.toml
holds idmintd etc/idmint/idmintd.toml lib/systemd/system/idmintd.service \
  lib/systemd/system/idmintd-{redis,http}.socket usr/lib/sysusers.d/idmintd.conf \
  usr/share/doc/idmintd/examples/idmint.rules.yml
holds idmint-restore lib/systemd/system/idmint-restore-keep@.{service,timer} \
  usr/share/doc/idmint-restore/docs/restore-card.md

# idmintd has no command that prints its completions.
"$build/bin/idmintd" --help >"$work/help"
"$build/bin/idmintd" token --help >>"$work/help"
mapfile -t options < <(sed -nE 's/^  (-h,)?--([a-z-]+).*/\2/p' "$work/help" | sort -u)
((${#options[@]} >= 9)) || fail "the help of idmintd has the options ${options[*]}"
for option in "${options[@]}"; do
  grep -qE -- "--$option\b" "$work"/idmintd/usr/share/bash-completion/completions/idmintd || fail "bash does not complete --$option"
  grep -qE -- "--$option\b" "$work"/idmintd/usr/share/zsh/vendor-completions/_idmintd || fail "zsh does not complete --$option"
  grep -qE -- "-l $option\b" "$work"/idmintd/usr/share/fish/vendor_completions.d/idmintd.fish || fail "fish does not complete --$option"
done

found=$(lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$work"/debs/*.deb 2>&1) ||
  fail "lintian: $found"

# On a Debian that has nothing of it.
machine_make "$machine"
cp "$work"/debs/*.deb "$machine/srv/"
install_alone() { machine_run "$machine" sh -c "apt-get -qq install --no-install-recommends /srv/$1_*.deb >/srv/log 2>&1 || { cat /srv/log; exit 1; }"; }

install_alone idmint
machine_run "$machine" idmint create orders --start 1000
[[ $(machine_run "$machine" idmint next orders -n 3 | tr '\n' ' ') == '1000 1001 1002 ' ]] || fail "no numbers"
# What was not installed is named: the package, for each kind of URL.
for url in postgresql://h/d=libpq5 mysql://u@h/d=libmariadb3 mongodb://h/d=libmongoc-1.0-0 etcd://h=libcurl4 \
  zookeeper://h=libzookeeper-mt2; do
  said=$(machine_run "$machine" idmint list --store "${url%=*}" 2>&1) && fail "${url%=*} opened without ${url#*=}"
  [[ $said == *"install the package ${url#*=}"* ]] || fail "${url%=*} does not ask for ${url#*=}: $said"
done

install_alone idmintd
[[ $(machine_run "$machine" stat -c '%U %G %a' /var/lib/idmint) == 'idmint idmint 700' ]] || fail "/var/lib/idmint is not the user's"
machine_run "$machine" idmintd --check --config /etc/idmint/idmintd.toml || fail "the settings that are installed have a fault"
as_idmint="setpriv --reuid=idmint --regid=idmint --clear-groups env XDG_DATA_HOME=/var/lib"
machine_run "$machine" bash -c "$as_idmint idmint create tickets"
[[ $(machine_run "$machine" bash -c "$as_idmint idmint next tickets") == 1 ]] || fail "no number of the store of idmintd"
echo '# of the administrator' >>"$machine/etc/idmint/idmintd.toml"
install_alone idmintd
grep -q '# of the administrator' "$machine/etc/idmint/idmintd.toml" || fail "the settings were replaced"

install_alone idmint-restore
machine_run "$machine" idmint-restore --version
machine_run "$machine" sh -c 'dpkg --status libmongoc-1.0-0 >/dev/null' || fail "idmint-restore has no driver"

# The store outlives a purge, as ids would come twice without it; unless the administrator says so.
machine_run "$machine" sh -c 'apt-get -qq purge idmintd >/srv/log 2>&1' || fail "purge: $(cat "$machine/srv/log")"
grep -q '/var/lib/idmint stays' "$machine/srv/log" || fail "purge does not say that the store stays: $(cat "$machine/srv/log")"
[[ ! -e $machine/etc/idmint/idmintd.toml ]] || fail "the settings outlive a purge"
install_alone idmintd
[[ $(machine_run "$machine" bash -c "$as_idmint idmint next tickets") == 2 ]] || fail "the store began anew after a purge"
machine_run "$machine" sh -c 'echo idmintd idmintd/purge-store boolean true | debconf-set-selections'
machine_run "$machine" sh -c 'apt-get -qq purge idmintd >/srv/log 2>&1' || fail "purge: $(cat "$machine/srv/log")"
[[ ! -e $machine/var/lib/idmint ]] || fail "the store outlives a purge that should have removed it"
machine_run "$machine" sh -c 'apt-get -qq purge idmint idmint-restore >/srv/log 2>&1' || fail "purge: $(cat "$machine/srv/log")"
left=$(find "$machine"/{etc,lib,usr,var/lib} -xdev -name '*idmint*' -not -path '*/var/lib/dpkg/*' -not -path '*/var/lib/systemd/*')
[[ -z $left ]] || fail "a purge leaves $left"
echo "the packages of the programs install, work and go"
