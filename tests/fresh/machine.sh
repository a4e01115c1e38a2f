# shellcheck shell=bash
# A minimal Debian 12 in a folder, made by mmdebstrap: entered by chroot, or booted with systemd as process 1. For the
# tests of the packages and for tests/fresh/run, which source this file as root.
#
# machine_require "$@"             starts the script again as root; ends it as skipped (77) where root may not mount
# machine_make ROOT [PACKAGE...]   makes it, with these packages, with apt's lists, and with the network of this host
# machine_connect ROOT             gives one that was made before the network of this host
# machine_run ROOT COMMAND...      runs a command in it, not booted; its processes end with it
# machine_shell ROOT               a shell in it, for looking around
# machine_boot ROOT                boots it, without a network but loopback; ends when systemd is up
# machine_in COMMAND...            runs a command in the booted one
# machine_stop                     ends the booted one
# machine_unpack IMAGE BUNDLE      unpacks an archive of an image (OCI) into a bundle, with its system in BUNDLE/rootfs

machine_leader= # the process 1 of the booted one, as this host knows it
machine_host=   # systemd-nspawn

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

machine_environment=(HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
machine_lent=() # pairs of folders: one of this host, and where it is seen in a machine that is not booted

machine_require() {
  [[ $(id -u) -eq 0 ]] || exec sudo -n "$0" "$@"
  unshare --mount --pid --fork true 2>/dev/null || {
    echo "skipped: root may not mount here, as in a container, so no system can be made and entered"
    exit 77
  }
}

machine_make() {
  local root=$1
  shift
  mmdebstrap --quiet --variant=minbase --include="$(IFS=, && echo "ca-certificates${*:+,}$*")" --skip=cleanup/apt/lists \
    bookworm "$root" >"$root.log" 2>&1 || {
    cat "$root.log" >&2
    fail "mmdebstrap made no Debian"
  }
  machine_connect "$root"
}

# The network is this host's: its name servers, and the certificates that it trusts beyond Debian's.
machine_connect() {
  local root=$1 certificates=(/usr/local/share/ca-certificates/*.crt)
  cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
  if [[ -e ${certificates[0]} ]]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp "${certificates[@]}" "$root/usr/local/share/ca-certificates/"
    # Node.js has a list of its own, and reads one file.
    cat "${certificates[@]}" >"$root/usr/local/share/ca-certificates/all.pem"
    machine_environment+=(NODE_EXTRA_CA_CERTS=/usr/local/share/ca-certificates/all.pem)
    machine_run "$root" update-ca-certificates >/dev/null 2>&1
  fi
}

machine_run() {
  local root=$1
  shift
  # shellcheck disable=SC2016  # the inner shell expands
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    root=$1 lent=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    for ((; lent > 0; lent -= 2)); do
      mkdir -p "$root$2"
      mount --bind "$1" "$root$2"
      shift 2
    done
    exec env -i "$@"' inside "$root" "${#machine_lent[@]}" "${machine_lent[@]}" "${machine_environment[@]}" \
    chroot "$root" "$@" <"${machine_input:-/dev/null}"
}

machine_shell() { machine_input=/dev/tty machine_run "$1" bash; }

machine_boot() {
  local root=$1
  systemd-nspawn --quiet --register=no --keep-unit --private-network --machine=idmint-test --directory="$root" \
    --boot </dev/null >"$root.console" 2>&1 &
  machine_host=$!
  # systemd says when it is up: running, or degraded if a unit of Debian's fails in a container.
  while ! machine_leader=$(pgrep --parent "$machine_host" --exact systemd) ||
    [[ ! $(machine_in systemctl is-system-running --wait 2>/dev/null) =~ ^(running|degraded)$ ]]; do
    kill -0 "$machine_host" 2>/dev/null || fail "the machine did not boot: $(tail -n 20 "$root.console")"
  done
}

machine_in() {
  nsenter --target "$machine_leader" --mount --uts --ipc --net --pid --cgroup \
    env -i "${machine_environment[@]}" "$@" </dev/null
}

machine_stop() {
  [[ -n $machine_host ]] || return 0
  kill -KILL "$machine_leader" 2>/dev/null || true # nothing of it is kept
  wait "$machine_host" 2>/dev/null || true
  machine_host=
}

machine_unpack() {
  local layout=$2.layout name
  mkdir "$layout"
  tar --extract --directory "$layout" --file "$1"
  name=$(jq --raw-output '.manifests[0].annotations["org.opencontainers.image.ref.name"]' "$layout/index.json")
  umoci unpack --image "$layout:$name" "$2" || fail "umoci cannot unpack $1"
}
