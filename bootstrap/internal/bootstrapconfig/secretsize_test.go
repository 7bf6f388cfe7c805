// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/workload"
)

// random is text of some size that hardly compresses, in lines. It is the same each time.
func random(bytes int) []byte {
	source := rand.NewChaCha8([32]byte{})
	line, text := make([]byte, 16), make([]byte, 0, bytes)
	for len(text) < bytes {
		_, _ = source.Read(line)
		text = append(text, hex.EncodeToString(line)+"\n"...)
	}
	return text[:bytes]
}

// TestSecretThatIsTooLargeIsReported: the data may have a million bytes, and the list of secret words comes on top.
func TestSecretThatIsTooLargeIsReported(t *testing.T) {
	t.Parallel()
	ref := bootstrapv1.SecretKeyReference{Name: "words", Key: "k"}
	for name, c := range map[string]struct {
		words   int
		refused bool
	}{
		"it is refused with the size":        {60 << 10, true},
		"it is accepted if all has its room": {30 << 10, false},
	} {
		spec := &bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu, MaxSizeBytes: new(int32(1_000_000))}
		spec.Files = []bootstrapv1.File{{Path: "/etc/words", ContentFrom: ref}, {Path: "/etc/large", Content: new(string(random(1_327_000)))}}
		s := &state{config: &bootstrapv1.BootstrapConfig{}, machine: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{}, spec: spec}
		s.cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
		secret, err := newSecret(s, map[bootstrapv1.SecretKeyReference][]byte{ref: random(c.words)}, workload.Server{CA: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")})
		if !c.refused {
			size := 0
			if err == nil {
				for _, value := range secret.Data {
					size += len(value)
				}
			}
			if err != nil || size > corev1.MaxSecretSize || size < 950_000 {
				t.Errorf("%s: %d bytes, err = %v", name, size, err)
			}
			continue
		}
		unmet, is := errors.AsType[*waiting](err)
		if !is || !unmet.wrong || unmet.reason != bootstrapv1.InvalidSpecReason || !strings.HasPrefix(unmet.message, "spec.maxSizeBytes: the Secret with the bootstrap data has 10") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
