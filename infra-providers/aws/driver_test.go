// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/createcache"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[aws.InstanceConfig] {
		return conformanceEnv(t, newEnv(t, awsfake.Options{PendingReads: 1, StoppingReads: 2, TerminatedReads: 3}))
	})
}

func conformanceEnv(t *testing.T, ec2 env) drivertest.Environment[aws.InstanceConfig] {
	t.Helper()
	once := func(fault awsfake.Fault) func() { return func() { ec2.cloud.FailNext(fault) } }
	other := newConfig(t, func(s *infrav1.AWSMachineSpec) { s.InstanceType, s.Subnet.ID = "m7i.xlarge", awsfake.SubnetB })
	return drivertest.Environment[aws.InstanceConfig]{
		Driver:              ec2.connect(t),
		NormalizeProviderID: ec2.description().NormalizeProviderID,
		Config:              newConfig(t, func(*infrav1.AWSMachineSpec) {}),
		Other:               &other,
		Invalid: map[string]aws.InstanceConfig{
			"an unknown subnet":  newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = "subnet-0000dead" }),
			"no matching subnet": newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Subnet = selector("tag:role", "none") }),
			"no matching group": newConfig(t, func(s *infrav1.AWSMachineSpec) {
				s.SecurityGroups = []infrav1.AWSSelector{selector("tag:role", "gone")}
			}),
			"an unknown key": newConfig(t, func(s *infrav1.AWSMachineSpec) { s.KeyName = "missing" }),
			"another zone":   newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Zone, s.Subnet.ID = awsfake.Region+"b", awsfake.SubnetA }),
		},
		NoImage: map[string]aws.InstanceConfig{
			"an unknown image":  newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Image.ID = "ami-0000000000000dead" }),
			"no matching image": newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Image = infrav1.AWSImage{Name: "gone-*", Owners: []string{"self"}} }),
			"a disabled image":  newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Image = infrav1.AWSImage{ID: awsfake.DisabledImage} }),
		},
		ImageOf:   func(created driver.Instance) string { return ec2.cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[aws.InstanceConfig] { return ec2.connect(t) },
		Lose:      once(awsfake.Fault{Lost: true}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(awsfake.Fault{Status: 403, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."}),
			drivertest.RateLimited:          once(awsfake.Fault{Status: 503, Code: "RequestLimitExceeded", Message: "Request limit exceeded."}),
			drivertest.ServerError:          once(awsfake.Fault{Status: 500, Code: "InternalError", Message: "An internal error has occurred"}),
			drivertest.QuotaExceeded:        once(awsfake.Fault{Status: 400, Code: "VcpuLimitExceeded", Message: "You have requested more vCPU capacity than your current vCPU limit."}),
			drivertest.InsufficientCapacity: once(awsfake.Fault{Status: 500, Code: "InsufficientInstanceCapacity", Message: "We currently do not have sufficient capacity."}),
		},
		Hide:      func() { ec2.cloud.HideNext(4) },
		Stop:      ec2.cloud.Stop,
		Restarts:  ec2.cloud.Reboots,
		Write:     func(_ driver.Instance, output string) { ec2.cloud.Write(output) },
		Untag:     func(created driver.Instance, keys ...string) func() bool { return ec2.cloud.Untag(created.ID, keys...) },
		Leftovers: ec2.cloud.Leftovers,
		Changes: func() int {
			counts := ec2.cloud.Counts()
			return counts["RunInstances"] + counts["TerminateInstances"] + counts["RebootInstances"] + counts["CreateTags"]
		},
	}
}

// The tags of the instance, its volumes and its network interface change; those of another machine do not.
func TestTagChangesVolumesAndNetworkInterfaces(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	connected := ec2.connect(t)
	moves := driver.Identity{UID: "moves", Name: "moves", Owner: driver.Owner{UID: "before", Namespace: "team", Name: "home"}}
	stays := moves
	stays.UID, stays.Name = "stays", "stays"
	for _, id := range []driver.Identity{moves, stays} {
		request := driver.CreateRequest[aws.InstanceConfig]{Identity: id, Config: newConfig(t, withFallbacks), UserData: []byte("#cloud-config\n")}
		if _, err := connected.Create(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	moves.Owner.UID = "after"
	if err := connected.(driver.Tagger).Tag(t.Context(), moves); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	clusters := ec2.cloud.Tags(driver.TagClusterUID)
	for id, machine := range ec2.cloud.Tags(driver.TagMachineUID) {
		kind, _, _ := strings.Cut(id, "-")
		got[machine+" has "+kind+" of "+clusters[id]]++
	}
	want := map[string]int{
		"moves has i of after": 1, "moves has vol of after": 3, "moves has eni of after": 1,
		"stays has i of before": 1, "stays has vol of before": 3, "stays has eni of before": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// env is a fake EC2 behind an HTTP server, with a clock that can be advanced and runs at a speed.
type env struct {
	cloud *awsfake.Cloud
	url   string
	clock *drivertest.Clock
}

// newEnv starts a fake EC2. The test fails if a request or an answer violates the official description.
func newEnv(t *testing.T, options awsfake.Options) env {
	t.Helper()
	cloud, err := awsfake.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(func() {
		server.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the description of EC2: %s", violation)
		}
		for id, machine := range cloud.Tags(driver.TagMachineUID) {
			if machine == "" {
				t.Errorf("%s has no identity", id)
			}
		}
	})
	return env{cloud: cloud, url: server.URL, clock: drivertest.NewClock()}
}

// connect returns a driver with valid credentials whose process started longer than the startup window ago.
func (w env) connect(t *testing.T) driver.Driver[aws.InstanceConfig] {
	t.Helper()
	age := createcache.Window
	return w.connectAt(t, func() time.Time { return w.clock.Now().Add(-age) }, func() { age = 0 })
}

// connectRestarted returns the driver of a process that has just started.
func (w env) connectRestarted(t *testing.T) driver.Driver[aws.InstanceConfig] {
	t.Helper()
	return w.connectAt(t, w.clock.Now, func() {})
}

func (w env) connectAt(t *testing.T, now func() time.Time, connected func()) driver.Driver[aws.InstanceConfig] {
	t.Helper()
	defer connected()
	created, err := w.descriptionAt(now).Connect(t.Context(), driver.Account{SecretName: "aws", Region: awsfake.Region}, secret(awsfake.AccessKey))
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w env) description() driver.Cloud[*infrav1.AWSMachine, aws.InstanceConfig] {
	return w.descriptionAt(w.clock.Now)
}

func (w env) descriptionAt(now func() time.Time) driver.Cloud[*infrav1.AWSMachine, aws.InstanceConfig] {
	return aws.Cloud(aws.Options{Endpoint: w.url, PageSize: 7, Clock: drivertest.ClockFunc(now)})
}

func secret(key string) driver.Credentials {
	return driver.Credentials{"AWS_ACCESS_KEY_ID": []byte(key), "AWS_SECRET_ACCESS_KEY": []byte("secret")}
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.AWSMachineSpec)) infrav1.AWSMachineSpec {
	s := infrav1.AWSMachineSpec{
		Region:         awsfake.Region,
		InstanceType:   "m7i.large",
		Image:          infrav1.AWSImage{ID: awsfake.Image},
		Subnet:         infrav1.AWSSelector{ID: awsfake.SubnetA},
		SecurityGroups: []infrav1.AWSSelector{{ID: awsfake.Group}},
	}
	change(&s)
	return s
}

func newConfig(t *testing.T, change func(*infrav1.AWSMachineSpec)) aws.InstanceConfig {
	t.Helper()
	created, err := aws.NewInstanceConfig(&infrav1.AWSMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func selector(name string, values ...string) infrav1.AWSSelector {
	return infrav1.AWSSelector{Filters: []infrav1.AWSFilter{{Name: name, Values: values}}}
}

func newRequest(id driver.Identity, config aws.InstanceConfig) driver.CreateRequest[aws.InstanceConfig] {
	return driver.CreateRequest[aws.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

func listInstanceIDs(t *testing.T, d driver.Driver[aws.InstanceConfig]) (ids []string) {
	t.Helper()
	for instance, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, instance.ID)
	}
	slices.Sort(ids)
	return ids
}
