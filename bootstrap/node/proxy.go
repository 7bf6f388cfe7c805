// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"strings"

	"drover.io/bootstrap/node/quote"
)

// proxyFile holds the proxy's environment. A proxy's URL may contain a password: the file is 0600.
const proxyFile = "/etc/drover/proxy.env"

func addProxy(n *Node, _ distribution, in Input) error {
	proxy := in.Spec.Proxy
	if proxy.HTTP == "" && proxy.HTTPS == "" {
		if len(proxy.NoProxy) > 0 {
			return invalid("spec.proxy.noProxy", "has no effect without spec.proxy.http or spec.proxy.https")
		}
		return nil
	}
	direct := []string{"localhost", "127.0.0.1", "::1"}
	for _, endpoint := range []string{in.Endpoint, in.Spec.Join.Endpoint} {
		if host, _, err := net.SplitHostPort(endpoint); err == nil {
			direct = append(direct, host)
		}
	}
	direct = append(direct, proxy.NoProxy...)
	var env strings.Builder
	for _, v := range [][3]string{
		{"HTTP_PROXY", proxy.HTTP, "spec.proxy.http"}, {"HTTPS_PROXY", proxy.HTTPS, "spec.proxy.https"}, {"NO_PROXY", strings.Join(direct, ","), "spec.proxy.noProxy"},
	} {
		if v[1] == "" {
			continue
		}
		for _, name := range []string{v[0], strings.ToLower(v[0])} {
			line, err := quote.Environment(name, v[1])
			if err != nil {
				return invalid(v[2], "%v: percent-encode it", err)
			}
			env.WriteString(line)
		}
	}
	n.Files = append(n.Files, File{Path: proxyFile, Mode: 0o600, Content: []byte(env.String())})
	return nil
}
