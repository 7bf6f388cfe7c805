// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"net"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// changed is the kubeconfig of the workload cluster with a change.
func changed(t *testing.T, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	config, err := clientcmd.Load(workloads.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	change(config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo])
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// closedPort is an address of loopback on which no process listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

func TestConditionHasTheProblemOfTheKubeconfig(t *testing.T) {
	cases := map[string]struct {
		kubeconfig func(*testing.T) []byte
		reason     string
		message    string
	}{
		"not a kubeconfig": {
			kubeconfig: func(*testing.T) []byte { return []byte("token: {secret") },
			reason:     bootstrapv1.KubeconfigInvalidReason, message: "not a kubeconfig",
		},
		"it runs a program": {
			kubeconfig: func(t *testing.T) []byte {
				return changed(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
					*a = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}}
				})
			},
			reason: bootstrapv1.KubeconfigInvalidReason, message: "exec runs a program",
		},
		"it refers to a file": {
			kubeconfig: func(t *testing.T) []byte {
				return changed(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
					*a = clientcmdapi.AuthInfo{TokenFile: "/etc/passwd"}
				})
			},
			reason: bootstrapv1.KubeconfigInvalidReason, message: "tokenFile names a file",
		},
		"it does not verify": {
			kubeconfig: func(t *testing.T) []byte {
				return changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
					c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
				})
			},
			reason: bootstrapv1.KubeconfigInvalidReason, message: "insecure-skip-tls-verify",
		},
		"the port is closed": {
			kubeconfig: func(t *testing.T) []byte {
				return changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + closedPort(t) })
			},
			reason: bootstrapv1.ClusterUnreachableReason, message: "connection refused",
		},
		"another CA": {
			kubeconfig: func(t *testing.T) []byte {
				return changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
					c.CertificateAuthorityData = management.Admin.CAData
				})
			},
			reason: bootstrapv1.ClusterUnreachableReason, message: "not signed by the kubeconfig's certificate-authority-data",
		},
		"unknown user": {
			kubeconfig: func(t *testing.T) []byte {
				return changed(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) { *a = clientcmdapi.AuthInfo{Token: "unknown"} })
			},
			reason: bootstrapv1.ClusterForbiddenReason, message: "refuses the credentials",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newNamespace(t)
			f.kubeconfig(c.kubeconfig(t))
			f.newCluster()
			config := f.config(f.machine("m1"), nil)
			if message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, c.reason); !strings.Contains(message, c.message) {
				t.Errorf("message = %q, want it to contain %q", message, c.message)
			}
			if config.Status.DataSecretName != "" {
				t.Error("dataSecretName was set although its token does not exist")
			}
		})
	}
}

func TestConditionHasTheProblemOfTheSpec(t *testing.T) {
	f := newFixture(t)
	cases := map[string]struct {
		change  func(*bootstrapv1.BootstrapConfigSpec)
		message string
	}{
		"kubelet-field": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"maxPod":3}`)}
			},
			message: `spec.kubelet.configuration: unknown field "maxPod"`,
		},
		"reserved-file": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Files = []bootstrapv1.File{{Path: "/etc/kubernetes/pki/ca.crt", Content: new("x")}}
			},
			message: "spec.files[0].path: /etc/kubernetes/pki/ca.crt: the file is written by the controller",
		},
		"missing-secret": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Files = []bootstrapv1.File{{Path: "/etc/x", ContentFrom: bootstrapv1.SecretKeyReference{Name: "none", Key: "k"}}}
			},
			message: `spec.files[0].contentFrom: there is no Secret "none" with the key "k"`,
		},
		"label": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Kubelet.NodeLabels = map[string]string{"node-role.kubernetes.io/worker": ""}
			},
			message: "spec.kubelet.nodeLabels[node-role.kubernetes.io/worker]: a kubelet may not set this label",
		},
	}
	for name, c := range cases {
		config := f.config(f.machine(name), func(config *bootstrapv1.BootstrapConfig) { c.change(&config.Spec) })
		message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
		if !strings.HasPrefix(message, c.message) {
			t.Errorf("%s: message = %q, want it to begin with %q", name, message, c.message)
		}
	}
}

func TestWaitsForItsPrerequisites(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	config := f.config(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1", Namespace: f.namespace, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}},
		func(c *bootstrapv1.BootstrapConfig) { c.OwnerReferences = nil })
	waits := func(reason, message string) {
		t.Helper()
		f.Eventually(func() string { return f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, reason) }).Should(gomega.ContainSubstring(message))
	}
	waits(bootstrapv1.WaitingForMachineReason, "controller owner")

	machine := f.machine("m1")
	config.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))}
	f.Expect(management.Client.Update(t.Context(), config)).To(gomega.Succeed())
	waits(bootstrapv1.WaitingForClusterReason, `Cluster "c1" to exist`)

	f.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: f.namespace}, Spec: clusterv1.ClusterSpec{Paused: new(true)}}
	f.create(f.cluster)
	f.eventually(config, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	f.cluster.Spec.Paused = new(false)
	f.Expect(management.Client.Update(t.Context(), f.cluster)).To(gomega.Succeed())
	waits(bootstrapv1.WaitingForClusterReason, "infrastructure of Cluster")

	f.infrastructureProvisioned()
	waits(bootstrapv1.WaitingForClusterReason, "waiting for spec.controlPlaneEndpoint of Cluster")
	f.cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1"}
	f.Expect(management.Client.Update(t.Context(), f.cluster)).To(gomega.Succeed())
	waits(bootstrapv1.WaitingForClusterReason, "waiting for spec.controlPlaneEndpoint.port of Cluster")

	f.kubeconfig(workloads.Kubeconfig)
	f.cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 443}
	f.Expect(management.Client.Update(t.Context(), f.cluster)).To(gomega.Succeed())
	f.eventuallyReady(config)
}

func TestWaitsForTheKubeconfig(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	f.newCluster()
	config := f.config(f.machine("m1"), nil)
	message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.KubeconfigInvalidReason)
	if want := `/c1-kubeconfig" does not exist`; !strings.Contains(message, want) {
		t.Errorf("message = %q, want it to have %q", message, want)
	}
}

func TestForeignSecretIsNotChanged(t *testing.T) {
	f := newFixture(t)
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m1", Namespace: f.namespace}, Data: map[string][]byte{"mine": []byte("x")}})
	config := f.config(f.machine("m1"), nil)
	f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.DataSecretConflictReason)
	if got := f.dataSecret(config); string(got.Data["mine"]) != "x" || len(got.Data) != 1 {
		t.Error("the Secret was changed")
	}
}
