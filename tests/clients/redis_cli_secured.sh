#!/usr/bin/env bash
# redis-cli takes ids from an idmintd with TLS. See `run`.
#
#   redis_cli_secured.sh PORT
#
# IDMINT_CA: the certificate of the server. IDMINT_TOKEN: the token, or IDMINT_CERTIFICATE and IDMINT_KEY: of the client.
set -euo pipefail

cli=(redis-cli -p "$1" --tls --cacert "$IDMINT_CA")
if [[ ${IDMINT_TOKEN-} ]]; then
  export REDISCLI_AUTH=$IDMINT_TOKEN # the command line can be read by others
else
  without=("${cli[@]}")
  cli+=(--cert "$IDMINT_CERTIFICATE" --key "$IDMINT_KEY")
fi

is() { # is EXPECTED ACTUAL: ACTUAL must match the pattern EXPECTED
  # shellcheck disable=SC2053  # a pattern
  [[ $2 == $1 ]] || {
    printf 'redis_cli_secured.sh: line %s: expected "%s", not "%s"\n' "${BASH_LINENO[0]}" "$1" "$2" >&2
    exit 1
  }
}

value=$("${cli[@]}" incr orders)
is '[1-9]*' "$value"
printf 'orders %s\n' "$value"
mapfile -t ids < <("${cli[@]}" id.next orders count 3)
is 3 "${#ids[@]}"
printf 'orders %s\n' "${ids[@]}"

if [[ ${IDMINT_TOKEN-} ]]; then
  is 'NOPERM *' "$("${cli[@]}" incr customers)"
  is '*WRONGPASS*NOAUTH *' "$(REDISCLI_AUTH=other "${cli[@]}" incr orders 2>&1)"
else
  if said=$("${without[@]}" incr orders 2>&1); then is '' "$said"; fi # it may hear no more than the end
  if said=$("${without[@]}" ping 2>&1); then is '' "$said"; fi
fi
# Another certificate than the server's is not trusted.
if redis-cli -p "$1" --tls --cacert /dev/null ping 2>/dev/null; then exit 1; fi
