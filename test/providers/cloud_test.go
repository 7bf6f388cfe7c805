// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"text/template"
	"time"

	"drover.io/test/framework"
	"drover.io/test/process"
)

//go:embed machines.yaml
var machines string

// cloud is a simulated cloud with the provider that works on it.
type cloud struct {
	name, kind string
	// sizes are two choices of a template: of type and, where there is one, of zone.
	sizes [2][]string
	// providerID is how the cloud's controller manager would write it.
	providerID *regexp.Regexp
	// budget is how often a call that changes something is made for each machine.
	budget map[string]int
	// most is the same for calls that the cloud refuses while it is busy: at most so often, and at least once.
	most map[string]int
	// read is the call that reads one machine, reads how often it may do so.
	read  string
	reads int

	api, control string
	// folder is the host of the one cloud that has no API.
	folder string
}

// open starts the cloud as a process that the stack ends.
func (c *cloud) open(t *testing.T, program, dir string) {
	t.Helper()
	if c.name == "qemu" {
		c.folder = filepath.Join(dir, "host")
		if err := os.Mkdir(c.folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program, "qemu", c.folder).CombinedOutput(); err != nil {
			t.Fatalf("furnishing a host: %v: %s", err, out)
		}
		return
	}
	log := filepath.Join(dir, c.name+"-cloud.log")
	running, err := process.Start(process.Command{Path: program, Args: []string{c.name}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(process.Tail(log))
		}
		running.End(waitTimeout) // it has processes of its own
	})
	await(t, "the cloud to print its address", func() bool {
		if !running.Running() {
			t.Fatalf("the simulated cloud ended before it printed its address: %s", running.State())
		}
		output, err := os.ReadFile(log)
		if err != nil {
			return false
		}
		c.api, c.control = addresses(output)
		return c.api != ""
	})
}

// addresses finds the line with which a simulated cloud says where it is; libraries may have logged something before, as one
// does after a start that took long.
func addresses(output []byte) (api, control string) {
	for line := range bytes.Lines(output) {
		var at struct{ API, Control string }
		if bytes.HasSuffix(line, []byte("\n")) && json.Unmarshal(line, &at) == nil && at.API != "" {
			return at.API, at.Control
		}
	}
	return "", ""
}

// TestAddresses reads what a simulated cloud prints while it starts.
func TestAddresses(t *testing.T) {
	for output, want := range map[string]string{
		"":                                 "",
		`{"api":"a","control":"b"}`:        "", // it is still being written
		`{"api":"a","control":"b"}` + "\n": "a",
		"[controller-runtime] log.SetLogger(...) was never called\n\t>  goroutine 1\n" + `{"api":"a","control":"b"}` + "\nmore": "a",
		`{"level":"info","msg":"starting"}` + "\n": "",
	} {
		if api, _ := addresses([]byte(output)); api != want {
			t.Errorf("%q has the address %q, want %q", output, api, want)
		}
	}
}

// provide starts the cloud's provider under the permissions that are shipped.
func (c *cloud) provide(ctx context.Context, t *testing.T, stack *framework.Stack, root string) *framework.Manager {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "infra-providers/config/rbac", c.name, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no permissions of %s: %v", c.name, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		documents, err := os.ReadFile(file)
		if err == nil {
			err = framework.Apply(ctx, stack.ManagementClient, documents)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	name := "infra-" + c.name
	kubeconfig, err := stack.ServiceAccountKubeconfig(ctx, name, framework.Namespace, "drover-"+name)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"}
	env := os.Environ()
	switch c.name {
	case "alibaba", "anexia", "aws":
		args = append(args, "--endpoint="+c.api)
	case "azure":
		args = append(args, "--endpoint="+c.api, "--authority-host="+c.api)
		env = append(env, "SSL_CERT_FILE="+c.certificate(t, stack.Dir))
	case "nutanix":
		env = append(env, "SSL_CERT_FILE="+c.certificate(t, stack.Dir))
	case "digitalocean":
		env = append(env, "DIGITALOCEAN_API_URL="+c.api)
	case "google":
		args = append(args, "--endpoint="+c.api, "--token-endpoint="+c.api+"/token")
	case "yandex":
		args = append(args, "--endpoint="+c.api)
	case "hetzner":
		env = append(env, "HCLOUD_ENDPOINT="+c.api+"/v1")
	case "qemu":
		args = append(args, "--own-credentials-namespaces=*", "--state-dir="+filepath.Join(c.folder, "state"), "--image-dir="+c.folder, "--host-name=lab")
		env = append(env, "PATH="+c.folder+":"+os.Getenv("PATH"))
	}
	started, err := stack.Launch(name, process.Command{Path: filepath.Join(root, "bin", name), Args: args, Env: env})
	if err != nil {
		t.Fatalf("%v: make build builds it", err)
	}
	return started
}

// offer applies the credentials and a template of one of the sizes.
func (c *cloud) offer(ctx context.Context, stack *framework.Stack, namespace, name string, size int) error {
	parsed, err := template.New("machines.yaml").Parse(machines)
	if err != nil {
		return err
	}
	var documents bytes.Buffer
	key, err := c.key(ctx)
	if err != nil {
		return err
	}
	err = parsed.ExecuteTemplate(&documents, c.name, map[string]any{"Namespace": namespace, "Name": name, "API": c.api, "Key": key, "Sizes": c.sizes[size]})
	if err != nil {
		return err
	}
	return framework.Apply(ctx, stack.ManagementClient, documents.Bytes())
}

// key returns the key of an account that only the cloud knows, where it has one.
func (c *cloud) key(ctx context.Context) (string, error) {
	if c.name != "google" && c.name != "kubevirt" && c.name != "yandex" {
		return "", nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api+"/key", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

// left names what exists in the cloud.
func (c *cloud) left(t *testing.T) (all []string) {
	t.Helper()
	if c.folder == "" {
		c.get(t, "/left", &all)
		return all
	}
	entries, err := os.ReadDir(filepath.Join(c.folder, "state", "machines"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

// certificate returns the file with the certificate of a cloud with TLS.
func (c *cloud) certificate(t *testing.T, dir string) string {
	t.Helper()
	var content string
	c.get(t, "/certificate", &content)
	file := filepath.Join(dir, c.name+"-cloud.pem")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// calls counts the calls of the cloud's API.
func (c *cloud) calls(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	if c.folder == "" {
		c.get(t, "/calls", &counts)
	}
	return counts
}

func (c *cloud) get(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get(c.control + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(fmt.Errorf("after %s: waiting for %s", waitTimeout, what))
		}
	}
}
