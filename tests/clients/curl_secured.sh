#!/usr/bin/env bash
# curl takes ids from an idmintd with TLS. See `run`.
#
#   curl_secured.sh PORT
#
# IDMINT_CA: the certificate of the server. IDMINT_TOKEN: the token, or IDMINT_CERTIFICATE and IDMINT_KEY: of the client.
set -euo pipefail

ids=https://127.0.0.1:$1/v1/ids
curl=(curl --silent --show-error --cacert "$IDMINT_CA" --request POST)
if [[ ${IDMINT_TOKEN-} ]]; then
  header() { printf 'Authorization: Bearer %s\n' "${1-$IDMINT_TOKEN}"; } # the command line can be read by others
  ask() { header | "${curl[@]}" --header @- "$@"; }
else
  ask() { "${curl[@]}" --cert "$IDMINT_CERTIFICATE" --key "$IDMINT_KEY" "$@"; }
fi
status=(--output /dev/null --write-out '%{http_code}')

is() { # is EXPECTED ACTUAL: ACTUAL must match the pattern EXPECTED
  # shellcheck disable=SC2053  # a pattern
  [[ $2 == $1 ]] || {
    printf 'curl_secured.sh: line %s: expected "%s", not "%s"\n' "${BASH_LINENO[0]}" "$1" "$2" >&2
    exit 1
  }
}

mapfile -t values < <(ask "$ids/orders?count=3")
is 3 "${#values[@]}"
printf 'orders %s\n' "${values[@]}"

if [[ ${IDMINT_TOKEN-} ]]; then
  is 403 "$(ask "${status[@]}" "$ids/customers")"
  is 401 "$(header other | "${curl[@]}" --header @- "${status[@]}" "$ids/orders")"
  is 401 "$("${curl[@]}" "${status[@]}" "$ids/orders")"
elif "${curl[@]}" "$ids/orders" 2>/dev/null; then
  exit 1
fi
# Another certificate than the server's is not trusted.
if curl --silent --request POST "$ids/orders"; then exit 1; fi
