#!/bin/sh
# Makes what the sandboxes qemu and firecracker boot, on Debian, as root: kernel (for QEMU), initrd and root.ext4. Firecracker wants an
# uncompressed kernel of its own besides (make firecracker-test KERNEL=).
# usage: build.sh DIR GUEST, where GUEST is the static program inspan-guest. PACKAGES names more for the root.
# ROOT_TREE names a directory that is made into root.ext4 instead of a fresh Debian, KERNEL_DEB a kernel package that is there.
set -eu
out=$1 guest=$2
suite=${SUITE:-bookworm} mirror=${MIRROR:-http://deb.debian.org/debian}
packages=bash,ca-certificates,curl,e2fsprogs,git,perl-base,util-linux${PACKAGES:+,$PACKAGES}
say() { echo "microvm: $*" >&2; }
need() { command -v "$1" >/dev/null || { say "$1 is missing: apt-get install $2"; exit 1; }; }
need mke2fs e2fsprogs
need cpio cpio
need gzip gzip
test -x "$guest" || { say "$guest is no program: make microvm builds it"; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd) guest=$(cd "$(dirname "$guest")" && pwd)/$(basename "$guest")
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

if test -z "${KERNEL_DEB:-}"; then
	say "getting a kernel"
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
	apt-get -q download "$package" >&2
	KERNEL_DEB=$(ls "$work"/*.deb)
fi
mkdir k first
dpkg -x "$KERNEL_DEB" k
cp k/boot/vmlinuz-* "$out/kernel"

say "making the first file system"
mkdir -p first/modules first/dev
cp "$guest" first/init
chmod 755 first/init
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_mmio virtio_blk virtio_console vsock \
	vmw_vsock_virtio_transport_common vmw_vsock_virtio_transport; do
	file=$(find k/lib/modules k/usr/lib/modules -name "$m.ko" 2>/dev/null | head -n 1)
	test -n "$file" || continue # the kernel has it built in
	cp "$file" first/modules/
	echo "$m.ko" >>first/modules/order
done
(cd first && find . -mindepth 1 | sort | cpio --quiet -R 0:0 -o -H newc | gzip -1) >"$out/initrd"

tree=${ROOT_TREE:-}
if test -z "$tree"; then
	need debootstrap debootstrap
	say "making a root of Debian $suite with $packages"
	tree=$work/root
	debootstrap --variant=minbase "--include=$packages" "$suite" "$tree" "$mirror" >&2
fi
for dir in proc sys dev run tmp home; do test -d "$tree/$dir" || { say "the root has no directory $dir"; exit 1; }; done
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
grep -q '^agent:' "$tree/etc/passwd" || { echo 'agent:x:1000:1000::/home/agent:/bin/sh' >>"$tree/etc/passwd"; echo 'agent:x:1000:' >>"$tree/etc/group"; }
printf '127.0.0.1 localhost\n::1 localhost\n' >"$tree/etc/hosts"
: >"$tree/etc/resolv.conf"
size=$(du -sm "$tree" | cut -f 1)
rm -f "$out/root.ext4"
mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$tree" "$out/root.ext4" "$((size + size / 5 + 32))M"
chmod 644 "$out/kernel" "$out/initrd" "$out/root.ext4"
say "made $out/kernel, $out/initrd and $out/root.ext4"
