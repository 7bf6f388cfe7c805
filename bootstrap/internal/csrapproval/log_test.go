// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/csrapproval/policy"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/logtest"
)

// reviewed is what a review of a request logged, which events it made, and how it ended.
type reviewed struct {
	Log, Events []string
	Failed      bool
}

// review has an approver review a serving request of a Node, with a management cluster and its errors.
func review(t *testing.T, objects []client.Object, listErr error, age time.Duration) reviewed {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, bootstrapv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	management := ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if listErr != nil {
				return listErr
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	got, recorder, log := reviewed{}, events.NewFakeRecorder(10), &logtest.Recorder{Verbosity: 1}
	remote := fake.NewClientset()
	a := &approver{
		client: management, live: management, events: newRecorder(recorder),
		cluster:    &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}},
		connection: &workload.Connection{Core: remote.CoreV1(), Discovery: remote.DiscoveryV1(), Certificates: remote.CertificatesV1()},
		log:        log.Logger(),
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "u", CreationTimestamp: metav1.NewTime(time.Now().Add(-age))},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:n1"},
	}
	for range 2 { // the second time there must be no further event
		log.Take()
		got.Failed = a.review(t.Context(), csr) != nil
	}
	got.Log = log.Take()
	close(recorder.Events)
	for e := range recorder.Events {
		got.Events = append(got.Events, e)
	}
	return got
}

// TestReviewsAreLoggedAtLevel1 where nothing changes, and each is one event at most.
func TestReviewsAreLoggedAtLevel1(t *testing.T) {
	t.Parallel()
	const about = ` "CertificateSigningRequest"={"name"="csr-1"} "Node"={"name"="n1"}`
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", UID: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
	machine.Status.NodeRef.Name = "n1"
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("no"))
	for name, test := range map[string]struct {
		objects []client.Object
		listErr error
		age     time.Duration
		want    reviewed
	}{
		"of no Machine, which may get its Node yet": {nil, nil, 0, reviewed{
			Log: []string{`"level"=1 "msg"="left certificate request alone"` + about + ` "reason"="it is not of a Machine of this Cluster"`},
		}},
		"of no Machine for long": {nil, nil, nodeRefGrace, reviewed{
			Log:    []string{`"level"=1 "msg"="left certificate request alone"` + about + ` "reason"="it is not of a Machine of this Cluster"`},
			Events: []string{`Normal CertificateRequestNotApproved certificate request csr-1 for Node "n1" of the workload cluster was ignored: it is not from a Machine of this Cluster`},
		}},
		"that is refused": {[]client.Object{machine, cluster}, nil, 0, reviewed{
			Log:    []string{`"level"=1 "msg"="left certificate request alone"` + about + ` "Machine"={"name"="m1" "namespace"="ns"} "reason"="the requester \"system:node:n1\" is not the Node of the Machine"`},
			Events: []string{`Warning CertificateRequestNotApproved certificate request csr-1 of the workload cluster was not approved: the requester "system:node:n1" is not the Node of the Machine`},
		}},
		"that cannot be decided on": {nil, errors.New("boom"), 0, reviewed{
			Log: []string{`"level"=1 "msg"="could not decide on certificate request"` + about + ` "message"="listing Machines: boom"`}, Failed: true,
		}},
		"for lack of a permission": {nil, forbidden, 0, reviewed{
			Log:    []string{`"level"=1 "msg"="could not decide on certificate request"` + about + ` "message"="listing Machines: machines is forbidden: no"`},
			Events: []string{`Warning CertificateApprovalForbidden certificate requests cannot be decided on: listing Machines: machines is forbidden: no: apply config/workload of the bootstrap controller to the workload cluster as its administrator, or permit it in the policies there`},
			Failed: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, review(t, test.objects, test.listErr, test.age)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRequestThatIsNotOfAKubeletIsNotReviewed(t *testing.T) {
	t.Parallel()
	a := &approver{log: logr.Discard()} // it has nothing to review with
	if err := a.review(t.Context(), &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.org/x"}}); err != nil {
		t.Error(err)
	}
}

func TestRecorderMakesOneEventPerProblem(t *testing.T) {
	t.Parallel()
	fakeRecorder := events.NewFakeRecorder(20)
	r := newRecorder(fakeRecorder)
	cluster, machine := &clusterv1.Cluster{}, &clusterv1.Machine{}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "u"}}
	for range 3 {
		r.watchForbidden(cluster)
		r.tooManyRequests(cluster)
		r.tooManyUnread(cluster)
		r.tooLate(cluster, "csr-2")
		r.decisionForbidden(cluster, errors.New("no"))
		r.notApproved(machine, csr, &policy.Refusal{Reason: "it names another host"})
	}
	close(fakeRecorder.Events)
	var reasons []string
	for e := range fakeRecorder.Events {
		reasons = append(reasons, strings.Join(strings.Fields(e)[:2], " "))
	}
	want := []string{
		"Warning CertificateApprovalForbidden", "Warning TooManyCertificateRequests", "Warning TooManyCertificateRequests", "Warning CertificateRequestNotApproved",
		"Warning CertificateApprovalForbidden", "Warning CertificateRequestNotApproved",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestProblemThatLastsIsReportedAgain: an API server keeps an event for an hour, and a permission may be missing for longer, or
// again after months.
func TestProblemThatLastsIsReportedAgain(t *testing.T) {
	t.Parallel()
	fakeRecorder, now := events.NewFakeRecorder(20), clocktesting.NewFakePassiveClock(time.Now())
	r := newRecorder(fakeRecorder)
	r.problems.Clock = now
	for range 4 {
		r.decisionForbidden(&clusterv1.Cluster{}, errors.New("no"))
		now.SetTime(now.Now().Add(problemPeriod / 2))
	}
	if made := len(fakeRecorder.Events); made != 2 {
		t.Errorf("%d events in %s, want two", made, 2*problemPeriod)
	}
}

func TestUpdatesOfHostsPass(t *testing.T) {
	t.Parallel()
	p := hostChanged()
	if p.Create(event.CreateEvent{Object: &clusterv1.Machine{}}) || p.Delete(event.DeleteEvent{Object: &clusterv1.Machine{}}) {
		t.Error("the creation or the deletion of a Machine passes")
	}
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"no change":  {func(*clusterv1.Machine) {}, false},
		"a label":    {func(m *clusterv1.Machine) { m.Labels = map[string]string{"a": "b"} }, false},
		"the Node":   {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }, true},
		"an address": {func(m *clusterv1.Machine) { m.Status.Addresses = clusterv1.MachineAddresses{{Address: "10.0.0.1"}} }, true},
	} {
		after := &clusterv1.Machine{}
		test.change(after)
		if got := p.Update(event.UpdateEvent{ObjectOld: &clusterv1.Machine{}, ObjectNew: after}); got != test.want {
			t.Errorf("%s: passes is %t, want %t", name, got, test.want)
		}
	}
	if p.Update(event.UpdateEvent{ObjectOld: &clusterv1.Cluster{}, ObjectNew: &clusterv1.Cluster{}}) {
		t.Error("an update of another kind passes")
	}
}

func TestObjectsAreMappedToTheirCluster(t *testing.T) {
	t.Parallel()
	labelled := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
	if got := clusterOf(t.Context(), labelled); len(got) != 1 || got[0].NamespacedName != (client.ObjectKey{Namespace: "ns", Name: "c"}) {
		t.Errorf("got %v", got)
	}
	if got := clusterOf(t.Context(), &clusterv1.Machine{}); got != nil {
		t.Errorf("without the label: %v", got)
	}
}
