// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestAnAddressOfTheProfileExcludesAnotherOfTheConfig: the API server sees only one of the two.
func TestAnAddressOfTheProfileExcludesAnotherOfTheConfig(t *testing.T) {
	chosen := bootstrapv1.Kubelet{NodeIP: bootstrapv1.NodeIP{IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
	fixed := bootstrapv1.Kubelet{ExtraArgs: map[string]string{"node-ip": "10.0.0.1"}}
	for name, c := range map[string]struct{ profile, config bootstrapv1.Kubelet }{
		"the profile chooses": {chosen, fixed},
		"the config chooses":  {fixed, chosen},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newFixture(t), newMirror(t)
			f.profile(m, func(p *bootstrapv1.NodeProfile) { p.Spec.Defaults.Kubelet = c.profile })
			config := f.config(f.machine("m1"), func(config *bootstrapv1.BootstrapConfig) {
				ofProfile(config)
				config.Spec.Kubelet = c.config
			})
			message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
			for _, want := range []string{"spec.kubelet.extraArgs[node-ip]", "spec.kubelet.nodeIP", "NodeProfile"} {
				if !strings.Contains(message, want) {
					t.Errorf("message %q has no %q", message, want)
				}
			}
		})
	}
}
