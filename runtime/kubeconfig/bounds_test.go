// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"drover.io/runtime/yamllimit"
)

// TestRESTConfigTakesLittleMemory has Secrets of less than 1 MiB, which an API server accepts. The managers have 512Mi.
func TestRESTConfigTakesLittleMemory(t *testing.T) {
	const most = 8 << 20
	const begin = "{apiVersion: v1, kind: Config, users: ["
	for name, content := range map[string]string{
		"users of nothing":         begin + strings.Repeat("{},", 300_000) + "{}]}",
		"null users":               begin + strings.Repeat("~,", 500_000) + "~]}",
		"null users of 256 KiB":    begin + strings.Repeat("~,", 130_000) + "~]}",
		"users of as many":         begin + strings.Repeat("{},", yamllimit.MaxElements/2-10) + "{}]}",
		"null users in JSON":       `{"apiVersion":"v1","kind":"Config","users":[` + strings.Repeat("null,", 200_000) + `null]}`,
		"named users in JSON":      `{"apiVersion":"v1","kind":"Config","users":[` + named(200_000) + `]}`,
		"a block of null users":    "apiVersion: v1\nkind: Config\nusers:\n" + strings.Repeat("-\n", 130_000),
		"a block with other lines": "apiVersion: v1\nkind: Config\nusers:\n" + strings.Repeat("-\u0085", 80_000),
		"lists":                    "{apiVersion: v1, kind: Config, x: [" + strings.Repeat("[],", 300_000) + "[]]}",
		"nested lists":             "{apiVersion: v1, kind: Config, x: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}",
		"keys of nothing":          "? a\n" + strings.Repeat("? b\n", 60_000),
		"aliases": "x: &x [" + strings.Repeat("~,", 2_000) + "~]\ny: &y [*x" + strings.Repeat(",*x", 90) + "]\n" +
			"apiVersion: v1\nkind: Config\nclusters: *x\n",
		"UTF-16": utf16le(begin + strings.Repeat("~,", 60_000) + "~]}"),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Rules{}.RESTConfig(content)
			runtime.ReadMemStats(&after)
			if problemOf(err) != Invalid {
				t.Errorf("err = %v", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d bytes take %d KiB: %v", len(content), took>>10, err)
			}
		})
	}
}

// TestRESTConfigAcceptsLargeKubeconfigs: what people have is far from the bounds.
func TestRESTConfigAcceptsLargeKubeconfigs(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{})
	content := kubeconfigWith(t, func(c *clientcmdapi.Config) {
		for i := range 100 {
			token := make([]byte, 900)
			_, _ = random.Read(token)
			name := fmt.Sprintf("team-%d/cluster-*-&", i)
			c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://[fd00::1]:6443"}
			c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: base64.URLEncoding.EncodeToString(token)}
			c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		}
	})
	if _, err := (Rules{}).RESTConfig(content); err != nil {
		t.Errorf("%d bytes: %v", len(content), err)
	}
}

// utf16le is text as the parser of YAML accepts it beside UTF-8.
func utf16le(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		b.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	return b.String()
}

// named are users with names of their own.
func named(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"name":"%d"},`, i)
	}
	return b.String() + "{}"
}
