// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// token is the bootstrap token of the one machine.
func (l *environment) token(ctx context.Context) []byte {
	l.t.Helper()
	secrets := &corev1.SecretList{}
	l.must(l.stack.ManagementClient.List(ctx, secrets, client.InNamespace("default"), client.MatchingLabels{clusterv1.ClusterNameLabel: "demo"}))
	for _, secret := range secrets.Items {
		if token := secret.Data["token"]; len(token) > 0 {
			return token
		}
	}
	l.t.Fatal("there is no Secret with a token")
	return nil
}

// checkTokenIsSecret checks that the token of a machine that runs is in no log of a manager or a machine, in no
// event and no object but Secrets, and in no file that everybody can read.
func (l *environment) checkTokenIsSecret(ctx context.Context, token []byte) {
	l.t.Helper()
	logs := l.logs()
	for _, m := range l.stack.Managers() {
		logs = append(logs, m.Log)
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		l.must(err)
		if bytes.Contains(content, token) {
			l.t.Errorf("the token is in %s", log)
		}
	}
	everywhere := []client.ObjectList{&eventsv1.EventList{}, &bootstrapv1.BootstrapConfigList{}, &clusterv1.MachineList{}, &infrav1.QEMUMachineList{}, &infrav1.SimMachineList{}}
	for cluster, lists := range map[client.Client][]client.ObjectList{l.stack.ManagementClient: everywhere, l.stack.WorkloadClient: {&eventsv1.EventList{}, &corev1.NodeList{}}} {
		for _, list := range lists {
			l.must(cluster.List(ctx, list))
			content, err := json.Marshal(list)
			l.must(err)
			if bytes.Contains(content, token) {
				l.t.Errorf("the token is in a %T", list)
			}
		}
	}
	folders := []string{l.machines}
	if l.container != nil {
		for _, folder := range []string{"etc", "opt", "root", "tmp", "var"} {
			folders = append(folders, filepath.Join(l.container.Root, folder))
		}
	}
	seen := 0
	for _, folder := range folders {
		seen += l.readable(folder, token)
	}
	l.step("the token is in no log, no event, no object and none of the files that everybody can read")
	if l.container != nil && seen == 0 {
		l.t.Error("there was no file to look at")
	}
}

// readable looks for a token in all files of a folder that everybody can read, and returns how many there are.
func (l *environment) readable(folder string, token []byte) int {
	l.t.Helper()
	files := 0
	unlessGone := func(err error) error { // the machine is at work
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return unlessGone(err)
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o004 == 0 || info.Size() > 1<<20 {
			return unlessGone(err)
		}
		files++
		content, err := os.ReadFile(path)
		if bytes.Contains(content, token) {
			l.t.Errorf("everybody can read the token in %s", path)
		}
		return unlessGone(err)
	})
	l.must(err)
	return files
}
