#!/usr/bin/env bash
# redis-cli takes ids from idmintd. See `run`.
#
#   redis_cli.sh PORT
set -euo pipefail

cli=(redis-cli -p "$1")

is() { # is EXPECTED ACTUAL: ACTUAL must match the pattern EXPECTED
  # shellcheck disable=SC2053  # a pattern
  [[ $2 == $1 ]] || {
    printf 'redis_cli.sh: line %s: expected "%s", not "%s"\n' "${BASH_LINENO[0]}" "$1" "$2" >&2
    exit 1
  }
}
took() { printf "$1 %s\n" "${@:2}"; } # the values of source $1 go to standard output

is PONG "$("${cli[@]}" ping)"

first=$("${cli[@]}" incr orders)
second=$("${cli[@]}" incr orders)
is "$((first + 1))" "$second"
last=$("${cli[@]}" incrby orders 5) # five values; the reply is the last one
is "$((second + 5))" "$last"
is "$last" "$("${cli[@]}" get orders)"
took orders "$first" $(seq "$second" "$last")

# Several ids, and a range of consecutive values.
mapfile -t ids < <("${cli[@]}" id.next orders count 3)
is "$((last + 1)) $((last + 2)) $((last + 3))" "${ids[*]}"
mapfile -t range < <("${cli[@]}" id.range orders 10)
is "$((last + 4)) $((last + 13))" "${range[*]}"
took orders "${ids[@]}" $(seq "${range[@]}")
last=${range[1]}

# Commands between MULTI and EXEC; an error is one of the replies.
mapfile -t replies < <(printf '%s\n' multi 'incr orders' 'incr missing' 'incr orders' exec | "${cli[@]}")
is OK "${replies[0]}"
is "$((last + 1))" "${replies[4]}"
is 'NOTFOUND *' "${replies[5]}"
is "$((last + 2))" "${replies[-1]}"
took orders "${replies[4]}" "${replies[-1]}"
last=${replies[-1]}

# --pipe sends commands as they are, and counts the replies.
is '*errors: 1, replies: 101' "$({ printf 'incr orders%.0s\n' {1..100}; echo incr missing; } | "${cli[@]}" --pipe 2>&1)"
took orders $(seq "$((last + 1))" "$((last + 100))")
last=$((last + 100))
is "$last" "$("${cli[@]}" get orders)"

# redis-cli does not say what it is: values above 2^53-1 it gets as text.
before=$("${cli[@]}" id.next big)
is 'ERR * nothing was taken*' "$("${cli[@]}" incr big)"
is 'ERR * nothing was taken*' "$("${cli[@]}" incr web)"
after=$("${cli[@]}" id.next big)
((before > 2 ** 53))
is "$((before + 1))" "$after"
took big "$before" "$after"

# A UUID of version 7, and ids of the other kinds of sequences.
is '????????-????-7???-[89ab]???-????????????' "$("${cli[@]}" id.next uuid7)"
for source in tickets cards web; do
  mapfile -t ids < <("${cli[@]}" id.next "$source" count 100)
  is 100 "${#ids[@]}"
  took "$source" "${ids[@]}"
done

# What there is.
is $'*\nnext\n'"$((last + 1))"$'\n*' "$("${cli[@]}" id.peek orders)" # RESP2: a list
is "*next $((last + 1))"$'\n*' "$("${cli[@]}" -3 id.peek orders)"    # RESP3: a map
is orders "$("${cli[@]}" --scan --pattern 'order?')"
is 2 "$("${cli[@]}" exists orders uuid7 missing)"
is string "$("${cli[@]}" type orders)"
is none "$("${cli[@]}" type missing)"
is "$last"$'\n'"$after" "$("${cli[@]}" mget orders big missing)"

# What is refused.
is 'NOTFOUND *' "$("${cli[@]}" incr missing)"
is 'ERR SET is refused: *' "$("${cli[@]}" set orders 1)"
is 'ERR DEL is refused: *' "$("${cli[@]}" del orders)"
is '*AUTH failed: ERR *asks for no password*' "$("${cli[@]}" -a secret ping 2>&1)"

# After a restart of the server.
echo ready
read -r
mapfile -t values < <("${cli[@]}" -r 100 incr orders) # one connection
is 100 "${#values[@]}"
for value in "${values[@]}"; do
  ((value > last))
  last=$value
done
took orders "${values[@]}"
