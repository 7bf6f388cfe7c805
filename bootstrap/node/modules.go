// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// extraModules installs the modules that images of RHEL 10 and Rocky Linux 10 lack, br_netfilter and those of iptables among
// them: for each kernel that is installed, since the running one may not be the one of the next boot. A kernel whose modules
// are not in a repository any more is left out, which is no error of dnf.
const extraModules = `if ! modprobe --dry-run --quiet br_netfilter; then
  modules=$(rpm --query kernel-core --queryformat 'kernel-modules-extra-%{VERSION}-%{RELEASE}.%{ARCH}\n')
  retry 'the installation of kernel modules' dnf --quiet --assumeyes --setopt=strict=0 install $modules
fi`
