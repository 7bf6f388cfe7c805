// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/openstackfake"
)

// env is a fake cloud behind a transport that injects faults.
type env struct {
	*openstackfake.Cloud
	faults *openstackfake.Faults
	secret driver.Credentials
}

func newEnv(t *testing.T) *env {
	t.Helper()
	cloud := openstackfake.New()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	cloud.Serve(server.URL)
	return &env{
		Cloud:  cloud,
		faults: &openstackfake.Faults{Transport: server.Client().Transport},
		secret: driver.Credentials{
			"OS_AUTH_URL": []byte(server.URL + "/identity/v3"), "OS_USERNAME": []byte(openstackfake.User), "OS_PASSWORD": []byte(openstackfake.Password),
			"OS_PROJECT_NAME": []byte("demo"), "OS_REGION_NAME": []byte(openstackfake.Region),
		},
	}
}

// only returns the only resource of a kind.
func (r *env) only(t *testing.T, kind string) map[string]any {
	t.Helper()
	return must[map[string]any](t)(r.Resource(kind))
}

func (r *env) connect(t *testing.T) driver.Driver[openstack.InstanceConfig] {
	t.Helper()
	return connect(t, r.faults, driver.Account{SecretName: "cloud"}, r.secret)
}

// minimalSpec returns a spec with the required fields.
func minimalSpec() infrav1.OpenStackMachineSpec {
	return infrav1.OpenStackMachineSpec{
		Flavor: "m1.small",
		Image:  infrav1.OpenStackImage{Name: "ubuntu"},
		Ports:  []infrav1.OpenStackPort{{Network: "net"}},
	}
}

// fullSpec returns a spec with every kind of attachment but volumes.
func fullSpec() infrav1.OpenStackMachineSpec {
	spec := minimalSpec()
	spec.Ports = append(spec.Ports, infrav1.OpenStackPort{Network: "net", FixedIPs: []infrav1.OpenStackFixedIP{{Subnet: "sub6"}}})
	spec.FloatingIP.Network = "public"
	spec.ServerGroup.Policy = "soft-anti-affinity"
	spec.RegionalProviderID = ptr.To(true)
	return spec
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]infrav1.OpenStackMachineSpec{"minimal": minimalSpec(), "full": fullSpec()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[openstack.InstanceConfig] {
				return conformanceEnv(t, newEnv(t), spec)
			})
		})
	}
}

func conformanceEnv(t *testing.T, r *env, spec infrav1.OpenStackMachineSpec) drivertest.Environment[openstack.InstanceConfig] {
	t.Helper()
	otherZone := spec
	otherZone.AvailabilityZone = "zone-b"
	other := newConfig(t, otherZone)
	return drivertest.Environment[openstack.InstanceConfig]{
		Driver:              r.connect(t),
		NormalizeProviderID: openstack.Cloud(openstack.Options{}).NormalizeProviderID,
		Config:              newConfig(t, spec),
		Other:               &other,
		Invalid:             invalidConfigs(t, spec),
		NoImage:             withoutImage(t, spec),
		ImageOf: func(driver.Instance) string {
			return fmt.Sprint(r.ServerRequest()["server"].(map[string]any)["imageRef"])
		},
		Reconnect: func() driver.Driver[openstack.InstanceConfig] { return r.connect(t) },
		Lose:      func() { r.faults.Lose(openstackfake.Changes) },
		Interrupt: func() { r.faults.Fail(openstackfake.Creates("servers"), http.StatusInternalServerError, "") },
		Attach:    func(created driver.Instance) func() bool { return r.Attach(created.ID) },
		CopyTags:  func(created driver.Instance) func() bool { return r.CopyTags(created.ID) },
		Untag:     func(created driver.Instance, keys ...string) func() bool { return r.Untag(created.ID, keys...) },
		Leftovers: r.Leftovers,
		Stop:      func() { r.Change("servers", func(server map[string]any) { server["status"] = "SHUTOFF" }) },
		Restarts:  r.Reboots,
		Write:     func(_ driver.Instance, output string) { r.Write(output) },
		Changes:   r.Changes,
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized: func() { r.refuseLogin() },
			drivertest.RateLimited:  func() { r.faults.Fail(anyRequest, http.StatusTooManyRequests, "") },
			drivertest.ServerError:  func() { r.faults.Fail(anyRequest, http.StatusInternalServerError, "") },
			drivertest.QuotaExceeded: func() {
				r.faults.Fail(openstackfake.Creates("servers"), http.StatusForbidden, quotaExceeded)
				r.faults.Fail(reads("/limits"), http.StatusOK, noCapacity)
			},
			drivertest.InsufficientCapacity: func() { r.faults.Fail(openstackfake.Creates("ports"), http.StatusConflict, noAddress) },
		},
	}
}

// refuseLogin refuses the token of the next request and the password of the login after it.
func (r *env) refuseLogin() {
	r.faults.Fail(anyRequest, http.StatusUnauthorized, refusedToken)
	r.faults.Fail(openstackfake.Creates("tokens"), http.StatusUnauthorized, refusedToken)
}

func anyRequest(*http.Request) bool { return true }

func reads(path string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == http.MethodGet && len(request.URL.Path) >= len(path) && request.URL.Path[len(request.URL.Path)-len(path):] == path
	}
}

// Answers of the services, as documented or observed.
const (
	refusedToken  = `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have created requires authentication."}}`
	quotaExceeded = `{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}`
	forbidden     = `{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:create to be performed."}}`
	noCapacity    = `{"limits": {"absolute": {"maxTotalInstances": 10, "totalInstancesUsed": 10, "maxTotalCores": -1, "maxTotalRAMSize": -1, "maxServerGroups": -1}}}`
	noAddress     = `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on network 1.", "detail": ""}}`
	overQuota     = `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['port'].", "detail": ""}}`
)
