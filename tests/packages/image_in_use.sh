#!/usr/bin/env bash
# Runs the image as clients, operators and orchestrators of containers use it. image_test.sh calls this in a network and
# with mounts of its own.
#
#   image_in_use.sh SOURCE_DIR BUNDLE WORK      BUNDLE is the image, unpacked by umoci
set -euo pipefail
source=$1 bundle=$2 work=$3
volume=$work/volume settings=$work/settings

fail() {
  printf 'image_in_use: %s\n' "$*" >&2
  [[ ! -s $work/log ]] || sed 's/^/  the daemon: /' "$work/log" >&2
  exit 1
}

servers=() # process ids
finish() {
  crun kill ids KILL 2>/dev/null || true
  ((${#servers[@]} == 0)) || kill "${servers[@]}" 2>/dev/null || true
  wait
}
trap finish EXIT
ip link set lo up
# crun refuses a host that has cgroups of both versions. The daemon needs none.
umount --recursive /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
crun() { command crun --root "$work/containers" --cgroup-manager=disabled "$@"; }

# container NAME CHANGES [WORD...]: idmintd with these words, with CHANGES of jq in what the image says. No part of its root
# can be written but the volume, and it has no capability.
container() {
  local name=$1 changes=$2
  shift 2
  jq --arg volume "$volume" --arg settings "$settings" '.root.readonly = true | .process.terminal = false
    | .process.noNewPrivileges = true | .process.capabilities = {} | del(.linux.resources)
    | .linux.namespaces |= map(select(.type != "network"))
    | .mounts |= map(select(.destination | test("^/(sys|etc|var)") | not))
    | .mounts += [["/etc/hosts", "/etc/hosts", "ro"], [$settings, "/etc/idmint", "ro"], [$volume, "/var/lib/idmint", "rw"]
        | {type: "bind", source: .[0], destination: .[1], options: ["bind", .[2]]}]
    | .process.args += $ARGS.positional | '"$changes" "$bundle/config.json" --args -- "$@" >"$bundle/$name.json"
  crun run --bundle "$bundle" --config "$bundle/$name.json" "$name"
}

start() { # start [URL]: the daemon on this store, or on that of its volume
  container ids ".process.env += [${1:+\"IDMINT_STORE=$1\"}]" >"$work/log" 2>&1 &
  daemon=$!
  local end=$((SECONDS + 60))
  until probe --live; do
    kill -0 $daemon 2>/dev/null || fail "the daemon ended at once, with the store '${1:-}'"
    ((SECONDS < end)) || fail "the daemon does not serve: $(cat "$work/said")"
  done
}
stop() { # as docker stop and Kubernetes do
  crun kill ids TERM
  local status=0
  wait $daemon || status=$?
  ((status == 0)) || fail "the daemon ended with $status"
}
inside() { crun exec --user 7379:7379 ids "$@"; }
probe() { inside idmintd probe "$@" >"$work/said" 2>&1; }
incr() { REDISCLI_AUTH=$token redis-cli -p 7379 INCR "$1"; }
post() { curl -fsS -X POST -H "Authorization: Bearer $token" "localhost:7380$1" "${@:2}"; }

# 1. The settings of the image listen for others, which is refused without a token. The image makes one.
install -d -m 2775 -o 0 -g 7379 "$volume" # as Kubernetes mounts one, with fsGroup; docker makes it the user's own
mkdir -m 0755 "$settings"
said=$(container once 'del(.mounts[] | select(.destination == "/etc/idmint"))' 2>&1) && fail "the daemon serves others without a token"
[[ $said == *'not listening on 0.0.0.0:7379'*token* ]] || fail "without a token the daemon says: $said"
container once . token web --allow 'all *' >"$work/token"
token=$(head -n 1 "$work/token")
{ cat "$source/examples/container/idmintd.toml" && tail -n +2 "$work/token"; } >"$settings/idmintd.toml"
said=$(container once . probe 2>&1) && fail "the probe finds a daemon where there is none"
[[ $said == *127.0.0.1:7380*'no idmintd listens there'* ]] || fail "without a daemon the probe says: $said"

# 2. The store of the volume, and SIGTERM while four programs take ids: each id that the store gave has arrived, once.
start
probe || fail "the daemon is not ready: $(cat "$work/said")"
cp "$settings/idmintd.toml" "$work/kept" # a fault in them does not end a daemon that serves
echo 'frob = 1' >>"$settings/idmintd.toml"
probe --live :7380 || fail "with a fault in the settings, the daemon seems to be dead: $(cat "$work/said")"
cp "$work/kept" "$settings/idmintd.toml"
[[ $(jq '.process.user | [.uid, .gid]' --compact-output "$bundle/ids.json") == '[7379,7379]' ]] || fail "the user is another"
inside idmint create orders || fail "the command makes no sequence in the store of the daemon"
said=$(inside idmint create orders --store sqlite:/tmp/ids.db 2>&1) && fail "the root of the image can be written"
taken() { cat "$work"/taken.* | grep -xE '[0-9]+' || true; } # a client says there too that the daemon has gone
for round in 1 2 3; do
  takers=()
  for i in 1 2 3 4; do
    REDISCLI_AUTH=$token redis-cli -p 7379 -r -1 INCR orders >>"$work/taken.$i" 2>&1 & # until the daemon has gone
    takers+=($!)
  done
  end=$((SECONDS + 120))
  until (($(taken | wc -l) >= 2000 * round)); do
    kill -0 $daemon || fail "the daemon ended while it was used"
    ((SECONDS < end)) || fail "no ids for two minutes: $(tail -n 1 "$work"/taken.*)"
  done
  stop
  wait "${takers[@]}" || true
  twice=$(taken | sort | uniq -d)
  [[ -z $twice ]] || fail "ids came twice: $twice"
  last=$(taken | sort -n | tail -n 1) count=$(taken | wc -l)
  ((count == last)) || fail "of $last ids only $count arrived"
  start
done
[[ $(incr orders) == $((last + 1)) ]] || fail "after a restart the sequence does not go on after $last"
stop
echo "three times ended by SIGTERM while four programs took $last ids: none twice, none lost"

# 3. Each kind of store, on real servers. playground NAME starts one, and sets url.
playground() {
  : >"$work/$1.said"
  "$source/scripts/playground" "$1" >"$work/$1.said" 2>&1 &
  servers+=($!)
  until url=$(sed -n "s/^  export IDMINT_STORE='\(.*\)'/\1/p" "$work/$1.said") && [[ -n $url ]]; do
    kill -0 "${servers[-1]}" 2>/dev/null || fail "no server: $(cat "$work/$1.said")"
  done
}
# serves URL: the daemon makes a sequence in this store, and gives ids of it by both protocols; the command goes on.
serves() {
  start "$1"
  post /v1/sources -d '{"name": "orders", "start": 1000}' >/dev/null || fail "no sequence in the store $1"
  probe || fail "the daemon is not ready with the store $1: $(cat "$work/said")"
  [[ $(incr orders) == 1000 && $(post '/v1/ids/orders?count=2' | tr '\n' ' ') == '1001 1002 ' ]] || fail "no ids of the store $1"
  if [[ $1 != memory: ]]; then
    [[ $(inside idmint next orders) == 1003 ]] || fail "the command takes no id of the store $1"
  fi
}
served=sqlite
for kind in memory postgresql mariadb mongodb redis etcd zookeeper; do
  url=memory:
  [[ $kind == memory ]] || playground $kind
  serves "$url"
  if [[ $kind == postgresql ]]; then # its server ends: the daemon serves, and is not ready
    kill "${servers[-1]}"
    end=$((SECONDS + 60))
    while probe; do ((SECONDS < end)) || fail "the daemon is ready without its store"; done
    probe --live || fail "the daemon ended with its store: $(cat "$work/said")"
  fi
  stop
  served+=" $kind"
done
# Redis with TLS, for which another library is loaded. The authority is one that only the settings know.
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
  -keyout "$work/key.pem" -out "$settings/authority.pem" 2>/dev/null
mkdir "$work/redis"
redis-server --bind 127.0.0.1 --port 0 --tls-port 6390 --tls-auth-clients no --tls-cert-file "$settings/authority.pem" \
  --tls-key-file "$work/key.pem" --tls-ca-cert-file "$settings/authority.pem" --dir "$work/redis" --save '' \
  --appendonly yes --appendfsync always >"$work/redis.said" &
servers+=($!)
until (: >/dev/tcp/127.0.0.1/6390) 2>/dev/null; do kill -0 "${servers[-1]}" || fail "no Redis: $(cat "$work/redis.said")"; done
serves 'rediss://localhost:6390/0?tls_ca=/etc/idmint/authority.pem'
stop
echo "ids of each kind of store: $served rediss"
