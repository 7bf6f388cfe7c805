#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
#
# Boots user data as far as cloud-init goes: stages.sh <folder of cloud-init> <scratch> <user data> <paths> <distribution> [<disk>]
# Without a folder of cloud-init, the user data is a folder with the files of a host, and only the script runs.
# The variable SHIMS has commands that change the shims, which are in their working directory.
#
# Runs in namespaces of its own (mount, network, host name, processes). The host's root is the lower layer of an
# overlay, so that nothing is written to it, and whatever would touch the kernel or systemd is replaced by a shim that
# writes down how it was called. What sleeps has slept at once: /proc/uptime is a file that has the time passed.
set -euo pipefail
cloudinit=$1 scratch=$2 data=$3 paths=$4 distribution=$5 disk=${6:-}

mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch"/{upper,work,root}

upper=$scratch/upper
mkdir -p "$upper/opt/bin" "$upper/opt/cloud-init" "$upper/usr/bin" "$upper/var/lib/cloud/seed/nocloud" "$upper/etc"
for program in systemctl modprobe sysctl swapoff ufw setenforce update-ca-certificates update-ca-trust apt-get dpkg dnf; do
  printf '#!/bin/sh\necho "%s $*" >>/shims.log\n' "$program" >"$upper/opt/bin/$program"
done
# The reboot ends whatever sleeps.
echo '[ "$1" != reboot ] || touch /rebooting' >>"$upper/opt/bin/systemctl"
echo 1000.00 1000.00 >"$upper/uptime"
cat >"$upper/opt/bin/sleep" <<'SHIM'
#!/bin/bash
case $1 in *.*) exec /usr/bin/sleep "$1" ;; esac
[ ! -e /rebooting ] || exit 143
read -r passed _ </uptime
echo "$((${passed%.*} + $1)).00 1000.00" >/uptime
SHIM
# An upgrade brings a kernel.
echo 'case "$*" in *upgrade) touch /upgraded ;; esac' >>"$upper/opt/bin/dnf"
for program in apt-get dnf; do
  echo 'case "$*" in *" install "*) printf "%s\n" ${*##* install } >>/installed ;; esac' >>"$upper/opt/bin/$program"
done
cat >"$upper/opt/bin/dpkg-query" <<'SHIM'
#!/bin/sh
for name; do :; done
grep --quiet --line-regexp "$name" /installed && echo installed=1=
SHIM
cat >"$upper/opt/bin/rpm" <<'SHIM'
#!/bin/sh
for name; do :; done
case "$*" in
*--all*) [ ! -e /upgraded ] || echo 9999999999 kernel-core ;;
*" kernel-core "*) echo kernel-modules-extra-1 ;;
*) grep --quiet --line-regexp "$name" /installed ;;
esac
SHIM
touch "$upper/installed"
cat >"$upper/opt/bin/curl" <<'SHIM'
#!/bin/sh
echo "curl $*" >>/shims.log
while [ $# -gt 0 ]; do
  if [ "$1" = --output ]; then : >"$2"; fi
  shift
done
SHIM
cat >"$upper/opt/bin/subscription-manager" <<'SHIM'
#!/bin/sh
echo "subscription-manager $*" >>/shims.log
case "$1" in
register)
  mkdir -p /etc/pki/consumer && touch /etc/pki/consumer/cert.pem
  echo 'The system has been registered with ID: 1' ;;
identity) exit 1 ;; # no host is registered yet
esac
SHIM
cat >"$upper/opt/bin/ip" <<'SHIM'
#!/bin/sh
case "$*" in
"link show dev "*) ;; # whatever its name
"-o -4 address show up scope global dev "*) echo '2: eth1    inet 10.0.0.5/24 brd 10.0.0.255 scope global eth1\\       valid_lft forever preferred_lft forever' ;;
*) PATH=/usr/sbin:/sbin:/usr/bin:/bin exec ip "$@" ;;
esac
SHIM
if [ "$disk" ]; then # which is real: only udev and systemd, who would link and mount it, are not there
  cat >"$upper/opt/bin/udevadm" <<SHIM
#!/bin/sh
label=\$(blkid -c /dev/null -o value -s LABEL $disk) && mkdir -p /dev/disk/by-label && ln -sfn $disk "/dev/disk/by-label/\$label"
exit 0
SHIM
  cat >>"$upper/opt/bin/systemctl" <<'SHIM'
case "$1 $2" in "start "*.mount)
  of() { sed -n "s/^$1=//p" "/etc/systemd/system/$2"; }
  mount -t "$(of Type "$2")" -o "$(of Options "$2")" "$(of What "$2")" "$(of Where "$2")" ;;
esac
SHIM
fi
(cd "$upper/opt/bin" && eval "${SHIMS:-}")
mkdir -p "$upper/etc/dnf" && printf '[main]\nproxy=http://of-the-image.example.test\n' >"$upper/etc/dnf/dnf.conf"
mkdir -p "$upper/etc/selinux" && echo SELINUX=enforcing >"$upper/etc/selinux/config"
printf '#!/bin/sh\necho Kubernetes v1.36.3\n' >"$upper/usr/bin/kubelet"
chmod 0755 "$upper"/opt/bin/* "$upper/usr/bin/kubelet"
cp "$paths" "$upper/paths"
if [ "$cloudinit" ]; then
  cp "$data" "$upper/var/lib/cloud/seed/nocloud/user-data"
  cp -r "$cloudinit/etc/cloud" "$upper/etc/"
  cp "$cloudinit/usr/bin/cloud-id" "$upper/opt/bin/"
  cp testdata/stages.py "$upper/"
else
  mkdir -p "$upper/var/lib/cloud/instance/sem" "$upper/etc/cloud/cloud.cfg.d"
  cp -a "$data/." "$upper/"
fi
printf 'instance-id: i-1\nlocal-hostname: node-1\nprovider_id: sim:///zone-a/1\n' >"$upper/var/lib/cloud/seed/nocloud/meta-data"
cat >"$upper/etc/cloud/cloud.cfg.d/99-test.cfg" <<CFG
system_info: {distro: $distribution}
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [disk_setup, write-files, set_hostname, users-groups]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
CFG
cat >"$upper/boot.sh" <<'BOOT'
export PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/opt/cloud-init PYTHONDONTWRITEBYTECODE=1
if [ -e /stages.py ]; then
  run() { /usr/bin/python3 /stages.py "$@" >>/boot.log 2>&1; }
else
  run() { /opt/drover/bootstrap.sh >>/boot.log 2>&1; }
fi
final='modules --mode=final'
run 'init --local' init 'modules --mode=config' "$final"
if grep --quiet '^systemctl reboot' /shims.log; then
  rm -rf /rebooting /tmp/*
  run "$final"
fi
[ ! -e /stages.py ] || echo "RESULT $(tr -d '\n ' </run/cloud-init/result.json)"
echo "HOSTNAME $(hostname)"
echo "SUCCESS $(cat /run/cluster-api/bootstrap-success.complete 2>/dev/null)"
[ -z "$1" ] || echo "MOUNT $(findmnt --noheadings --raw --output TARGET,FSTYPE "$1") $(blkid -c /dev/null -o value -s LABEL "$1")"
echo "DNF $(tail -n +2 /etc/dnf/dnf.conf)"
[ ! -e /etc/apt/apt.conf.d/90drover-proxy ] || while read -r line; do echo "APT $line"; done </etc/apt/apt.conf.d/90drover-proxy
[ ! -e /var/lib/cloud/instance/drover-subscription ] || echo "REGISTERED here"
[ ! -e /canary ] || echo "CANARY is there"
while IFS= read -r line; do echo "CALL $line"; done </shims.log
cat /etc/sudoers.d/* 2>/dev/null | while IFS= read -r line; do echo "SUDO $line"; done
cat /home/*/.ssh/authorized_keys 2>/dev/null | while IFS= read -r line; do echo "KEY $line"; done
all=()
while read -r path; do [ ! -e "$path" ] || all+=("$path"); done </paths
stat -c 'FILE %n %04a %U:%G' "${all[@]}" >/modes
sha256sum "${all[@]}" | cut -d' ' -f1 | paste -d' ' /modes -
while read -r line; do echo "LOG $line"; done </boot.log
BOOT

mount -t overlay overlay -o "lowerdir=/,upperdir=$upper,workdir=$scratch/work" "$scratch/root"
mount -t proc proc "$scratch/root/proc"
mount --bind "$scratch/root/uptime" "$scratch/root/proc/uptime"
[ -z "$cloudinit" ] || mount --bind "$cloudinit/usr/lib/python3/dist-packages" "$scratch/root/opt/cloud-init"
mount -t tmpfs tmpfs "$scratch/root/run"
mount -t tmpfs tmpfs "$scratch/root/tmp"
if [ "$disk" ]; then
  mount -t sysfs -o ro sysfs "$scratch/root/sys"
  mount -t tmpfs -o mode=0755 tmpfs "$scratch/root/dev"
  for device in /dev/null /dev/zero /dev/random /dev/urandom /dev/tty "$disk"; do
    touch "$scratch/root$device"
    mount --bind "$device" "$scratch/root$device"
  done
else
  mount --rbind /dev "$scratch/root/dev"
fi
exec chroot "$scratch/root" /bin/bash /boot.sh "$disk"
