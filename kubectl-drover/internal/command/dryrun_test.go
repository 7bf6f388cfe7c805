// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
)

// withoutHistory is a MachineDeployment without what each write changes.
func withoutHistory(md *clusterv1.MachineDeployment) *clusterv1.MachineDeployment {
	md = md.DeepCopy()
	md.ResourceVersion, md.Generation, md.ManagedFields = "", 0, nil
	return md
}

// TestDryRunsPrintWhatTheRunPrints has each action as a dry run on the server and in the client, and then for good: the texts
// differ in their last words alone, and the object is changed by the last one alone.
func TestDryRunsPrintWhatTheRunPrints(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"freeze":        {"freeze", "web"},
		"thaw":          {"thaw", "web"},
		"override":      {"thaw", "web", "--override"},
		"undo":          {"rollout", "undo", "web"},
		"undo-revision": {"rollout", "undo", "md/web", "--to-revision=1"},
		"restart":       {"rollout", "restart", "web"},
		"pause":         {"rollout", "pause", "web"},
		"resume":        {"rollout", "resume", "web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := pool(t, "dry-"+name)
			md := deploymentOf(t, key)
			// Each action has something to change.
			if name == "thaw" {
				annotate(md, "drover.io/freeze", "true")
			}
			md.Spec.Paused = new(name == "resume")
			if err := management.Client(t).Update(t.Context(), md); err != nil {
				t.Fatal(err)
			}
			kubeconfig := admin(t, management)
			printed := map[string]string{}
			for _, strategy := range []string{"client", "server", "none"} {
				got := run(t, kubeconfig, append(slices.Clone(args), "--namespace", key.Namespace, "--dry-run="+strategy)...)
				if got.code != ExitOK || got.err != "" {
					t.Errorf("%s: exit code %d, error %q", strategy, got.code, got.err)
				}
				printed[strategy] = got.out
				if changed := deploymentOf(t, key).ResourceVersion != md.ResourceVersion; changed != (strategy == "none") {
					t.Errorf("after the dry run %q it is changed: %t", strategy, changed)
				}
			}
			want := strings.TrimSuffix(printed["none"], "\n")
			if want == "" || printed["client"] != want+" (client dry run)\n" || printed["server"] != want+" (server dry run)\n" {
				t.Errorf("printed %q", printed)
			}
		})
	}
}

// TestFreezeAndThawLeaveNothingBehind follows an annotation through each of its values.
func TestFreezeAndThawLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	key := pool(t, "roundtrip")
	before := withoutHistory(deploymentOf(t, key))
	kubeconfig := admin(t, management)
	for i, step := range []struct {
		args  []string
		value string
	}{
		{[]string{"freeze", "web"}, "true"},
		{[]string{"freeze", "web"}, "true"},
		{[]string{"thaw", "web", "--override"}, "false"},
		{[]string{"freeze", "web"}, "true"},
		{[]string{"thaw", "web"}, ""},
		{[]string{"thaw", "web"}, ""},
		{[]string{"thaw", "web", "--override"}, "false"},
		{[]string{"thaw", "web"}, ""},
	} {
		if got := run(t, kubeconfig, append(step.args, "--namespace", key.Namespace)...); got.code != ExitOK || got.err != "" {
			t.Fatalf("step %d: exit code %d, error %q", i, got.code, got.err)
		}
		md := deploymentOf(t, key)
		if got, found := md.Annotations["drover.io/freeze"]; got != step.value || found != (step.value != "") {
			t.Errorf("after step %d the annotation is %q", i, got)
		}
		for _, fields := range md.ManagedFields {
			if strings.Contains(fmt.Sprint(fields.FieldsV1), "drover.io/freeze") && fields.Manager != "kubectl-drover" {
				t.Errorf("after step %d the annotation is that of %q", i, fields.Manager)
			}
		}
	}
	if diff := cmp.Diff(before, withoutHistory(deploymentOf(t, key)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the MachineDeployment (-before +after):\n%s", diff)
	}
}

// TestMachineSetWithoutADeploymentIsFrozen by each of its names, and thawed.
func TestMachineSetWithoutADeploymentIsFrozen(t *testing.T) {
	t.Parallel()
	key := pool(t, "freeze-set")
	c := management.Client(t)
	set := &clusterv1.MachineSet{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: "web-old"}, set); err != nil {
		t.Fatal(err)
	}
	set.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: "lone"}
	if err := c.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	kubeconfig := admin(t, management)
	for _, name := range []string{"machineset/lone", "ms/lone", "machinesets.cluster.x-k8s.io/lone", "MachineSet/lone"} {
		for _, test := range []struct{ action, done, value string }{{"freeze", "frozen", "true"}, {"thaw", "thawed", ""}} {
			got := run(t, kubeconfig, test.action, name, "--namespace", key.Namespace)
			if got.code != ExitOK || got.out != "MachineSet lone "+test.done+"\n" {
				t.Errorf("%s %s: exit code %d, output %q, error %q", test.action, name, got.code, got.out, got.err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || set.Annotations["drover.io/freeze"] != test.value {
				t.Errorf("%s %s: annotations %q, error %v", test.action, name, set.Annotations, err)
			}
		}
	}
}

// TestRefusalOfAnActionIsThatOfItsDryRun has an admission policy of the installation: the dry run on the server answers as the run
// does, and that in the client cannot know.
func TestRefusalOfAnActionIsThatOfItsDryRun(t *testing.T) {
	t.Parallel()
	key := pool(t, "refusing")
	c := management.Client(t)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "refuse-freeze"}}
	rule := admissionv1.NamedRuleWithOperations{}
	rule.APIGroups, rule.APIVersions, rule.Resources = []string{clusterv1.GroupVersion.Group}, []string{"*"}, []string{"machinedeployments"}
	rule.Operations = []admissionv1.OperationType{admissionv1.Update}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{
		ResourceRules:     []admissionv1.NamedRuleWithOperations{rule},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": key.Namespace}},
	}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "!('drover.io/freeze' in object.metadata.?annotations.orValue({}))", Message: "ask the platform team"}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = policy.Name, []admissionv1.ValidationAction{admissionv1.Deny}
	for _, o := range []client.Object{policy, binding} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := admin(t, management)
	freeze := func(strategy string) result {
		return run(t, kubeconfig, "freeze", "web", "--namespace", key.Namespace, "--dry-run="+strategy)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, wait.ConditionFunc(func() (bool, error) { return freeze("server").code == ExitError, nil }).WithContext()); err != nil {
		t.Fatal(err)
	}
	dry, done := freeze("server"), freeze("none")
	if dry != done || done.code != ExitError || done.out != "" || !strings.Contains(done.err, "ask the platform team") || strings.Count(done.err, "\n") != 1 {
		t.Errorf("the dry run is %+v, the run %+v", dry, done)
	}
	if got := freeze("client"); got.code != ExitOK {
		t.Errorf("in the client: %+v", got)
	}
	// What the policy does not have is permitted.
	if got := run(t, kubeconfig, "rollout", "pause", "web", "--namespace", key.Namespace); got.code != ExitOK {
		t.Errorf("another action: %+v", got)
	}
}

// TestActionIsAboutTheObjectThatWasRead has another MachineDeployment of the same name by the time of the write.
func TestActionIsAboutTheObjectThatWasRead(t *testing.T) {
	t.Parallel()
	key := pool(t, "replaced")
	read := deploymentOf(t, key)
	c := management.Client(t)
	if err := c.Delete(t.Context(), read.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	next := read.DeepCopy()
	next.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	if err := c.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	reader := &object.Reader{Client: c, Mapper: c.RESTMapper()}
	err := (&patcher{}).patch(t.Context(), reader, object.MachineDeployment, read, spec("paused", true))
	if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		t.Errorf("error %v", err)
	}
	if after := deploymentOf(t, key); after.Spec.Paused != nil || after.UID == read.UID {
		t.Errorf("the other MachineDeployment: paused %v", after.Spec.Paused)
	}
	if err := (&patcher{}).patch(t.Context(), reader, object.MachineDeployment, next, spec("paused", true)); err != nil {
		t.Error(err)
	}
}

// TestDryRunMustBeKnown has values of the flag that kubectl has not.
func TestDryRunMustBeKnown(t *testing.T) {
	t.Parallel()
	key := pool(t, "dry-unknown")
	before := deploymentOf(t, key)
	kubeconfig := admin(t, management)
	for _, args := range [][]string{{"freeze", "web"}, {"thaw", "web", "--override"}, {"rollout", "restart", "web"}, {"rollout", "undo", "web"}} {
		got := run(t, kubeconfig, append(args, "--namespace", key.Namespace, "--dry-run=yes")...)
		if got.code != ExitError || got.out != "" || !strings.Contains(got.err, `Must be "none", "server", or "client"`) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if after := deploymentOf(t, key); after.ResourceVersion != before.ResourceVersion {
		t.Error("the MachineDeployment was changed")
	}
}

// TestUndoToEachRevisionOfTheHistory has the revisions that history lists, and the earlier numbers of one of them.
func TestUndoToEachRevisionOfTheHistory(t *testing.T) {
	t.Parallel()
	key := pool(t, "undo-each")
	c := management.Client(t)
	md := deploymentOf(t, key)
	annotate(md, clusterv1.RevisionAnnotation, "5")
	if err := c.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	for name, revision := range map[string]string{"web-new": "5", "web-old": "4", "web-older": "2"} {
		set := &clusterv1.MachineSet{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: name}, set); err != nil {
			t.Fatal(err)
		}
		annotate(set, clusterv1.RevisionAnnotation, revision)
		if name == "web-old" {
			annotate(set, "machinedeployment.clusters.x-k8s.io/revision-history", "1,3")
		}
		if err := c.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := admin(t, management)
	for revision, want := range map[int]string{
		0: "previous", 1: "1", 2: "2", 3: "3", 4: "4",
		5: "revision 5 has the current template", 6: "MachineDeployment web has never had a revision 6: its newest is 5; kept: 4, 2",
		1 << 40: "MachineDeployment web has never had a revision 1099511627776: its newest is 5; kept: 4, 2",
	} {
		got := run(t, kubeconfig, "rollout", "undo", "web", fmt.Sprintf("--to-revision=%d", revision), "--namespace", key.Namespace)
		if revision > 4 {
			if got.code != ExitError || got.out != "" || got.err != "error: "+want+"\n" {
				t.Errorf("revision %d: %+v", revision, got)
			}
			continue
		}
		words := "revision " + want
		if revision == 0 {
			words = "the previous revision"
		}
		if written := deploymentOf(t, key).Annotations["drover.io/rollback-to"]; got.code != ExitOK || written != want || got.out != "MachineDeployment web rolls back to "+words+"\n" {
			t.Errorf("revision %d: %+v, annotation %q", revision, got, written)
		}
	}
	if got := run(t, kubeconfig, "rollout", "undo", "web", "--to-revision=one", "--namespace", key.Namespace); got.code != ExitError || strings.Count(got.err, "\n") != 1 {
		t.Errorf("a word: %+v", got)
	}
}
