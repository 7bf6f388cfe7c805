// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// rhel is Red Hat Enterprise Linux 9.
func rhel() distribution {
	os := enterprise()
	os.extra = subscribe
	return os
}

// enterprise is what RHEL 9 and Rocky 9 have in common.
func enterprise() distribution {
	return distribution{
		format:   bootstrapv1.CloudConfig,
		kubelet:  "/usr/bin/kubelet",
		packages: true,
		time:     chrony,
		setup: []string{
			// The distribution's policies have no rules for a kubelet and its containers.
			"if [ -e /etc/selinux/config ]; then setenforce 0 || true; sed -i 's/^SELINUX=enforcing$/SELINUX=permissive/' /etc/selinux/config; fi",
			// firewalld would drop traffic between pods and to node ports.
			"if systemctl cat firewalld.service >/dev/null 2>&1; then systemctl disable --quiet --now firewalld.service; fi",
		},
		trustFile:    "/etc/pki/ca-trust/source/anchors/drover.pem",
		trustCommand: "update-ca-trust extract",
	}
}

// chrony replaces the configuration of chronyd, which has no folder for additions.
func chrony(servers []string) (File, string) {
	var b strings.Builder
	for _, s := range servers {
		b.WriteString("server " + s + " iburst\n")
	}
	b.WriteString("driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n")
	return File{Path: "/etc/chrony.conf", Mode: 0o644, Content: []byte(b.String())}, "chronyd.service"
}

// Subscription registers a host with Red Hat or with a Satellite server.
type Subscription struct {
	Organization, ActivationKey, Server, ContentURL string
}

func subscribe(n *Node, in Input) error {
	s := in.Spec.RHEL.Subscription
	if s.Organization == "" {
		return nil
	}
	key := strings.TrimSpace(string(in.Secrets[s.ActivationKeyFrom]))
	if key == "" {
		return invalid("spec.rhel.subscription.activationKeyFrom", "Secret %q has nothing under the key %q", s.ActivationKeyFrom.Name, s.ActivationKeyFrom.Key)
	}
	n.Subscription = &Subscription{Organization: s.Organization, ActivationKey: key, Server: s.Server, ContentURL: s.ContentURL}
	return nil
}
