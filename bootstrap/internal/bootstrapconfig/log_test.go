// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/logtest"
)

// logged reconciles once and returns the messages of level 0, each with the kinds of the objects that it names.
func (b *env) logged() []string {
	b.t.Helper()
	recorder := &logtest.Recorder{}
	if err := b.Client.Get(b.t.Context(), client.ObjectKeyFromObject(b.config), b.config); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Reconcile(recorder.Context(b.t.Context()), b.config.DeepCopy()); err != nil {
		b.t.Fatal(err)
	}
	lines := recorder.Take()
	message, kinds := regexp.MustCompile(`"msg"="([^"]*)"`), regexp.MustCompile(`"([A-Z]\w+)"=\{`)
	for i, line := range lines {
		text := []string{message.FindStringSubmatch(line)[1]}
		for _, kind := range kinds.FindAllStringSubmatch(line, -1) {
			text = append(text, kind[1])
		}
		lines[i] = strings.Join(text, " ")
	}
	return lines
}

// TestLogIsTheHistoryOfTheToken: one line for each thing that changed, and none where nothing did.
func TestLogIsTheHistoryOfTheToken(t *testing.T) {
	b := newEnv(t, workloads.Kubeconfig)
	expect := func(when string, want ...string) {
		t.Helper()
		got := b.logged()
		kept := got[:0]
		for _, line := range got {
			if !strings.Contains(line, "ClusterRoleBinding") { // whichever test of the shared cluster comes first creates these
				kept = append(kept, line)
			}
		}
		if diff := cmp.Diff(want, kept, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("at first", "created bootstrap data Cluster Machine Secret", "created bootstrap token Cluster Machine Secret")
	expect("without a change")
	b.clock.Step(20 * time.Minute)
	expect("after more than half of the token's time", "renewed bootstrap token Cluster Machine Secret")
	b.machine.Status.NodeRef.Name = "m1"
	if err := b.Client.Status().Update(t.Context(), b.machine); err != nil {
		t.Fatal(err)
	}
	expect("once the Node has joined", "deleted bootstrap token Cluster Machine Node Secret")
	expect("after that")
}

// TestLogOfDataThatIsReplaced has a kubeconfig that is corrected before the data is published.
func TestLogOfDataThatIsReplaced(t *testing.T) {
	b := newEnv(t, changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + closedPort(t) }))
	if diff := cmp.Diff([]string{"created bootstrap data Cluster Machine Secret"}, b.logged()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.config), b.config); err != nil {
		t.Fatal(err)
	}
	b.config.Spec.PreCommands = []string{"true"}
	if err := b.Client.Update(t.Context(), b.config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"replaced bootstrap data Cluster Machine Secret"}, b.logged()); diff != "" {
		t.Errorf("after a change of the spec (-want +got):\n%s", diff)
	}
}

func TestLogOfATokenThatIsLeftToExpire(t *testing.T) {
	b := newEnv(t, changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + closedPort(t) }))
	if err := b.setFinalizer(t.Context(), b.config, true); err != nil {
		t.Fatal(err)
	}
	if err := b.Client.Delete(t.Context(), b.config); err != nil {
		t.Fatal(err)
	}
	if got := b.logged(); len(got) != 0 {
		t.Errorf("while it is tried again: %q", got)
	}
	b.clock.Step(revokeGrace + time.Second) // the API server's clock may have passed a second since that of the test was set
	if diff := cmp.Diff([]string{"left bootstrap token to expire Cluster Machine"}, b.logged()); diff != "" {
		t.Errorf("after the grace (-want +got):\n%s", diff)
	}
}
