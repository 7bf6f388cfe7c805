// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/runtime/envtest"
)

// ruleOf is the rule of a permission that is written as "VERB RESOURCE.GROUP".
func ruleOf(permission string) rbacv1.PolicyRule {
	verb, what, _ := strings.Cut(permission, " ")
	resource, group, _ := strings.Cut(what, ".")
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
}

// permit gives a user the permissions in a namespace, and nothing else, and waits until the API server knows them.
func permit(t *testing.T, namespace, user string, permissions []string) {
	t.Helper()
	config, err := management.Start()
	if err != nil {
		t.Fatal(err)
	}
	// The last rule is there to be awaited: the others come with it.
	awaited := authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "configmaps", Verb: "deletecollection"}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}}
	for _, permission := range append(slices.Clone(permissions), awaited.Verb+" "+awaited.Resource) {
		role.Rules = append(role.Rules, ruleOf(permission))
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := management.Client(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := envtest.AwaitAccess(t.Context(), envtest.Impersonate(config, user), awaited); err != nil {
		t.Fatal(err)
	}
}

const (
	getClusters, listClusters             = "get clusters.cluster.x-k8s.io", "list clusters.cluster.x-k8s.io"
	getDeployments, listDeployments       = "get machinedeployments.cluster.x-k8s.io", "list machinedeployments.cluster.x-k8s.io"
	patchDeployments, listSets            = "patch machinedeployments.cluster.x-k8s.io", "list machinesets.cluster.x-k8s.io"
	getMachines, listMachines             = "get machines.cluster.x-k8s.io", "list machines.cluster.x-k8s.io"
	getSimMachines, getHealthChecks       = "get simmachines.infrastructure.drover.io", "get machinehealthchecks.cluster.x-k8s.io"
	listDrainRules, getKubeconfigSecrets  = "list machinedrainrules.cluster.x-k8s.io", "get secrets"
	listEvents, listBootstrapConfigs      = "list events", "list bootstrapconfigs.bootstrap.drover.io"
	deleteBootstrapConfigs, getMachineSet = "delete bootstrapconfigs.bootstrap.drover.io", "get machinesets.cluster.x-k8s.io"
)

// TestEachPermissionOfACommandIsNamed runs each command with the permissions that it needs, and then without one of them at a
// time: there is no answer then, and one line names what the user may not do, and where.
func TestEachPermissionOfACommandIsNamed(t *testing.T) {
	t.Parallel()
	manifest := `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment","metadata":{"name":"web"},"spec":{"replicas":7}}`
	for name, test := range map[string]struct {
		args  []string
		needs []string
		code  int
		out   string
	}{
		"why-cluster":         {[]string{"why", "cluster/shop"}, []string{getClusters, listDeployments, listMachines}, ExitProblem, "Cluster shop in namespace"},
		"why-deployment":      {[]string{"why", "md/web"}, []string{getDeployments, listMachines}, ExitProblem, "MachineDeployment web in namespace"},
		"why-machine":         {[]string{"why", "machine/alone"}, []string{getMachines}, ExitOK, "Machine alone in namespace"},
		"why-node":            {[]string{"why", "node/of-alone"}, []string{listMachines}, ExitOK, "Its Node is of-alone."},
		"describe-cluster":    {[]string{"describe", "cluster", "shop"}, []string{getClusters, listDeployments, listSets, listMachines}, ExitOK, "Cluster shop"},
		"describe-deployment": {[]string{"describe", "md", "web"}, []string{getDeployments, listSets, listMachines}, ExitOK, "MachineDeployment web"},
		"watch":               {[]string{"watch", "machine/alone"}, []string{getMachines}, ExitOK, "Machine alone is well\n"},
		"logs":                {[]string{"logs", "alone"}, []string{getMachines, getSimMachines}, ExitOK, "reports nothing about the console"},
		"history":             {[]string{"rollout", "history", "web"}, []string{getDeployments, listSets}, ExitOK, "REVISION"},
		"status":              {[]string{"rollout", "status", "web", "--watch=false"}, []string{getDeployments}, ExitProblem, "Waiting for the newest spec"},
		"undo":                {[]string{"rollout", "undo", "web", "--to-revision=1"}, []string{getDeployments, listSets, patchDeployments}, ExitOK, "rolls back to revision 1\n"},
		"undo-dry-run":        {[]string{"rollout", "undo", "web", "--dry-run=client"}, []string{getDeployments, listSets}, ExitOK, "(client dry run)\n"},
		"pause":               {[]string{"rollout", "pause", "web"}, []string{getDeployments, patchDeployments}, ExitOK, "paused\n"},
		"restart":             {[]string{"rollout", "restart", "web", "--dry-run=server"}, []string{getDeployments, patchDeployments}, ExitOK, "(server dry run)\n"},
		"freeze":              {[]string{"freeze", "web"}, []string{getDeployments, patchDeployments}, ExitOK, "frozen\n"},
		"thaw-not-frozen":     {[]string{"thaw", "web"}, []string{getDeployments}, ExitOK, "has no annotation drover.io/freeze"},
		"diff":                {[]string{"diff", "-f", "-"}, []string{getDeployments, patchDeployments}, ExitOK, "replicas from 6 to 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := pool(t, "permit-"+name)
			infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "alone"}}
			if err := management.Client(t).Create(t.Context(), infra); err != nil {
				t.Fatal(err)
			}
			alone := machineNamed(t, key.Namespace, "alone")
			alone.Status.NodeRef.Name = "of-alone"
			writeStatus(t, alone)
			kubeconfig := admin(t, management)
			as := func(user string) result {
				args := append(slices.Clone(test.args), "--namespace", key.Namespace, "--as", user)
				return runAt(t, noon, kubeconfig, manifest, args...)
			}
			for i, missing := range test.needs {
				user := fmt.Sprintf("%s-%d", name, i)
				permit(t, key.Namespace, user, slices.Delete(slices.Clone(test.needs), i, i+1))
				got := as(user)
				rule := ruleOf(missing)
				if got.code != ExitError || got.out != "" || strings.Count(got.err, "\n") != 1 {
					t.Errorf("without %q: exit code %d, output %q, error %q", missing, got.code, got.out, got.err)
				}
				for _, want := range []string{fmt.Sprintf("%q", user), "cannot " + rule.Verbs[0], fmt.Sprintf("%q", rule.Resources[0]), fmt.Sprintf("%q", key.Namespace)} {
					if !strings.Contains(got.err, want) {
						t.Errorf("without %q: the error %q lacks %s", missing, got.err, want)
					}
				}
			}
			permit(t, key.Namespace, name, test.needs)
			if got := as(name); got.code != test.code || !strings.Contains(got.out, test.out) {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
		})
	}
}

// TestOrphansNeedsEveryList leaves out the permission of each list: without the Machines or the Clusters, what is in use would
// be taken for an orphan, and without one of the others the answer would not be the whole one.
func TestOrphansNeedsEveryList(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "permit-orphans")
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	needs := []string{listClusters, listMachines, listEvents, listBootstrapConfigs}
	for _, d := range definitions {
		if d.Spec.Group == infrav1.GroupVersion.Group && strings.HasSuffix(d.Spec.Names.Kind, "Machine") {
			needs = append(needs, "list "+d.Name)
		}
	}
	if len(needs) < 10 {
		t.Fatalf("there are few kinds: %q", needs)
	}
	kubeconfig := admin(t, management)
	for i, missing := range needs {
		user := fmt.Sprintf("orphans-%d", i)
		permit(t, "permit-orphans", user, slices.Delete(slices.Clone(needs), i, i+1))
		got := run(t, kubeconfig, "orphans", "--namespace", "permit-orphans", "--delete", "--yes", "--as", user)
		want := fmt.Sprintf(`you may not read %s in namespace "permit-orphans": `, ruleOf(missing).Resources[0])
		if got.code != ExitError || got.out != "" || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("without %q: exit code %d, output %q, error %q", missing, got.code, got.out, got.err)
		}
	}
	permit(t, "permit-orphans", "orphans", needs)
	if got := run(t, kubeconfig, "orphans", "--namespace", "permit-orphans", "--as", "orphans"); got.code != ExitOK || got.out != "There are none\n" {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	// A role of one namespace is not one of all.
	if got := run(t, kubeconfig, "orphans", "-A", "--as", "orphans"); got.code != ExitError || got.out != "" || !strings.Contains(got.err, "in all namespaces: ") {
		t.Errorf("all namespaces: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

// TestDeletionOfOrphansGoesOn has a user who may delete one of two kinds: what may be deleted is, and the other is in the error.
func TestDeletionOfOrphansGoesOn(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "permit-delete")
	c := management.Client(t)
	config, infra := bootstrapConfig("permit-delete", "config"), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "permit-delete", Name: "infra"}}
	for _, o := range []client.Object{config, infra} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	permit(t, "permit-delete", "deleter", []string{listClusters, listMachines, listEvents, listBootstrapConfigs, "list *.infrastructure.drover.io", deleteBootstrapConfigs})
	got := runAt(t, time.Now().Add(time.Hour), admin(t, management), "", "orphans", "--namespace", "permit-delete", "--as", "deleter", "--delete", "--yes")
	if got.code != ExitError || !strings.HasSuffix(got.out, "deleted BootstrapConfig config\n") || strings.Contains(got.out, "deleted SimMachine") {
		t.Errorf("exit code %d, output %q", got.code, got.out)
	}
	if want := `User "deleter" cannot delete resource "simmachines"`; !strings.Contains(got.err, "deleting SimMachine infra: ") || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
		t.Errorf("error %q", got.err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil || infra.DeletionTimestamp != nil {
		t.Errorf("the SimMachine: %v", err)
	}
}

// TestNamesAreNotOfferedWithoutAPermission has a user who may read objects whose names they know.
func TestNamesAreNotOfferedWithoutAPermission(t *testing.T) {
	t.Parallel()
	key := pool(t, "permit-names")
	permit(t, key.Namespace, "reader-of-one", []string{getMachines, getHealthChecks, getMachineSet})
	permit(t, key.Namespace, "reader-of-all", []string{getMachines, listMachines})
	kubeconfig := admin(t, management)
	for user, want := range map[string]string{
		"reader-of-one": `error: there is no Machine "alon" in namespace "permit-names"` + "\n",
		"reader-of-all": `error: there is no Machine "alon" in namespace "permit-names"; did you mean "alone"?` + "\n",
	} {
		if got := run(t, kubeconfig, "why", "machine/alon", "--namespace", key.Namespace, "--as", user); got.code != ExitError || got.err != want {
			t.Errorf("%s: exit code %d, error %q, want %q", user, got.code, got.err, want)
		}
	}
}

// TestCheckReportsEachPermissionThatIsMissing has a user who may read all but one kind at a time: the check of that kind is not
// done, the others are, and a permission of the reader is no failure of the installation.
func TestCheckReportsEachPermissionThatIsMissing(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "permit-check")
	all := []string{listClusters, listMachines, listDeployments, listEvents, listBootstrapConfigs, "list deployments.apps", "list leases.coordination.k8s.io", "list *.infrastructure.drover.io"}
	kubeconfig := admin(t, management)
	user := func(missing string) string {
		return "check-without-" + strings.NewReplacer(" ", "-", ".", "-").Replace(missing)
	}
	unknown := map[string]string{
		listDeployments:                   "freezes",
		"list deployments.apps":           "managers,leases",
		"list leases.coordination.k8s.io": "leases",
		listMachines:                      "credentials,orphans",
		listClusters:                      "workload clusters,certificates,orphans",
		listBootstrapConfigs:              "orphans",
	}
	for missing := range unknown {
		permit(t, "permit-check", user(missing), slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == missing }))
		// The kinds and ClusterRoles of the whole API server belong to nobody's namespace.
		cluster := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user(missing)}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "permit-check"}}
		cluster.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user(missing)}}
		if err := management.Client(t).Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "permit-check"}, Rules: []rbacv1.PolicyRule{ruleOf("get customresourcedefinitions.apiextensions.k8s.io"), ruleOf("get clusterroles.rbac.authorization.k8s.io")}}
	if err := management.Client(t).Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	admins, err := management.Start()
	if err != nil {
		t.Fatal(err)
	}
	for missing, want := range unknown {
		access := authorizationv1.ResourceAttributes{Group: rbacv1.GroupName, Resource: "clusterroles", Verb: "get"}
		if err := envtest.AwaitAccess(t.Context(), envtest.Impersonate(admins, user(missing)), access); err != nil {
			t.Fatal(err)
		}
		got := run(t, kubeconfig, "check", "--namespace", "permit-check", "--this-namespace", "--installed-in", "permit-check", "--as", user(missing))
		var names []string
		for line := range strings.Lines(got.out) {
			if rest, is := strings.CutPrefix(line, "unknown  "); is && strings.Contains(rest, "you may not read ") {
				name, _, _ := strings.Cut(rest, ": ")
				names = append(names, name)
			}
		}
		if strings.Join(names, ",") != want {
			t.Errorf("without %q: exit code %d, unknown %q, output %s%s", missing, got.code, names, got.out, got.err)
		}
		if strings.Contains(got.out, "failed   ") && !strings.Contains(got.out, "failed   roles: ") {
			t.Errorf("without %q something failed: %s", missing, got.out)
		}
	}
}
