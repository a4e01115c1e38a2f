#!/usr/bin/env bash
# The units of packaging/systemd are what systemd understands, and the service stays shut off from the rest of its
# host. No service manager runs: systemd-analyze reads files.
#
#   units_test.sh UNITS IDMINTD IDMINT_RESTORE WORK_DIR
set -euo pipefail
units=$1 idmintd=$2 restore=$3 work=$4

fail() {
  echo "units_test: $*" >&2
  exit 1
}

command -v systemd-analyze >/dev/null || fail "there is no systemd-analyze: scripts/setup test installs it"
rm -rf "$work"
mkdir -p "$work"
cp "$units"/*.service "$units"/*.socket "$units"/*.timer "$work"
# The program of this build, and not one that the host may have.
sed -i "s|^ExecStart=idmintd |ExecStart=$idmintd |" "$work/idmintd.service"
grep -qF "ExecStart=$idmintd " "$work/idmintd.service" || fail "ExecStart does not begin with idmintd"

sed -i "s|^ExecStart=idmint-restore |ExecStart=$restore |" "$work/idmint-restore-keep@.service"
grep -qF "ExecStart=$restore keep " "$work/idmint-restore-keep@.service" || fail "ExecStart does not begin with idmint-restore"

# It warns of an unknown key, and does not fail. What it says of other units of the host is not our business.
said=$(SYSTEMD_UNIT_PATH="$work:" systemd-analyze verify --man=no --recursive-errors=no "$work"/*.service "$work"/*.socket \
  "$work"/*.timer 2>&1) || fail "systemd-analyze verify: $said"
said=$(grep -E 'idmintd|idmint-restore' <<<"$said" || true)
[[ -z $said ]] || fail "systemd-analyze verify: $said"

# 0 is shut off, 100 (10.0) wide open. Clients are in the network, so it cannot be 0.
most=20
for service in idmintd.service idmint-restore-keep@.service; do
  said=$(systemd-analyze security --offline=true --no-pager --threshold=$most "$work/$service" 2>&1) ||
    fail "$service is more exposed than $((most / 10)).$((most % 10)): $said"
  tail -n 1 <<<"$said"
done
