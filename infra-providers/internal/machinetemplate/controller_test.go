// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinetemplate_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/machinetemplate"
	"drover.io/infra-providers/internal/testenv"
)

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Cluster) error {
		cluster = started
		return nil
	}))
}

// unreachable hides every ability of a driver.
type unreachable struct{ driver.Driver[fake.Config] }

// sizeless is a cloud that implements ImageFinder and not CapacityProvider.
type sizeless struct {
	driver.Driver[fake.Config]
	images driver.ImageFinder[fake.Config]
}

func (s sizeless) FindImage(ctx context.Context, config fake.Config) (driver.Image, error) {
	return s.images.FindImage(ctx, config)
}

// expiring is a cloud whose images expire.
type expiring struct{ driver.Driver[fake.Config] }

func (expiring) FindImage(context.Context, fake.Config) (driver.Image, error) {
	return driver.Image{ID: "image-1", Warning: "it expires at 2026-12-01T00:00:00Z"}, nil
}

// failing is the fake cloud, whose calls fail with the error.
func failing(failure *error) *fake.Cloud {
	return fake.New(fake.Options{Faults: func(fake.Call) fake.Fault { return fake.Fault{Err: *failure} }})
}

// counting counts the writes that reach the API server.
type counting struct {
	client.Client
	writes int
}

func (c *counting) Status() client.SubResourceWriter {
	c.writes++
	return c.Client.Status()
}

// fixture is a reconciler of templates over a cloud.
type fixture struct {
	*machinetemplate.Reconciler[*infrav1.SimMachine, fake.Config]
	t         *testing.T
	namespace string
	api       *counting
	// next is what the last reconcile requested.
	next ctrl.Result
}

func newFixture(t *testing.T, cloud driver.Driver[fake.Config]) *fixture {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "templates")
	if err != nil {
		t.Fatal(err)
	}
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:        "fake",
		NewTemplate: func() driver.Template[*infrav1.SimMachine] { return &infrav1.SimMachineTemplate{} },
		// A simulated machine names no image: its zone stands for it.
		Config: func(m *infrav1.SimMachine, _ string) (fake.Config, error) {
			if m.Spec.Zone == "nowhere" {
				return fake.Config{}, &driver.InvalidConfigurationError{Field: "spec.zone", Err: errors.New("no such zone")}
			}
			return fake.Config{InstanceType: m.Spec.InstanceType, Image: m.Spec.Zone}, nil
		},
		Offering: func(c fake.Config) (string, string) { return c.InstanceType, c.Zone },
		Account:  func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
			return cloud, nil
		},
	}
	api := &counting{Client: cluster.Client}
	return &fixture{t: t, namespace: namespace, api: api, Reconciler: &machinetemplate.Reconciler[*infrav1.SimMachine, fake.Config]{
		Cloud:    described,
		Client:   api,
		Jitter:   func() float64 { return 0.5 },
		Accounts: account.NewCache(described, account.Options{Secrets: cluster.Client, OwnCredentials: []string{account.EveryNamespace}, Now: time.Now, Changed: func(driver.Identity) {}}),
	}}
}

// template creates a template and reconciles it once.
func (s *fixture) template(spec infrav1.SimMachineSpec, labels map[string]string) (*infrav1.SimMachineTemplate, error) {
	s.t.Helper()
	template := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "t-", Labels: labels}}
	template.Spec.Template.Spec = spec
	if err := cluster.Client.Create(s.t.Context(), template); err != nil {
		s.t.Fatal(err)
	}
	return template, s.again(template)
}

func (s *fixture) again(template *infrav1.SimMachineTemplate) (err error) {
	s.t.Helper()
	key := client.ObjectKeyFromObject(template)
	s.next, err = s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
	if err := cluster.Client.Get(s.t.Context(), key, template); err != nil {
		s.t.Fatal(err)
	}
	return err
}

// unchanged reconciles once more and fails if that wrote anything.
func (s *fixture) unchanged(template *infrav1.SimMachineTemplate) error {
	s.t.Helper()
	writes := s.api.writes
	err := s.again(template)
	if s.api.writes != writes {
		s.t.Errorf("a template of which nothing else is known was written: %+v", template.Status)
	}
	return err
}

// readyCondition is Ready without its time.
func readyCondition(template *infrav1.SimMachineTemplate) metav1.Condition {
	found := meta.FindStatusCondition(template.Status.Conditions, clusterv1.ReadyCondition)
	if found == nil {
		return metav1.Condition{}
	}
	return metav1.Condition{Status: found.Status, Reason: found.Reason, Message: found.Message}
}

func (s *fixture) want(template *infrav1.SimMachineTemplate, status metav1.ConditionStatus, reason, message string) {
	s.t.Helper()
	want := metav1.Condition{Status: status, Reason: reason, Message: message}
	if diff := cmp.Diff(want, readyCondition(template)); diff != "" {
		s.t.Errorf("Ready (-want +got):\n%s", diff)
	}
}

func TestCapacityAndNodeInfo(t *testing.T) {
	t.Parallel()
	s := newFixture(t, fake.New(fake.Options{}))
	template, err := s.template(infrav1.SimMachineSpec{InstanceType: "large"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := infrav1.MachineTemplateStatus{
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")},
		NodeInfo: infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
		Conditions: []metav1.Condition{{
			Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ValidReason,
			Message: `the image is "image-1"`, ObservedGeneration: 1,
		}},
	}
	if diff := cmp.Diff(want, template.Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if err := s.unchanged(template); err != nil {
		t.Error(err)
	}
	if s.next.RequeueAfter != 33*time.Minute {
		t.Errorf("looked at again after %s, want half an hour and a bit", s.next.RequeueAfter)
	}
}

func TestReasonsOfReady(t *testing.T) {
	t.Parallel()
	refused := error(&driver.UnauthorizedError{Err: errors.New("token refused")})
	const way = "make a template of another name and refer to it"
	none := infrav1.NodeInfo{}
	amd64 := infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}
	for name, test := range map[string]struct {
		cloud  driver.Driver[fake.Config]
		spec   infrav1.SimMachineSpec
		want   metav1.Condition
		retry  time.Duration
		offers infrav1.NodeInfo
	}{
		"a type that the cloud does not have": {
			fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "xlarge"},
			metav1.Condition{Status: "False", Reason: "InvalidConfiguration", Message: `spec.template.spec.instanceType: unknown type "xlarge"; ` + way + ", or give the cloud what is missing"},
			5*time.Minute + 30*time.Second, none,
		},
		"a spec that cannot work": {
			fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "small", Zone: "nowhere"},
			metav1.Condition{Status: "False", Reason: "InvalidConfiguration", Message: "spec.template.spec.zone: no such zone; " + way + ", or give the cloud what is missing"},
			5*time.Minute + 30*time.Second, none,
		},
		"an image that the cloud does not have": {
			fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "small", Zone: "solaris"},
			metav1.Condition{Status: "False", Reason: "InvalidConfiguration", Message: `spec.template.spec.image: unknown image "solaris"; ` + way + ", or give the cloud what is missing"},
			5*time.Minute + 30*time.Second, amd64,
		},
		"an image for another architecture": {
			fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "small", Zone: "linux-arm64"},
			metav1.Condition{Status: "False", Reason: "ArchitectureMismatch", Message: `the image "image-2" is for arm64 and the instance type "small" is amd64; choose an image and an instance type of one architecture: ` + way},
			5*time.Minute + 30*time.Second, amd64,
		},
		"refused credentials": {
			failing(&refused), infrav1.SimMachineSpec{InstanceType: "small"},
			metav1.Condition{Status: "False", Reason: "Unauthorized", Message: "token refused; check the credentials and what they permit"},
			66 * time.Second, amd64,
		},
		"an image of no known architecture": {
			fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "small", Zone: "plain"},
			metav1.Condition{Status: "True", Reason: "Valid", Message: `the image is "image-3"`},
			33 * time.Minute, amd64,
		},
		"the architecture of the image alone": {
			sizeless{fake.New(fake.Options{}), fake.New(fake.Options{})}, infrav1.SimMachineSpec{InstanceType: "small", Zone: "linux-arm64"},
			metav1.Condition{Status: "True", Reason: "Valid", Message: `the image is "image-2"`},
			33 * time.Minute, infrav1.NodeInfo{Architecture: "arm64"},
		},
		"an image that can be used and has a warning": {
			expiring{fake.New(fake.Options{})}, infrav1.SimMachineSpec{InstanceType: "small"},
			metav1.Condition{Status: "True", Reason: "Valid", Message: `the image is "image-1": it expires at 2026-12-01T00:00:00Z`}, 33 * time.Minute, none,
		},
		"a driver without optional abilities": {
			unreachable{fake.New(fake.Options{})}, infrav1.SimMachineSpec{InstanceType: "xlarge"},
			metav1.Condition{Status: "True", Reason: "Valid"}, 33 * time.Minute, none,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, test.cloud)
			template, err := s.template(test.spec, nil)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.want, readyCondition(template)); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.offers, template.Status.NodeInfo); diff != "" {
				t.Errorf("nodeInfo (-want +got):\n%s", diff)
			}
			if err := s.unchanged(template); err != nil || s.next.RequeueAfter != test.retry {
				t.Errorf("looked at again after %s and %v, want %s", s.next.RequeueAfter, err, test.retry)
			}
		})
	}
}

func TestImageThatIsAddedAndRemoved(t *testing.T) {
	t.Parallel()
	cloud := fake.New(fake.Options{})
	s := newFixture(t, cloud)
	template, err := s.template(infrav1.SimMachineSpec{InstanceType: "small"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	offered := template.Status.DeepCopy()
	s.want(template, metav1.ConditionTrue, "Valid", `the image is "image-1"`)
	cloud.DeregisterImage("linux")
	if err := s.again(template); err != nil {
		t.Fatal(err)
	}
	s.want(template, metav1.ConditionFalse, "InvalidConfiguration",
		`spec.template.spec.image: unknown image "linux"; make a template of another name and refer to it, or give the cloud what is missing`)
	if diff := cmp.Diff(offered.Capacity, template.Status.Capacity); diff != "" {
		t.Errorf("capacity (-before +after):\n%s", diff)
	}
	cloud.RegisterImage("linux", driver.Image{ID: "image-9", Architecture: "amd64"})
	if err := s.again(template); err != nil {
		t.Fatal(err)
	}
	s.want(template, metav1.ConditionTrue, "Valid", `the image is "image-9"`)
}

func TestTransientErrorKeepsReady(t *testing.T) {
	t.Parallel()
	cause := errors.New("gateway timeout")
	for name, test := range map[string]struct {
		failure error
		// retry is the pause, zero for back-off.
		retry time.Duration
	}{
		"an error":     {cause, 0},
		"a rate limit": {&driver.RateLimitedError{RetryAfter: 20 * time.Second, Err: cause}, 22 * time.Second},
	} {
		for image, status := range map[string]metav1.ConditionStatus{"linux": metav1.ConditionTrue, "solaris": metav1.ConditionFalse} {
			t.Run(name+" of "+image, func(t *testing.T) {
				t.Parallel()
				var failure error
				s := newFixture(t, failing(&failure))
				template, err := s.template(infrav1.SimMachineSpec{InstanceType: "small", Zone: image}, nil)
				if err != nil || readyCondition(template).Status != status {
					t.Fatalf("got %+v and %v, want %s", readyCondition(template), err, status)
				}
				failure = test.failure
				err = s.unchanged(template)
				if backsOff := errors.Is(err, cause); backsOff != (test.retry == 0) || s.next.RequeueAfter > test.retry {
					t.Errorf("looked at again after %s and %v, want %s", s.next.RequeueAfter, err, test.retry)
				}
			})
		}
	}
}

func TestReadyIsUnknownAtFirst(t *testing.T) {
	t.Parallel()
	failure := errors.New("gateway timeout")
	cause := failure
	s := newFixture(t, failing(&failure))
	template, err := s.template(infrav1.SimMachineSpec{InstanceType: "small"}, nil)
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want it for back-off", err)
	}
	s.want(template, metav1.ConditionUnknown, "CloudError", "gateway timeout; retried with back-off")
	if err := s.unchanged(template); !errors.Is(err, cause) {
		t.Errorf("got %v, want it for back-off", err)
	}
	failure = nil
	if err := s.again(template); err != nil {
		t.Fatal(err)
	}
	s.want(template, metav1.ConditionTrue, "Valid", `the image is "image-1"`)
}

func TestIgnoresTemplatesOutsideTheWatchFilter(t *testing.T) {
	t.Parallel()
	s := newFixture(t, fake.New(fake.Options{}))
	s.WatchFilter = "mine"
	for want, labels := range map[int]map[string]string{
		0: {clusterv1.WatchLabel: "theirs"},
		2: {clusterv1.WatchLabel: "mine"},
	} {
		template, err := s.template(infrav1.SimMachineSpec{InstanceType: "small"}, labels)
		if err != nil || len(template.Status.Capacity) != want {
			t.Errorf("template labelled %v: got %v and %v", labels, template.Status.Capacity, err)
		}
	}
}

func TestDeletedTemplateIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newFixture(t, fake.New(fake.Options{}))
	if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: "gone"}}); err != nil {
		t.Error(err)
	}
}
