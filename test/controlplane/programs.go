// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"drover.io/test/controlplane/binaries"
)

// authentication permits anonymous requests for health endpoints only.
const authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /healthz
  - path: /livez
  - path: /readyz
`

// writeFiles writes what the programs read.
func (c *ControlPlane) writeFiles() error {
	files := map[string][]byte{
		"ca.crt":              c.pki.cluster.keyPair.cert,
		"ca.key":              c.pki.cluster.keyPair.key,
		"apiserver.crt":       c.pki.apiServer.cert,
		"apiserver.key":       c.pki.apiServer.key,
		"service-account.key": c.pki.serviceAccount.key,
		"etcd-ca.crt":         c.pki.etcd.keyPair.cert,
		"etcd.crt":            c.pki.etcdServer.cert,
		"etcd.key":            c.pki.etcdServer.key,
		"etcd-client.crt":     c.pki.etcdClient.cert,
		"etcd-client.key":     c.pki.etcdClient.key,
		"authentication.yaml": []byte(authentication),
		"audit-policy.yaml":   c.options.AuditPolicy,
	}
	for name, content := range files {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// file returns the path of a file of the cluster.
func (c *ControlPlane) file(name string) string {
	return filepath.Join(c.dir, name)
}

// newComponent plans the program called name.
func (c *ControlPlane) newComponent(name string) *component {
	return &component{name: name, path: filepath.Join(c.options.Binaries, name), log: c.file(name + ".log")}
}

// etcdData is the directory of etcd's data within that of the cluster.
const etcdData = "etcd"

// copyData copies etcd's data while etcd is suspended, which is what a machine that loses its power leaves on its disk.
func (c *ControlPlane) copyData(to string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.etcd.pause(); err != nil {
		return err
	}
	err := os.CopyFS(to, os.DirFS(c.file(etcdData)))
	return errors.Join(err, c.etcd.resume())
}

// newEtcd plans etcd: a single member, so that its peer address is not used
// and it can elect itself at once.
func (c *ControlPlane) newEtcd() (*component, error) {
	port, err := newPort()
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(c.pki.etcdClient.cert, c.pki.etcdClient.key)
	if err != nil {
		return nil, err
	}
	etcd := c.newComponent(binaries.Etcd)
	etcd.port = port
	c.etcd = etcd
	etcd.ready = healthy(port, "/readyz", c.pki.etcd, certificate)
	etcd.args = func() []string {
		const member, peer = "etcd", "https://" + loopback + ":0"
		return []string{
			"--name=" + member,
			"--data-dir=" + c.file(etcdData),
			// The member of a copy has another address than the one in its data.
			fmt.Sprintf("--force-new-cluster=%t", c.options.CopyOf != nil),
			"--unsafe-no-fsync",
			"--listen-client-urls=https://" + port.address(),
			"--advertise-client-urls=https://" + port.address(),
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + member + "=" + peer,
			"--heartbeat-interval=50",
			"--election-timeout=250",
			"--client-cert-auth",
			"--trusted-ca-file=" + c.file("etcd-ca.crt"),
			"--cert-file=" + c.file("etcd.crt"),
			"--key-file=" + c.file("etcd.key"),
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + c.file("etcd-ca.crt"),
			"--peer-cert-file=" + c.file("etcd.crt"),
			"--peer-key-file=" + c.file("etcd.key"),
			"--log-level=warn",
		}
	}
	return etcd, nil
}

// newAPIServer plans kube-apiserver. There is no endpoint reconciler: a
// loopback address may not be an endpoint.
func (c *ControlPlane) newAPIServer() (*component, error) {
	port, err := newPort()
	if err != nil {
		return nil, err
	}
	server := c.newComponent(binaries.APIServer)
	server.port = port
	c.apiServer = server
	server.ready = healthy(port, "/readyz", c.pki.cluster)
	server.args = func() []string {
		args := []string{
			"--bind-address=" + loopback,
			"--advertise-address=" + loopback,
			"--secure-port=" + fmt.Sprint(port.number),
			"--endpoint-reconciler-type=none",
			"--tls-cert-file=" + c.file("apiserver.crt"),
			"--tls-private-key-file=" + c.file("apiserver.key"),
			"--client-ca-file=" + c.file("ca.crt"),
			"--etcd-servers=https://" + c.etcd.port.address(),
			"--etcd-cafile=" + c.file("etcd-ca.crt"),
			"--etcd-certfile=" + c.file("etcd-client.crt"),
			"--etcd-keyfile=" + c.file("etcd-client.key"),
			"--authentication-config=" + c.file("authentication.yaml"),
			"--enable-bootstrap-token-auth",
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.file("service-account.key"),
			"--service-account-signing-key-file=" + c.file("service-account.key"),
			"--service-cluster-ip-range=" + serviceNetwork,
			"--allow-privileged",
			"--shutdown-watch-termination-grace-period=5s", // by default open watches hold a stop up for a minute
		}
		if !c.options.ControllerManager {
			args = append(args, "--disable-admission-plugins=ServiceAccount")
		}
		if len(c.options.AuditPolicy) > 0 {
			args = append(args,
				"--audit-policy-file="+c.file("audit-policy.yaml"),
				"--audit-log-path="+c.AuditLog(),
				"--audit-log-mode=blocking",
				"--audit-log-maxsize=4096") // MiB: one file, however long the run
		}
		return append(args, c.options.APIServerArgs...)
	}
	return server, nil
}

// newControllerManager plans kube-controller-manager with every controller
// that needs no cloud. It listens nowhere.
func (c *ControlPlane) newControllerManager() (*component, error) {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.kubeconfig(clientCertificate("system:kube-controller-manager", c.pki.controllerManager))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.file("controller-manager.conf"), kubeconfig, 0o600); err != nil {
		return nil, err
	}
	manager := c.newComponent(binaries.ControllerManager)
	manager.ready = func(ctx context.Context) error { return admitsPods(ctx, client) }
	manager.args = func() []string {
		return append([]string{
			"--kubeconfig=" + c.file("controller-manager.conf"),
			"--secure-port=0",
			"--leader-elect=false",
			"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
			"--cluster-name=" + c.options.Name,
			"--cluster-signing-cert-file=" + c.file("ca.crt"),
			"--cluster-signing-key-file=" + c.file("ca.key"),
			"--root-ca-file=" + c.file("ca.crt"),
			"--service-account-private-key-file=" + c.file("service-account.key"),
			"--flex-volume-plugin-dir=" + c.file("flexvolume"), // the default is outside, and it makes it
			"--kube-api-qps=200",
			"--kube-api-burst=400",
		}, c.options.ControllerManagerArgs...)
	}
	return manager, nil
}

// newScheduler plans kube-scheduler. It listens nowhere.
func (c *ControlPlane) newScheduler() (*component, error) {
	kubeconfig, err := c.Kubeconfig("system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.file("scheduler.conf"), kubeconfig, 0o600); err != nil {
		return nil, err
	}
	scheduler := c.newComponent(binaries.Scheduler)
	scheduler.ready = func(context.Context) error { return nil }
	scheduler.args = func() []string {
		return []string{"--kubeconfig=" + c.file("scheduler.conf"), "--secure-port=0", "--leader-elect=false"}
	}
	return scheduler, nil
}

// admitsPods returns nil once the default namespace has what Pods need, which
// the controller manager makes.
func admitsPods(ctx context.Context, client kubernetes.Interface) error {
	core := client.CoreV1()
	if _, err := core.ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	_, err := core.ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}

// healthy returns a question that is answered without error once the server on
// port answers OK at path. Answers of a server of another cluster do not count.
func healthy(port *port, path string, server *authority, client ...tls.Certificate) func(context.Context) error {
	roots := x509.NewCertPool()
	roots.AddCert(server.cert)
	asker := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: client, MinVersion: tls.VersionTLS12},
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+port.address()+path, nil)
		if err != nil {
			return err
		}
		response, err := asker.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // nothing is read from it
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}
