#!/usr/bin/env bash
# The page of a real daemon is what promtool takes without a complaint; the alert rules are valid, and fire when they
# should and not before; the rules and docs/server.md name the metrics that there are.
#
#   prometheus_test.sh SOURCE_DIR IDMINT IDMINTD WORK_DIR
set -euo pipefail
source=$1 idmint=$2 idmintd=$3 work=$4
rules=$source/packaging/prometheus/idmint.rules.yml

fail() {
  echo "prometheus_test: $*" >&2
  exit 1
}

command -v promtool >/dev/null || fail "there is no promtool: scripts/setup test installs it"
rm -rf "$work"
mkdir -p "$work"
cp "$rules" "$source/tests/prometheus/rules_test.yml" "$work"
cd "$work"

# ---- the rules

said=$(promtool check rules --lint=all --lint-fatal idmint.rules.yml 2>&1) || fail "promtool check rules: $said"
said=$(promtool test rules rules_test.yml 2>&1) || fail "promtool test rules: $said"
while read -r alert; do
  grep -qE "alertname: $alert\$" rules_test.yml || fail "$alert has no case in tests/prometheus/rules_test.yml"
done < <(sed -n 's/^ *- alert: //p' idmint.rules.yml)

# ---- the page

export IDMINT_STORE=sqlite:$work/ids.db XDG_DATA_HOME=$work
"$idmint" create orders >create.log
"$idmint" create visits --strategy cached >>create.log
"$idmint" create hosts --kind pool --workers 4 >>create.log
exec {stderr}< <(exec "$idmintd" --http 127.0.0.1:0 2>&1)
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true' EXIT
read -r -u "$stderr" line
address=${line#idmintd: serving HTTP on }
[[ $address != "$line" ]] || fail "idmintd did not start: $line"
for id in orders visits hosts uuid7 missing; do
  curl -s -o ids.txt -X POST "http://$address/v1/ids/$id?count=3"
done
curl -s -f -o page.txt "http://$address/metrics" || fail "no answer from /metrics"
grep -q '^idmint_source_ids_total{source="orders"} 3$' page.txt || fail "orders are not counted: $(cat page.txt)"
said=$(promtool check metrics <page.txt 2>&1) || fail "promtool check metrics: $said"
[[ -z $said ]] || fail "promtool check metrics: $said"

# ---- the names

sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' page.txt | sort >there.txt
# up is a series that Prometheus itself makes.
grep -oE '\b(idmint|process)_[a-z_]+' idmint.rules.yml | sed -E 's/_(bucket|sum|count)$//' | sort -u >used.txt
unknown=$(comm -13 there.txt used.txt)
[[ -z $unknown ]] || fail "the rules use what /metrics does not have: $unknown"
# shellcheck disable=SC2016  # the backquotes are those of Markdown
grep -oE '`(idmint|process)_[a-z_]+`' "$source/docs/server.md" | tr -d '`' | sort -u >told.txt
differ=$(comm -3 there.txt told.txt)
[[ -z $differ ]] || fail "docs/server.md (right) has not the metrics that there are (left): $differ"
