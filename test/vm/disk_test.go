// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// flatcarDisks writes what the renderer makes of a Flatcar machine's disks, byte for byte but for the names that the
// disks have in the virtual machine, and returns where.
func flatcarDisks(repository, dir string) (string, error) {
	golden := filepath.Join(repository, "bootstrap/internal/render/testdata/flatcar-disks.ign")
	content, err := os.ReadFile(golden)
	if err != nil {
		return "", err
	}
	config := string(content)
	for there, here := range map[string]string{"/dev/disk/by-id/nvme-data": "/dev/vdc", "/dev/sdc": "/dev/vdd", "/dev/sdb": "/dev/vde"} {
		if strings.Count(config, there) != 1 {
			return "", fmt.Errorf("%s has no single %s", golden, there)
		}
		config = strings.Replace(config, there, here, 1)
	}
	file := filepath.Join(dir, "flatcar-disks.ign")
	return file, os.WriteFile(file, []byte(config), 0o600)
}

// checkKubeletDisk checks that the kubelet's folder is as large as the disk of 1 GiB, not as the first one, which has 4.
func (l *environment) checkKubeletDisk(ctx context.Context, name string) {
	l.t.Helper()
	node := &corev1.Node{}
	l.must(l.stack.WorkloadClient.Get(ctx, client.ObjectKey{Name: name}, node))
	size := node.Status.Capacity[corev1.ResourceEphemeralStorage]
	if size.Cmp(resource.MustParse("800Mi")) < 0 || size.Cmp(resource.MustParse("1Gi")) > 0 {
		l.t.Errorf("the kubelet's folder has %s, not the disk's 1Gi", size.String())
	}
	l.step("the kubelet's folder is on the second disk, with " + size.String())
}
