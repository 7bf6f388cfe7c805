// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command yandex is the infrastructure provider of Yandex Compute Cloud. It runs the controllers for YandexMachines and
// YandexMachineTemplates.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/yandex"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-yandex", run) }

func run(ctx context.Context, args []string) error {
	var cloud yandex.Options
	options, err := provider.Parse("infra-yandex", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&cloud.Endpoint, "endpoint", "", "URL without a path at which all services of Yandex Cloud are, such as a gateway; empty if each has its own address in --domain")
		flags.StringVar(&cloud.Domain, "domain", "", "Domain of the services, such as api.yandexcloud.kz; empty for api.cloud.yandex.net")
	})
	if err != nil {
		return err
	}
	if err := cmp.Or(flagcheck.URL("--endpoint", cloud.Endpoint), checkDomain(cloud.Domain)); err != nil {
		return err
	}
	if parsed, err := url.Parse(cloud.Endpoint); err != nil || strings.Trim(parsed.Path, "/") != "" {
		return fmt.Errorf("--endpoint must be a URL without a path, not %q", cloud.Endpoint)
	}
	return provider.Run(ctx, yandex.Cloud(cloud), options)
}

var domainPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func checkDomain(domain string) error {
	if domain != "" && !domainPattern.MatchString(domain) {
		return fmt.Errorf("--domain must be the name of a domain, such as api.yandexcloud.kz, not %q", domain)
	}
	return nil
}
