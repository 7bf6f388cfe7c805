// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

var (
	keyRef      = bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "key"}
	userRef     = bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "user"}
	passwordRef = bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "password"}
)

// hostilePassword ends a word in every language on its way.
const hostilePassword = `p'a"s {{ 7*7 }} $(touch /canary) \ #%é`

// subscribed is a host that registers itself as in a subscription.
func subscribed(t *testing.T, s bootstrapv1.RHELSubscription) *Node {
	t.Helper()
	in := minimal(bootstrapv1.RHEL)
	in.Spec.RHEL.Subscription = s
	in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{keyRef: []byte("key-1\n"), userRef: []byte("operator\n"), passwordRef: []byte(hostilePassword + "\n")}
	n, err := Describe(in)
	must(t, err)
	return n
}

// jobs are what systemctl of systemd 252 lists while a host shuts down.
func jobs(target string) string {
	return "180 umount.target                start waiting\n176 " + target + "                start waiting\n236 drover-subscription.service  stop  running\n279 user.slice                   stop  waiting\n"
}

func TestHostUnregistersItselfWhenItIsPoweredOff(t *testing.T) {
	t.Parallel()
	byKey := bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: keyRef, Server: "satellite.example.test", ContentURL: "https://satellite.example.test/pulp"}
	for name, c := range map[string]struct {
		subscription bootstrapv1.RHELSubscription
		verb, jobs   string
		image        bool // was registered before
		registered   bool
		want         string
	}{
		"it unregisters on a power-off":               {byKey, "stop", jobs("poweroff.target"), false, true, "<unregister>"},
		"it unregisters on a halt":                    {byKey, "stop", jobs("halt.target"), false, true, "<unregister>"},
		"it stays registered on a reboot":             {byKey, "stop", jobs("reboot.target"), false, true, ""},
		"it stays registered on a reboot by kexec":    {byKey, "stop", jobs("kexec.target"), false, true, ""},
		"it stays registered if the unit is stopped":  {byKey, "stop", "", false, true, ""},
		"it leaves the registration of its image":     {byKey, "stop", jobs("poweroff.target"), true, true, ""},
		"it needs a registration to unregister":       {byKey, "stop", jobs("poweroff.target"), false, false, ""},
		"it does not register what is registered":     {byKey, "start", "", false, true, ""},
		"it does not register what its image has not": {byKey, "start", "", true, false, ""},
		"it registers again by its activation key":    {byKey, "start", "", false, false, "<register><--activationkey=key-1><--org=1><--baseurl=https://satellite.example.test/pulp><--serverurl=satellite.example.test>"},
		"it registers again by its user": {
			bootstrapv1.RHELSubscription{UsernameFrom: userRef, PasswordFrom: passwordRef}, "start", "", false, false, "<register><--username=operator><--password=" + hostilePassword + ">",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, root := subscribed(t, c.subscription), t.TempDir()
			at := strings.NewReplacer(consumerCertificate, filepath.Join(root, "cert.pem"), registeredHere, filepath.Join(root, "here"))
			certificate := func(there bool) {
				if there {
					must(t, os.WriteFile(filepath.Join(root, "cert.pem"), nil, 0o600))
				}
			}
			certificate(c.image)
			commands, err := n.subscription.commands(bootstrapv1.Proxy{})
			must(t, err)
			if out, err := bash(t, at.Replace(commands[0])); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if certificate(c.registered); c.image && !c.registered {
				must(t, os.Remove(filepath.Join(root, "cert.pem")))
			}
			script := at.Replace(contentOf(t, n, subscriptionScript))
			out, err := bash(t, program(t, "subscription-manager", `printf '<%s>' "$@"`)+"systemctl() { [ \"$1\" = list-jobs ] && printf %s '"+c.jobs+"'; }\nset -- "+c.verb+"\n"+script)
			if err != nil || out != c.want {
				t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(c.want, out))
			}
		})
	}
}

// program is a line of a script that puts a program before all others.
func program(t *testing.T, name, body string) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/bash\n"+body+"\n"), 0o700)) //nolint:gosec // it is executed
	return "PATH=" + folder + ":$PATH\n"
}

// TestRegistrationThatHangsEndsBeforeItsUnit: systemd fails a unit that does not start in time, also where it ignores the
// status of the command, and with it the bootstrap of a host whose kubelet runs.
func TestRegistrationThatHangsEndsBeforeItsUnit(t *testing.T) {
	t.Parallel()
	n := subscribed(t, bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: keyRef})
	script, root := contentOf(t, n, subscriptionScript), t.TempDir()
	limits := regexp.MustCompile(`timeout --kill-after=(\d+) (\d+) `).FindStringSubmatch(script)
	start := regexp.MustCompile(`(?m)^TimeoutStartSec=(\d+)$`).FindStringSubmatch(subscriptionService)
	if limits == nil || start == nil || number(t, limits[1])+number(t, limits[2]) >= number(t, start[1]) {
		t.Fatalf("a registration ends after %v seconds, and the unit fails after %v", limits, start)
	}
	if !strings.Contains(subscriptionService, "\nExecStart=-") {
		t.Error("the status of a registration fails the unit")
	}
	must(t, os.WriteFile(filepath.Join(root, "here"), nil, 0o600))
	script = strings.NewReplacer(consumerCertificate, filepath.Join(root, "cert.pem"), registeredHere, filepath.Join(root, "here"), limits[0], "timeout --kill-after=0.1 0.1 ").Replace(script)
	hangs := program(t, "subscription-manager", "trap '' TERM\nwhile :; do read -r -t 60 <> <(:) || true; done")
	if out, err := bash(t, hangs+"set -- start\n"+script); err == nil {
		t.Errorf("a registration that hangs ends with success:\n%s", out)
	}
}

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	must(t, err)
	return n
}

func contentOf(t *testing.T, n *Node, path string) string {
	t.Helper()
	for _, f := range n.Files {
		if f.Path == path {
			if f.Mode != 0o700 {
				t.Errorf("%s has mode %04o, and holds a password", path, f.Mode)
			}
			return string(f.Content)
		}
	}
	t.Fatalf("the host has no %s", path)
	return ""
}

func TestSubscriptionMayStay(t *testing.T) {
	t.Parallel()
	n := subscribed(t, bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: keyRef, Unregister: bootstrapv1.RHELUnregisterNever})
	if script := string(n.script()); strings.Contains(script, registeredHere) || n.hasFile(subscriptionScript) || slices.Contains(n.Services, subscriptionUnit) {
		t.Errorf("services %q, script %s: the host unregisters itself", n.Services, script)
	}
	if diff := cmp.Diff(&subscription{Organization: "1", ActivationKey: "key-1"}, n.subscription); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIncompleteSubscriptionIsRefused(t *testing.T) {
	t.Parallel()
	other := bootstrapv1.SecretKeyReference{Name: "rhsm", Key: "other"}
	for name, c := range map[string]struct {
		subscription bootstrapv1.RHELSubscription
		other, field string
	}{
		"a key without an organization": {bootstrapv1.RHELSubscription{ActivationKeyFrom: keyRef}, "", "spec.rhel.subscription"},
		"an organization without a key": {bootstrapv1.RHELSubscription{Organization: "1"}, "", "spec.rhel.subscription"},
		"a user without a password":     {bootstrapv1.RHELSubscription{UsernameFrom: userRef}, "", "spec.rhel.subscription"},
		"a key and a user":              {bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: keyRef, UsernameFrom: userRef, PasswordFrom: passwordRef}, "", "spec.rhel.subscription"},
		"an empty password":             {bootstrapv1.RHELSubscription{UsernameFrom: userRef, PasswordFrom: other}, "\n", "spec.rhel.subscription.passwordFrom"},
		"a password of two lines":       {bootstrapv1.RHELSubscription{UsernameFrom: userRef, PasswordFrom: other}, "a\nb", "spec.rhel.subscription.passwordFrom"},
		"a user that is no text":        {bootstrapv1.RHELSubscription{UsernameFrom: other, PasswordFrom: passwordRef}, "a\xff", "spec.rhel.subscription.usernameFrom"},
		"a key that is no text":         {bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: other}, "a\x00", "spec.rhel.subscription.activationKeyFrom"},
	} {
		in := minimal(bootstrapv1.RHEL)
		in.Spec.RHEL.Subscription = c.subscription
		in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{keyRef: []byte("k"), userRef: []byte("u"), passwordRef: []byte("p"), other: []byte(c.other)}
		_, err := Describe(in)
		if refused, is := errors.AsType[*InvalidError](err); !is || refused.Field != c.field {
			t.Errorf("%s: err = %v, want an InvalidError for %s", name, err, c.field)
		}
	}
}
