#!/usr/bin/env bash
# redis-benchmark measures how fast idmintd gives ids: 50 connections, then pipelines. See `run`.
#
#   redis_benchmark.sh PORT
set -euo pipefail

port=$1
count=10000
last=$(redis-cli -p "$port" get orders)
for options in "" "-P 16"; do
  # shellcheck disable=SC2086  # words
  result=$(redis-benchmark -p "$port" -n "$count" $options -q incr orders 2>&1)
  # It goes on after an error of CONFIG GET, which it sends first.
  if [[ $result == *[Ee]rror* || $result == *WARNING* || $result != *"requests per second"* ]]; then
    printf 'redis_benchmark.sh: %s\n' "$result" >&2
    exit 1
  fi
  printf 'redis-benchmark %s%s\n' "${options:+$options }" "${result##*$'\r'}" >&2
  # Each request took one value.
  next=$(redis-cli -p "$port" get orders)
  [[ $next -eq $((last + count)) ]]
  seq -f 'orders %.0f' "$((last + 1))" "$next"
  last=$next
done
echo ready
read -r
