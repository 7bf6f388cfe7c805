// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// WaitTimeout bounds every wait of a test. It is long, because the load of the host varies.
const WaitTimeout = 4 * time.Minute

// Harness is a namespace with a Cluster, for the story of one test. Its waits end after WaitTimeout.
type Harness struct {
	gomega.Gomega
	t       *testing.T
	cluster *Cluster
	// Home is the Cluster that machines belong to.
	Home *clusterv1.Cluster
}

// NewHarness creates a namespace, whose name starts with prefix, with a Cluster in it.
func (s *Shared) NewHarness(t *testing.T, prefix string) *Harness {
	t.Helper()
	h := (&Harness{cluster: s.Cluster(t)}).In(t)
	namespace, err := h.cluster.Namespace(t.Context(), prefix)
	h.Expect(err).NotTo(gomega.HaveOccurred())
	h.Home, err = h.cluster.Cluster(t.Context(), namespace, "home")
	h.Expect(err).NotTo(gomega.HaveOccurred())
	return h
}

// In returns the harness for a subtest, which fails in place of the test that made the harness.
func (h *Harness) In(t *testing.T) *Harness {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(WaitTimeout)
	return &Harness{Gomega: g, t: t, cluster: h.cluster, Home: h.Home}
}

// Create creates an object in the namespace.
func (h *Harness) Create(object client.Object) {
	h.t.Helper()
	object.SetNamespace(h.Home.Namespace)
	h.Expect(h.cluster.Client.Create(context.Background(), object)).To(gomega.Succeed())
}

// CreateMachine creates a Machine with its bootstrap Secret and, owned by it, its infrastructure machine, all of one name,
// as machine-controller does. An empty failure domain leaves the zone to the provider.
func (h *Harness) CreateMachine(infra driver.Machine, failureDomain string) *clusterv1.Machine {
	h.t.Helper()
	machine, err := h.cluster.Machine(context.Background(), h.Home, infra, []byte("#cloud-config\n"), func(machine *clusterv1.Machine) {
		machine.Spec.FailureDomain = failureDomain
	})
	h.Expect(err).NotTo(gomega.HaveOccurred())
	return machine
}

// Fetch reads an object again.
func (h *Harness) Fetch(g gomega.Gomega, object client.Object) {
	g.Expect(h.cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
}

// WaitForReason waits until the condition Ready of an infrastructure machine has a reason, and returns its message.
func (h *Harness) WaitForReason(machine driver.Machine, reason string) (message string) {
	h.t.Helper()
	h.Eventually(func(g gomega.Gomega) {
		h.Fetch(g, machine)
		ready := meta.FindStatusCondition(machine.GetStatus().Conditions, clusterv1.ReadyCondition)
		g.Expect(ready).To(gomega.HaveValue(gomega.HaveField("Reason", reason)))
		message = ready.Message
	}).Should(gomega.Succeed())
	return message
}

// ExpectRefusal creates a machine for which there will be no instance, waits until its condition Ready has a reason with text in
// its message, and deletes it. Without valid credentials the absence of an instance is unknown, so where they are the reason,
// the Secret that the machine names is replaced by a valid one before.
func (h *Harness) ExpectRefusal(machine driver.Machine, reason, text string, valid *corev1.Secret, named string) {
	h.t.Helper()
	h.CreateMachine(machine, "")
	h.Expect(h.WaitForReason(machine, reason)).To(gomega.ContainSubstring(text))
	if reason == infrav1.UnauthorizedReason {
		valid.Name = named
		h.Put(valid)
	}
	h.Delete(machine)
}

// Put creates an object in the namespace, or replaces the one of its name.
func (h *Harness) Put(object client.Object) {
	h.t.Helper()
	object.SetNamespace(h.Home.Namespace)
	err := h.cluster.Client.Create(context.Background(), object)
	if apierrors.IsAlreadyExists(err) {
		err = h.cluster.Client.Update(context.Background(), object)
	}
	h.Expect(err).NotTo(gomega.HaveOccurred())
}

// Delete deletes objects, and waits until they do not exist.
func (h *Harness) Delete(objects ...client.Object) {
	h.t.Helper()
	for _, object := range objects {
		h.Expect(client.IgnoreNotFound(h.cluster.Client.Delete(context.Background(), object))).To(gomega.Succeed())
	}
	for _, object := range objects {
		h.Eventually(func() bool {
			return apierrors.IsNotFound(h.cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object))
		}).Should(gomega.BeTrue(), object.GetName())
	}
}
