// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// TestKubeletKubeconfigKeepsTheServerName runs the script on what a kubelet writes: twice, and before there is
// anything.
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

func TestInvalidServerNameIsRefused(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.TLSServerName = `a"|e touch /x|`
	if _, err := Describe(in); err == nil {
		t.Error("it was accepted")
	}
}
