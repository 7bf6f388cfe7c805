// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover.io/runtime/keysize/keysizetest"
)

var (
	first  = strings.Repeat("0a", 32)
	second = strings.Repeat("1b", 32)
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want, problem string }{
		"a checksum alone":                   {first, first, ""},
		"a checksum with a line end":         {first + "\r\n", first, ""},
		"upper case":                         {strings.ToUpper(first), first, ""},
		"the line of sha256sum":              {first + "  kubelet\n", first, ""},
		"a binary file for sha256sum":        {first + " *kubelet\n", first, ""},
		"a path":                             {first + "  ./out/kubelet\n", first, ""},
		"lines of others":                    {second + "  kubeadm\n" + first + "  kubelet\n" + second + "  kubelet.exe\n", first, ""},
		"a signature around it":              {"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + first + "  kubelet\n", first, ""},
		"the same line twice":                {first + "  kubelet\n" + first + "  kubelet\n", first, ""},
		"two checksums for the file":         {first + "  kubelet\n" + second + "  kubelet\n", "", "two checksums"},
		"only other files":                   {second + "  kubeadm\n", "", "no SHA-256 checksum for kubelet"},
		"a name that begins alike":           {second + "  kubelet-old\n", "", "no SHA-256 checksum"},
		"nothing":                            {"", "", "no SHA-256 checksum"},
		"a page":                             {"<html>not found</html>", "", "no SHA-256 checksum"},
		"a checksum of another length":       {first + "00  kubelet\n", "", "no SHA-256 checksum"},
		"a checksum of another length alone": {first[:40], "", "no SHA-256 checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse([]byte(test.content), "kubelet")
			if got != test.want || (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// serve answers with the handler, and returns the URL and the authority of the server.
func serve(t *testing.T, handler http.HandlerFunc) (url, authority string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestRead(t *testing.T) {
	t.Parallel()
	target, authority := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/sums", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/sums", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "https://169.254.169.254/sums", http.StatusFound)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case "/large":
			fmt.Fprint(w, strings.Repeat(" ", maxSize+1)+first)
		case "/secret":
			http.Error(w, "internal: secret", http.StatusForbidden)
		case "/sums":
			fmt.Fprintf(w, "%s  kubeadm\n%s  kubelet\n", second, first)
		}
	})
	for path, problem := range map[string]string{
		"/sums": "", "/moved": "", "/plain": "not https", "/metadata": "not connected to", "/circle": "too often",
		"/large": "more than 262144 bytes", "/secret": "answers 403",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got, err := Read(t.Context(), target+path, "https://example.test/v1/kubelet?x=1", authority)
			if problem == "" {
				if got != first || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if got != "" || err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "secret\n") {
				t.Errorf("got %q, %v, want %q", got, err, problem)
			}
		})
	}
}

func TestReadTrustsOnlyItsAuthorities(t *testing.T) {
	t.Parallel()
	target, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, first) })
	if got, err := Read(t.Context(), target, "https://example.test/kubelet", ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("from a server with an unknown certificate: got %q, %v", got, err)
	}
	if got, err := Read(t.Context(), strings.Replace(target, "https:", "http:", 1), "https://example.test/kubelet", ""); err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("without TLS: got %q, %v", got, err)
	}
}

// TestAnswersAreNotReadByHTTP2, of which the client keeps 4 MiB in memory before they are read.
func TestAnswersAreNotReadByHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor > 1 {
			http.Error(w, "", http.StatusTeapot)
			return
		}
		fmt.Fprint(w, first)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if got, err := Read(t.Context(), server.URL, "https://example.test/kubelet", string(authority)); got != first || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestErrorsHaveNothingOfWhatAServerAnswers: the server may be one that only the controller can reach.
func TestErrorsHaveNothingOfWhatAServerAnswers(t *testing.T) {
	t.Parallel()
	target, authority := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			http.Redirect(w, r, "http://inside.example.test/?token=secret", http.StatusFound)
		case "/unreachable":
			http.Redirect(w, r, "https://127.0.0.1:1/?token=secret", http.StatusFound)
		case "/invalid":
			w.Header().Set("Location", "https://%secret")
			w.WriteHeader(http.StatusFound)
		case "/header":
			answer(w, "HTTP/1.1 200 OK\r\nsecret\r\n\r\n")
		case "/banner":
			answer(w, "220 secret ESMTP\r\n")
		case "/encoding":
			answer(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: secret\r\n\r\n")
		case "/chunks":
			answer(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n")
		}
	})
	for _, path := range []string{"/plain", "/unreachable", "/invalid", "/header", "/banner", "/encoding", "/chunks"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			if got, err := Read(t.Context(), target+path, "https://example.test/kubelet", authority); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// answer writes a text in place of an answer of HTTP.
func answer(w http.ResponseWriter, text string) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = connection.Write([]byte(text))
	_ = connection.Close()
}

func TestAuthoritiesWithLargeKeysAreRefused(t *testing.T) {
	t.Parallel()
	target, authority := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, first) })
	_, err := Read(t.Context(), target+"/kubelet.sha256", target+"/kubelet", authority+string(keysizetest.Certificate(t, 16384)))
	if err == nil || !strings.Contains(err.Error(), "RSA key of 16384 bits") {
		t.Errorf("got %v", err)
	}
}

// TestCheckNeedsNoServer: what is refused in any case is refused before a connection is made.
func TestCheckNeedsNoServer(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://a.example.test/sum":       "",
		"https://10.0.0.1/sum":             "",
		"http://a.example.test/sum":        "its URL is not https",
		"https://a.example.test:x/sum":     "its URL cannot be parsed",
		"https://169.254.169.254/sum":      errForbidden.Error(),
		"https://[fe80::1]/sum":            errForbidden.Error(),
		"https://[::ffff:169.254.0.1]:1/a": errForbidden.Error(),
	} {
		got := ""
		if err := Check(address, ""); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: err = %q, want %q", address, got, want)
		}
	}
}
