// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/logtest"
)

// objects is an API server with objects by kind and name.
type objects struct {
	stored   map[string]*unstructured.Unstructured
	reads    []string
	writeErr error
	created  []*unstructured.Unstructured
	deleted  []*client.DeleteOptions
	// clusterScoped is set where the kind of the requests belongs to no namespace.
	clusterScoped bool
}

// mapper returns whether a kind belongs to a namespace.
type mapper struct {
	client.WithWatch
	clusterScoped bool
}

func (m mapper) IsObjectNamespaced(k8sruntime.Object) (bool, error) { return !m.clusterScoped, nil }

func (o *objects) client() client.WithWatch {
	return interceptor.NewClient(mapper{clusterScoped: o.clusterScoped}, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			id := object.GetObjectKind().GroupVersionKind().Kind + "/" + key.Name
			o.reads = append(o.reads, id)
			found, exists := o.stored[id]
			if !exists {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, key.Name)
			}
			found.DeepCopyInto(object.(*unstructured.Unstructured))
			return nil
		},
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			o.created = append(o.created, object.(*unstructured.Unstructured))
			return o.writeErr
		},
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			o.deleted = append(o.deleted, (&client.DeleteOptions{}).ApplyOptions(options))
			return o.writeErr
		},
	})
}

func check() *clusterv1.MachineHealthCheck {
	c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "check"}}
	c.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "mend.test/v1", Kind: "RebootRemediationTemplate", Name: "reboot"}
	return c
}

func machine(name string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	m.Spec.ClusterName = "c"
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: "x"})
	return m
}

func template() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mend.test/v1", "kind": "RebootRemediationTemplate",
		"metadata": map[string]any{"namespace": "ns", "name": "reboot"},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"hard": true}}},
	}}
}

// request is the request for the Machine m.
func request(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("mend.test/v1")
	o.SetKind("RebootRemediation")
	o.SetNamespace("ns")
	o.SetName("m")
	o.SetUID("request")
	o.SetResourceVersion("7")
	o.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromGroupKindAnnotation: "RebootRemediationTemplate.mend.test"})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m"}})
	for _, change := range changes {
		change(o)
	}
	return o
}

func TestEnsureCreatesARequestOwnedByTheMachine(t *testing.T) {
	t.Parallel()
	api, log := &objects{stored: map[string]*unstructured.Unstructured{"RebootRemediationTemplate/reboot": template()}}, &logtest.TextRecorder{}
	requests := NewRequests(api.client(), api.client(), check())
	for _, name := range []string{"m", "n"} {
		if err := requests.Ensure(log.Context(t.Context()), machine(name)); err != nil {
			t.Fatal(err)
		}
	}
	if len(api.created) != 2 {
		t.Fatalf("%d requests were created", len(api.created))
	}
	got := api.created[0]
	if !metav1.IsControlledBy(got, machine("m")) || got.GetKind() != "RebootRemediation" || got.GetName() != "m" || got.GetLabels()[clusterv1.ClusterNameLabel] != "c" {
		t.Errorf("request %v", got.Object)
	}
	if spec, _, _ := unstructured.NestedMap(got.Object, "spec"); !cmp.Equal(spec, map[string]any{"hard": true}) {
		t.Errorf("spec %v", spec)
	}
	want := []string{"RebootRemediation/m", "RebootRemediationTemplate/reboot", "RebootRemediation/n"}
	if diff := cmp.Diff(want, api.reads); diff != "" {
		t.Errorf("the template is not read once: %s", diff)
	}
	if lines := log.Lines("created remediation request"); len(lines) != 2 {
		t.Errorf("log %v", lines)
	}
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "things"}, "m")
	tmpl := map[string]*unstructured.Unstructured{"RebootRemediationTemplate/reboot": template()}
	shared := template()
	shared.SetNamespace("")
	for name, test := range map[string]struct {
		stored          map[string]*unstructured.Unstructured
		kind            string
		clusterScoped   bool
		writeErr        error
		creates         int
		fails, correct  bool
		templateMissing bool
	}{
		"keeps a request that exists": {stored: map[string]*unstructured.Unstructured{"RebootRemediation/m": request()}},
		"waits for one that is being deleted": {
			stored: map[string]*unstructured.Unstructured{"RebootRemediation/m": request(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Now())) })},
			fails:  true, correct: true,
		},
		"refuses another object of the name":        {stored: map[string]*unstructured.Unstructured{"RebootRemediation/m": request(func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })}, fails: true, correct: true},
		"needs the template":                        {fails: true, correct: true, templateMissing: true},
		"accepts that a request was created before": {stored: tmpl, writeErr: exists, creates: 1},
		"returns other errors":                      {stored: tmpl, writeErr: boom, creates: 1, fails: true},
		"refuses a template of another kind":        {stored: tmpl, kind: "MachineTemplate", fails: true, correct: true},
		"refuses requests without a namespace":      {stored: tmpl, clusterScoped: true, fails: true, correct: true},
		"refuses a template without a namespace": {
			stored: map[string]*unstructured.Unstructured{"RebootRemediationTemplate/reboot": shared}, fails: true, correct: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, c := &objects{stored: test.stored, writeErr: test.writeErr, clusterScoped: test.clusterScoped}, check()
			if test.kind != "" {
				c.Spec.Remediation.TemplateRef.Kind = test.kind
			}
			err := NewRequests(api.client(), api.client(), c).Ensure(t.Context(), machine("m"))
			if (err != nil) != test.fails || len(api.created) != test.creates || NeedsCorrection(err) != test.correct || IsTemplateMissing(err) != test.templateMissing {
				t.Errorf("error %v after %d creations", err, len(api.created))
			}
		})
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	owner := func(uid types.UID, controller *bool) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "X", Name: "x", UID: uid, Controller: controller}))
		}
	}
	for name, test := range map[string]struct {
		request  *unstructured.Unstructured
		change   func(*clusterv1.Machine, *clusterv1.MachineHealthCheck)
		writeErr error
		deletes  int
		fails    bool
	}{
		"deletes the request":                         {request: request(), deletes: 1},
		"deletes it with another owner":               {request: request(owner("other", nil)), deletes: 1},
		"keeps it with another controller":            {request: request(owner("other", new(true)))},
		"keeps it without the Machine as an owner":    {request: request(func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })},
		"keeps an object of another template":         {request: request(func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })},
		"does not delete it twice":                    {request: request(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Now())) })},
		"has nothing to delete":                       {},
		"reads nothing for a Machine without request": {request: request(), change: func(m *clusterv1.Machine, _ *clusterv1.MachineHealthCheck) { m.Status.Conditions = nil }},
		"reads nothing for a check without template": {request: request(), change: func(_ *clusterv1.Machine, c *clusterv1.MachineHealthCheck) {
			c.Spec.Remediation.TemplateRef.Name, c.Spec.Remediation.TemplateRef.Kind = "", ""
		}},
		"accepts that it is gone": {request: request(), writeErr: &meta.NoKindMatchError{}, deletes: 1},
		"returns other errors":    {request: request(), writeErr: errors.New("boom"), deletes: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, c, m, log := &objects{writeErr: test.writeErr}, check(), machine("m"), &logtest.TextRecorder{}
			if test.request != nil {
				api.stored = map[string]*unstructured.Unstructured{"RebootRemediation/m": test.request}
			}
			if test.change != nil {
				test.change(m, c)
			}
			err := NewRequests(api.client(), api.client(), c).Delete(log.Context(t.Context()), m)
			if (err != nil) != test.fails || len(api.deleted) != test.deletes {
				t.Fatalf("error %v after %d deletions", err, len(api.deleted))
			}
			for _, options := range api.deleted {
				if p := options.Preconditions; p == nil || p.UID == nil || *p.UID != "request" || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
					t.Errorf("preconditions %+v", p)
				}
			}
			if logged := len(log.Lines("deleted remediation request")); logged != map[bool]int{true: test.deletes}[test.writeErr == nil] {
				t.Errorf("%d log lines", logged)
			}
		})
	}
}

func TestNeedsCorrection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"is false without an error":          {nil, false},
		"is false for a transient error":     {errors.New("boom"), false},
		"is true for an invalid reference":   {&contract.InvalidReferenceError{}, true},
		"is true for a missing template":     {errTemplateMissing, true},
		"is true for an object of its name":  {errForeignRequest, true},
		"is false for a missing permission":  {apierrors.NewForbidden(schema.GroupResource{}, "x", nil), false},
		"is false for a conflict of a write": {apierrors.NewConflict(schema.GroupResource{}, "x", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := NeedsCorrection(test.err); got != test.want {
				t.Errorf("needs correction is %t", got)
			}
		})
	}
}
