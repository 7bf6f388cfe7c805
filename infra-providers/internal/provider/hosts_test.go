// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
)

// TestHostsThatDoNotJoin gives hosts bootstrap data and faults that keep them from joining.
func TestHostsThatDoNotJoin(t *testing.T) {
	t.Parallel()
	home := given(t)
	serve(t, home, t.TempDir(), cluster.Config)
	for name, test := range map[string]struct {
		userData string
		spec     infrav1.SimMachineSpec
		want     string
	}{
		"wrong-token":     {string(userData(t, "abcdef.ffffffffffffffff", cluster.CA())), infrav1.SimMachineSpec{}, "token is wrong or expired"},
		"wrong-ca":        {string(userData(t, testenv.Token, testenv.OtherCA())), infrav1.SimMachineSpec{}, "not signed by the CA"},
		"unreadable-yaml": {"#cloud-config\nwrite_files: [", infrav1.SimMachineSpec{}, "reading cloud-config"},
		"no-kubelet":      {"#cloud-config\n", infrav1.SimMachineSpec{}, "no unit /etc/systemd/system/kubelet.service"},
		"a-script":        {"#!/bin/sh\n", infrav1.SimMachineSpec{}, "neither"},
		"fault":           {string(userData(t, testenv.Token, cluster.CA())), infrav1.SimMachineSpec{Faults: infrav1.SimFaults{NeverJoins: ptr.To(true)}}, "neverJoins"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: test.spec}
			_, err := cluster.Machine(t.Context(), home, machine, []byte(test.userData))
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Eventually(func(g gomega.Gomega) {
				fetch(g, machine)
				joined := meta.FindStatusCondition(machine.Status.Conditions, infrav1.HostJoinedCondition)
				g.Expect(joined).NotTo(gomega.BeNil())
				g.Expect(joined.Reason).To(gomega.Equal(infrav1.HostFailedReason))
				g.Expect(joined.Message).To(gomega.ContainSubstring(test.want))
			}, waitTimeout).Should(gomega.Succeed())
			g.Expect(reason(machine, clusterv1.ReadyCondition)).To(gomega.Equal(infrav1.InstanceRunningReason))
			g.Expect(gone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(gomega.BeTrue())
		})
	}
}

// TestFailedHost proves that the control plane itself finds the Node not ready, and that a restart of
// the instance mends that.
func TestFailedHost(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	home := given(t)
	serve(t, home, t.TempDir(), cluster.Config)
	data := strings.Replace(string(userData(t, testenv.Token, cluster.CA())), "nodeLeaseDurationSeconds: 20", "nodeLeaseDurationSeconds: 4", 1)
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Name: "mortal"}, Spec: infrav1.SimMachineSpec{Faults: infrav1.SimFaults{HangsAfterSeconds: ptr.To[int32](6)}}}
	owner, err := cluster.Machine(t.Context(), home, machine, []byte(data))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mortal"}}
	g.Eventually(func() corev1.ConditionStatus { return ready(node) }, waitTimeout).Should(gomega.Equal(corev1.ConditionTrue))
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine, infrav1.HostJoinedCondition)).To(gomega.Equal(infrav1.HostFailedReason))
	}, waitTimeout).Should(gomega.Succeed())
	g.Eventually(func() corev1.ConditionStatus { return ready(node) }, waitTimeout).Should(gomega.Equal(corev1.ConditionUnknown))

	before := node.UID
	unwell(g, owner)
	g.Eventually(func() corev1.ConditionStatus { return ready(node) }, waitTimeout).Should(gomega.Equal(corev1.ConditionTrue))
	g.Expect(node.UID).To(gomega.Equal(before), "the Node is another one")
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, machine)
		g.Expect(reason(machine, infrav1.HostJoinedCondition)).To(gomega.Equal(infrav1.JoinedReason))
	}, waitTimeout).Should(gomega.Succeed())
}

func ready(node *corev1.Node) corev1.ConditionStatus {
	if gone(node) {
		return ""
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// TestTemplateCapacity is what the autoscaler needs to scale up from zero.
func TestTemplateCapacity(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	home := given(t)
	serve(t, home, t.TempDir(), cluster.Config)
	template := &infrav1.SimMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: "arm"},
		Spec:       infrav1.SimMachineTemplateSpec{Template: infrav1.SimMachineTemplateResource{Spec: infrav1.SimMachineSpec{InstanceType: "arm-medium"}}},
	}
	g.Expect(cluster.Client.Create(t.Context(), template)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		fetch(g, template)
		g.Expect(template.Status.NodeInfo).To(gomega.Equal(infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}))
		g.Expect(template.Status.Capacity.Cpu().String()).To(gomega.Equal("4"))
		g.Expect(template.Status.Capacity.Memory().String()).To(gomega.Equal("8Gi"))
		g.Expect(meta.IsStatusConditionTrue(template.Status.Conditions, clusterv1.ReadyCondition)).To(gomega.BeTrue())
	}, waitTimeout).Should(gomega.Succeed())
}
