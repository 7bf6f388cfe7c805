// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"fmt"
	"strings"

	"drover.io/runtime/flagcheck"
)

// Validate checks the flags of the provider. Requests with tokens are sent by https only.
func (o Options) Validate() error {
	if _, known := clouds[o.Cloud]; !known || o.Cloud == "" {
		return fmt.Errorf("--cloud must be AzurePublic, AzureGovernment or AzureChina, not %q", o.Cloud)
	}
	return cmp.Or(secureURL("--endpoint", o.Endpoint), secureURL("--authority-host", o.AuthorityHost))
}

func secureURL(flag, value string) error {
	if err := flagcheck.URL(flag, value); err != nil || value == "" || strings.HasPrefix(value, "https://") {
		return err
	}
	return fmt.Errorf("%s must begin with https://, not be %q", flag, value)
}
