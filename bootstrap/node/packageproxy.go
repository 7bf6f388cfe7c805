// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// aptProxy has apt use the proxy, also after the script, which has it in its environment. Hosts and domains that are reached
// directly are those of NoProxy that apt can have.
func aptProxy(proxy bootstrapv1.Proxy) string {
	var config strings.Builder
	for _, scheme := range []struct{ name, url string }{{"http", proxy.HTTP}, {"https", proxy.HTTPS}} {
		if scheme.url == "" {
			continue
		}
		fmt.Fprintf(&config, "Acquire::%s::Proxy \"%s\";\n", scheme.name, scheme.url)
		for _, host := range proxy.NoProxy {
			if !strings.ContainsAny(host, "*/[]:") && !strings.HasPrefix(host, ".") {
				fmt.Fprintf(&config, "Acquire::%s::Proxy::%s \"DIRECT\";\n", scheme.name, host)
			}
		}
	}
	return "(umask 077 && printf %s " + quote.Shell(config.String()) + " >/etc/apt/apt.conf.d/90drover-proxy)"
}

// dnfProxy has dnf use the proxy, of which it has one for all. It has no setting for hosts that are reached directly: those of
// NoProxy are so only where the environment names them, as in the script.
func dnfProxy(proxy bootstrapv1.Proxy) string {
	line := quote.Shell("proxy=" + cmp.Or(proxy.HTTPS, proxy.HTTP))
	return "sed -i '/^proxy=/d' /etc/dnf/dnf.conf && printf '%s\\n' " + line + " >>/etc/dnf/dnf.conf"
}

// subscriptionProxy has subscription-manager use the proxy.
func subscriptionProxy(proxy bootstrapv1.Proxy) (string, error) {
	parsed, err := url.Parse(cmp.Or(proxy.HTTPS, proxy.HTTP))
	if err != nil || parsed.Hostname() == "" {
		return "", invalid("spec.proxy", "is no URL with a host, which subscription-manager needs")
	}
	port := cmp.Or(parsed.Port(), map[string]string{"http": "80", "https": "443"}[parsed.Scheme])
	command := "subscription-manager config --server.proxy_scheme=" + quote.Shell(parsed.Scheme) +
		" --server.proxy_hostname=" + quote.Shell(parsed.Hostname()) + " --server.proxy_port=" + quote.Shell(port)
	if user := parsed.User; user != nil {
		password, _ := user.Password()
		command += " --server.proxy_user=" + quote.Shell(user.Username()) + " --server.proxy_password=" + quote.Shell(password)
	}
	if len(proxy.NoProxy) > 0 {
		command += " --server.no_proxy=" + quote.Shell(strings.Join(proxy.NoProxy, ","))
	}
	return command, nil
}
