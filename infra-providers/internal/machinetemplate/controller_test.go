// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinetemplate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	started, err := testenv.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cluster = started
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// sizer is the fake cloud with one more type, which fails as the test says.
type sizer struct {
	*fake.Cloud
	err error
}

func (s *sizer) Size(ctx context.Context, config fake.Config) (driver.Size, error) {
	if s.err != nil {
		return driver.Size{}, s.err
	}
	return s.Cloud.Size(ctx, config)
}

// silent hides every ability of a driver.
type silent struct{ driver.Driver[fake.Config] }

// shop is a reconciler of templates over a cloud.
type shop struct {
	*machinetemplate.Reconciler[*infrav1.SimMachine, fake.Config]
	t         *testing.T
	namespace string
}

func newShop(t *testing.T, cloud driver.Driver[fake.Config]) *shop {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	described := driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:        "fake",
		NewTemplate: func() driver.Template[*infrav1.SimMachine] { return &infrav1.SimMachineTemplate{} },
		Config: func(m *infrav1.SimMachine, _ string) (fake.Config, error) {
			if m.Spec.Zone == "nowhere" {
				return fake.Config{}, &driver.InvalidConfigurationError{Field: "spec.zone", Err: errors.New("no such zone")}
			}
			return fake.Config{InstanceType: m.Spec.InstanceType}, nil
		},
		Account: func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
			return cloud, nil
		},
	}
	return &shop{t: t, namespace: namespace, Reconciler: &machinetemplate.Reconciler[*infrav1.SimMachine, fake.Config]{
		Cloud:    described,
		Client:   cluster.Client,
		Accounts: account.NewBook(described, account.Options{Secrets: cluster.Client, Now: time.Now, Changed: func(driver.Identity) {}}),
	}}
}

// template creates a template and reconciles it once.
func (s *shop) template(spec infrav1.SimMachineSpec, labels map[string]string) (*infrav1.SimMachineTemplate, error) {
	s.t.Helper()
	template := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "t-", Labels: labels}}
	template.Spec.Template.Spec = spec
	if err := cluster.Client.Create(s.t.Context(), template); err != nil {
		s.t.Fatal(err)
	}
	return template, s.again(template)
}

func (s *shop) again(template *infrav1.SimMachineTemplate) error {
	s.t.Helper()
	key := client.ObjectKeyFromObject(template)
	_, err := s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
	if err := cluster.Client.Get(s.t.Context(), key, template); err != nil {
		s.t.Fatal(err)
	}
	return err
}

func TestTellsWhatAMachineWouldOffer(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.New(fake.Options{}))
	template, err := s.template(infrav1.SimMachineSpec{InstanceType: "large"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := infrav1.MachineTemplateStatus{
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")},
		NodeInfo: infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"},
	}
	if diff := cmp.Diff(want, template.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	version := template.ResourceVersion
	if err := s.again(template); err != nil || template.ResourceVersion != version {
		t.Errorf("a template that is settled was written, or failed: %v", err)
	}
}

func TestTellsNothing(t *testing.T) {
	t.Parallel()
	cause := errors.New("gateway timeout")
	for name, test := range map[string]struct {
		cloud driver.Driver[fake.Config]
		spec  infrav1.SimMachineSpec
		fails bool
	}{
		"of a type that the cloud does not have": {fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "xlarge"}, false},
		"of a spec that cannot work":             {fake.New(fake.Options{}), infrav1.SimMachineSpec{InstanceType: "small", Zone: "nowhere"}, false},
		"where the cloud cannot tell":            {silent{fake.New(fake.Options{})}, infrav1.SimMachineSpec{InstanceType: "small"}, false},
		"while the cloud fails, and tries again": {&sizer{fake.New(fake.Options{}), cause}, infrav1.SimMachineSpec{InstanceType: "small"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template, err := newShop(t, test.cloud).template(test.spec, nil)
			if (err != nil) != test.fails || test.fails && !errors.Is(err, cause) {
				t.Errorf("got %v, want failure %t", err, test.fails)
			}
			if diff := cmp.Diff(infrav1.MachineTemplateStatus{}, template.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFailureLeavesWhatWasKnown(t *testing.T) {
	t.Parallel()
	cloud := &sizer{Cloud: fake.New(fake.Options{})}
	s := newShop(t, cloud)
	template, err := s.template(infrav1.SimMachineSpec{InstanceType: "small"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := template.Status
	cloud.err = errors.New("gateway timeout")
	if err := s.again(template); err == nil {
		t.Error("the failure was swallowed")
	}
	if diff := cmp.Diff(want, template.Status); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
}

func TestLeavesToOthersWhatItsFilterDoesNotMatch(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.New(fake.Options{}))
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

func TestATemplateThatIsGoneIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.New(fake.Options{}))
	if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: "gone"}}); err != nil {
		t.Error(err)
	}
}
