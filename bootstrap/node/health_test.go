// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// healthShims let seven half minutes pass at once, and write down what is restarted.
const healthShims = `
set +eu
ticks=0
sleep() { ticks=$((ticks + 1)); [ $ticks -le 7 ]; }
systemctl() { case "$*" in *is-active*) [ -e "$ACTIVE" ] ;; *) echo "systemctl $*" ;; esac; }
timeout() { shift; "$@"; }
ctr() { [ -e "$CONTAINERD" ]; }
`

func TestRestartsWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	healthy := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	sick := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	const kubelet, containerd = "restarting the kubelet: it does not answer\nsystemctl restart kubelet.service\n", "restarting containerd: it does not answer\nsystemctl restart containerd.service\n"
	var calls atomic.Int32
	cases := map[string]struct {
		kubelet    http.HandlerFunc
		containerd bool
		inactive   bool
		waits      bool   // for its certificate
		patience   string // seconds
		want       string
	}{
		"it restarts a kubelet that hangs, after three misses each": {kubelet: hangs, patience: "0.2", containerd: true, want: kubelet + kubelet},
		"it restarts a kubelet that says it is not healthy":         {kubelet: sick, containerd: true, want: kubelet + kubelet},
		"it restarts a containerd that does not answer":             {kubelet: healthy, want: containerd + containerd},
		"it leaves alone what answers":                              {kubelet: healthy, containerd: true},
		"it leaves alone what systemd will start":                   {kubelet: hangs, inactive: true},
		"it leaves alone a kubelet without a certificate":           {kubelet: hangs, containerd: true, waits: true},
		"it leaves alone a kubelet that misses two of three": {containerd: true, kubelet: func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1)%3 != 0 {
				sick(w, r)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.kubelet)
			t.Cleanup(server.Close)
			root := t.TempDir()
			kubeconfig, active, answers := filepath.Join(root, "kubelet.conf"), filepath.Join(root, "active"), filepath.Join(root, "containerd")
			for file, there := range map[string]bool{kubeconfig: !c.waits, active: !c.inactive, answers: c.containerd} {
				if there {
					must(t, os.WriteFile(file, nil, 0o600))
				}
			}
			script := healthCheck
			for old, replacement := range map[string]string{"http://127.0.0.1:10248": server.URL, "-m 20": "-m " + cmp.Or(c.patience, "20"), kubeletKubeconfig: kubeconfig} {
				if strings.Count(script, old) != 1 {
					t.Fatalf("the script has no single %q", old)
				}
				script = strings.Replace(script, old, replacement, 1)
			}
			out, err := bash(t, "ACTIVE="+active+" CONTAINERD="+answers+healthShims+script)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if diff := gocmp.Diff(c.want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
