#!/usr/bin/env bash
# Installs the release of this commit on a bare Debian in each way, and uses it. Needs root, Go and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${VERSION:-0.0.1-try}
[ "$(id -u)" -eq 0 ] || { echo "try.sh: chroot needs root"; exit 1; }
command -v debootstrap >/dev/null || { echo "try.sh: no debootstrap: apt-get install debootstrap"; exit 1; }
work=$(mktemp -d)
trap 'umount "$work"/*/proc 2>/dev/null || true; rm -rf "$work"' EXIT
arch=$(go env GOARCH)
GOFLAGS= go run -C deploy/release . -version "$version" -only "linux/$arch" -out "$work/dist"
file=inspan_${version}_linux_$arch

step() { echo "== $*"; }
fail() { echo "FAILED: $*"; exit 1; }
says() { # ROOT PROGRAM
  text=$(chroot "$1" "$2" version) || fail "$2 version: $text"
  case $text in "inspan $version (commit "*) echo "$text" ;; *) fail "$2 says $text" ;; esac
}

step "a bare Debian"
debootstrap --variant=minbase bookworm "$work/root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/log" || { tail -5 "$work/log"; exit 1; }
mkdir -p "$work/root/release/v$version"
cp "$work/dist/$file".* "$work/dist/checksums.txt" "$work/dist/install.sh" "$work/root/release/v$version/"
mount -t proc proc "$work/root/proc"
chroot "$work/root" useradd -m anna

step "install.sh, by a person who is not root"
chroot "$work/root" su anna -c "INSPAN_URL=file:///release sh /release/v$version/install.sh" || fail install.sh
says "$work/root" /home/anna/.local/bin/inspan

step "an archive that was changed is refused"
cp "$work/root/release/v$version/$file.tar.gz" "$work/good"
printf x >>"$work/root/release/v$version/$file.tar.gz"
if chroot "$work/root" env INSPAN_URL=file:///release PREFIX=/bad sh "/release/v$version/install.sh"; then fail "it was installed"; fi
[ ! -e "$work/root/bad/bin" ] || fail "something was installed"
cp "$work/good" "$work/root/release/v$version/$file.tar.gz"

step "the .deb, with what it depends on"
cp /etc/resolv.conf "$work/root/etc/resolv.conf"
chroot "$work/root" apt-get -o Acquire::Check-Valid-Until=false update -qq
chroot "$work/root" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "/release/v$version/$file.deb" >"$work/log" 2>&1 ||
  { tail -5 "$work/log"; fail "apt-get install"; }
says "$work/root" /usr/bin/inspan
[ -s "$work/root/usr/share/bash-completion/completions/inspan" ] || fail "no completion"

step "the demo, by a person who is not root"
chroot "$work/root" su - anna -c 'inspan demo </dev/null 2>&1' | tail -3 | tee "$work/demo"
grep -q Verified "$work/demo" || fail "the demo verified nothing"

step "the .deb goes without a trace"
chroot "$work/root" dpkg -r inspan >/dev/null
[ ! -e "$work/root/usr/bin/inspan" ] && [ ! -e "$work/root/usr/bin/inspan-within" ] || fail "programs are left"

step "the .rpm"
if command -v rpm >/dev/null; then
  rpm -qp --nosignature --requires "$work/dist/$file.rpm" | grep -q '^git' || fail "it does not require git"
  rpm -qpl --nosignature "$work/dist/$file.rpm"
else
  echo "NOT TRIED: no rpm on this machine (apt-get install rpm)"
fi

step "the image"
mkdir -p "$work/image/layer"
tar -C "$work/image" -xf "$work/dist/${file}_image.tar"
for l in "$work"/image/*.tar.gz; do tar -C "$work/image/layer" -xzf "$l"; done
says "$work/image/layer" /inspan
if docker info >/dev/null 2>&1; then
  docker load -i "$work/dist/${file}_image.tar"
  docker run --rm "inspan:$version" version
else
  echo "NOT TRIED: no Docker on this machine; its files were run in a chroot"
fi
echo "== passed"
