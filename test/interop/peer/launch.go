// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
	"drover.io/test/process"
)

// Launch installs what one of upstream's managers ships, starts it under its own
// ServiceAccount and returns once it is ready. It then is one of the stack's managers. The
// arguments override those that are always given.
func (p *Peers) Launch(ctx context.Context, stack *framework.Stack, name string, args ...string) error {
	if err := p.launch(ctx, stack, name, args); err != nil {
		return fmt.Errorf("launching upstream's %s: %w", name, err)
	}
	return nil
}

func (p *Peers) launch(ctx context.Context, stack *framework.Stack, name string, args []string) error {
	of, err := find(name)
	if err != nil {
		return err
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	dir := filepath.Join(stack.Dir, name)
	ca, err := writeServingCertificate(dir)
	if err != nil {
		return err
	}
	s, err := p.ship(ctx, of, endpoint{url: fmt.Sprintf("https://127.0.0.1:%d", ports[0]), ca: ca})
	if err != nil {
		return err
	}
	if err := s.apply(ctx, stack); err != nil {
		return err
	}
	kubeconfig, err := stack.ServiceAccountKubeconfig(ctx, name, s.namespace, s.account)
	if err != nil {
		return err
	}
	manager, err := stack.Launch(name, process.Command{
		Path: p.Path(name),
		Env:  append(os.Environ(), of.env...),
		Args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics",
			fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[1]),
			fmt.Sprintf("--webhook-port=%d", ports[0]),
			"--webhook-cert-dir=" + dir,
		}, append(of.args, args...)...),
	})
	if err != nil {
		return err
	}
	return ready(ctx, manager, ports[1])
}

func find(name string) (program, error) {
	for _, each := range programs() {
		if each.name == name && each.config != "" {
			return each, nil
		}
	}
	return program{}, fmt.Errorf("no manager is called %q", name)
}

// apply applies what is shipped, and waits until its kinds are served: a manager that starts
// before that ends at once.
func (s *shipment) apply(ctx context.Context, stack *framework.Stack) error {
	for _, object := range s.objects {
		document, err := json.Marshal(object.Object)
		if err != nil {
			return err
		}
		if err := framework.Apply(ctx, stack.ManagementClient, document); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return s.served(ctx, stack)
	})
}

func (s *shipment) served(ctx context.Context, stack *framework.Stack) (bool, error) {
	for _, object := range s.objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := stack.ManagementClient.Get(ctx, client.ObjectKey{Name: object.GetName()}, crd); err != nil {
			return false, err
		}
		if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			return false, nil
		}
	}
	return true, nil
}

// ready waits until the manager serves its webhooks and answers that it is ready.
func ready(ctx context.Context, manager *framework.Manager, port int) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := manager.Err(); err != nil {
			return false, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// freePorts returns free ports on loopback.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() //nolint:errcheck // awaitNothingLeft was accepted
		address, _ := listener.Addr().(*net.TCPAddr)
		ports = append(ports, address.Port)
	}
	return ports, nil
}

// Clusterctl runs upstream's clusterctl against a management cluster and returns what it
// prints. It does not check for a newer version.
func (p *Peers) Clusterctl(ctx context.Context, stack *framework.Stack, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.Path(Clusterctl), append(args, "--kubeconfig="+stack.Kubeconfig("management"))...)
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+stack.Dir, "NO_COLOR=1")
	cmd.Dir = stack.Dir
	return output(cmd)
}
