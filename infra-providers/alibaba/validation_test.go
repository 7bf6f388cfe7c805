// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/internal/testenv"
)

// allFields sets every field but the dedicated host, where there is no spot instance.
func allFields(s *infrav1.AlibabaMachineSpec) {
	s.InternetMaxBandwidthOut, s.InternetChargeType, s.IPv6AddressCount = ptr.To[int32](5), "PayByTraffic", ptr.To[int32](2)
	s.SystemDisk = infrav1.AlibabaDisk{
		SizeGiB: ptr.To[int32](40), Category: "cloud_auto", ProvisionedIOPS: ptr.To[int64](1000), BurstingEnabled: ptr.To(true), Encrypted: ptr.To(true),
		KMSKeyID: "0e478b7a-4262-4802-b8cb-00d3fb40826X", AutoSnapshotPolicyID: "sp-gw8",
	}
	s.DataDisks = []infrav1.AlibabaDataDisk{
		{Name: "data", AlibabaDisk: infrav1.AlibabaDisk{SizeGiB: ptr.To[int32](100), Category: "cloud_essd", PerformanceLevel: "PL2", Encrypted: ptr.To(true)}},
		{Name: "copy", SnapshotID: "s-gw8", AlibabaDisk: infrav1.AlibabaDisk{Category: "cloud_essd"}},
	}
	s.RAMRoleName, s.KeyPairName = "nodes", "ops"
	s.Spot = &infrav1.AlibabaSpot{PriceLimit: "0.125", DurationHours: ptr.To[int32](0)}
	s.Metadata = infrav1.AlibabaMetadata{HTTPTokens: "required", HTTPEndpoint: "enabled"}
	s.DeploymentSetID, s.DeploymentSetGroup = "ds-gw8", ptr.To[int32](3)
	s.PrivatePool = infrav1.AlibabaPrivatePool{MatchCriteria: "Target", ID: "crp-gw8"}
	s.CPU = infrav1.AlibabaCPU{Cores: ptr.To[int32](2), ThreadsPerCore: ptr.To[int32](1)}
	s.CreditSpecification, s.SecurityHardening, s.TrustedSystemMode, s.ResourceGroupID = "Standard", "Deactive", "vTPM", "rg-gw8"
	s.Tags = map[string]string{"cost-center": "a/b"}
	s.Fallbacks = []infrav1.AlibabaFallback{{ZoneID: alibabafake.ZoneB, InstanceType: "ecs.g8i.xlarge", Market: "PayAsYouGo"}}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	want := newSpec(allFields)
	machine := testenv.Create(t, shared, newMachine("m", want))
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	template := &infrav1.AlibabaMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	template.Spec.Template.Spec = want
	testenv.Create(t, shared, template)
	cluster := shared.Cluster(t)
	template.Spec.Template.Spec.InstanceType = "ecs.g8i.xlarge"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	cluster, namespace := shared.Namespace(t)
	disk := func(change func(*infrav1.AlibabaDisk)) func(*infrav1.AlibabaMachineSpec) {
		return func(s *infrav1.AlibabaMachineSpec) { change(&s.SystemDisk) }
	}
	for name, test := range map[string]struct {
		change func(*infrav1.AlibabaMachineSpec)
		want   string
	}{
		"no image":                  {func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{} }, "spec.image"},
		"an image twice":            {func(s *infrav1.AlibabaMachineSpec) { s.Image.ID = "m-1" }, "exactly one of id, family and name"},
		"an owner of an ID":         {func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{ID: "m-1", Owner: "self"} }, "leave it out with id"},
		"others without an account": {func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{Name: "nodes", Owner: "others"} }, "with owner others it must be set"},
		"an account without others": {func(s *infrav1.AlibabaMachineSpec) {
			s.Image = infrav1.AlibabaImage{Name: "nodes", OwnerID: ptr.To[int64](1)}
		}, "with owner others it must be set"},
		"no vSwitch":                  {func(s *infrav1.AlibabaMachineSpec) { s.VSwitches = nil }, "spec.vSwitches"},
		"two vSwitches of a zone":     {func(s *infrav1.AlibabaMachineSpec) { s.VSwitches[1].ZoneID = alibabafake.ZoneA }, "Duplicate value"},
		"no security group":           {func(s *infrav1.AlibabaMachineSpec) { s.SecurityGroupIDs = nil }, "spec.securityGroupIDs"},
		"a region that names a host":  {func(s *infrav1.AlibabaMachineSpec) { s.RegionID = "evil.example.org/" }, "spec.regionID"},
		"a type of another cloud":     {func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = "m7i.large" }, "spec.instanceType"},
		"a charge type without an IP": {func(s *infrav1.AlibabaMachineSpec) { s.InternetChargeType = "PayByTraffic" }, "internetChargeType needs internetMaxBandwidthOut"},
		"a level of another category": {disk(func(d *infrav1.AlibabaDisk) { d.PerformanceLevel = "PL1" }), "performanceLevel needs category cloud_essd"},
		"IOPS of another category":    {disk(func(d *infrav1.AlibabaDisk) { d.ProvisionedIOPS = ptr.To[int64](1) }), "need category cloud_auto"},
		"a key without encryption":    {disk(func(d *infrav1.AlibabaDisk) { d.KMSKeyID, d.Encrypted = "k", ptr.To(false) }), "kmsKeyID encrypts"},
		"a data disk without a size": {func(s *infrav1.AlibabaMachineSpec) {
			s.DataDisks = []infrav1.AlibabaDataDisk{{Name: "data", AlibabaDisk: infrav1.AlibabaDisk{Category: "cloud"}}}
		}, "one of sizeGiB and snapshotID"},
		"a price with too many places":  {func(s *infrav1.AlibabaMachineSpec) { s.Spot = &infrav1.AlibabaSpot{PriceLimit: "0.0001"} }, "spec.spot.priceLimit"},
		"spot on a dedicated host":      {func(s *infrav1.AlibabaMachineSpec) { s.Spot, s.DedicatedHostID = &infrav1.AlibabaSpot{}, "dh-1" }, "no spot instances on dedicated hosts"},
		"a group of nothing":            {func(s *infrav1.AlibabaMachineSpec) { s.DeploymentSetGroup = ptr.To[int32](1) }, "deploymentSetGroup needs deploymentSetID"},
		"a pool without an ID":          {func(s *infrav1.AlibabaMachineSpec) { s.PrivatePool.MatchCriteria = "Target" }, "matchCriteria Target needs id"},
		"a tag of Drover":               {func(s *infrav1.AlibabaMachineSpec) { s.Tags = map[string]string{"drover.io/machine-uid": "x"} }, "must not begin with"},
		"a tag of Alibaba Cloud":        {func(s *infrav1.AlibabaMachineSpec) { s.Tags = map[string]string{"acs:x": "y"} }, "must not begin with"},
		"a tag with a URL":              {func(s *infrav1.AlibabaMachineSpec) { s.Tags = map[string]string{"docs": "https://example.org"} }, "no http:// or https://"},
		"a fallback without any choice": {func(s *infrav1.AlibabaMachineSpec) { s.Fallbacks = []infrav1.AlibabaFallback{{}} }, "spec.fallbacks"},
		"a fallback to another market":  {func(s *infrav1.AlibabaMachineSpec) { s.Fallbacks = []infrav1.AlibabaFallback{{Market: "OnDemand"}} }, "Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine("m", newSpec(test.change))
			machine.Namespace = namespace
			testenv.WantRefusal(t, cluster.Client.Create(t.Context(), machine), test.want)
		})
	}
}

// TestSpecIsImmutable drops and adds every optional field, and changes the required ones.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	full := newSpec(allFields)
	full.CredentialsSecretName, full.ProviderID = "alibaba", "alicloud://eu-central-1.i-1"
	bare := newSpec(unchanged)
	fields := reflect.TypeFor[infrav1.AlibabaMachineSpec]()
	together := map[string]string{"internetMaxBandwidthOut": "internetChargeType", "deploymentSetID": "deploymentSetGroup"}
	for n := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(n).Tag.Get("json"), ",")
		if slices.Contains([]string{"regionID", "zoneID", "instanceType", "image", "vSwitches", "securityGroupIDs", "dedicatedHostID", "providerID"}, name) {
			continue
		}
		for _, specs := range [][2]infrav1.AlibabaMachineSpec{{full, bare}, {bare, full}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				machine := testenv.Create(t, shared, newMachine("m", *specs[0].DeepCopy()))
				reflect.ValueOf(&machine.Spec).Elem().Field(n).Set(reflect.ValueOf(specs[1]).Field(n))
				want := name + " "
				if other, ok := together[name]; ok && reflect.ValueOf(specs[1]).Field(n).IsZero() {
					want = other + " needs"
				}
				testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), want)
			})
		}
	}
	for name, test := range map[string]struct {
		change func(*infrav1.AlibabaMachineSpec)
		refuse string
	}{
		"sets providerID":         {func(s *infrav1.AlibabaMachineSpec) { s.ProviderID = "alicloud://eu-central-1.i-2" }, ""},
		"keeps regionID":          {func(s *infrav1.AlibabaMachineSpec) { s.RegionID = "cn-hangzhou" }, "regionID is immutable"},
		"keeps zoneID":            {func(s *infrav1.AlibabaMachineSpec) { s.ZoneID = alibabafake.ZoneB }, "zoneID is immutable"},
		"keeps instanceType":      {func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = "ecs.g8i.xlarge" }, "instanceType is immutable"},
		"keeps image":             {func(s *infrav1.AlibabaMachineSpec) { s.Image.Family = "other" }, "image is immutable"},
		"keeps vSwitches":         {func(s *infrav1.AlibabaMachineSpec) { s.VSwitches[0].VSwitchID = "vsw-x" }, "vSwitches are immutable"},
		"keeps securityGroupIDs":  {func(s *infrav1.AlibabaMachineSpec) { s.SecurityGroupIDs = []string{"sg-x"} }, "securityGroupIDs are immutable"},
		"adds no dedicatedHostID": {func(s *infrav1.AlibabaMachineSpec) { s.DedicatedHostID = "dh-x" }, "dedicatedHostID is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := testenv.Create(t, shared, newMachine("m", newSpec(unchanged)))
			test.change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), test.refuse)
		})
	}
}
