// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"unicode"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

const (
	subscriptionUnit   = "drover-subscription.service"
	subscriptionScript = scriptFolder + "/subscription.sh"

	// consumerCertificate exists while a host is registered.
	consumerCertificate = "/etc/pki/consumer/cert.pem"

	// registeredHere exists where the image was not registered already. The folder is that of the instance: in an image
	// that is made of a host it is another one.
	registeredHere = "/var/lib/cloud/instance/drover-subscription"
)

// Subscription registers a host with Red Hat or with a Satellite server, by an activation key or by a user.
type Subscription struct {
	Organization, ActivationKey, Username, Password, Server, ContentURL string
}

// A registration takes at most these seconds, and then some until it is killed. Both are less than the TimeoutStartSec of the
// unit: systemd ignores the status of the command, but not that a unit did not start in time, which would fail the bootstrap
// of a host that has joined.
const registerTimeout, registerKill = "240", "15"

// keepSubscription registers a host again that was unregistered when it was powered off. Only a shutdown that ends with a
// host without power unregisters it: not a reboot, and not a stop of the unit.
const keepSubscription = `#!/bin/bash
set -euo pipefail
[ -e ` + registeredHere + ` ] || exit 0
case $1 in
start) REGISTER ;;
stop)
  [ -e ` + consumerCertificate + ` ] || exit 0
  if systemctl list-jobs --no-legend | grep -E ' (poweroff|halt)[.]target +start ' >/dev/null; then subscription-manager unregister; fi ;;
esac
`

// The unit is stopped before the network is.
const subscriptionService = `[Unit]
Description=Registers the host again that was unregistered when it was powered off
Wants=network-online.target
After=network-online.target dbus.service rhsm.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=-` + subscriptionScript + ` start
ExecStop=` + subscriptionScript + ` stop
TimeoutStartSec=300
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
`

func subscribe(n *Node, in Input) error {
	s := in.Spec.RHEL.Subscription
	if s == (bootstrapv1.RHELSubscription{}) {
		return nil
	}
	n.Subscription = &Subscription{Organization: s.Organization, Server: s.Server, ContentURL: s.ContentURL}
	for _, secret := range []struct {
		field string
		from  bootstrapv1.SecretKeyReference
		value *string
	}{
		{"activationKeyFrom", s.ActivationKeyFrom, &n.Subscription.ActivationKey},
		{"usernameFrom", s.UsernameFrom, &n.Subscription.Username},
		{"passwordFrom", s.PasswordFrom, &n.Subscription.Password},
	} {
		if secret.from.Name == "" {
			continue
		}
		*secret.value = strings.TrimSpace(string(in.Secrets[secret.from]))
		if *secret.value == "" {
			return invalid("spec.rhel.subscription."+secret.field, "Secret %q has nothing under the key %q", secret.from.Name, secret.from.Key)
		}
		if !quote.IsText(*secret.value) || strings.ContainsFunc(*secret.value, unicode.IsControl) {
			return invalid("spec.rhel.subscription."+secret.field, "Secret %q has not one line of text under the key %q", secret.from.Name, secret.from.Key)
		}
	}
	byKey, byUser := s.Organization != "" && s.ActivationKeyFrom.Name != "", s.UsernameFrom.Name != "" && s.PasswordFrom.Name != ""
	if byKey == byUser {
		return invalid("spec.rhel.subscription", "set either organization and activationKeyFrom, or usernameFrom and passwordFrom")
	}
	if s.Unregister != bootstrapv1.RHELUnregisterNever {
		unregister(n)
	}
	return nil
}

// unregister has the host unregister itself, if the image was not registered before cloud-init did it.
func unregister(n *Node) {
	n.Early = append(n.Early, "[ -e "+consumerCertificate+" ] || touch "+registeredHere)
	script := strings.Replace(keepSubscription, "REGISTER", n.Subscription.register(), 1)
	n.Files = append(n.Files, File{Path: subscriptionScript, Mode: 0o700, Content: []byte(script)})
	n.Units = append(n.Units, Unit{Name: subscriptionUnit, Content: subscriptionService})
	n.Services = append(n.Services, subscriptionUnit)
}

// register is a shell command that registers a host that is not registered, with the arguments that cloud-init gives
// subscription-manager.
func (s *Subscription) register() string {
	all := []string{"[ -e", consumerCertificate, "] || timeout --kill-after=" + registerKill, registerTimeout, "subscription-manager register"}
	for _, a := range [][2]string{
		{"--activationkey=", s.ActivationKey}, {"--org=", s.Organization}, {"--username=", s.Username}, {"--password=", s.Password},
		{"--baseurl=", s.ContentURL}, {"--serverurl=", s.Server},
	} {
		if a[1] != "" {
			all = append(all, quote.Shell(a[0]+a[1]))
		}
	}
	return strings.Join(all, " ")
}
