// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// healthShims skip the half minutes, on a host with two CPUs, and write down what is restarted.
const healthShims = `
set +eu
ticks=0
sleep() { ticks=$((ticks + 1)); [ $ticks -le $TICKS ]; }
nproc() { echo 2; }
systemctl() { case "$*" in *is-active*) [ -e "$ACTIVE" ] ;; *) echo "systemctl $*" ;; esac; }
timeout() { shift; "$@"; }
ctr() { [ -e "$CONTAINERD" ]; }
`

func TestHealthCheckRestartsAnUnresponsiveKubelet(t *testing.T) {
	t.Parallel()
	healthy := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	unhealthy := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	restarts := func(what, unit string, misses int) string {
		return fmt.Sprintf("restarting %s: it did not answer %d times\nsystemctl restart %s\n", what, misses, unit)
	}
	kubelet, containerd := restarts("the kubelet", kubeletUnit, 3), restarts("containerd", containerdUnit, 3)
	var calls atomic.Int32
	cases := map[string]struct {
		kubelet    http.HandlerFunc
		containerd bool
		inactive   bool
		waits      bool   // for its certificate
		timeout    string // seconds
		load       string // default "0.50"
		ticks      int    // default 7
		want       string
	}{
		"it restarts a kubelet that hangs, after three misses each": {kubelet: hangs, timeout: "0.2", containerd: true, want: kubelet + kubelet},
		"it restarts a kubelet that reports to be unhealthy":        {kubelet: unhealthy, containerd: true, want: kubelet + kubelet},
		"it restarts a containerd that does not answer":             {kubelet: healthy, want: containerd + containerd},
		"it leaves alone what answers":                              {kubelet: healthy, containerd: true},
		"it leaves alone what systemd will start":                   {kubelet: hangs, inactive: true},
		"it leaves alone a kubelet without a certificate":           {kubelet: hangs, containerd: true, waits: true},
		"it leaves alone both on a host that is overloaded":         {kubelet: unhealthy, load: "8.00", ticks: 19},
		"it restarts both on a host that stays overloaded":          {kubelet: unhealthy, load: "31.40", ticks: 25, want: restarts("containerd", containerdUnit, 20) + restarts("the kubelet", kubeletUnit, 20)},
		"it restarts a containerd on a host that is merely busy":    {kubelet: healthy, load: "7.99", ticks: 3, want: containerd},
		"it leaves alone a kubelet that misses two of three": {containerd: true, kubelet: func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1)%3 != 0 {
				unhealthy(w, r)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.kubelet)
			t.Cleanup(server.Close)
			root := t.TempDir()
			active, answers, load := filepath.Join(root, "active"), filepath.Join(root, "containerd"), filepath.Join(root, "loadavg")
			kubeconfig, certificate := writeKubeconfig(t, root)
			must(t, os.WriteFile(load, []byte(cmp.Or(c.load, "0.50")+" 0.40 0.30 2/345 6789\n"), 0o600))
			for file, there := range map[string]bool{certificate: !c.waits, active: !c.inactive, answers: c.containerd} {
				if there {
					must(t, os.WriteFile(file, nil, 0o600))
				}
			}
			script := healthCheck
			for old, replacement := range map[string]string{"http://127.0.0.1:10248": server.URL, "-m 20": "-m " + cmp.Or(c.timeout, "20"), kubeletKubeconfig: kubeconfig, loadFile: load} {
				if !strings.Contains(script, old) {
					t.Fatalf("the script has no %q", old)
				}
				script = strings.ReplaceAll(script, old, replacement)
			}
			out, err := bash(t, fmt.Sprintf("ACTIVE=%s CONTAINERD=%s TICKS=%d%s%s", active, answers, cmp.Or(c.ticks, 7), healthShims, script))
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if diff := gocmp.Diff(c.want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// writeKubeconfig writes the file that a kubelet writes for itself when it starts first, before it has a certificate, and
// returns where it is and where the certificate will be.
func writeKubeconfig(t *testing.T, folder string) (kubeconfig, certificate string) {
	t.Helper()
	kubeconfig, certificate = filepath.Join(folder, "kubelet.conf"), filepath.Join(folder, "kubelet-client-current.pem")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "default-context",
		Clusters:       map[string]*clientcmdapi.Cluster{"default-cluster": {Server: "https://api.example.test:6443", CertificateAuthority: caFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: certificate, ClientKey: certificate}},
		Contexts:       map[string]*clientcmdapi.Context{"default-context": {Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}},
	}, kubeconfig))
	return kubeconfig, certificate
}

// TestConsoleShowsWhyTheKubeletHasNotJoined: each five minutes, as long as it has no certificate. Most errors that it logs
// then are about the Node that it has not registered.
func TestConsoleShowsWhyTheKubeletHasNotJoined(t *testing.T) {
	t.Parallel()
	const journal = `
journalctl() {
  echo 'I1125 01:00:00.000000 1 server.go:1] starting'
  echo 'E1125 01:00:01.000000 1 certificate_manager.go:2] dial tcp: lookup api.example.test: no such host'
  echo 'I1125 01:00:02.000000 1 server.go:1] waiting'
  echo 'E1125 01:00:02.100000 1 kubelet.go:3516] "Unable to register mirror pod because node is not registered yet"'
}
`
	const once = "E1125 01:00:01.000000 1 certificate_manager.go:2] dial tcp: lookup api.example.test: no such host\ndrover-bootstrap: state=Waiting step=Join\n"
	for name, c := range map[string]struct {
		started, joined bool
		ticks           int
		want            string
	}{
		"after less than five minutes":          {true, false, 9, ""},
		"after five minutes":                    {true, false, 10, once},
		"after eleven minutes":                  {true, false, 22, once + once},
		"with a kubelet that has never started": {false, false, 10, once},
		"with a certificate":                    {true, true, 22, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			console := filepath.Join(root, "console")
			must(t, os.WriteFile(console, nil, 0o600))
			kubeconfig, certificate := writeKubeconfig(t, root)
			if !c.started {
				must(t, os.Remove(kubeconfig))
			}
			if c.joined {
				must(t, os.WriteFile(certificate, nil, 0o600))
			}
			script := strings.NewReplacer(kubeletKubeconfig, kubeconfig, "> "+consoleFile, ">> "+console).Replace(healthCheck)
			if out, err := bash(t, fmt.Sprintf("ACTIVE=%s/none TICKS=%d%s%s%s", root, c.ticks, healthShims, journal, script)); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if got, err := os.ReadFile(console); err != nil || string(got) != c.want {
				t.Errorf("the console has %q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

// TestHealthCheckFindsDownloadedBinaries runs it with the PATH of systemd, which has no /opt/bin.
func TestHealthCheckFindsDownloadedBinaries(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]bool{"ctr in /opt/bin": true, "no ctr": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt, system := t.TempDir(), t.TempDir() // of the host under test, which may have other programs than this one
			programs := []string{filepath.Join(system, "curl"), filepath.Join(system, "nproc")}
			if there {
				programs = append(programs, filepath.Join(opt, "ctr"))
			}
			for _, program := range programs {
				must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
			}
			script := strings.Replace(healthCheck, "/opt/bin", opt, 1)
			out, err := bash(t, "set +eu\nPATH="+system+"\nsleep() { return 1; }\n"+script)
			if (err == nil) != there {
				t.Errorf("err = %v\n%s", err, out)
			}
		})
	}
}

// TestHealthCheckReadsWhereTheKubeletAnswers: with kubeadm the configuration is that of the cluster, in its ConfigMap
// kubelet-config, over which only spec.kubelet.configuration is merged.
func TestHealthCheckReadsWhereTheKubeletAnswers(t *testing.T) {
	t.Parallel()
	in := minimal(bootstrapv1.Ubuntu)
	in.Spec.Join.Method = bootstrapv1.JoinKubeadm
	n, err := Describe(in)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{"healthzPort": float64(10348), "healthzBindAddress": "10.0.0.1"} // of the ConfigMap
	for _, f := range n.Files {
		if f.Path == patchFolder+"/kubeletconfiguration+merge.json" {
			var patch map[string]any
			if err := json.Unmarshal(f.Content, &patch); err != nil {
				t.Fatal(err)
			}
			config = merge(config, patch)
		}
	}
	if config["healthzBindAddress"] != "127.0.0.1" {
		t.Errorf("the kubelet answers at %v", config["healthzBindAddress"])
	}
	if config["healthzPort"] != float64(healthzPort) {
		t.Errorf("the kubelet answers at port %v, the health check reads port %d", config["healthzPort"], healthzPort)
	}
}
