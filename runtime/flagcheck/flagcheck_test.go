// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package flagcheck

import (
	"strings"
	"testing"
	"time"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for value, good := range map[string]bool{
		"0": true, ":8085": true, ":0": true, "127.0.0.1:1": true, "[::1]:65535": true, "[fe80::1%eth0]:80": true, "localhost:80": true, "Host.example:80": true,
		"8085": false, ":65536": false, ":-1": false, ":http": false, "1.2.3.4": false, "::1:80": false, "http://x:80": false, "a b:80": false, ":": false, "off": false, "": false,
	} {
		if err := Address("--x", value); (err == nil) != good {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for value, good := range map[string]bool{
		"": true, "https://ec2.example.org": true, "http://127.0.0.1:8773/services/cloud": true, "https://[fd00::1]:443/": true,
		"nowhere": false, "ec2.example.org:443": false, "ftp://x": false, "https://": false, "https://:443": false, "https:///path": false, "https://x:port": false,
		"https://x:99999": false, "https://user:secret@x": false, "https://x?y=z": false, "https://x#y": false, "https://a b": false, "https://x\n": false,
	} {
		if err := URL("--x", value); (err == nil) != good {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestErrorsNameFlagAndValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		good, bad error
		value     string
	}{
		{AtLeast("--x", 1, 1), AtLeast("--x", -4, 1), "-4"},
		{AtLeast("--x", time.Second, time.Second), AtLeast("--x", -3*time.Second, time.Second), "-3s"},
		{AtMost("--x", 1, 1), AtMost("--x", 2, 1), "2"},
		{OffOrAtLeast("--x", 0, time.Second), OffOrAtLeast("--x", time.Millisecond, time.Second), "1ms"},
		{OffOrAtLeast("--x", time.Minute, time.Second), OffOrAtLeast("--x", -time.Minute, time.Second), "-1m0s"},
		{Namespace("--x", "good-1"), Namespace("--x", "Bad_NS"), `"Bad_NS"`},
		{Namespace("--x", ""), Namespace("--x", "a.b"), `"a.b"`},
		{LabelValue("--x", "a_B.c"), LabelValue("--x", "a,b"), `"a,b"`},
		{LabelValue("--x", ""), LabelValue("--x", strings.Repeat("a", 64)), "aaa"},
		{Namespaces("--x", []string{"a", "*"}), Namespaces("--x", []string{"a", "b=c"}), `"a,b=c"`},
		{Namespaces("--x", nil), Namespaces("--x", []string{"", ""}), `","`},
		{Folder("--x", "/var/lib/x"), Folder("--x", "lib/x"), `"lib/x"`},
		{nil, Folder("--x", ""), `""`},
		{URL("--x", ""), URL("--x", "nowhere"), `"nowhere"`},
		{Address("--x", ":1"), Address("--x", "nowhere"), `"nowhere"`},
	} {
		if test.good != nil {
			t.Errorf("refuses what is good: %v", test.good)
		}
		if test.bad == nil || !strings.HasPrefix(test.bad.Error(), "--x must be ") || !strings.Contains(test.bad.Error(), test.value) || strings.Contains(test.bad.Error(), "\n") {
			t.Errorf("says %v, want one line with --x and %s", test.bad, test.value)
		}
	}
	if NoArguments(nil) != nil || !strings.Contains(NoArguments([]string{"extra"}).Error(), `"extra"`) {
		t.Error("arguments are checked wrongly")
	}
}
