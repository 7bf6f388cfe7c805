// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/runtime/envtest"
)

// Token is a bootstrap token that hosts may join with.
const Token = "abcdef.0123456789abcdef"

// AdmitHosts makes the cluster one that hosts can join: kube-controller-manager approves and signs their certificates,
// and Token is valid.
func (c *Cluster) AdmitHosts(ctx context.Context) error {
	for name, role := range map[string][2]string{
		"test:bootstrappers": {"system:node-bootstrapper", "system:bootstrappers"},
		"test:approve":       {"system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"},
		"test:renew":         {"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
	} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role[0]},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: role[1]}},
		}
		if err := c.Client.Create(ctx, binding); err != nil {
			return err
		}
	}
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + Token[:6]},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": Token[:6], "token-secret": Token[7:], "usage-bootstrap-authentication": "true"},
	}
	if err := c.Client.Create(ctx, token); err != nil {
		return err
	}
	return c.startControllerManager()
}

func (c *Cluster) startControllerManager() error {
	assets, err := envtest.Binaries()
	if err != nil {
		return err
	}
	content, err := envtest.Kubeconfig(c.Config)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(c.dir, "controller-manager.kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return err
	}
	output, err := os.Create(filepath.Join(c.dir, "controller-manager.log"))
	if err != nil {
		return err
	}
	command := exec.Command(filepath.Join(assets, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--node-monitor-period=1s",
		"--node-monitor-grace-period=8s",
		"--secure-port=0",
		"--controllers=certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller,node-lifecycle-controller",
		"--cluster-signing-cert-file="+c.ca.file("crt"),
		"--cluster-signing-key-file="+c.ca.file("key"),
	)
	command.Env, command.Stdout, command.Stderr = envtest.Environment(), output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting kube-controller-manager: %w", err)
	}
	c.stop = append(c.stop, func() error {
		timer := time.AfterFunc(10*time.Second, func() { _ = command.Process.Kill() })
		defer timer.Stop()
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		return output.Close()
	})
	return nil
}
