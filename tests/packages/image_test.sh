#!/usr/bin/env bash
# The image that scripts/package image makes: what is in it, that it is the same when it is made again, and how it works:
# run by crun on each kind of store, with a root that cannot be written. What examples/container has is tried too.
#
#   image_test.sh SOURCE_DIR BUILD_DIR      of the programs of this build
set -euo pipefail
source=$(realpath -- "$1") build=$(realpath -- "$2")
# shellcheck source=tests/fresh/machine.sh
. "$source/tests/fresh/machine.sh"

machine_require "$@"
work=$(mktemp -d -t idmint-image-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
cd "$source"

# 1. It is made twice, of the same packages, and is the same.
scripts/package image --from "$build" --to "$work/made" || fail "no image"
image=$(ls "$work"/made/idmintd-*.oci.tar)
(cd "$work/made" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS are not those of what was made"
grep -q '\.oci\.tar$' "$work/made/SHA256SUMS" || fail "SHA256SUMS lacks the image"
cp "$work/made/SHA256SUMS" "$work/first"
scripts/package image --from "$build" --to "$work/made" || fail "no image when it is made again"
diff "$work/first" "$work/made/SHA256SUMS" || fail "the second image differs from the first"
size=$(stat --format=%s "$image")
((size < 60000000)) || fail "the image has $size bytes: more than 60 MB"

# 2. Its settings, as programs of others read them.
name=idmintd:$(basename "$image" | sed -E 's/^idmintd-(.*)-[a-z0-9]+\.oci\.tar$/\1/')
machine_unpack "$image" "$work/bundle"
buildah() { command buildah --root "$work/storage" --runroot "$work/running" --storage-driver vfs "$@"; }
for form in oci-archive docker-archive; do # what podman load and an older docker load read
  id=$(buildah pull --quiet "$form:$image") || fail "buildah cannot read the image as $form"
  settings=$(buildah inspect --type image "$id" | jq --compact-output '.OCIv1.config | [.User, .Entrypoint, .StopSignal,
    (.Volumes | keys), (.ExposedPorts | keys), .Labels["org.opencontainers.image.version"], .Cmd]')
  expected="[\"7379:7379\",[\"idmintd\"],\"SIGTERM\",[\"/var/lib/idmint\"],[\"7379/tcp\",\"7380/tcp\"],\"${name#*:}\",null]"
  [[ $settings == "$expected" ]] || fail "the settings of the image as $form are $settings, and not $expected"
done

# 3. Its files: the two programs and no others, with what they load, and whence it is.
cd "$work/bundle/rootfs"
found=$(find . -xdev -type f -perm /111 -not -name '*.so*' | sort | tr '\n' ' ')
[[ $found == './usr/bin/idmint ./usr/bin/idmintd ' ]] || fail "the programs of the image are $found"
found=$(find . -xdev -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -not -name '*.so*' -print | sort | tr '\n' ' ')
[[ $found == './usr/bin/idmint ./usr/bin/idmintd ' ]] || fail "the programs of the image are $found"
found=$(find . -xdev -perm /6000 -o -not -user 0 -not -path './var/lib/idmint' -o -type f -perm /022)
[[ -z $found ]] || fail "these files of the image have other owners or rights than they should: $found"
[[ $(stat --format='%u %g %a' var/lib/idmint) == '7379 7379 700' ]] || fail "/var/lib/idmint is not the user's"
for package in idmint idmintd libc6 libssl3 libpq5 libmariadb3 libmongoc-1.0-0 libcurl4 libzookeeper-mt2 ca-certificates; do
  grep -q '^Version: ' "var/lib/dpkg/status.d/$package" || fail "the image does not say which version of $package it has"
  [[ -s usr/share/doc/$package/copyright ]] || fail "the image has no license of $package"
done
cd "$source"

# 4. It works. In a network of its own, for the ports of its settings; the servers of the stores are there too.
scripts/mongod >/dev/null # which may have to be fetched
in_use() { # in_use BUNDLE
  mkdir "$work/use"
  unshare --net --mount tests/packages/image_in_use.sh "$source" "$1" "$work/use" || fail "the image $1 does not work as it should"
  rm -rf "$work/use"
}
in_use "$work/bundle"

# 5. So does that of the Dockerfile, on a Debian that stands in for the one of Docker's registry.
mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar" 2>"$work/log" || fail "mmdebstrap made no Debian: $(cat "$work/log")"
base=$(buildah from scratch)
buildah add --quiet "$base" "$work/base.tar" >/dev/null
buildah commit --quiet --rm "$base" localhost/debian >/dev/null
mkdir -p "$work/context/build"
cp -r examples "$work/context/"
mv "$work/made" "$work/context/build/packages"
(cd "$work/context" && buildah bud --isolation chroot --format docker --build-arg BASE=localhost/debian --tag localhost/idmintd \
  --ignorefile examples/container/Dockerfile.dockerignore --file examples/container/Dockerfile .) >"$work/log" 2>&1 ||
  fail "the Dockerfile makes no image: $(tail -n 40 "$work/log")"
said=$(buildah inspect --type image localhost/idmintd | jq --compact-output .Docker.config.Healthcheck.Test)
[[ $said == '["CMD","idmintd","probe",":7380"]' ]] ||
  fail "the image of the Dockerfile has another probe"
buildah push --quiet localhost/idmintd "oci:$work/docker:idmintd"
umoci unpack --image "$work/docker:idmintd" "$work/docker-bundle"
in_use "$work/docker-bundle"

# 6. What compose.yaml says is understood, and means this image.
[[ $(docker-compose --file examples/container/compose.yaml config | sed -n 's/^ *image: //p') == "$name" ]] ||
  fail "compose.yaml is for another image than $name"

printf 'the image has %s kB, %s kB unpacked, and opens every kind of store\n' $((size / 1000)) \
  "$(du --summarize --apparent-size --block-size=1000 "$work/bundle/rootfs" | cut -f 1)"
