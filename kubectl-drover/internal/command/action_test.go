// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/runtime/envtest"
)

// pool creates the MachineDeployment of testdata/tree.yaml in a namespace.
func pool(t *testing.T, namespace string) client.ObjectKey {
	t.Helper()
	namespaceNamed(t, namespace)
	apply(t, "testdata/tree.yaml", namespace)
	return client.ObjectKey{Namespace: namespace, Name: "web"}
}

func deploymentOf(t *testing.T, key client.ObjectKey) *clusterv1.MachineDeployment {
	t.Helper()
	md := &clusterv1.MachineDeployment{}
	if err := management.Client(t).Get(t.Context(), key, md); err != nil {
		t.Fatal(err)
	}
	return md
}

// TestActionsWriteOneFieldOnly compares the whole object before and after each action.
func TestActionsWriteOneFieldOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		setup func(*clusterv1.MachineDeployment)
		want  func(*clusterv1.MachineDeployment)
		says  string
	}{
		"freeze": {
			args: []string{"freeze", "machinedeployment/web"},
			want: func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/freeze", "true") },
			says: "MachineDeployment web frozen\n",
		},
		"freeze-by-short-name": {
			args: []string{"freeze", "md", "web"},
			want: func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/freeze", "true") },
			says: "MachineDeployment web frozen\n",
		},
		"thaw": {
			args:  []string{"thaw", "web"},
			setup: func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/freeze", "true") },
			want:  func(md *clusterv1.MachineDeployment) { delete(md.Annotations, "drover.io/freeze") },
			says:  "MachineDeployment web thawed\n",
		},
		"thaw-override": {
			args: []string{"thaw", "web", "--override"},
			want: func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/freeze", "false") },
			says: "MachineDeployment web thawed, and not frozen again for too many Machines\n",
		},
		"thaw-without-annotation": {
			args: []string{"thaw", "web"},
			want: func(*clusterv1.MachineDeployment) {},
			says: "MachineDeployment web has no annotation drover.io/freeze; a freeze for too many Machines ends once the surplus is gone, or with --override\n",
		},
		"dry-run": {
			args: []string{"freeze", "web", "--dry-run=server"},
			want: func(*clusterv1.MachineDeployment) {},
			says: "MachineDeployment web frozen (server dry run)\n",
		},
		"undo": {
			args: []string{"rollout", "undo", "web"},
			want: func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/rollback-to", "previous") },
			says: "MachineDeployment web rolls back to the previous revision\n",
		},
		"undo-to-a-revision": {
			args:  []string{"rollout", "undo", "web", "--to-revision=1"},
			setup: func(md *clusterv1.MachineDeployment) { annotate(md, clusterv1.RevisionAnnotation, "2") },
			want:  func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/rollback-to", "1") },
			says:  "MachineDeployment web rolls back to revision 1\n",
		},
		"undo-while-paused": {
			args:  []string{"rollout", "undo", "web"},
			setup: func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) },
			want:  func(md *clusterv1.MachineDeployment) { annotate(md, "drover.io/rollback-to", "previous") },
			says:  "MachineDeployment web rolls back to the previous revision once it is resumed\n",
		},
		"restart": {
			args: []string{"rollout", "restart", "web"},
			want: func(md *clusterv1.MachineDeployment) { md.Spec.Rollout.After = metav1.NewTime(noon) },
			says: "MachineDeployment web restarts\n",
		},
		"pause": {
			args: []string{"rollout", "pause", "web"},
			want: func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) },
			says: "MachineDeployment web paused\n",
		},
		"resume": {
			args:  []string{"rollout", "resume", "web"},
			setup: func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) },
			want:  func(md *clusterv1.MachineDeployment) { md.Spec.Paused = nil },
			says:  "MachineDeployment web resumed\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := pool(t, "action-"+name)
			if test.setup != nil {
				md := deploymentOf(t, key)
				test.setup(md)
				if err := management.Client(t).Update(t.Context(), md); err != nil {
					t.Fatal(err)
				}
			}
			want := deploymentOf(t, key)
			test.want(want)
			got := run(t, admin(t, management), append(test.args, "--namespace", key.Namespace)...)
			if got.code != ExitOK || got.out != test.says {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
			after := deploymentOf(t, key)
			for _, md := range []*clusterv1.MachineDeployment{want, after} {
				md.ResourceVersion, md.Generation, md.ManagedFields = "", 0, nil
			}
			if diff := cmp.Diff(want, after, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
				t.Errorf("the MachineDeployment (-want +got):\n%s", diff)
			}
		})
	}
}

func annotate(o metav1.Object, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

func TestActionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	key := pool(t, "refused-actions")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a MachineSet of a MachineDeployment is not frozen": {[]string{"freeze", "machineset/web-new"}, "MachineSet web-new belongs to MachineDeployment web: name that"},
		"a Machine is not frozen":                           {[]string{"freeze", "machine/alone"}, "Machine cannot be frozen"},
		"a revision that does not exist":                    {[]string{"rollout", "undo", "web", "--to-revision=9"}, "has never had a revision 9: its newest is 2; kept: 1"},
		"a negative revision":                               {[]string{"rollout", "undo", "web", "--to-revision=-1"}, "--to-revision must not be negative"},
		"a rollout that is not paused":                      {[]string{"rollout", "resume", "web"}, "MachineDeployment web is not paused"},
		"the rollout of a Machine":                          {[]string{"rollout", "pause", "machine/alone"}, "Machine has no rollout"},
		"an unknown deployment":                             {[]string{"rollout", "pause", "wep"}, `did you mean "web"?`},
		"a drain without --dry-run":                         {[]string{"drain", "machine/alone"}, "only --dry-run is supported"},
		"the drain of a Machine without a Node":             {[]string{"drain", "--dry-run", "machine/alone"}, "Machine alone has no Node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, admin(t, management), append(test.args, "--namespace", key.Namespace)...)
			if got.code != ExitError || !strings.Contains(got.err, test.want) || strings.Count(got.err, "\n") != 1 {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
		})
	}
}

// TestRestartOfAPausedRolloutIsRefused: nothing would be replaced until it is resumed.
func TestRestartOfAPausedRolloutIsRefused(t *testing.T) {
	t.Parallel()
	key := pool(t, "restart-while-paused")
	md := deploymentOf(t, key)
	md.Spec.Paused = new(true)
	if err := management.Client(t).Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	got := run(t, admin(t, management), "rollout", "restart", "web", "--namespace", key.Namespace)
	if got.code != ExitError || !strings.Contains(got.err, "MachineDeployment web is paused: resume it first") {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

func TestRolloutHistory(t *testing.T) {
	t.Parallel()
	key := pool(t, "history")
	md := deploymentOf(t, key)
	annotate(md, clusterv1.RevisionAnnotation, "2")
	if err := management.Client(t).Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	got := runAt(t, md.CreationTimestamp.Add(49*time.Hour+30*time.Minute), admin(t, management), "", "rollout", "history", "web", "--namespace", key.Namespace)
	golden(t, "testdata/history.txt", got.out)
}

func TestRolloutStatus(t *testing.T) {
	t.Parallel()
	key := pool(t, "status")
	kubeconfig := admin(t, management)
	once := run(t, kubeconfig, "rollout", "status", "web", "--namespace", key.Namespace, "--watch=false")
	if once.code != ExitProblem || !strings.HasPrefix(once.out, "Waiting for the newest spec to be observed") {
		t.Errorf("before: exit code %d, output %q, error %q", once.code, once.out, once.err)
	}
	md := deploymentOf(t, key)
	md.Status.ObservedGeneration = md.Generation
	writeStatus(t, md)
	once = run(t, kubeconfig, "rollout", "status", "web", "--namespace", key.Namespace, "--watch=false")
	if want := "3 of 6 Machines are up to date, 4 available: Rolling out 4 not up-to-date replicas"; once.code != ExitProblem || !strings.HasPrefix(once.out, want) {
		t.Errorf("during: exit code %d, output %q, error %q", once.code, once.out, once.err)
	}
	if late := run(t, kubeconfig, "rollout", "status", "web", "--namespace", key.Namespace, "--timeout=10ms"); late.code != ExitProblem || !strings.Contains(late.out, "Gave up waiting") {
		t.Errorf("a short timeout: exit code %d, output %q, error %q", late.code, late.out, late.err)
	}
	md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.AvailableReplicas, md.Status.Conditions = new(int32(6)), new(int32(6)), new(int32(6)), nil
	writeStatus(t, md)
	done := run(t, kubeconfig, "rollout", "status", "web", "--namespace", key.Namespace)
	if done.code != ExitOK || done.out != "MachineDeployment web is rolled out: 6 of 6 Machines are up to date, 6 available\n" {
		t.Errorf("after: exit code %d, output %q, error %q", done.code, done.out, done.err)
	}
}

func writeStatus(t *testing.T, o client.Object) {
	t.Helper()
	if err := management.Client(t).Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// TestOrphans has one BootstrapConfig without a Machine, one that its Machine owns, one that a Machine only refers to, and one
// that was restored, whose Machine has another UID now. The time of the command is a day later.
func TestOrphans(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "orphans")
	c := management.Client(t)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "orphans", Name: "owned"}}
	m.Spec.ClusterName = "c"
	m.Spec.Bootstrap.DataSecretName = new("data")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "SimMachine", Name: "owned"}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	referring := m.DeepCopy()
	referring.ObjectMeta = metav1.ObjectMeta{Namespace: "orphans", Name: "referring"}
	referring.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
		APIGroup: "bootstrap.drover.io", Kind: "BootstrapConfig", Name: "referred",
	}}
	if err := c.Create(t.Context(), referring); err != nil {
		t.Fatal(err)
	}
	restored := m.DeepCopy()
	restored.UID = "of-another-management-cluster"
	for _, name := range []string{"owned", "referred", "restored", "left"} {
		config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "orphans", Name: name}}
		config.Spec.OperatingSystem = "ubuntu"
		if name == "owned" {
			config.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine"))}
		}
		if name == "restored" {
			config.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(restored, clusterv1.GroupVersion.WithKind("Machine"))}
		}
		if err := c.Create(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := admin(t, management)
	later := time.Now().Add(24 * time.Hour)
	want := "BootstrapConfig left in namespace orphans, 24h old: no Machine owns it or refers to it\n"
	if got := runAt(t, later, kubeconfig, "", "orphans", "--namespace", "orphans"); got.code != ExitOK || got.out != want {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := runAt(t, time.Now(), kubeconfig, "", "orphans", "--namespace", "orphans"); got.out != "There are none\n" {
		t.Errorf("a young object: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := runAt(t, later, kubeconfig, "", "orphans", "--namespace", "orphans", "--delete"); got.code != ExitError || !strings.Contains(got.err, "--yes deletes without a question") {
		t.Errorf("without a terminal: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := runAt(t, later, kubeconfig, "n\n", "orphans", "--namespace", "orphans", "--delete"); got.code != ExitError || !strings.Contains(got.err, "nothing was deleted") {
		t.Errorf("the answer no: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := runAt(t, later, kubeconfig, "y\n", "orphans", "--namespace", "orphans", "--delete"); got.code != ExitOK || !strings.HasSuffix(got.out, "deleted BootstrapConfig left\n") {
		t.Errorf("the answer yes: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	list := &bootstrapv1.BootstrapConfigList{}
	if err := c.List(t.Context(), list, client.InNamespace("orphans")); err != nil || len(list.Items) != 3 {
		t.Errorf("%d objects are left, error %v", len(list.Items), err)
	}
}

// TestOrphansThatMustNotBeDeleted has objects without a Machine whose Cluster is paused, or claimed by another management cluster,
// as in one that was restored; one that is paused itself; and one that a Machine of another project owns.
func TestOrphansThatMustNotBeDeleted(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "kept-orphans")
	c := management.Client(t)
	for _, name := range []string{"paused", "claimed", "mine"} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "kept-orphans", Name: name}}
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: name + ".example.org", Port: 6443}
		cluster.Spec.Paused = new(name == "paused")
		if err := c.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		claim := metav1.Condition{Type: "ManagementClaimed", Status: metav1.ConditionTrue, Reason: "Claimed", LastTransitionTime: metav1.NewTime(noon)}
		if name == "claimed" {
			claim.Status, claim.Reason = metav1.ConditionFalse, "ClaimedElsewhere"
		}
		cluster.Status.Conditions = []metav1.Condition{claim}
		writeStatus(t, cluster)
	}
	for name, change := range map[string]func(*bootstrapv1.BootstrapConfig){
		"of-paused":  func(b *bootstrapv1.BootstrapConfig) { b.Labels[clusterv1.ClusterNameLabel] = "paused" },
		"of-claimed": func(b *bootstrapv1.BootstrapConfig) { b.Labels[clusterv1.ClusterNameLabel] = "claimed" },
		"paused":     func(b *bootstrapv1.BootstrapConfig) { annotate(b, clusterv1.PausedAnnotation, "") },
		"foreign": func(b *bootstrapv1.BootstrapConfig) {
			b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.example.org/v1", Kind: "Machine", Name: "x", UID: "u", Controller: new(true)}}
		},
		"free": func(*bootstrapv1.BootstrapConfig) {},
	} {
		config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "kept-orphans", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "mine"}}}
		config.Spec.OperatingSystem = "ubuntu"
		change(config)
		if err := c.Create(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, later := admin(t, management), time.Now().Add(24*time.Hour)
	if got := runAt(t, later, kubeconfig, "", "orphans", "--namespace", "kept-orphans", "--delete", "--yes", "-o", "json"); got.code != ExitError || got.out != "" {
		t.Errorf("with -o: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	got := runAt(t, later, kubeconfig, "", "orphans", "--namespace", "kept-orphans", "--delete", "--yes")
	golden(t, "testdata/orphans-kept.txt", fmt.Sprintf("%s%sexit code %d\n", got.out, got.err, got.code))
	list := &bootstrapv1.BootstrapConfigList{}
	if err := c.List(t.Context(), list, client.InNamespace("kept-orphans")); err != nil || len(list.Items) != 4 {
		t.Errorf("%d objects are left, error %v", len(list.Items), err)
	}
}

// TestDrainDryRun has a Node with a pod of each kind, in a real workload cluster.
func TestDrainDryRun(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "drains")
	apply(t, "testdata/drain-plan.yaml", "drains")
	workloadSecret(t, "drains", "prod", empty)
	c := empty.Client(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "drained"}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	budget.Spec.MinAvailable = new(intstr.FromInt32(1))
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}}
	daemonSet.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}
	daemonSet.Spec.Template.Labels = daemonSet.Spec.Selector.MatchLabels
	daemonSet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	for _, o := range []client.Object{node, namespace, budget, daemonSet} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	if err := c.Status().Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"web": func(p *corev1.Pod) { p.Labels["app"] = "web" },
		"cache": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		},
		"job":   func(p *corev1.Pod) { p.Labels["kind"] = "job" },
		"agent": func(p *corev1.Pod) { p.Labels[clusterv1.PodDrainLabel] = "skip" },
		"daemon": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: new(true)}}
		},
		"daemon-left": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "gone", UID: "u", Controller: new(true)}}
		},
		"database": func(p *corev1.Pod) { p.Labels["kind"] = "database" },
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{}}}
		pod.Spec.NodeName = node.Name
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		pod.Spec.AutomountServiceAccountToken = new(false)
		change(pod)
		if err := c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		// A budget counts for pods that run.
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if err := c.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, admin(t, management), "drain", "--dry-run", "machine/m", "--namespace", "drains")
	golden(t, "testdata/drain-plan.txt", fmt.Sprintf("%s%sexit code %d\n", got.out, got.err, got.code))
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods, client.InNamespace("shop")); err != nil || len(pods.Items) != 7 {
		t.Errorf("%d pods are left, error %v", len(pods.Items), err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			t.Errorf("pod %s is being deleted", pod.Name)
		}
	}
}

// TestDrainDryRunReportsForbiddenEviction has a kubeconfig that may not evict: neither could the drain.
func TestDrainDryRunReportsForbiddenEviction(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "refused-drains")
	apply(t, "testdata/drain-refused.yaml", "refused-drains")
	c := empty.Client(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	pod.Spec.NodeName = "refusing"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	pod.Spec.AutomountServiceAccountToken = new(false)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reads"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reads"}},
	}
	for _, o := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "refusing"}}, pod, role, binding} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	user, err := empty.AddUser("reads")
	if err != nil {
		t.Fatal(err)
	}
	if err := envtest.AwaitAccess(t.Context(), user, authorizationv1.ResourceAttributes{Resource: "pods", Verb: "list"}); err != nil {
		t.Fatal(err)
	}
	secretFor(t, "refused-drains", "prod", user)
	got := run(t, admin(t, management), "drain", "--dry-run", "m", "--namespace", "refused-drains")
	if got.code != ExitProblem || !strings.Contains(got.out, "blocked  default/web: ") || !strings.Contains(got.out, `User "reads" cannot create resource "pods/eviction"`) {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "refused-drains", Name: "m"}}
	if err := management.Client(t).Delete(t.Context(), infra); err != nil {
		t.Fatal(err)
	}
	got = run(t, admin(t, management), "drain", "--dry-run", "m", "--namespace", "refused-drains")
	if got.code != ExitOK || !strings.Contains(got.out, "The Machine is not drained at all: its SimMachine m is being deleted or gone") {
		t.Errorf("without its SimMachine: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	m := &clusterv1.Machine{}
	if err := management.Client(t).Get(t.Context(), client.ObjectKey{Namespace: "refused-drains", Name: "m"}, m); err != nil {
		t.Fatal(err)
	}
	annotate(m, clusterv1.ExcludeNodeDrainingAnnotation, "")
	if err := management.Client(t).Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got = run(t, admin(t, management), "drain", "--dry-run", "m", "--namespace", "refused-drains")
	if got.code != ExitOK || !strings.Contains(got.out, "The Machine is not drained at all: it has the annotation") {
		t.Errorf("without a drain: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "logs")
	apply(t, "testdata/why/bootstrap-failed.yaml", "logs")
	got := run(t, admin(t, management), "logs", "m", "--namespace", "logs")
	if want := "BootstrapFailed (2026-03-01T11:30:00Z)\nthe bootstrap failed in the step Downloads"; got.code != ExitOK || !strings.HasPrefix(got.out, want) {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}
