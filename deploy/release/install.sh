#!/bin/sh
# Installs inspan for this user, or for all users where PREFIX may be written:
#
#   curl -fsSL URL/install.sh | sh
#   curl -fsSL URL/install.sh | PREFIX=/usr/local sh
#
# It downloads one archive, checks its SHA-256 against the checksums of the release, and copies two programs into
# PREFIX/bin. PREFIX is ~/.local by default. INSPAN_VERSION and INSPAN_URL name another release or place.
set -eu
version=${INSPAN_VERSION:-@VERSION@}
url=${INSPAN_URL:-@URL@}/v$version
prefix=${PREFIX:-$HOME/.local}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "no build for $(uname -s): build from source with go install github.com/inspan/inspan/cmd/inspan@v$version" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "no build for $(uname -m): build from source with go install github.com/inspan/inspan/cmd/inspan@v$version" ;;
esac

fetch() { # URL FILE
  case $1 in
  file://*) cp "${1#file://}" "$2" ;;
  *)
    if command -v curl >/dev/null; then
      curl -fsSL "$1" -o "$2"
    elif command -v wget >/dev/null; then
      wget -q "$1" -O "$2"
    else
      fail "neither curl nor wget is installed"
    fi
    ;;
  esac || fail "cannot download $1"
}

sum() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$1"
  else
    shasum -a 256 "$1"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=inspan_${version}_${os}_$arch.tar.gz
fetch "$url/checksums.txt" "$work/checksums.txt"
fetch "$url/$archive" "$work/$archive"
want=$(awk -v f="$archive" '$2 == f { print $1 }' "$work/checksums.txt")
got=$(sum "$work/$archive" | awk '{ print $1 }')
[ -n "$want" ] || fail "the checksums of $version do not name $archive"
[ "$want" = "$got" ] || fail "$archive is damaged or was changed: its SHA-256 is $got, and $want was published. Nothing was installed"

tar -xzf "$work/$archive" -C "$work"
mkdir -p "$prefix/bin" || fail "cannot make $prefix/bin: set PREFIX to a directory that you may write"
for program in inspan inspan-within; do
  [ -f "$work/$program" ] || continue
  # a running program is replaced, not overwritten
  cp "$work/$program" "$prefix/bin/.$program.new"
  chmod 755 "$prefix/bin/.$program.new"
  mv -f "$prefix/bin/.$program.new" "$prefix/bin/$program"
done
"$prefix/bin/inspan" version
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
command -v git >/dev/null || echo "inspan needs git for work on repositories: install git"
echo "begin with: inspan demo"
