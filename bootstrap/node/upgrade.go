// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

const (
	// rebootedFile exists from when it was decided whether the host reboots. The folder is that of the instance: in an image that
	// is made of a host it is another one.
	rebootedFile = "/var/lib/cloud/instance/drover-rebooted"

	// ranFile is where cloud-init notes that it has run the script.
	ranFile = "/var/lib/cloud/instance/sem/config_scripts_user"
)

// rebootUpgraded reboots a host once, before it joins, if what runs since its boot was upgraded. cloud-init itself reboots only
// where a package manager leaves a file that demands it, as apt does and dnf does not.
const rebootUpgraded = `if ! [ -e ` + rebootedFile + ` ]; then
  touch ` + rebootedFile + `
  booted=$(sed -n 's/^btime //p' /proc/stat)
  while read -r installed package; do
    case $package in
      kernel* | glibc | systemd | dbus | dbus-broker | dbus-daemon | openssl-libs | gnutls | linux-firmware | microcode_ctl) ;;
      *) continue ;;
    esac
    if [ "$installed" -le "$booted" ]; then continue; fi
    echo "bootstrap: the host reboots before it joins, because $package was upgraded"
    rm -f ` + ranFile + `
    trap - ERR EXIT # this run ends without a failure
    systemctl reboot || true
    sleep 600
    echo 'bootstrap: the host did not reboot within 10 minutes' >&2
    report Failed OperatingSystem
    exit 1
  done < <(rpm --query --all --queryformat '%{INSTALLTIME} %{NAME}\n')
fi`

// addUpgrade has a host rebooted first, so that nothing else has been started by then.
func addUpgrade(n *Node, os distribution, _ Input) error {
	if n.Upgrade && os.rebootUpgraded != "" {
		n.Setup = append([]string{os.rebootUpgraded}, n.Setup...)
	}
	return nil
}
