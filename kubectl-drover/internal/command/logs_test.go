// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// hostWithConsole creates a Machine whose host has reported something, by its condition.
func hostWithConsole(t *testing.T, namespace, name string, conditions ...metav1.Condition) *clusterv1.Machine {
	t.Helper()
	c := management.Client(t)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = "c", new("data")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: name + "-host"}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-host"}}
	if err := c.Create(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(noon)
	}
	infra.Status.Conditions = conditions
	writeStatus(t, infra)
	return m
}

// TestLogsOfEachHost has hosts that report something, nothing yet, and what is meant for a terminal.
func TestLogsOfEachHost(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "logs-hosts")
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "InstanceRunning", Message: "not of the console"}
	joined := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: infrav1.HostJoinedCondition, Status: status, Reason: reason, Message: message}
	}
	kubeconfig := admin(t, management)
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"failed":   {[]metav1.Condition{ready, joined("False", "BootstrapFailed", "step Downloads\ncurl: (22) 404")}, "BootstrapFailed (2026-03-01T12:00:00Z)\nstep Downloads\ncurl: (22) 404\n"},
		"terminal": {[]metav1.Condition{ready, joined("False", "BootstrapFailed", "a\x1b]0;owned\a\rb\u202ec")}, "BootstrapFailed (2026-03-01T12:00:00Z)\na\\u001b]0;owned\\u0007\\u000db\\u202ec\n"},
		"joined":   {[]metav1.Condition{ready, joined("True", "Joined", "")}, "SimMachine joined-host reports nothing about the console of this host\n"},
		"silent":   {[]metav1.Condition{ready}, "SimMachine silent-host reports nothing about the console of this host\n"},
		"new":      {nil, "SimMachine new-host reports nothing about the console of this host\n"},
	} {
		m := hostWithConsole(t, "logs-hosts", name, test.conditions...)
		for _, args := range [][]string{{"machine/" + m.Name}, {"machine", m.Name}, {m.Name}, {"ma/" + m.Name}} {
			got := run(t, kubeconfig, append(append([]string{"logs"}, args...), "--namespace", "logs-hosts")...)
			if got.code != ExitOK || got.out != test.want || got.err != "" {
				t.Errorf("%v: exit code %d, output %q, error %q", args, got.code, got.out, got.err)
			}
		}
	}
}

// TestLogsWithoutAHost has a Machine whose object is missing, or is of a kind that is not installed.
func TestLogsWithoutAHost(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "logs-missing")
	c := management.Client(t)
	hostWithConsole(t, "logs-missing", "near")
	for name, ref := range map[string]clusterv1.ContractVersionedObjectReference{
		"deleted":   {APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "nea-host"},
		"removed":   {APIGroup: "infrastructure.example.org", Kind: "SimMachine", Name: "x"},
		"unknown":   {APIGroup: infrav1.GroupVersion.Group, Kind: "NoMachine", Name: "x"},
		"no-object": {APIGroup: infrav1.GroupVersion.Group, Kind: "HetznerMachine", Name: "x"},
	} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "logs-missing", Name: name}}
		m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName, m.Spec.InfrastructureRef = "c", new("data"), ref
		if err := c.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := admin(t, management)
	for name, want := range map[string]string{
		"deleted":   `there is no SimMachine "nea-host" in namespace "logs-missing"; did you mean "near-host"?`,
		"removed":   `no matches for kind "SimMachine" in group "infrastructure.example.org"`,
		"unknown":   `no matches for kind "NoMachine" in group "infrastructure.drover.io"`,
		"no-object": `there is no HetznerMachine "x" in namespace "logs-missing"`,
		"removd":    `there is no Machine "removd" in namespace "logs-missing"; did you mean "removed"?`,
	} {
		got := run(t, kubeconfig, "logs", name, "--namespace", "logs-missing")
		if got.code != ExitError || got.out != "" || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: exit code %d, output %q, error %q", name, got.code, got.out, got.err)
		}
	}
}

// TestNoCommandPrintsASecret asks everything about a Machine whose user data, kubeconfig and token are in Secrets.
func TestNoCommandPrintsASecret(t *testing.T) {
	t.Parallel()
	key := pool(t, "secrets")
	c := management.Client(t)
	const secret = "0123456789-top-secret"
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: " + secret + "}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
	for name, data := range map[string][]byte{"data": []byte("#cloud-config\npassword: " + secret), "shop-kubeconfig": []byte(kubeconfig)} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}, Data: map[string][]byte{"value": data}}
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	m := machineNamed(t, key.Namespace, "alone")
	m.Status.NodeRef.Name = "node"
	writeStatus(t, m)
	as := admin(t, management)
	for _, args := range [][]string{
		{"why", "cluster/shop"}, {"why", "machine/alone"}, {"why", "secret/data"}, {"describe", "cluster", "shop", "-o", "wide"}, {"describe", "machine", "alone"},
		{"drain", "--dry-run", "alone"}, {"logs", "alone"}, {"orphans"}, {"check", "--this-namespace", "--installed-in", key.Namespace}, {"rollout", "history", "web"},
	} {
		for _, output := range [][]string{nil, {"-o", "json"}, {"-o", "yaml"}} {
			got := run(t, as, append(append(args, output...), "--namespace", key.Namespace)...)
			for _, text := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[:12], base64.StdEncoding.EncodeToString([]byte(kubeconfig))[:30]} {
				if strings.Contains(got.out+got.err, text) {
					t.Errorf("%v prints %q: %s%s", args, text, got.out, got.err)
				}
			}
			if got.out+got.err == "" {
				t.Errorf("%v prints nothing", args)
			}
		}
	}
}
