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

// subscription registers a host with Red Hat or with a Satellite server, by an activation key or by a user.
type subscription struct {
	Organization, ActivationKey, Username, Password, Server, ContentURL string

	// Unregisters is true where the host unregisters itself.
	Unregisters bool
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
	n.subscription = &subscription{
		Organization: s.Organization, Server: s.Server, ContentURL: s.ContentURL, Unregisters: s.Unregister != bootstrapv1.RHELUnregisterNever,
	}
	for _, secret := range []struct {
		field string
		from  bootstrapv1.SecretKeyReference
		value *string
	}{
		{"activationKeyFrom", s.ActivationKeyFrom, &n.subscription.ActivationKey},
		{"usernameFrom", s.UsernameFrom, &n.subscription.Username},
		{"passwordFrom", s.PasswordFrom, &n.subscription.Password},
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
	if n.subscription.Unregisters {
		unregister(n)
	}
	return nil
}

// unregister has the host unregister itself, if the image was not registered before the script did it.
func unregister(n *Node) {
	script := strings.Replace(keepSubscription, "REGISTER", n.subscription.register(), 1)
	n.Files = append(n.Files, File{Path: subscriptionScript, Mode: 0o700, Content: []byte(script)})
	n.Units = append(n.Units, Unit{Name: subscriptionUnit, Content: subscriptionService})
	n.Services = append(n.Services, subscriptionUnit)
}

// commands register the host, by the proxy where there is one.
func (s *subscription) commands(proxy bootstrapv1.Proxy) ([]string, error) {
	var commands []string
	if proxy.HTTP != "" || proxy.HTTPS != "" {
		config, err := subscriptionProxy(proxy)
		if err != nil {
			return nil, err
		}
		commands = append(commands, config)
	}
	if s.Unregisters {
		commands = append(commands, "[ -e "+consumerCertificate+" ] || touch "+registeredHere)
	}
	return append(commands, "register() { "+s.register()+"; }", "retry 'the registration of the host' register"), nil
}

// register is a shell command that registers a host that is not registered.
func (s *subscription) register() string {
	all := []string{"[ -e", consumerCertificate, "] || timeout --kill-after=" + registerKill, registerTimeout, "subscription-manager register"}
	for _, a := range [][2]string{
		{"--activationkey=", s.ActivationKey}, {"--org=", s.Organization}, {"--username=", s.Username}, {"--password=", s.Password},
		{"--baseurl=", s.ContentURL}, {"--serverurl=", s.Server},
	} {
		if a[1] != "" {
			all = append(all, a[0]+quote.Shell(a[1]))
		}
	}
	return strings.Join(all, " ")
}
