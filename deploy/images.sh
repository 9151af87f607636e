#!/usr/bin/env bash
# Makes the images of the Dockerfile without any registry, as tar files of their root folders:
#   deploy/images.sh service     DIR/inspan.tar             needs Go
#   deploy/images.sh toolrunner  DIR/inspan-toolrunner.tar  needs Go, root and debootstrap
#   deploy/images.sh sandbox     DIR/inspan-sandbox.tar     needs root and debootstrap
# and says how to load them. DIR is bin/images, or what IMAGES names.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?usage: deploy/images.sh service|toolrunner|sandbox}
out=${IMAGES:-bin/images}
mkdir -p "$out"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
build() { CGO_ENABLED=0 go build -trimpath -pgo=deploy/release/inspan.pgo -ldflags="-s -w" -o "$root/" "$@"; }
pack() {
  # the same files give the same bytes
  tar --sort=name --mtime=@0 --numeric-owner -C "$root" -cf "$out/$1.tar" .
  echo "$out/$1.tar"
  echo "load it: docker import $(printf ' --change %q' "${@:2}") $out/$1.tar $1:0.1.0"
}
# debian makes a root folder of these packages. apt installs them: debootstrap alone does not order larger sets.
debian() {
  command -v debootstrap >/dev/null || { echo "no debootstrap: apt-get install debootstrap"; exit 1; }
  [ "$(id -u)" -eq 0 ] || { echo "debootstrap needs root"; exit 1; }
  debootstrap --variant=minbase bookworm "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  export DEBIAN_FRONTEND=noninteractive
  chroot "$root" apt-get update -qq
  chroot "$root" apt-get install -y -qq --no-install-recommends "$@"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/cache/apt/*.bin "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root/etc/resolv.conf"
}
case $what in
service)
  build ./cmd/inspan ./cmd/planner ./cmd/gatekeeper ./cmd/executor ./cmd/toolrunner ./cmd/persister ./cmd/gateway ./cmd/healthcheck ./cmd/inspan-within
  mkdir -p "$root/etc/ssl/certs"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" || { echo "no /etc/ssl/certs/ca-certificates.crt: install ca-certificates"; exit 1; }
  chmod 755 "$root"
  pack inspan "USER 65532:65532" "ENV INSPAN_HTTP=:8080" 'CMD ["/inspan","--help"]'
  ;;
toolrunner)
  debian bash bubblewrap ca-certificates git
  build ./cmd/toolrunner ./cmd/healthcheck ./cmd/inspan-within
  install -d -o 65532 -g 65532 "$root/workspace"
  chmod 755 "$root"
  pack inspan-toolrunner "USER 65532:65532" "ENV HOME=/tmp INSPAN_WORKSPACE=/workspace INSPAN_HTTP=:8080" "WORKDIR /workspace" 'CMD ["/toolrunner"]'
  ;;
sandbox)
  mapfile -t packages < <(grep -v '^#' deploy/sandbox.packages)
  debian "${packages[@]}"
  chmod 755 "$root"
  pack inspan-sandbox 'CMD ["bash"]'
  ;;
*)
  echo "usage: deploy/images.sh service|toolrunner|sandbox"; exit 2 ;;
esac
