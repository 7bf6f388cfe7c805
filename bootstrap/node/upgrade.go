// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

const (
	// upgradedFile exists once all packages are upgraded. The folder is that of the instance: in an image that is made of a host it
	// is another one.
	upgradedFile = "/var/lib/cloud/instance/drover-upgraded"

	// ranFile is where cloud-init notes that it has run the script, before it does. Without the file it runs the script again at
	// the next boot.
	ranFile = "/var/lib/cloud/instance/sem/config_scripts_user"
)

// runAgain has cloud-init run the script at the next boot as well, until ranFile is there again. The script does not run twice at a
// time, as where an upgrade restarts cloud-init, which has written ranFile by then.
const runAgain = `rm -f ` + ranFile + `
exec 9>/run/drover-bootstrap.lock
flock --nonblock 9 || exit 0`

// upgradeOnce upgrades all packages, and reboots a host once, before it joins, if what runs since its boot was upgraded. The script
// is run again after the reboot.
const upgradeOnce = `if ! [ -e ` + upgradedFile + ` ]; then
  retry 'the upgrade of packages' upgrade_packages
  touch ` + upgradedFile + `
  reason=$(REASON)
  if [ "$reason" ]; then
    echo "bootstrap: the host reboots before it joins, because $reason was upgraded"
    trap - ERR EXIT # this run ends without a failure
    rm -f ` + ranFile + `
    systemctl reboot || true
    sleep 600
    echo 'bootstrap: the host did not reboot within 10 minutes' >&2
    report Failed OperatingSystem
    exit 1
  fi
fi`

// aptRebootPackage says that a package needs a reboot, where a hook of the image notes that.
const aptRebootPackage = `if [ -e /run/reboot-required ]; then echo 'a package'; fi`

// dnfRebootPackage is the first package that was installed since the boot and runs since then.
const dnfRebootPackage = `
    booted=$(sed -n 's/^btime //p' /proc/stat)
    rpm --query --all --queryformat '%{INSTALLTIME} %{NAME}\n' | while read -r installed package; do
      case $package in
        kernel* | glibc | systemd | dbus | dbus-broker | dbus-daemon | openssl-libs | gnutls | linux-firmware | microcode_ctl) ;;
        *) continue ;;
      esac
      if [ "$installed" -gt "$booted" ]; then echo "$package"; fi
    done | sed -n 1p`
