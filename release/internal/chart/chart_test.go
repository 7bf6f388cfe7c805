// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drover.io/release/internal/program"
)

const root = "../../.."

// clouds are the infrastructure providers of the repository.
func clouds(t *testing.T) []string {
	t.Helper()
	programs, err := program.List(root)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range programs {
		if cloud, isProvider := p.Cloud(); isProvider {
			all = append(all, cloud)
		}
	}
	return all
}

func assemble(t *testing.T) *Chart {
	t.Helper()
	programs, err := program.List(root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Assemble(root, programs, Release{Version: "v1.2.3", Registry: "registry.example/drover"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settings are nested maps by a path with dots.
func settings(path string, value any) map[string]any {
	keys := strings.Split(path, ".")
	for _, key := range slices.Backward(keys) {
		value = map[string]any{key: value}
	}
	return value.(map[string]any)
}

func render(t *testing.T, settings map[string]any) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := assemble(t).Render("some-namespace", settings)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		name := object.GetKind() + "/" + object.GetName()
		if _, twice := byName[name]; twice {
			t.Errorf("%s is rendered twice", name)
		}
		byName[name] = object
	}
	return byName
}

// container is the container of a program's Deployment.
func container(t *testing.T, objects map[string]*unstructured.Unstructured, program string) map[string]any {
	t.Helper()
	deployment := objects["Deployment/drover-"+program]
	if deployment == nil {
		t.Fatalf("%s has no Deployment", program)
	}
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%s has %d containers, %v", program, len(containers), err)
	}
	return containers[0].(map[string]any)
}

func TestAPackageIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	first, err := assemble(t).Package(time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := assemble(t).Package(time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two packages of the same chart differ")
	}
	files, err := archive.LoadArchiveFiles(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Validate(); err != nil {
		t.Error(err)
	}
	if loaded.Metadata.Version != "1.2.3" || loaded.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("got version %s of %s", loaded.Metadata.Version, loaded.Metadata.AppVersion)
	}
}

func TestDefaultValuesInstallNoProvider(t *testing.T) {
	t.Parallel()
	objects := render(t, nil)
	var deployments []string
	for name, object := range objects {
		if object.GetKind() == "Deployment" {
			deployments = append(deployments, name)
		}
		if namespace := object.GetNamespace(); namespace != "" && namespace != "some-namespace" {
			t.Errorf("%s is in namespace %q", name, namespace)
		}
	}
	slices.Sort(deployments)
	if diff := cmp.Diff([]string{"Deployment/drover-bootstrap", "Deployment/drover-machine-controller"}, deployments); diff != "" {
		t.Error(diff)
	}
	core := container(t, objects, "machine-controller")
	if got := core["image"]; got != "registry.example/drover/drover-machine-controller:v1.2.3" {
		t.Errorf("got image %v", got)
	}
	if diff := cmp.Diff([]any{"--leader-elect", "--log-format=text", "--v=0"}, core["args"]); diff != "" {
		t.Error(diff)
	}
	for _, kind := range []string{"machines.cluster.x-k8s.io", "machinepolicies.policy.drover.io", "bootstrapconfigs.bootstrap.drover.io"} {
		if objects["CustomResourceDefinition/"+kind] == nil {
			t.Errorf("kind %s is not installed", kind)
		}
	}
	for name := range objects {
		if strings.Contains(name, "infrastructure.drover.io") {
			t.Errorf("%s is installed without a provider", name)
		}
	}
}

func TestEveryProviderRuns(t *testing.T) {
	t.Parallel()
	for _, cloud := range clouds(t) {
		objects := render(t, settings("infrastructure."+cloud, map[string]any{}))
		for _, name := range []string{
			"Deployment/drover-infra-" + cloud, "ServiceAccount/drover-infra-" + cloud, "ClusterRole/drover-infra-" + cloud + ":some-namespace",
			"ClusterRoleBinding/drover-infra-" + cloud + ":some-namespace", "ClusterRole/drover-infra-" + cloud + "-for-core:some-namespace",
			"ValidatingAdmissionPolicy/drover-infra-" + cloud + "-some-namespace-own-credentials",
			"ValidatingAdmissionPolicyBinding/drover-infra-" + cloud + "-some-namespace-own-credentials",
			"CustomResourceDefinition/" + cloud + "machines.infrastructure.drover.io",
			"CustomResourceDefinition/" + cloud + "machinetemplates.infrastructure.drover.io",
			"CustomResourceDefinition/restartremediations.infrastructure.drover.io",
		} {
			if objects[name] == nil {
				t.Errorf("%s: there is no %s", cloud, name)
			}
		}
	}
}

func TestPodsKeepTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	for _, cloud := range clouds(t) {
		if cloud == "qemu" {
			continue // its machines are processes of the host
		}
		objects := render(t, settings("infrastructure."+cloud, map[string]any{}))
		for _, program := range []string{"machine-controller", "bootstrap", "infra-" + cloud} {
			security, _ := container(t, objects, program)["securityContext"].(map[string]any)
			want := map[string]any{
				"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
			}
			if diff := cmp.Diff(want, security); diff != "" {
				t.Errorf("%s: %s", program, diff)
			}
			pod, _, _ := unstructured.NestedMap(objects["Deployment/drover-"+program].Object, "spec", "template", "spec", "securityContext")
			if pod["runAsNonRoot"] != true || !cmp.Equal(pod["seccompProfile"], map[string]any{"type": "RuntimeDefault"}) {
				t.Errorf("%s: got pod security context %v", program, pod)
			}
		}
	}
}

func TestReplicasAreSpreadAndProtected(t *testing.T) {
	t.Parallel()
	objects := render(t, settings("infrastructure", map[string]any{"sim": map[string]any{}, "aws": map[string]any{"replicas": 3}}))
	for program, want := range map[string]int64{"machine-controller": 2, "infra-aws": 3, "infra-sim": 1} {
		deployment := objects["Deployment/drover-"+program]
		if got, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); got != want {
			t.Errorf("%s has %d replicas, want %d", program, got, want)
		}
		spread, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "topologySpreadConstraints")
		protected := objects["PodDisruptionBudget/drover-"+program] != nil
		if (len(spread) == 2) != (want > 1) || protected != (want > 1) {
			t.Errorf("%s with %d replicas has %d spread constraints, and a PodDisruptionBudget: %t", program, want, len(spread), protected)
		}
	}
}

func TestSettingsOfAManagerReachIt(t *testing.T) {
	t.Parallel()
	objects := render(t, map[string]any{
		"image":          map[string]any{"registry": "mirror.example", "tag": "v9.9.9", "pullPolicy": "Always", "pullSecrets": []any{"pull"}},
		"log":            map[string]any{"format": "json", "level": 2},
		"watchFilter":    "blue",
		"tracing":        map[string]any{"endpoint": "https://collector.observability:4317", "samplingRatePerMillion": 1_000_000},
		"infrastructure": map[string]any{"hetzner": map[string]any{"credentialsSecret": "token", "args": []any{"--sync-period=5m", "--leader-elect-lease-duration=30s"}, "serviceAccountAnnotations": map[string]any{"a": "b"}}},
	})
	manager := container(t, objects, "infra-hetzner")
	if manager["image"] != "mirror.example/drover-infra-hetzner:v9.9.9" || manager["imagePullPolicy"] != "Always" {
		t.Errorf("got image %v, %v", manager["image"], manager["imagePullPolicy"])
	}
	if diff := cmp.Diff([]any{"--leader-elect", "--log-format=json", "--v=2", "--watch-filter=blue", "--tracing-endpoint=https://collector.observability:4317", "--tracing-sampling-rate-per-million=1000000", "--sync-period=5m", "--leader-elect-lease-duration=30s"}, manager["args"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{map[string]any{"secretRef": map[string]any{"name": "token"}}}, manager["envFrom"]); diff != "" {
		t.Error(diff)
	}
	pull, _, _ := unstructured.NestedSlice(objects["Deployment/drover-infra-hetzner"].Object, "spec", "template", "spec", "imagePullSecrets")
	if diff := cmp.Diff([]any{map[string]any{"name": "pull"}}, pull); diff != "" {
		t.Error(diff)
	}
	if got := objects["ServiceAccount/drover-infra-hetzner"].GetAnnotations()["a"]; got != "b" {
		t.Errorf("got annotation %q of the ServiceAccount", got)
	}
	for _, other := range []string{"machine-controller", "bootstrap"} {
		if container(t, objects, other)["envFrom"] != nil || objects["ServiceAccount/drover-"+other].GetAnnotations() != nil {
			t.Errorf("%s gets what is the provider's", other)
		}
	}
}

// TestAnUpgradeThatReusesValuesRunsTheNewImages: helm upgrade --reuse-values renders the new chart with all values of the
// release before, defaults included.
func TestAnUpgradeThatReusesValuesRunsTheNewImages(t *testing.T) {
	t.Parallel()
	programs, err := program.List(root)
	if err != nil {
		t.Fatal(err)
	}
	chartOf := func(version, digit string) *Chart {
		digests := map[string]string{}
		for _, p := range programs {
			digests[p.Name] = "sha256:" + strings.Repeat(digit, 64)
		}
		c, err := Assemble(root, programs, Release{Version: version, Registry: "registry.example/drover", Digests: digests})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before, err := loader.LoadFiles(chartOf("v1.2.3", "a").buffered())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chartOf("v1.2.4", "b").Render("some-namespace", before.Values)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		byName[object.GetKind()+"/"+object.GetName()] = object
	}
	want := "registry.example/drover/drover-machine-controller:v1.2.4@sha256:" + strings.Repeat("b", 64)
	if got := container(t, byName, "machine-controller")["image"]; got != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestSettingsOfAllManagersStayTheSameForEach: a template must not write what is only of one manager into the settings of all.
func TestSettingsOfAllManagersStayTheSameForEach(t *testing.T) {
	t.Parallel()
	objects := render(t, map[string]any{
		"infrastructure": map[string]any{"aws": nil, "qemu": nil, "vsphere": nil},
		"nodeSelector":   map[string]any{"kubernetes.io/os": "linux"},
		"networkPolicy":  map[string]any{"enabled": true},
		"metrics":        map[string]any{"serviceMonitor": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}},
	})
	for name, object := range objects {
		switch object.GetKind() {
		case "Deployment":
			want := map[string]string{"kubernetes.io/os": "linux"}
			if name == "Deployment/drover-infra-qemu" {
				want["drover.io/qemu-host"] = "true"
			}
			got, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "spec", "nodeSelector")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the nodeSelector of %s (-want +got):\n%s", name, diff)
			}
		case "NetworkPolicy":
			if value, found := object.GetLabels()["release"]; found {
				t.Errorf("%s has the label release: %s of the ServiceMonitors", name, value)
			}
		}
	}
}

func TestAClaimKeepsTheStateOfTheSimulator(t *testing.T) {
	t.Parallel()
	objects := render(t, map[string]any{"infrastructure": map[string]any{"sim": map[string]any{"stateClaim": "hosts"}}})
	volumes, _, _ := unstructured.NestedSlice(objects["Deployment/drover-infra-sim"].Object, "spec", "template", "spec", "volumes")
	want := []any{map[string]any{"name": "state", "persistentVolumeClaim": map[string]any{"claimName": "hosts"}}}
	if diff := cmp.Diff(want, volumes); diff != "" {
		t.Error(diff)
	}
}

func TestImagesAreNamedByDigest(t *testing.T) {
	t.Parallel()
	programs, err := program.List(root)
	if err != nil {
		t.Fatal(err)
	}
	digest := func(s string) string { return "sha256:" + strings.Repeat(s, 64) }
	digests := map[string]string{}
	for _, p := range programs {
		digests[p.Name] = digest("a")
	}
	c, err := Assemble(root, programs, Release{Version: "v1.2.3", Registry: "registry.example/drover", Digests: digests})
	if err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct {
		settings        map[string]any
		core, bootstrap string
	}{
		"of the release": {nil, "registry.example/drover/drover-machine-controller:v1.2.3@" + digest("a"), "registry.example/drover/drover-bootstrap:v1.2.3@" + digest("a")},
		"in a mirror": {
			settings("image.registry", "mirror.example"),
			"mirror.example/drover-machine-controller:v1.2.3@" + digest("a"), "mirror.example/drover-bootstrap:v1.2.3@" + digest("a"),
		},
		"with another tag, whose digest is another": {
			map[string]any{"image": map[string]any{"tag": "v9"}, "managers": map[string]any{"bootstrap": map[string]any{"digest": digest("b")}}},
			"registry.example/drover/drover-machine-controller:v9", "registry.example/drover/drover-bootstrap:v9@" + digest("b"),
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			objects, err := c.Render("some-namespace", test.settings)
			if err != nil {
				t.Fatal(err)
			}
			byName := map[string]*unstructured.Unstructured{}
			for _, object := range objects {
				byName[object.GetKind()+"/"+object.GetName()] = object
			}
			for program, want := range map[string]string{"machine-controller": test.core, "bootstrap": test.bootstrap} {
				if got := container(t, byName, program)["image"]; got != want {
					t.Errorf("got %v, want %s", got, want)
				}
			}
		})
	}
}

func TestAVariableReplacesTheShippedOne(t *testing.T) {
	t.Parallel()
	own := []any{map[string]any{"name": "HCLOUD_TOKEN", "value": "a"}, map[string]any{"name": "HTTPS_PROXY", "value": "b"}}
	objects := render(t, settings("infrastructure.hetzner.env", own))
	if diff := cmp.Diff(own, container(t, objects, "infra-hetzner")["env"]); diff != "" {
		t.Error(diff)
	}
}

func TestAWatchedNamespaceBoundsThePermissions(t *testing.T) {
	t.Parallel()
	objects := render(t, map[string]any{"watchNamespace": "team-a", "infrastructure": map[string]any{"aws": nil}})
	for name, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		rules, _, _ := unstructured.NestedSlice(objects["ClusterRole/"+role].Object, "rules")
		for _, rule := range rules {
			for _, resource := range rule.(map[string]any)["resources"].([]any) {
				if resource != "customresourcedefinitions" && resource != "namespaces" {
					t.Errorf("%s grants %v in all namespaces", name, resource)
				}
			}
		}
	}
	for _, program := range []string{"machine-controller", "bootstrap", "infra-aws"} {
		binding := objects["RoleBinding/drover-"+program+":some-namespace"]
		if binding == nil || binding.GetNamespace() != "team-a" {
			t.Errorf("%s has no RoleBinding in the watched namespace", program)
		}
		if args := fmt.Sprint(container(t, objects, program)["args"]); !strings.Contains(args, "--namespace=team-a") {
			t.Errorf("%s has arguments %s", program, args)
		}
	}
}

func TestKindsAreKept(t *testing.T) {
	t.Parallel()
	objects := render(t, settings("infrastructure.aws", map[string]any{}))
	for name, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" &&
			(object.GetAnnotations()["helm.sh/resource-policy"] != "keep" || object.GetLabels()["app.kubernetes.io/part-of"] != "drover") {
			t.Errorf("%s is not protected from deletion", name)
		}
	}
	without := render(t, settings("crds.enabled", false))
	for name := range without {
		if strings.HasPrefix(name, "CustomResourceDefinition/") {
			t.Errorf("%s is rendered although the kinds are not installed", name)
		}
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		name := kind + "/drover-some-namespace-kinds-are-kept"
		for title, rendered := range map[string]map[string]*unstructured.Unstructured{"with kinds": objects, "without": without} {
			if rendered[name] == nil || rendered[name].GetAnnotations()["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s: there is no %s that Helm keeps", title, name)
			}
		}
	}
}

func TestServiceMonitorAndNetworkPoliciesAreOptional(t *testing.T) {
	t.Parallel()
	without := render(t, nil)
	with := render(t, map[string]any{
		"metrics":       map[string]any{"serviceMonitor": map[string]any{"enabled": true, "labels": map[string]any{"team": "a"}}},
		"networkPolicy": map[string]any{"enabled": true},
	})
	for _, name := range []string{"ServiceMonitor/drover-bootstrap", "NetworkPolicy/drover-machine-controller"} {
		if without[name] != nil || with[name] == nil {
			t.Errorf("%s: rendered by default: %t, where asked: %t", name, without[name] != nil, with[name] != nil)
		}
	}
	if got := with["ServiceMonitor/drover-bootstrap"].GetLabels()["team"]; got != "a" {
		t.Errorf("got label %q of the ServiceMonitor", got)
	}
}

// blocked returns which networks the NetworkPolicy of a manager excepts.
func blocked(t *testing.T, objects map[string]*unstructured.Unstructured) []netip.Prefix {
	t.Helper()
	egress, _, err := unstructured.NestedSlice(objects["NetworkPolicy/drover-infra-aws"].Object, "spec", "egress")
	if err != nil {
		t.Fatal(err)
	}
	var all []netip.Prefix
	for _, to := range egress[0].(map[string]any)["to"].([]any) {
		except, _, _ := unstructured.NestedStringSlice(to.(map[string]any), "ipBlock", "except")
		cidr, _, _ := unstructured.NestedString(to.(map[string]any), "ipBlock", "cidr")
		for _, each := range except {
			prefix := netip.MustParsePrefix(each)
			if !netip.MustParsePrefix(cidr).Contains(prefix.Addr()) {
				t.Errorf("%s is not in %s", each, cidr)
			}
			all = append(all, prefix)
		}
	}
	return all
}

func TestNetworkPoliciesBlockEveryMetadataService(t *testing.T) {
	t.Parallel()
	with := map[string]any{"infrastructure": map[string]any{"aws": nil}, "networkPolicy": map[string]any{"enabled": true}}
	prefixes := blocked(t, render(t, with))
	source, err := os.ReadFile(root + "/runtime/egress/egress.go")
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{"169.254.169.254", "fe80::a9fe:a9fe"}
	for _, found := range regexp.MustCompile(`MustParseAddr\("([^"]+)"\)`).FindAllSubmatch(source, -1) {
		addresses = append(addresses, string(found[1]))
	}
	if len(addresses) < 8 {
		t.Fatalf("runtime/egress has only %d addresses", len(addresses))
	}
	for _, address := range addresses {
		if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(address)) }) {
			t.Errorf("%s, which runtime/egress refuses, is allowed", address)
		}
	}
	with["networkPolicy"] = map[string]any{"enabled": true, "allowMetadataService": true}
	if got := blocked(t, render(t, with)); len(got) > 0 {
		t.Errorf("%v are blocked although the metadata service is allowed", got)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	c := assemble(t)
	for title, test := range map[string]struct {
		settings map[string]any
		want     string
	}{
		"a provider that does not exist":    {settings("infrastructure.azure2", map[string]any{}), "infrastructure.azure2: there is no such provider: alibaba, anexia, aws,"},
		"a manager that does not exist":     {settings("managers.webhook", map[string]any{"enabled": true}), "managers.webhook"},
		"a setting that does not exist":     {settings("replica", 3), "replica"},
		"a provider's unknown setting":      {settings("infrastructure.aws", map[string]any{"secret": "a"}), "secret"},
		"a digest that is none":             {settings("image.digests", map[string]any{"bootstrap": "v1"}), "digests"},
		"no leader election":                {settings("managers.bootstrap.args", []any{"--leader-elect=false"}), "bootstrap: args must not have --leader-elect: use the setting replicas"},
		"another watched namespace":         {settings("managers.bootstrap.args", []any{"--namespace=other"}), "bootstrap: args must not have --namespace: use the setting watchNamespace"},
		"another label value":               {settings("infrastructure.aws.args", []any{"--watch-filter=a"}), "infra-aws: args must not have --watch-filter: use the setting watchFilter"},
		"a log level beside the setting":    {settings("managers.bootstrap.args", []any{"--v=9"}), "args must not have --v: use the setting log.level"},
		"a log format beside the setting":   {settings("managers.bootstrap.args", []any{"--log-format=json"}), "args must not have --log-format: use the setting log.format"},
		"a variable twice":                  {settings("managers.bootstrap.env", []any{map[string]any{"name": "A"}, map[string]any{"name": "A"}}), "env has the name A twice"},
		"nothing to install":                {settings("managers", map[string]any{"bootstrap": map[string]any{"enabled": false}, "machine-controller": map[string]any{"enabled": false}}), "nothing would be installed"},
		"no replica":                        {settings("replicas", 0), "replicas"},
		"a log level that shows Secrets":    {settings("log.level", 8), "level"},
		"a namespace that cannot exist":     {settings("watchNamespace", "Team_A"), "watchNamespace"},
		"a label value that cannot exist":   {settings("watchFilter", "a b"), "watchFilter"},
		"metrics beside the setting":        {settings("managers.bootstrap.args", []any{"--metrics-secure"}), "args must not have --metrics-secure: use the setting metrics.secure"},
		"tracing beside the setting":        {settings("managers.bootstrap.args", []any{"--tracing-endpoint=http://a:4317"}), "args must not have --tracing-endpoint: use the setting tracing.endpoint"},
		"a receiver of spans over HTTP":     {settings("tracing.endpoint", "http://collector:4318/v1/traces"), "/tracing/endpoint"},
		"a receiver without a port":         {settings("tracing.endpoint", "https://collector"), "/tracing/endpoint"},
		"more Machines than there are":      {settings("tracing.samplingRatePerMillion", 1_000_001), "samplingRatePerMillion"},
		"a registry with a scheme":          {settings("image.registry", "https://registry.example.org"), "/image/registry"},
		"a registry with a tag":             {settings("image.registry", "registry.example.org/drover:v1"), "/image/registry"},
		"a tag with a space":                {settings("image.tag", "v 1"), "/image/tag"},
		"a Secret that cannot exist":        {settings("infrastructure.aws.credentialsSecret", "Aws_Keys"), "credentialsSecret"},
		"a claim that cannot exist":         {settings("infrastructure.sim.stateClaim", "State_1"), "stateClaim"},
		"a pull secret that cannot exist":   {settings("image.pullSecrets", []any{"Pull_1"}), "pullSecrets"},
		"a priority that cannot exist":      {settings("priorityClassName", "High_1"), "priorityClassName"},
		"a limit that is no quantity":       {settings("managers.bootstrap.resources", map[string]any{"limits": map[string]any{"memory": "lots"}}), "memory"},
		"a policy of pulling that is wrong": {settings("image.pullPolicy", "Sometimes"), "pullPolicy"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if _, err := c.Render("some-namespace", test.settings); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestAlertsAreThereWhereAsked(t *testing.T) {
	t.Parallel()
	for name := range render(t, nil) {
		if strings.HasPrefix(name, "PrometheusRule/") {
			t.Errorf("the chart creates %s by default", name)
		}
	}
	shipped, err := os.ReadFile(filepath.Join(root, "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for runbooks, want := range map[string]string{
		"":                               string(shipped),
		"https://docs.example/runbooks/": strings.ReplaceAll(string(shipped), "docs/runbooks/", "https://docs.example/runbooks/"),
		"https://docs.example/runbooks/NAME.html": regexp.MustCompile(`docs/runbooks/(\w+)\.md`).
			ReplaceAllString(string(shipped), "https://docs.example/runbooks/$1.html"),
	} {
		objects := render(t, map[string]any{"metrics": map[string]any{"prometheusRule": map[string]any{
			"enabled": true, "runbooks": runbooks, "labels": map[string]any{"release": "prometheus"},
		}}})
		rule := objects["PrometheusRule/drover"]
		if rule == nil || rule.GetLabels()["release"] != "prometheus" {
			t.Fatalf("there is no rule with the label: %v", rule)
		}
		var rules map[string]any
		if err := yaml.Unmarshal([]byte(want), &rules); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rules, rule.Object["spec"]); diff != "" {
			t.Errorf("rules with the runbooks at %q (-want +got):\n%s", runbooks, diff)
		}
	}
}

// TestMetricsAreBehindAuthenticationWhereAsked: see runtime/manager TestMetricsAreForThoseWhoMayGetThem for what the flag does.
func TestMetricsAreBehindAuthenticationWhereAsked(t *testing.T) {
	t.Parallel()
	for secure, objects := range map[bool]map[string]*unstructured.Unstructured{
		false: render(t, settings("metrics.serviceMonitor.enabled", true)),
		true: render(t, map[string]any{
			"metrics": map[string]any{"secure": true, "serviceMonitor": map[string]any{"enabled": true}},
		}),
	} {
		args, _, _ := unstructured.NestedStringSlice(map[string]any{"c": container(t, objects, "bootstrap")}, "c", "args")
		if slices.Contains(args, "--metrics-secure") != secure {
			t.Errorf("secure %t: arguments %v", secure, args)
		}
		binding := objects["ClusterRoleBinding/drover-bootstrap-metrics:some-namespace"]
		if (binding != nil) != secure || (objects["ClusterRole/drover-metrics-reader:some-namespace"] != nil) != secure {
			t.Errorf("secure %t: binding %v", secure, binding)
		}
		endpoints, _, _ := unstructured.NestedSlice(objects["ServiceMonitor/drover-bootstrap"].Object, "spec", "endpoints")
		if scheme, _, _ := unstructured.NestedString(endpoints[0].(map[string]any), "scheme"); (scheme == "https") != secure {
			t.Errorf("secure %t: endpoints %v", secure, endpoints)
		}
		if honours, _, _ := unstructured.NestedBool(endpoints[0].(map[string]any), "honorLabels"); !honours {
			t.Errorf("secure %t: the namespaces of objects are replaced by that of the manager: %v", secure, endpoints)
		}
	}
}
