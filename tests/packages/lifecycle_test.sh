#!/usr/bin/env bash
# The life of the packages on a machine with systemd: installed, upgraded while programs take ids, refused a downgrade,
# removed, purged. Nothing comes twice, and nothing that was acknowledged is lost.
#
#   lifecycle_test.sh SOURCE_DIR [FOLDER]      FOLDER has packages that scripts/package deb made
set -euo pipefail
source=$(realpath -- "$1") debs=${2:+$(realpath -- "$2")}
# shellcheck source=tests/fresh/machine.sh
. "$source/tests/fresh/machine.sh"

machine_require "$@"
work=$(mktemp -d -t idmint-packages-XXXXXX)
machine=$work/machine
trap 'machine_stop; rm -rf --one-file-system "$work"' EXIT
if [[ -z $debs ]]; then
  debs=$work/debs
  "$source/scripts/package" deb --to "$debs"
fi
found=$(lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$debs"/*.deb 2>&1) || fail "lintian: $found"

# again PACKAGE VERSION: the package with another version, which its preinst knows too.
again() {
  local deb folder=$work/again
  deb=$(ls "$debs/$1_"[0-9]*.deb)
  rm -rf "$folder"
  dpkg-deb --raw-extract "$deb" "$folder"
  local now
  now=$(dpkg-deb --field "$deb" Version)
  sed -i "s/^Version: .*/Version: $2/" "$folder/DEBIAN/control"
  sed -i "s/^this='$now'/this='$2'/" "$folder/DEBIAN/preinst"
  grep -qF "this='$2'" "$folder/DEBIAN/preinst" || fail "the preinst of $1 has another version"
  dpkg-deb --build --root-owner-group "$folder" "$machine/srv/$1_$2.deb" >/dev/null
}

machine_make "$machine" systemd systemd-sysv dbus curl redis-tools sqlite3 util-linux \
  libpq5 libmariadb3 libmongoc-1.0-0 libzookeeper-mt2 g++ cmake make pkg-config
for package in idmint idmintd; do
  again $package 0.1.0-1
  again $package 0.1.7-1
  again $package 0.2.0-1
done
cp "$debs"/libidmint{0,-dev}_*.deb "$debs"/idmint-restore_*.deb "$machine/srv/"
machine_boot "$machine"

install() { machine_in apt-get -qq --allow-downgrades install "$@" >"$work/said" 2>&1; }
ids() { machine_in runuser -u idmint -- env XDG_DATA_HOME=/var/lib idmint "$@"; } # as the documents say

daemon() { machine_in systemctl show --property=MainPID --value idmintd; }
serves() { [[ $(machine_in redis-cli -p 7379 PING 2>/dev/null) == PONG ]]; }

# 1. Installed: the daemon serves, as its own user, and the command mints in its store.
install /srv/idmint_0.1.0-1.deb /srv/idmintd_0.1.0-1.deb || fail "not installed: $(cat "$work/said")"
serves || fail "the daemon does not serve: $(machine_in journalctl --unit idmintd --no-pager)"
[[ $(machine_in stat -c %U "/proc/$(daemon)") == idmint ]] || fail "the daemon runs as another user"
[[ $(machine_in stat -c '%U %G %a' /var/lib/idmint) == 'idmint idmint 700' ]] || fail "/var/lib/idmint is not the user's"
machine_in systemctl is-enabled --quiet idmintd || fail "the daemon would not start with the machine"
machine_in systemctl reload idmintd || fail "no reload: $(machine_in journalctl --unit idmintd --no-pager)"
ids create orders
ids create fast --strategy cached --step 1000 >/dev/null

# A store of the first form, as a version before wrote it; used from here on by the newer ones.
machine_in runuser -u idmint -- sqlite3 /var/lib/idmint/old.db "$(sed -n '/kVersion1 = R"(/,/^)";/p' \
  "$source/src/engines/sqlite/store_test.cc" | sed '1d;$d')" >/dev/null

# 2. Upgraded while programs take ids: four by the daemon, one by the command.
cat >"$machine/srv/take" <<'END'
#!/bin/bash
# take daemon|command FILE: appends each number that it got, until /srv/stop is there. A call without an answer is no number.
while [[ ! -e /srv/stop ]]; do
  if [[ $1 == daemon ]]; then
    number=$(redis-cli -p 7379 INCR orders 2>/dev/null) || continue
  else
    number=$(runuser -u idmint -- env XDG_DATA_HOME=/var/lib idmint next orders) || continue
  fi
  [[ $number =~ ^[0-9]+$ ]] && echo "$number" >>"$2"
done
END
chmod +x "$machine/srv/take"
takers=()
for i in 1 2 3 4; do
  machine_in /srv/take daemon /srv/taken.$i &
  takers+=($!)
done
machine_in /srv/take command /srv/taken.5 &
takers+=($!)
# taken COUNT: waits until the takers have so many numbers.
taken() {
  local end=$((SECONDS + 300))
  until [[ $(cat "$machine/srv/"taken.* 2>/dev/null | wc -l) -ge $1 ]]; do
    ((SECONDS < end)) || fail "the programs took no $1 numbers: $(machine_in journalctl --unit idmintd --no-pager)"
  done
}
taken 500
[[ $(machine_in redis-cli -p 7379 INCR fast) == 1 ]] || fail "the cached sequence does not begin at 1"
before=$(daemon)
install /srv/idmint_0.1.7-1.deb /srv/idmintd_0.1.7-1.deb || fail "not upgraded: $(cat "$work/said")"
[[ $(daemon) != "$before" && $(daemon) != 0 ]] || fail "the upgrade did not restart the daemon"
taken $(($(cat "$machine/srv/"taken.* | wc -l) + 500))
touch "$machine/srv/stop"
wait "${takers[@]}"
all=$(cat "$machine/srv/"taken.*)
twice=$(sort <<<"$all" | uniq -d)
[[ -z $twice ]] || fail "numbers came twice: $twice"
count=$(wc -l <<<"$all") last=$(sort -n <<<"$all" | tail -n 1)
next=$(machine_in redis-cli -p 7379 INCR orders)
((next > last)) || fail "after $last the daemon gave $next"
machine_in journalctl --unit idmintd --no-pager | grep -q 'given_up source=fast first=2 last=1000' ||
  fail "the range that was held is not in the log: $(machine_in journalctl --unit idmintd --no-pager)"
[[ $(machine_in redis-cli -p 7379 INCR fast) == 1001 ]] || fail "the cached sequence went on inside a range that was held"
echo "an upgrade while five programs took $count numbers: none twice, $((last - count)) of $last not received"

# 3. A store of an earlier form is brought up to date, and goes on; one of a later form is left as it is.
machine_in runuser -u idmint -- idmint create new --store sqlite:/var/lib/idmint/old.db >/dev/null ||
  fail "a store of the first form cannot be used"
form=$(machine_in sqlite3 /var/lib/idmint/old.db 'PRAGMA user_version')
(((form & 0xFF) == 2)) || fail "the store of the first form was not upgraded"
machine_in sqlite3 /var/lib/idmint/old.db 'PRAGMA user_version = 3'
sum=$(machine_in sha256sum /var/lib/idmint/old.db)
said=$(machine_in runuser -u idmint -- idmint next new --store sqlite:/var/lib/idmint/old.db 2>&1) && fail "a store of a later form gave $said"
[[ $said == *'use a newer idmint'* ]] || fail "a store of a later form: $said"
[[ $(machine_in sha256sum /var/lib/idmint/old.db) == "$sum" ]] || fail "a store of a later form was changed"

# 4. Back within the series; not back from a later series, and the daemon goes on.
install /srv/idmint_0.1.0-1.deb /srv/idmintd_0.1.0-1.deb || fail "0.1.7 -> 0.1.0: $(cat "$work/said")"
install /srv/idmint_0.2.0-1.deb /srv/idmintd_0.2.0-1.deb || fail "0.1.0 -> 0.2.0: $(cat "$work/said")"
before=$(daemon)
for package in idmint idmintd; do
  install /srv/${package}_0.1.7-1.deb && fail "$package 0.2.0 -> 0.1.7 was not refused"
  grep -q "$package: not going back from version 0.2.0-1 to 0.1.7-1" "$work/said" || fail "refused without the reason: $(cat "$work/said")"
  # shellcheck disable=SC2016  # dpkg-query expands
  [[ $(machine_in dpkg-query -W -f '${Version} ${db:Status-Status}' $package) == '0.2.0-1 installed' ]] || fail "$package is half installed"
done
[[ $(daemon) == "$before" && $(machine_in redis-cli -p 7379 INCR orders) == $((next + 1)) ]] || fail "the daemon did not go on: $(machine_in journalctl --unit idmintd --no-pager)"
machine_in env IDMINT_DOWNGRADE=yes apt-get -qq --allow-downgrades install /srv/idmintd_0.1.7-1.deb >"$work/said" 2>&1 ||
  fail "the administrator's word does not help: $(cat "$work/said")"
install /srv/idmintd_0.2.0-1.deb

# A fault in the settings ends no daemon that runs, and one that was stopped stays so.
before=$(daemon)
echo 'storee = [' >>"$machine/etc/idmint/idmintd.toml"
install /srv/idmintd_0.1.7-1.deb && fail "a downgrade was not refused"
machine_in env IDMINT_DOWNGRADE=yes apt-get -qq --allow-downgrades install /srv/idmintd_0.1.7-1.deb >"$work/said" 2>&1 ||
  fail "with a fault in the settings: $(cat "$work/said")"
grep -q 'idmintd.toml has a fault: ' "$work/said" || fail "the fault in the settings is not named: $(cat "$work/said")"
{ [[ $(daemon) == "$before" ]] && serves; } || fail "a fault in the settings ended the daemon"
sed -i '$d' "$machine/etc/idmint/idmintd.toml"
machine_in systemctl stop idmintd
install /srv/idmintd_0.2.0-1.deb || fail "not upgraded while stopped: $(cat "$work/said")"
serves && fail "an upgrade started a daemon that was stopped"
machine_in systemctl start idmintd

# 5. A socket of systemd takes the clients of a restart.
machine_in systemctl enable --quiet --now idmintd-redis.socket 2>/dev/null ||
  { machine_in systemctl stop idmintd && machine_in systemctl start idmintd-redis.socket; }
[[ $(machine_in redis-cli -p 7379 INCR orders) == $((next + 2)) ]] || fail "the socket does not start the daemon"
before=$(daemon)
machine_in systemctl restart --no-block idmintd
until [[ $(daemon) != "$before" && $(daemon) != 0 ]]; do
  # Also while there is no daemon: the connection waits in the socket.
  [[ $(machine_in redis-cli -p 7379 PING) == PONG ]] || fail "a client of the restart was not answered"
done

# 6. The library and the kept backups.
mapfile -t others < <(cd "$machine" && printf '/%s\n' srv/libidmint*.deb srv/idmint-restore_*.deb)
install "${others[@]}" || fail "the library: $(cat "$work/said")"
machine_in sh -c 'ldconfig -p | grep -q libidmint.so.0' || fail "there is no libidmint.so.0"
# A program of another project: by pkg-config, and by CMake.
[[ $(machine_in pkg-config --cflags --libs idmint) == *-lidmint* ]] || fail "pkg-config does not find the library"
[[ $(machine_in pkg-config --modversion idmint) == 0.1.0 ]] || fail "pkg-config finds another version"
machine_in cmake -S /usr/share/doc/libidmint-dev/examples/hello -B /srv/hello >"$work/said" 2>&1 || fail "CMake: $(cat "$work/said")"
machine_in cmake --build /srv/hello >"$work/said" 2>&1 || fail "CMake: $(cat "$work/said")"
[[ $(machine_in sh -c 'cd /srv && hello/hello') == *'greeting 1' ]] || fail "what is built with the library does not mint"
machine_in systemd-analyze verify --man=no /lib/systemd/system/idmintd.service || fail "the unit that was installed has a fault"
machine_in systemd-analyze security --threshold=20 --no-pager idmintd.service >"$work/said" || fail "$(cat "$work/said")"

# 7. Removed: it stops. Purged: the store stays, unless the administrator says otherwise.
machine_in apt-get -qq remove idmintd >"$work/said" 2>&1 || fail "not removed: $(cat "$work/said")"
serves && fail "the daemon outlives its removal"
[[ -s $machine/etc/idmint/idmintd.toml && -s $machine/var/lib/idmint/ids.db ]] || fail "a removal took settings or the store"
install /srv/idmintd_0.1.7-1.deb && fail "after the removal of a later version an earlier one was installed"
grep -q 'not going back from version 0.2.0-1' "$work/said" || fail "refused without the reason: $(cat "$work/said")"
machine_in apt-get -qq purge idmintd >"$work/said" 2>&1 || fail "not purged: $(cat "$work/said")"
grep -q '/var/lib/idmint stays' "$work/said" || fail "a purge does not say that the store stays: $(cat "$work/said")"
install /srv/idmintd_0.2.0-1.deb || fail "not installed again: $(cat "$work/said")"
[[ $(machine_in redis-cli -p 7379 INCR orders) == $((next + 3)) ]] || fail "after a purge the sequence does not go on"
machine_in sh -c 'echo idmintd idmintd/purge-store boolean true | debconf-set-selections'
machine_in apt-get -qq purge idmintd >"$work/said" 2>&1 || fail "not purged: $(cat "$work/said")"
[[ ! -e $machine/var/lib/idmint ]] || fail "the administrator's word did not remove the store"
echo "installed, upgraded, refused a downgrade, removed and purged: each number came once"
