// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/kubevirt"
	"drover.io/infra-providers/kubevirt/kubevirtfake"
	"drover.io/runtime/envtest"
)

// programs is the folder with KubeVirt's own virt-controller and kinds, which `make e2e-kubevirt` builds; empty without.
var programs = os.Getenv("DROVER_KUBEVIRT")

// virtController runs KubeVirt's own controllers until the tests end.
type virtController struct {
	once    sync.Once
	err     error
	command *exec.Cmd
	dir     string
}

var controller virtController

// start starts it once, after what it needs.
func (c *virtController) start(config *rest.Config) error {
	c.once.Do(func() { c.err = c.run(config) })
	return c.err
}

func (c *virtController) run(config *rest.Config) (err error) {
	api, err := client.New(config, client.Options{Scheme: kubevirt.Scheme()})
	if err != nil {
		return err
	}
	kubevirtCR := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt"}}, kubevirtCR,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: kubevirtfake.NodeName, Labels: map[string]string{virtv1.NodeSchedulable: "true"}}},
		&instancetypev1.VirtualMachineClusterPreference{ObjectMeta: metav1.ObjectMeta{Name: "ubuntu"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Value: 1},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt-cluster-critical"}, Value: 1000},
	} {
		if err := api.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	kubevirtCR.Status.Phase = virtv1.KubeVirtPhaseDeployed
	if err := api.Status().Update(context.Background(), kubevirtCR); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "drover-virt-controller-"); err != nil {
		return err
	}
	content, err := envtest.Kubeconfig(config)
	if err != nil {
		return err
	}
	file := filepath.Join(c.dir, "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	c.command = exec.Command(filepath.Join(programs, "virt-controller"), "--kubeconfig="+file, "--listen=127.0.0.1", fmt.Sprintf("--port=%d", port))
	c.command.Env = append(os.Environ(), "POD_NAMESPACE=kubevirt", "KUBEVIRT_NAMESPACE=kubevirt")
	c.command.Stdout, c.command.Stderr = log, log
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c.command.Start()
}

// stop ends it.
func (c *virtController) stop() error {
	if c.command == nil || c.command.Process == nil {
		return nil
	}
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
	return os.RemoveAll(c.dir)
}
