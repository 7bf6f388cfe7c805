#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes the guest that real machines boot, once, below bin/guest: a Debian root with systemd, cloud-init,
# containerd and a kernel, the same as a disk image, and the CNI plugins as an archive. Nothing of Kubernetes is
# in it: that is the bootstrap data's business. Needs root, mmdebstrap, mke2fs and Debian's package archive.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$PWD/bin/guest
recipe=$(sha256sum "test/vm/guest.sh" | cut -d' ' -f1)
[ "$(cat "$target/recipe" 2>/dev/null)" = "$recipe" ] && exit 0
rm -rf "$target" && mkdir -p "$target"
packages=systemd,systemd-sysv,systemd-resolved,dbus,udev,kmod,cloud-init,containerd,runc,containernetworking-plugins
packages+=,iproute2,iptables,conntrack,ethtool,socat,netbase,e2fsprogs,xfsprogs,gdisk,ca-certificates,curl,linux-image-cloud-amd64

# The initial RAM disk has the drivers of this machine type only, because an emulated CPU unpacks it slowly.
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
    echo MODULES=list > "$1/etc/initramfs-tools/conf.d/guest"
    printf "%s\n" virtio_pci virtio_blk ext4 > "$1/usr/share/initramfs-tools/modules.d/guest"' bookworm "$target/root"

# As a cloud's image is: DHCP through networkd, names through resolved.
root=$target/root
systemctl --quiet --root="$root" enable systemd-networkd.service
printf '%s\n' 'datasource_list: [NoCloud, None]' 'locale: C.UTF-8' > "$root/etc/cloud/cloud.cfg.d/50-guest.cfg"
echo '/dev/vda / ext4 defaults 0 1' > "$root/etc/fstab"
ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
: > "$root/etc/machine-id"
rm -f "$root/etc/hostname"

tar -czf "$target/cni-plugins.tgz" -C "$target/root/usr/lib/cni" .
cp -L "$target/root/vmlinuz" "$target/vmlinuz"
cp -L "$target/root/initrd.img" "$target/initrd.img"
truncate -s 4G "$target/disk.img"
mke2fs -q -t ext4 -E lazy_itable_init=1,root_owner=0:0 -d "$target/root" "$target/disk.img"
echo "$recipe" > "$target/recipe"
