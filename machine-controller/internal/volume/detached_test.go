// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// fixture is one Node; the test plays the attach-detach controller and the CSI attacher.
type fixture struct {
	*testing.T
	client.WithWatch
	node *corev1.Node
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{T: t, WithWatch: server.Client(t)}
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	s.create(s.node)
	return s
}

func (s *fixture) create(obj client.Object) {
	s.Helper()
	if err := s.Create(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

func (s *fixture) handle(name string) string { return s.node.Name + "-" + name }

// report writes CSI volumes into the Node's status.
func (s *fixture) report(names ...string) {
	s.Helper()
	s.node.Status.VolumesAttached = nil
	for _, n := range names {
		reported := corev1.UniqueVolumeName("kubernetes.io/csi/csi.test^" + s.handle(n))
		s.node.Status.VolumesAttached = append(s.node.Status.VolumesAttached, corev1.AttachedVolume{Name: reported})
	}
	if err := s.Status().Update(s.Context(), s.node); err != nil {
		s.Fatal(err)
	}
}

// persistent creates a PersistentVolume bound to the claim of the same name, in Namespace app.
func (s *fixture) persistent(name string) {
	s.Helper()
	s.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.handle(name)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "app", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: s.handle(name)},
			},
		},
	})
}

// attachment creates a VolumeAttachment for the PersistentVolume of that name under the name Kubernetes gives it.
func (s *fixture) attachment(name, node string, attached bool) *storagev1.VolumeAttachment {
	s.Helper()
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName("kubernetes.io/csi/csi.test^"+s.handle(name), node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.test", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(s.handle(name))},
		},
	}
	s.create(va)
	va.Status.Attached = attached
	if err := s.Status().Update(s.Context(), va); err != nil {
		s.Fatal(err)
	}
	return va
}

func noPods(context.Context) (Pods, error) { return Pods{}, nil }

func (s *fixture) look(w *Waiter, skipped ...*corev1.Pod) Result {
	s.Helper()
	result, err := w.Detached(s.Context(), Request{Client: s, Node: s.node.Name, Pods: func(context.Context) (Pods, error) {
		return Pods{Skipped: skipped}, nil
	}})
	if err != nil {
		s.Fatal(err)
	}
	return result
}

func (s *fixture) want(r Result, awaited ...string) {
	s.Helper()
	var got []string
	for _, v := range r.Awaited {
		got = append(got, v.String())
	}
	if diff := cmp.Diff(awaited, got); diff != "" {
		s.Errorf("awaited (-want +got):\n%s", diff)
	}
	if r.Done != (len(awaited) == 0) {
		s.Errorf("done is %t with %d volumes awaited", r.Done, len(awaited))
	}
}

func TestDetachedFollowsTheNodeAndItsVolumeAttachments(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, name := range []string{"both", "node", "va", "elsewhere", "pending"} {
		s.persistent(name)
	}
	both := s.attachment("both", s.node.Name, true)
	va := s.attachment("va", s.node.Name, true)
	s.attachment("elsewhere", s.node.Name+"-other", true)
	s.attachment("pending", s.node.Name, false)
	s.report("both", "node")
	w := &Waiter{PageSize: 1}

	s.want(s.look(w), "PersistentVolumeClaim app/both", "PersistentVolumeClaim app/node", "PersistentVolumeClaim app/va")
	s.want(s.look(w, podWith("agent", claimed("va"))), "PersistentVolumeClaim app/both", "PersistentVolumeClaim app/node")

	for _, detached := range []*storagev1.VolumeAttachment{both, va} {
		if err := s.Delete(t.Context(), detached); err != nil {
			t.Fatal(err)
		}
	}
	s.want(s.look(w), "PersistentVolumeClaim app/both", "PersistentVolumeClaim app/node")
	s.report()
	s.want(s.look(w))
}

func TestDetachedDoesNotWaitForAVolumeThatIsLost(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.attachment("gone", s.node.Name, true)
	s.report("gone")
	result := s.look(&Waiter{})
	s.want(result)
	if len(result.Lost) != 1 || result.Lost[0].Reported == "" {
		t.Errorf("lost: %+v, want the one volume, as the Node reports it too", result.Lost)
	}
}

func TestDetachedWaitsForVolumesThatHaveNoClaim(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	inline := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "inline-" + s.node.Name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.test", NodeName: s.node.Name,
			Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: "x"},
				},
			}},
		},
	}
	s.create(inline)
	inline.Status.Attached = true
	if err := s.Status().Update(t.Context(), inline); err != nil {
		t.Fatal(err)
	}
	s.report("unknown")
	s.want(s.look(&Waiter{}), "VolumeAttachment "+inline.Name, "volume kubernetes.io/csi/csi.test^"+s.handle("unknown"))
}

func TestDetachedWaitsForNothingOnANodeThatIsLost(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.persistent("data")
	s.attachment("data", s.node.Name, true)
	s.want(s.look(&Waiter{}), "PersistentVolumeClaim app/data")

	s.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	s.report("data")
	s.want(s.look(&Waiter{}))

	if err := s.Delete(t.Context(), s.node); err != nil {
		t.Fatal(err)
	}
	s.want(s.look(&Waiter{}))
}

func TestDetachedReadsLittleWhenNothingIsAttached(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	requests := 0
	counted := interceptor.NewClient(s, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			requests++
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			requests++
			return c.List(ctx, list, opts...)
		},
	})
	result, err := (&Waiter{}).Detached(t.Context(), Request{Client: counted, Node: s.node.Name, Pods: func(context.Context) (Pods, error) {
		return Pods{}, errors.New("read the Pods although nothing is attached")
	}})
	if err != nil || !result.Done || requests != 2 {
		t.Errorf("got done %t, error %v after %d requests, want done after 2", result.Done, err, requests)
	}
}

func TestDetachedIsNeverDoneOnAnError(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.persistent("data")
	s.persistent("other")
	s.attachment("data", s.node.Name, true)
	s.report("data", "other")
	lost := errors.New("connection reset")
	tests := map[string]any{
		"reading the Node":              &corev1.Node{},
		"listing VolumeAttachments":     &storagev1.VolumeAttachmentList{},
		"reading a PersistentVolume":    &corev1.PersistentVolume{},
		"listing all PersistentVolumes": &corev1.PersistentVolumeList{},
	}
	for name, broken := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := func(obj any) bool { return fmt.Sprintf("%T", obj) == fmt.Sprintf("%T", broken) }
			c := interceptor.NewClient(s, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if is(obj) {
						return lost
					}
					return c.Get(ctx, key, obj, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if is(list) {
						return lost
					}
					return c.List(ctx, list, opts...)
				},
			})
			result, err := (&Waiter{}).Detached(t.Context(), Request{Client: c, Node: s.node.Name, Pods: noPods})
			if !errors.Is(err, lost) || result.Done {
				t.Errorf("got done %t and error %v, want the error that was lost", result.Done, err)
			}
		})
	}
}
