// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import bootstrapv1 "drover.io/api/bootstrap/v1alpha1"

// ec2Name gives a host on EC2 the private DNS name of its instance, by which the AWS cloud controller manager finds the Node.
// Without that, cloud-init of Debian and Ubuntu takes the first label only. A name in a domain of the VPC's own DHCP options
// is not one that EC2 reports, and is left alone. The file has cloud-init take the whole name at later boots too.
const ec2Name = `if [ "$(cloud-id 2>/dev/null)" = aws ]; then
  name=$(cloud-init query --format '{{ ds.meta_data.local_hostname }}' || true)
  case $name in
    ip-*.compute.internal | ip-*.ec2.internal | i-*.compute.internal | i-*.ec2.internal)
      echo 'prefer_fqdn_over_hostname: true' >/etc/cloud/cloud.cfg.d/99-drover-hostname.cfg
      hostnamectl set-hostname "$name" ;;
  esac
fi`

// addEC2Name adds it where neither the host nor the Node is given another name.
func addEC2Name(n *Node, in Input) error {
	if in.Spec.Hostname != bootstrapv1.HostnameFromMachine && in.Spec.Kubelet.HostnameOverride == "" {
		n.Setup = append(n.Setup, ec2Name)
	}
	return nil
}
