// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/bootstrap/node"
)

// TestLargeFilesAreRefusedInLittleMemory: 64 files take their content from one Secret of 1 MiB.
func TestLargeFilesAreRefusedInLittleMemory(t *testing.T) {
	const most = 16 << 20
	random := make([]byte, 1<<20-1024)
	_, _ = rand.Read(random)
	for name, test := range map[string]struct {
		system  bootstrapv1.OperatingSystem
		content []byte
		files   int
	}{
		"cloud-config":                 {bootstrapv1.Ubuntu, random, 64},
		"Ignition":                     {bootstrapv1.Flatcar, random, 64},
		"one file, as cloud-config":    {bootstrapv1.Ubuntu, random, 1},
		"one file, as Ignition":        {bootstrapv1.Flatcar, random, 1},
		"content that compresses well": {bootstrapv1.Ubuntu, make([]byte, 1<<20-1024), 64},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(test.system)
			ref := bootstrapv1.SecretKeyReference{Name: "large", Key: "k"}
			in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{ref: test.content}
			for i := range test.files {
				in.Spec.Files = append(in.Spec.Files, bootstrapv1.File{Path: fmt.Sprintf("/etc/large/%d", i), ContentFrom: ref})
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := render.Data(in)
			runtime.ReadMemStats(&after)
			if _, is := errors.AsType[*node.InvalidError](err); !is {
				t.Errorf("err = %v", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("data that is refused for its size takes %d KiB", took>>10)
			}
		})
	}
}

// TestLargeContentThatCompressesWellIsAccepted: the limit is that of what is sent.
func TestLargeContentThatCompressesWellIsAccepted(t *testing.T) {
	t.Parallel()
	for _, system := range []bootstrapv1.OperatingSystem{bootstrapv1.Ubuntu, bootstrapv1.Flatcar} {
		in := input(system)
		ref := bootstrapv1.SecretKeyReference{Name: "large", Key: "k"}
		in.Secrets = map[bootstrapv1.SecretKeyReference][]byte{ref: make([]byte, 1<<20-1024)}
		in.Spec.Files = []bootstrapv1.File{{Path: "/etc/large", ContentFrom: ref}}
		if _, _, err := render.Data(in); err != nil {
			t.Errorf("%s: %v", system, err)
		}
	}
}
