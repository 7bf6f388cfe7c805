// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestKubeletKubeconfigKeepsTheServerName runs the script on what a kubelet writes: twice, before there is anything, and before
// it is there to its end, which would be lost with a file that is replaced.
func TestKubeletKubeconfigKeepsTheServerName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"api.example.test", "10.0.0.1", "::1"} {
		in := minimal(bootstrapv1.Ubuntu)
		in.Spec.Join.TLSServerName = name
		n, err := Describe(in)
		if err != nil {
			t.Fatal(err)
		}
		script := ""
		for _, f := range n.Files {
			if f.Path == serverNameScript {
				script = string(f.Content)
			}
		}
		file := filepath.Join(t.TempDir(), "kubelet.conf")
		script = strings.Replace(script, kubeletKubeconfig, file, 1)
		if out, err := bash(t, script); err != nil {
			t.Fatalf("before the kubelet wrote one: %v\n%s", err, out)
		}
		written := clientcmdapi.NewConfig()
		written.Clusters["default-cluster"] = &clientcmdapi.Cluster{Server: "https://10.0.2.2:6443", CertificateAuthority: caFile}
		written.AuthInfos["default-auth"] = &clientcmdapi.AuthInfo{ClientCertificate: "/a.pem", ClientKey: "/a.pem"}
		written.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}
		written.CurrentContext = "default-context"
		const begun = "clusters:\n- cluster:\n    server: https://10.0.2.2:6443\n"
		must(t, os.WriteFile(file, []byte(begun), 0o600))
		if out, err := bash(t, script); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != begun {
			t.Errorf("a file that the kubelet writes was changed to %q, %v", got, err)
		}
		if err := clientcmd.WriteToFile(*written, file); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if out, err := bash(t, script); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		got, err := clientcmd.LoadFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := &clientcmdapi.Cluster{Server: "https://10.0.2.2:6443", CertificateAuthority: caFile, TLSServerName: name, LocationOfOrigin: file, Extensions: got.Clusters["default-cluster"].Extensions}
		if diff := cmp.Diff(want, got.Clusters["default-cluster"]); diff != "" {
			t.Error(diff)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
	}
}

// TestKubeadmFindsTheServerName: kubeadm before 1.34 connects with the kubeconfig that the kubelet writes for itself while kubeadm
// runs, and ends with an error where it cannot verify the API server.
func TestKubeadmFindsTheServerName(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Join.Method, in.Spec.Join.TLSServerName = bootstrapv1.JoinKubeadm, "api.example.test"
	n := describe(t, in)
	keep, _ := contentAt(t, n, serverNameScript)
	root := t.TempDir()
	local := strings.NewReplacer("/opt/", root+"/opt/", "/etc/", root+"/etc/", "/var/", root+"/var/", "/usr/bin/kubeadm", root+"/kubeadm").Replace
	// The kubelet writes its kubeconfig, at each start until it has its certificate.
	kubeadm := `#!/bin/bash
file=` + root + kubeletKubeconfig + `
for _ in {1..4}; do
  printf 'clusters:\n- cluster:\n    server: https://10.0.0.1:6443\nusers:\n- user:\n    client-key: /a.pem\n' >"$file"
  for _ in {1..300}; do
    if grep -q '^    tls-server-name: "api.example.test"$' "$file"; then continue 2; fi
    sleep 0.1
  done
  exit 1
done
`
	for file, content := range map[string]string{root + kubeletKubeconfig: "", root + joinFile: "", root + "/kubeadm": kubeadm, root + serverNameScript: local(keep)} {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(content), 0o700)) //nolint:gosec // it is a program
	}
	var join strings.Builder
	n.writeJoin(func(format string, args ...any) { fmt.Fprintf(&join, format+"\n", args...) })
	if out, err := bash(t, local(join.String())); err != nil {
		t.Errorf("kubeadm cannot verify the API server: %v\n%s", err, out)
	}
	if _, err := os.Stat(root + joinedFile); err != nil {
		t.Error(err)
	}
}

func TestInvalidServerNameIsRefused(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.TLSServerName = `a"|e touch /x|`
	if _, err := Describe(in); err == nil {
		t.Error("it was accepted")
	}
}
